"""Writes consume queues: blocks of records in commitlog order, each queue's entries in turn.

The common case, the next entry of a queue, is the kernel `consumequeue_kernels.put`. Everything
else is `ConsumeQueueSink.put_entry`: the first entry, a new file, an entry out of turn, which
RocketMQ's `ConsumeQueue#putMessagePositionInfo` has its own answers to.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.errors import ReputError
from reput.formats.kernels import consumequeue as consumequeue_kernels
from reput.formats.rocketmq import consumequeue, names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, ENTRY_STRUCT, NEVER, PRE_BLANK, Entry
from reput.sinks.files.file_queue import FileQueue
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.files.went_back import WentBackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.queues import QueueDirectory, QueueName

_FIRST_CAPACITY = 256
# Half of what Linux gives a process, all stores in it together.
_MOST_MAPS = 32_000
# A device waits for each flush; of so many at once the file system makes few.
_FLUSHERS = 16
# The files behind it still have names of 63 bits.
_MAX_QUEUE_OFFSET = (1 << 62) // ENTRY_SIZE


class PutError(ReputError):
    """A record cannot be put, whole or in part; `row` is its place in the block."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


@dataclass
class PutCounts:
    """What became of entries that were not the next of their queue."""

    repeated: int = 0
    misplaced: int = 0


