"""Writes batch consume queues: one unit a record, in the order of the records.

RocketMQ `BatchConsumeQueue#putBatchMessagePositionInfo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.batchconsumequeue import UNIT, UNIT_SIZE, Unit
from reput.sinks.files.unit_queue import UnitQueue, UnitSink
from reput.sinks.files.went_back import WentBackError

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.names import QueueName
    from reput.sinks.files.file_queue import FileQueue

_NEVER = -1


class BatchConsumeQueueSink(UnitSink["_BatchQueue"]):
    """All batch consume queues of one output root."""

    def __init__(self, root: Path, staging: Path, file_size: int) -> None:
        """Open no queue yet; see `UnitSink`."""
        super().__init__(root / names.BATCH_CONSUMEQUEUE, staging, file_size, _BatchQueue)
        # See `Progress.vouched_from`.
        self.vouched_from = 0

    def append(self, name: QueueName, unit: Unit) -> bool:
        """Append a unit; False if its record was there already.

        Raises:
            OSError: no space, no permission.
            WentBackError: as of `ConsumeQueueSink.put_entry`.
        """
        if self.has_gone_back(name, unit.base_offset):
            raise WentBackError(self.directory_of(name), unit.base_offset)
        return self.queue(name).append(unit)

    def has_gone_back(self, name: QueueName, base_offset: int) -> bool:
        """Tell of a unit's first number what `ConsumeQueueSink.has_gone_back` tells."""
        queue = self.queue(name)
        return 0 <= base_offset < queue.following and queue.last_offset < self.vouched_from

    @staticmethod
    def directory_of(name: QueueName) -> str:
        """Return a queue's directory below the output root."""
        return f"{names.BATCH_CONSUMEQUEUE}/{name.topic}/{name.queue_id}"


class _BatchQueue(UnitQueue):
    """The units of one queue, and the place of the last one's record."""

    def __init__(self, files: FileQueue) -> None:
        used = 0
        self.last_offset = _NEVER
        # The number after the last message's.
        self.following = 0
        if files.base is not None:
            data = files.path(files.base).read_bytes()
            units = np.frombuffer(data, UNIT, len(data) // UNIT_SIZE)
            used = int(np.count_nonzero(units["size"] > 0))
            if used:
                last = units[used - 1]
                self.last_offset = int(last["physical_offset"])
                self.following = int(last["base_offset"]) + int(last["batch_size"])
        super().__init__(files, used * UNIT_SIZE)

    def append(self, unit: Unit) -> bool:
        if unit.physical_offset <= self.last_offset:
            return False
        self.write(unit.pack())
        self.last_offset = unit.physical_offset
        self.following = unit.base_offset + unit.batch_size
        return True
