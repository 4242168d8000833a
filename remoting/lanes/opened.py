"""The files that lanes read, by descriptors of their own, and the one that answers stand in."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.remoting.lanes.places import (
    FILE_ADDRESSES,
    FILE_BASES,
    FILE_DESCRIPTORS,
    FILE_MAPPED,
    LOG_FILES,
    OUT,
    OUT_FILE,
    QUEUE_BASES,
    QUEUE_DESCRIPTORS,
    QUEUE_FILE_SIZE,
    QUEUE_FILES,
    QUEUE_MAX,
    QUEUE_MIN,
    QUEUES,
)
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.stores.log.files import LogFiles
    from reput.stores.queues.reader import QueueReader

    Key = tuple[str, int]

_NONE = -1
_libc: Any = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_int64)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_FAILED = ctypes.c_void_p(-1).value


class Outbox:
    """A file in memory for answers, so that what is copied into it may fail.

    Attributes:
        data: its bytes.
        descriptor: of it; below 0 where the system gives none: `data` is plain memory then.
    """

    def __init__(self) -> None:
        """Make it, all of it: a page that cannot come later would end the process."""
        self.data: NDArray[np.uint8] = np.zeros(OUT, np.uint8)
        self.descriptor = _NONE
        try:
            self.descriptor = os.memfd_create("answers", os.MFD_CLOEXEC)
            os.posix_fallocate(self.descriptor, 0, OUT)
            self.data = np.frombuffer(mmap.mmap(self.descriptor, OUT), np.uint8)
        except OSError:
            self.close()

    def close(self) -> None:
        """Close it; `data` stays."""
        descriptor, self.descriptor = self.descriptor, _NONE
        if descriptor >= 0:
            os.close(descriptor)


def tells_residency(descriptor: int, size: int) -> bool:
    """Tell whether this process is told what of a file is in memory; else `mincore` says all.

    Nothing after a file's end is in memory.

    Args:
        descriptor: the file.
        size: its bytes.
    """
    page = mmap.PAGESIZE
    after = -(-size // page) * page
    address = _libc.mmap(None, page, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, after)
    if address == _FAILED:
        return False
    told = ctypes.create_string_buffer(b"\1", 1)
    has_failed = _libc.mincore(address, page, told)
    _libc.munmap(address, page)
    return not has_failed and told.raw == b"\0"


def _mapped(descriptor: int) -> NDArray[np.uint8] | None:
    """Map a file as it is now.

    Returns:
        Its bytes; None where this process is not told what of them is in memory, or where reads of
        the file cannot be told not to wait.
    """
    try:
        status = os.fstat(descriptor)
        if not status.st_size:
            return None
        # At the end, so that nothing is read ahead.
        os.preadv(descriptor, [bytearray(1)], status.st_size, os.RWF_NOWAIT)
        if not tells_residency(descriptor, status.st_size):
            return None
        found = mmap.mmap(descriptor, status.st_size, mmap.MAP_SHARED, mmap.PROT_READ)
    except (OSError, ValueError):
        return None
    return np.frombuffer(found, np.uint8)


class OpenLog:
    """Files of the log."""

    def __init__(self, log: LogFiles, state: NDArray[np.int64]) -> None:
        """Open none yet.

        Args:
            log: whose files.
            state: see `places`.
        """
        self._log = log
        self._state = state
        # Each is unmapped once nothing refers to it.
        self._mapped: dict[int, NDArray[np.uint8]] = {}
        # By number, in the order in which they were opened.
        self._opened: dict[int, None] = {}
        state[FILE_BASES : FILE_DESCRIPTORS + LOG_FILES] = _NONE

    def open(self, base: int) -> bool:
        """Open the file that begins at a physical offset; False where that is not possible."""
        number = base // self._log.file_size % LOG_FILES
        self._close(number)
        most = self._log.most_open
        # A map has a descriptor of its own.
        while len(self._opened) >= (most if most >= LOG_FILES else max(most // 2, 1)):
            self._close(next(iter(self._opened)))
        try:
            descriptor = self._log.open_file(base)
        except (OSError, LogChangedError):
            return False
        self._opened[number] = None
        self._state[FILE_DESCRIPTORS + number] = descriptor
        self._state[FILE_BASES + number] = base
        mapped = _mapped(descriptor) if self._state[OUT_FILE] >= 0 else None
        if mapped is not None:
            self._mapped[number] = mapped
            self._state[FILE_ADDRESSES + number] = mapped.ctypes.data
            self._state[FILE_MAPPED + number] = len(mapped)
        return True

    def _close(self, number: int) -> None:
        self._state[FILE_ADDRESSES + number] = self._state[FILE_MAPPED + number] = 0
        self._mapped.pop(number, None)
        self._opened.pop(number, None)
        descriptor = int(self._state[FILE_DESCRIPTORS + number])
        self._state[FILE_BASES + number] = self._state[FILE_DESCRIPTORS + number] = _NONE
        if descriptor >= 0:
            os.close(descriptor)

    def close(self) -> None:
        """Close all; those that are needed are opened again."""
        for number in range(LOG_FILES):
            self._close(number)


class OpenQueues:
    """Queues by number, with some of their files."""

    def __init__(self, table: NDArray[np.int64]) -> None:
        """Begin with none.

        Args:
            table: `queues` of `places`.
        """
        self._table = table
        table[:] = _NONE
        self._numbers: dict[Key, int] = {}
        self._readers: list[QueueReader | None] = []

    @property
    def is_full(self) -> bool:
        """Tell whether there is no room for another queue."""
        return len(self._readers) >= QUEUES

    def add(self, key: Key, reader: QueueReader) -> int:
        """Return the number of a queue, as it is now.

        Args:
            key: topic and queue id.
            reader: of the queue, open.
        """
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._readers)
            self._readers.append(None)
        if self._readers[number] is not reader:
            self._leave(number)
            self._readers[number] = reader
            row = self._table[number]
            row[QUEUE_MIN], row[QUEUE_FILE_SIZE] = reader.min_offset, reader.files.file_size
            row[QUEUE_MAX] = reader.max_offset
            reader.shown = row[QUEUE_MAX : QUEUE_MIN + 1]
        return number

    def open(self, number: int, base: int) -> bool:
        """Open a queue's file by where it begins; False where that is not possible."""
        reader = self._readers[number]
        if reader is None or base not in reader.files.bases:
            return False
        file = base // reader.files.file_size % QUEUE_FILES
        self._close(number, file)
        try:
            descriptor = os.open(reader.files.path(base), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        self._table[number, QUEUE_DESCRIPTORS + file] = descriptor
        self._table[number, QUEUE_BASES + file] = base
        return True

    def tidy(self) -> None:
        """Close the files of queues that are closed."""
        for number in (self._table[: len(self._readers), QUEUE_MAX] < 0).nonzero()[0].tolist():
            self._leave(number)

    def _leave(self, number: int) -> None:
        reader = self._readers[number]
        if reader is not None:
            reader.shown = None
        self._readers[number] = None
        self._table[number, QUEUE_MAX] = _NONE
        for file in range(QUEUE_FILES):
            self._close(number, file)

    def _close(self, number: int, file: int) -> None:
        descriptor = int(self._table[number, QUEUE_DESCRIPTORS + file])
        self._table[number, QUEUE_DESCRIPTORS + file] = _NONE
        self._table[number, QUEUE_BASES + file] = _NONE
        if descriptor >= 0:
            os.close(descriptor)

    def close(self) -> None:
        """Forget all queues."""
        for number in range(len(self._readers)):
            self._leave(number)
        self._readers.clear()
        self._numbers.clear()