class ConsumeQueueSink:
    """All consume queues of one output root."""

    def __init__(
        self, root: Path, staging: Path, settings: BrokerSettings, queues: QueueDirectory
    ) -> None:
        """Open no queue yet; each is opened by its first entry.

        Args:
            root: the output root.
            staging: see `MappedFile.create`.
            settings: file size.
            queues: gives queues their numbers.
        """
        self.directory = root / names.CONSUMEQUEUE
        self.counts = PutCounts()
        # See `Progress.vouched_from`.
        self.vouched_from = 0
        # See `Progress.lasts`: of a queue whose last entry's file has expired the files do not say.
        self.recorded_lasts: Mapping[str, int] = {}
        self._staging = staging
        self._file_size = settings.consumequeue_file_size
        self._queues = queues
        self._files: dict[int, FileQueue] = {}
        # By queue: the queue offset after the last one that was out of turn.
        self._following: dict[int, int] = {}
        # Queues that have got a further file since they were flushed.
        self._rolled: set[int] = set()
        self._next_entry = np.zeros(_FIRST_CAPACITY, np.int64)
        self._last_end = np.full(_FIRST_CAPACITY, NEVER, np.int64)
        self._window_address = np.zeros(_FIRST_CAPACITY, np.int64)
        # No window: the kernel hands the queue's first entry over.
        self._window_end = np.zeros(_FIRST_CAPACITY, np.int64)
        self._flushed_entry = np.zeros(_FIRST_CAPACITY, np.int64)

    def path_of(self, name: QueueName) -> Path:
        """Return the directory of a queue."""
        return self.directory / name.topic / str(name.queue_id)

    def write(
        self,
        columns: Columns,
        count: int,
        put_special: Callable[[int], None],
        accept: Callable[[int], bool],
    ) -> int:
        """Put the first `count` records of a block.

        Args:
            columns: the block; the caller hands blocks over in commitlog order.
            count: records in it.
            put_special: called with the row of a record that is more than one plain entry.
            accept: called with the row of a record that is not the next of its queue; says
                whether to put it as a broker would, or to end before it.

        Returns:
            The records that were put.

        Raises:
            OSError: no space, no permission.
            PutError: a record that no queue can take; those before it are put.
        """
        self._grow(len(self._queues.names))
        row = 0
        while True:
            row = int(self._put(row, count, columns))
            if row >= count:
                return count
            try:
                if columns.special[row]:
                    put_special(row)
                elif self._is_out_of_turn(columns, row) and not accept(row):
                    return row
                else:
                    self._put_row(columns, row)
            except ReputError as error:
                raise PutError(row, str(error)) from error
            row += 1

    def _is_out_of_turn(self, columns: Columns, row: int) -> bool:
        """Tell whether a record does not follow the last one of its queue."""
        number, queue_offset = int(columns.queue[row]), int(columns.queue_offset[row])
        files = self._open(number)
        # Once a record was out of turn those behind it may count on from there.
        expected = self._following.get(number, int(self._next_entry[number]))
        return bool(files.bases) and queue_offset not in {expected, self._next_entry[number]}

    def _put_row(self, columns: Columns, row: int) -> None:
        self.put_entry(
            int(columns.queue[row]),
            int(columns.queue_offset[row]),
            Entry(
                int(columns.physical_offset[row]),
                int(columns.size[row]),
                int(columns.tags_code[row]),
            ),
        )

    def _put(self, row: int, count: int, columns: Columns) -> int:
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
        return result

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
        end = entry.physical_offset + entry.size
        if end <= self._last_end[number]:
            self.counts.repeated += 1
            return
        following = int(self._next_entry[number])
        if self.has_gone_back(number, queue_offset):
            raise WentBackError(self.directory_of(number), queue_offset)
        if files.base is None:
            base, in_file = consumequeue.locate(queue_offset, self._file_size)
            files.add(base)
            self._fill_pre_blank(files, in_file)
            following = queue_offset
        elif following * ENTRY_SIZE >= files.base + self._file_size:
            files.add(files.base + self._file_size)
            self._rolled.add(number)
        if queue_offset != 0 and queue_offset < following:
            self.counts.repeated += 1
            self._following[number] = queue_offset + 1
            self._set_window(number, files, following)
            return
        if queue_offset != following:
            # The broker logs it and appends all the same; so its files, so ours.
            self.counts.misplaced += 1
            self._following[number] = queue_offset + 1
        self._set_window(number, files, following)
        at = following * ENTRY_SIZE - self.base_of(files)
        files.last().write(at, entry.pack())
        self._next_entry[number] = following + 1
        self._last_end[number] = end

    def has_gone_back(self, number: int, queue_offset: int) -> bool:
        """Tell whether a queue's next record shows that its last entries are of a log that was cut.

        A broker skips a record whose number is taken. But where all entries of the queue are of
        records before `vouched_from`, nothing says that the log that goes on here had them.

        Args:
            number: the queue's.
            queue_offset: the record's.
        """
        if not self.vouched_from:
            return False
        self._grow(number + 1)
        files = self._open(number)
        # A number below 0 is one that no queue takes.
        is_taken = files.base is not None and 0 <= queue_offset < self._next_entry[number]
        return is_taken and int(self._last_end[number]) <= self.vouched_from

    @staticmethod
    def base_of(files: FileQueue) -> int:
        """Return the offset of the last file, which is there."""
        return files.bases[-1]

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

    def _open(self, number: int) -> FileQueue:
        files = self._files.get(number)
        if files is None:
            path = self.path_of(self._queues.names[number])
            files = FileQueue(path, self._file_size, self._staging)
            self._files[number] = files
            following, last_end = _named_tail_of(files)
            if last_end == NEVER and following:
                last_end = self.recorded_lasts.get(self.directory_of(number), NEVER)
            self._next_entry[number], self._last_end[number] = following, last_end
            self._flushed_entry[number] = self._next_entry[number]
        return files

    def _grow(self, queues: int) -> None:
        capacity = len(self._next_entry)
        if queues <= capacity:
            return
        more = max(queues, capacity * 2) - capacity
        self._next_entry = _longer(self._next_entry, more, 0)
        self._last_end = _longer(self._last_end, more, NEVER)
        self._window_address = _longer(self._window_address, more, 0)
        self._window_end = _longer(self._window_end, more, 0)
        self._flushed_entry = _longer(self._flushed_entry, more, 0)

    def positions(self) -> dict[str, int]:
        """Return where the queues end that were written to, see `Progress.queues`."""
        return {
            self.directory_of(number): int(self._next_entry[number]) * ENTRY_SIZE
            for number, files in self._files.items()
            if files.bases
        }

    def firsts(self) -> dict[str, int]:
        """Return where the oldest files of queues begin, see `Progress.firsts`."""
        return {
            self.directory_of(number): files.bases[0]
            for number, files in self._files.items()
            if files.bases and files.bases[0]
        }

    def lasts(self) -> dict[str, int]:
        """Return where the records of the queues' last entries end, see `Progress.lasts`."""
        return {
            self.directory_of(number): int(self._last_end[number])
            for number in self._files
            if self._last_end[number] > 0
        }

    def directory_of(self, number: int) -> str:
        """Return a queue's directory below the output root, as in `Progress.queues`."""
        topic, queue_id = self._queues.names[number]
        return f"{names.CONSUMEQUEUE}/{topic}/{queue_id}"

    def ahead(self) -> set[str]:
        """Return the queues whose last file has nothing in it yet, see `Progress.ahead`."""
        return {
            self.directory_of(number)
            for number, files in self._files.items()
            if files.bases and files.bases[-1] == int(self._next_entry[number]) * ENTRY_SIZE
        }

    def flush(self, least_pages: int = 0) -> None:
        """Have every entry on disk that was put.

        Args:
            least_pages: leave queues alone that have fewer new pages than this.

        Raises:
            OSError: the device failed.
        """
        unflushed = self._next_entry - self._flushed_entry
        is_due = (unflushed > 0) & (unflushed * ENTRY_SIZE >= least_pages * changes.PAGE)
        if not least_pages:
            # Also those with a new file that no entry has come into yet.
            is_due[list(self._rolled)] = True
        self._flush(np.flatnonzero(is_due))

    def _flush(self, due: NDArray[np.int64]) -> None:
        numbers = due.tolist()
        for number in numbers:
            self._files[number].begin_flush(*self._unflushed(number))
        if len(numbers) > _FLUSHERS:
            with ThreadPoolExecutor(_FLUSHERS, thread_name_prefix="flush") as pool:
                # Raises what any of them has raised, once all have ended.
                list(pool.map(self._flush_queue, numbers))
        else:
            for number in numbers:
                self._flush_queue(number)

    def _flush_queue(self, number: int) -> None:
        self._files[number].flush(*self._unflushed(number))
        self._flushed_entry[number] = self._next_entry[number]
        self._rolled.discard(number)

    def _unflushed(self, number: int) -> tuple[int, int]:
        """Return which bytes of a queue's last file are new since it was flushed."""
        base = self.base_of(self._files[number])
        start = max(int(self._flushed_entry[number]) * ENTRY_SIZE - base, 0)
        return start, int(self._next_entry[number]) * ENTRY_SIZE - base

    def _unmap_idle(self) -> None:
        """Give back the maps of the quarter of the queues whose last records are the oldest."""
        mapped = np.flatnonzero(self._window_end)
        oldest = np.argsort(self._last_end[mapped])[: -(-len(mapped) // 4)]
        idle = mapped[oldest]
        # First, for an error of the device is told to whoever has the file mapped.
        self._flush(idle[self._next_entry[idle] > self._flushed_entry[idle]])
        for number in idle.tolist():
            self._files[number].unmap()
        self._window_end[idle] = 0

    def close(self) -> None:
        """Give all maps back."""
        for files in self._files.values():
            files.close()
        self._files = {}
        self._window_end[:] = 0

    @property
    def file_count(self) -> int:
        """Return the files of the queues that were written to."""
        return sum(len(files.bases) for files in self._files.values())


def _named_tail_of(files: FileQueue) -> tuple[int, int]:
    with changes.naming(files.directory):
        return tail_of(files)


def tail_of(files: FileQueue) -> tuple[int, int]:
    """Return the number of a queue's next entry and the end of its last record.

    Entries fill a file from its front and are never of size 0, so the first empty one is found
    by halving.
    """
    if files.base is None:
        return 0, NEVER
    path = files.path(files.base)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Nothing is written that was not prepared, so no entry begins behind a hole.
        used = min(os.lseek(descriptor, 0, os.SEEK_HOLE), files.file_size)
        low, high = 0, min(-(-used // ENTRY_SIZE), files.file_size // ENTRY_SIZE)
        while low < high:
            middle = (low + high) // 2
            if _entry_at(descriptor, middle).size > 0:
                low = middle + 1
            else:
                high = middle
        last = _entry_at(descriptor, low - 1) if low else None
    finally:
        os.close(descriptor)
    following = files.base // ENTRY_SIZE + low
    if last is not None:
        return following, last.physical_offset + last.size
    if len(files.bases) == 1:
        return following, NEVER
    raw = files.path(files.bases[-2]).read_bytes()[-ENTRY_SIZE:]
    last = Entry(*ENTRY_STRUCT.unpack(raw))
    return following, last.physical_offset + last.size


def _entry_at(descriptor: int, number: int) -> Entry:
    return Entry(*ENTRY_STRUCT.unpack(os.pread(descriptor, ENTRY_SIZE, number * ENTRY_SIZE)))


def _longer(array: NDArray[np.int64], more: int, fill: int) -> NDArray[np.int64]:
    return np.concatenate([array, np.full(more, fill, np.int64)])
