"""Writes consume queues: blocks of records in commitlog order, each queue's entries in turn.

The kernel `consumequeue_kernels.put` puts the common case, the next entry of a queue.
`ConsumeQueueSink.put_entry` puts everything else, by the rules of RocketMQ's
`ConsumeQueue#putMessagePositionInfo`: the first entry, a new file, an entry out of turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.formats.kernels import consumequeue as consumequeue_kernels
from reput.formats.rocketmq import consumequeue
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, PRE_BLANK, Entry
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.files.queue_files import QueueFiles
from reput.sinks.files.went_back import WentBackError

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.file_queue import FileQueue
    from reput.sinks.files.queues import QueueDirectory

# Half of what Linux gives a process; all stores in it share them.
_MOST_MAPS = 32_000
# Up to here the names of files stay within 63 bits.
_MAX_QUEUE_OFFSET = (1 << 62) // ENTRY_SIZE


@dataclass
class PutCounts:
    """What became of entries that were not the next of their queue."""

    repeated: int = 0
    misplaced: int = 0


class ConsumeQueueSink(QueueFiles):
    """Puts entries into all consume queues of one output root."""

    def __init__(
        self, root: Path, staging: Path, settings: BrokerSettings, queues: QueueDirectory
    ) -> None:
        """Open no queue yet; see `QueueFiles`."""
        super().__init__(root, staging, settings, queues)
        self.counts = PutCounts()
        # See `Progress.vouched_from`.
        self.vouched_from = 0
        # By queue: the queue offset after the last one that was out of turn.
        self._following: dict[int, int] = {}

    def begin_block(self) -> None:
        """Make room for all queues that have a number, before the records of a block are put."""
        self._grow(len(self._queues.names))

    def put(self, columns: Columns, row: int, count: int) -> int:
        """Put the records of a block that are the next entries of their queues, and plain.

        Args:
            columns: the block; the caller hands blocks over in commitlog order.
            row: where to begin.
            count: records in the block.

        Returns:
            The row of the first record that is something else, `count` if none is.
        """
        result: int = consumequeue_kernels.put(
            row,
            count,
            columns.queue,
            columns.queue_offset,
            columns.physical_offset,
            columns.size,
            columns.tags_code,
            columns.sys_flag,
            columns.special,
            self._next_entry,
            self._last_end,
            self._window_address,
            self._window_end,
        )
        return int(result)

    def is_out_of_turn(self, columns: Columns, row: int) -> bool:
        """Tell whether a record does not follow the last one of its queue; puts nothing."""
        number, queue_offset = int(columns.queue[row]), int(columns.queue_offset[row])
        files = self._open(number)
        # Once a record was out of turn those after it may count on from there.
        expected = self._following.get(number, int(self._next_entry[number]))
        return bool(files.bases) and queue_offset not in {expected, self._next_entry[number]}

    def put_row(self, columns: Columns, row: int) -> None:
        """Put one record of a block as the broker would, in turn or not; see `put_entry`."""
        self.put_entry(
            int(columns.queue[row]),
            int(columns.queue_offset[row]),
            Entry(
                int(columns.physical_offset[row]),
                int(columns.size[row]),
                int(columns.tags_code[row]),
            ),
        )

    def put_entry(self, number: int, queue_offset: int, entry: Entry) -> None:
        """Put one entry as the broker would, in turn or not.

        Args:
            number: the queue's.
            queue_offset: where the record says that it belongs.
            entry: what to write.

        Raises:
            OSError: no space, no permission.
            ReputError: a queue offset that no queue can have.
            WentBackError: see `has_gone_back`.
        """
        if not 0 <= queue_offset < _MAX_QUEUE_OFFSET:
            raise ReputError(
                f"the record at physical offset {entry.physical_offset} has queue offset "
                f"{queue_offset}, which no queue can have; no broker has written it"
            )
        self._grow(number + 1)
        if MappedFile.maps >= _MOST_MAPS:
            self._unmap_idle()
        files = self._open(number)
        if entry.physical_offset + entry.size <= self._last_end[number]:
            self.counts.repeated += 1
            return
        if self.has_gone_back(number, queue_offset):
            raise WentBackError(self.directory_of(number), queue_offset)
        following = self._make_room(number, files, queue_offset)
        self._set_window(number, files, following)
        if queue_offset != following:
            self._following[number] = queue_offset + 1
            if 0 < queue_offset < following:
                self.counts.repeated += 1
                return
            # The broker logs it and appends all the same, and so do we.
            self.counts.misplaced += 1
        files.last().write(following * ENTRY_SIZE - self.base_of(files), entry.pack())
        self._next_entry[number] = following + 1
        self._last_end[number] = entry.physical_offset + entry.size

    def _make_room(self, number: int, files: FileQueue, queue_offset: int) -> int:
        """Add a file if the queue has none or its last one is full; return the next entry."""
        following = int(self._next_entry[number])
        if files.base is None:
            place = consumequeue.locate(queue_offset, self._file_size)
            files.add(place.base_offset)
            self._fill_pre_blank(files, place.entry)
            return queue_offset
        if following * ENTRY_SIZE >= files.base + self._file_size:
            files.add(files.base + self._file_size)
            self._rolled.add(number)
        return following

    def has_gone_back(self, number: int, queue_offset: int) -> bool:
        """Tell whether a queue's next record shows that its last entries are of a log that was cut.

        A broker skips a record whose number the queue has already. But where all entries of the
        queue are of records before `vouched_from`, nothing proves that the current log had them.

        Args:
            number: the queue's.
            queue_offset: the record's.
        """
        if not self.vouched_from:
            return False
        self._grow(number + 1)
        files = self._open(number)
        # No queue takes a number below 0.
        is_there = files.base is not None and 0 <= queue_offset < self._next_entry[number]
        return is_there and int(self._last_end[number]) <= self.vouched_from

    def _fill_pre_blank(self, files: FileQueue, entries: int) -> None:
        if entries:
            files.room(0, entries * ENTRY_SIZE)
            files.last().write(0, PRE_BLANK * entries)

    def _set_window(self, number: int, files: FileQueue, following: int) -> None:
        """Prepare for the entry `following` and let the kernel write as far as that goes."""
        base = self.base_of(files)
        prepared = files.room(following * ENTRY_SIZE - base, ENTRY_SIZE)
        self._window_address[number] = files.last().address - base
        self._window_end[number] = (base + prepared) // ENTRY_SIZE
        self._next_entry[number] = following
