"""The files of an output's consume queues, and where each queue ends."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, NEVER, Entry
from reput.sinks.files.file_queue import FileQueue, require_end

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.names import QueueName
    from reput.sinks.files.queues import QueueDirectory

_FIRST_CAPACITY = 256
# A device waits for each flush; the file system merges this many at once into few.
_FLUSHERS = 16


class QueueFiles:
    """All consume queues of one output root, each with its end; opened as they are asked for."""

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
        # See `Progress.lasts`: where the file of a queue's last entry has expired, no file says it.
        self.recorded_lasts: Mapping[str, int] = {}
        # See `Progress.queues`: where queues end that are opened later.
        self.recorded_ends: Mapping[str, int] = {}
        self._staging = staging
        self._file_size = settings.consumequeue_file_size
        self._queues = queues
        self._files: dict[int, FileQueue] = {}
        # Queues that have got a further file since they were flushed.
        self._rolled: set[int] = set()
        self._next_entry = np.zeros(_FIRST_CAPACITY, np.int64)
        self._last_end = np.full(_FIRST_CAPACITY, NEVER, np.int64)
        self._window_address = np.zeros(_FIRST_CAPACITY, np.int64)
        # No window: the kernel leaves the queue's first entry to `put_entry`.
        self._window_end = np.zeros(_FIRST_CAPACITY, np.int64)
        self._flushed_entry = np.zeros(_FIRST_CAPACITY, np.int64)

    def path_of(self, name: QueueName) -> Path:
        """Return the directory of a queue."""
        return self.directory / name.topic / str(name.queue_id)

    def _open(self, number: int) -> FileQueue:
        files = self._files.get(number)
        if files is None:
            path = self.path_of(self._queues.names[number])
            files, name = FileQueue(path, self._file_size, self._staging), self.directory_of(number)
            following, last_end = _named_tail_of(files)
            require_end(path, following * ENTRY_SIZE, self.recorded_ends.get(name))
            self._files[number] = files
            if last_end == NEVER and following:
                last_end = self.recorded_lasts.get(name, NEVER)
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

    @staticmethod
    def base_of(files: FileQueue) -> int:
        """Return the offset of the last file, which is there."""
        return files.bases[-1]

    def positions(self) -> dict[str, int]:
        """Return where the written queues end, see `Progress.queues`."""
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
        """Flush every entry that was put.

        Args:
            least_pages: leave queues alone that have fewer new pages than this.

        Raises:
            OSError: the device failed.
        """
        unflushed = self._next_entry - self._flushed_entry
        is_due = (unflushed > 0) & (unflushed * ENTRY_SIZE >= least_pages * changes.PAGE)
        if not least_pages:
            # Also queues whose new file has no entry yet.
            is_due[list(self._rolled)] = True
        self._flush(np.flatnonzero(is_due))

    def _flush(self, due: NDArray[np.int64]) -> None:
        numbers = due.tolist()
        for number in numbers:
            self._files[number].begin_flush(*self._unflushed(number))
        if len(numbers) > _FLUSHERS:
            with ThreadPoolExecutor(_FLUSHERS, thread_name_prefix="flush") as pool:
                # Raises the first error, once all have ended.
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
        """Unmap the quarter of the queues whose last records are the oldest."""
        mapped = np.flatnonzero(self._window_end)
        oldest = np.argsort(self._last_end[mapped])[: -(-len(mapped) // 4)]
        idle = mapped[oldest]
        # Flush first: a failed write-back is reported only while the file is mapped.
        self._flush(idle[self._next_entry[idle] > self._flushed_entry[idle]])
        for number in idle.tolist():
            self._files[number].unmap()
        self._window_end[idle] = 0

    def close(self) -> None:
        """Unmap all files."""
        for files in self._files.values():
            files.close()
        self._files = {}
        self._window_end[:] = 0

    @property
    def file_count(self) -> int:
        """Return how many files the written queues have."""
        return sum(len(files.bases) for files in self._files.values())


def _named_tail_of(files: FileQueue) -> tuple[int, int]:
    with changes.naming(files.directory):
        return tail_of(files)


def tail_of(files: FileQueue) -> tuple[int, int]:
    """Return the number of a queue's next entry and the end of its last record.

    Entries fill a file from its front and never have size 0, so bisection finds the first empty
    one.
    """
    if files.base is None:
        return 0, NEVER
    path = files.path(files.base)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Nothing is written that was not prepared, so no entry begins after a hole.
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
    last = Entry.of(raw)
    return following, last.physical_offset + last.size


def _entry_at(descriptor: int, number: int) -> Entry:
    return Entry.of(os.pread(descriptor, ENTRY_SIZE, number * ENTRY_SIZE))


def _longer(array: NDArray[np.int64], more: int, fill: int) -> NDArray[np.int64]:
    return np.concatenate([array, np.full(more, fill, np.int64)])
