"""Writes batch consume queues: one unit a record, in the order of the records.

RocketMQ `BatchConsumeQueue#putBatchMessagePositionInfo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats import batchconsumequeue, names
from formats.batchconsumequeue import UNIT, UNIT_SIZE, Unit
from sinks.file_queue import FileQueue

if TYPE_CHECKING:
    from pathlib import Path

    from sinks.queues import QueueName

_NEVER = -1


class BatchConsumeQueueSink:
    """All batch consume queues of one output root."""

    def __init__(self, root: Path, staging: Path, file_size: int) -> None:
        """Open no queue yet.

        Args:
            root: the output root.
            staging: see `MappedFile.create`.
            file_size: bytes of each file.
        """
        self._directory = root / names.BATCH_CONSUMEQUEUE
        self._staging = staging
        self._file_size = file_size
        self._queues: dict[QueueName, _BatchQueue] = {}

    def append(self, name: QueueName, unit: Unit) -> bool:
        """Append a unit; False if its record was there already.

        Raises:
            OSError: no space, no permission.
        """
        queue = self._queues.get(name)
        if queue is None:
            path = self._directory / name.topic / str(name.queue_id)
            queue = _BatchQueue(FileQueue(path, self._file_size, self._staging))
            self._queues[name] = queue
        return queue.append(unit)

    def flush(self) -> None:
        """Have every unit on disk that was appended."""
        for queue in self._queues.values():
            queue.flush()

    def close(self) -> None:
        """Give all maps back."""
        for queue in self._queues.values():
            queue.files.close()
        self._queues = {}


class _BatchQueue:
    """The units of one queue; `wrote` counts bytes in the last file."""

    def __init__(self, files: FileQueue) -> None:
        self.files = files
        self.wrote = 0
        self.last_offset = _NEVER
        if files.base is not None:
            data = files.last().data
            units = data[: len(data) // UNIT_SIZE * UNIT_SIZE].view(UNIT)
            used = int(np.count_nonzero(units["size"] > 0))
            self.wrote = used * UNIT_SIZE
            self.last_offset = int(units["physical_offset"][used - 1]) if used else _NEVER
        self.flushed = self.wrote

    def append(self, unit: Unit) -> bool:
        if unit.physical_offset <= self.last_offset:
            return False
        files = self.files
        if files.base is None:
            files.add(0)
        elif self.wrote + UNIT_SIZE > files.file_size:
            files.add(files.bases[-1] + files.file_size)
            self.wrote = self.flushed = 0
        files.room(self.wrote, UNIT_SIZE)
        files.last().write(self.wrote, unit.pack())
        self.wrote += UNIT_SIZE
        self.last_offset = unit.physical_offset
        return True

    def flush(self) -> None:
        self.files.flush(self.flushed, self.wrote)
        self.flushed = self.wrote


def unit_of(
    physical_offset: int,
    size: int,
    tags_code: int,
    store_timestamp: int,
    queue_offset: int,
    inner: tuple[int, int] | None,
) -> Unit:
    """Return the unit of a record.

    Args:
        physical_offset: bytes.
        size: bytes.
        tags_code: as in a consume queue.
        store_timestamp: ms.
        queue_offset: the record's.
        inner: first queue offset and number of messages of an inner batch.
    """
    base, messages = inner if inner is not None else (queue_offset, 1)
    return batchconsumequeue.Unit(physical_offset, size, tags_code, store_timestamp, base, messages)
