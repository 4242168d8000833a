"""A file of fixed size that is written through memory.

Files are made whole (`ftruncate`), then prepared piece by piece ahead of the writer: preparing
has the kernel allocate the blocks and the pages, so a later write costs no page fault, and a full
disk is an `OSError` here instead of a SIGBUS at some store in a kernel. Nothing may be written
that was not prepared.

The mapping is made with the C library's `mmap`: Python's own keeps a file descriptor open for
each, which ten thousand queues would not have, and holds the interpreter's lock while it syncs.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from formats.memory import Bytes

_PAGE = mmap.PAGESIZE
_MAP_SHARED = mmap.MAP_SHARED
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
_MADV_POPULATE_WRITE = 23
_MS_SYNC = 4
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _error(path: Path) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), str(path))


class MappedFile:
    """One mapped file; `close` it, for its memory is not given back otherwise."""

    def __init__(self, path: Path, size: int) -> None:
        """Map the file `path`, which has `size` bytes.

        Raises:
            OSError: it cannot be opened or mapped, or has another size.
        """
        self.path = path
        self.size = size
        # What is on disk already has its blocks; a hole is prepared like new.
        self.prepared = 0
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor).st_size
            if found != size:
                raise OSError(errno.EINVAL, f"has {found} bytes, expected {size}", str(path))
            address = _libc.mmap(None, size, _PROTECTION, _MAP_SHARED, descriptor, 0)
        finally:
            os.close(descriptor)
        if address in {None, _FAILED}:
            raise _error(path)
        self.address = int(address)
        memory = (ctypes.c_uint8 * size).from_address(self.address)
        self.data: Bytes = np.ctypeslib.as_array(memory)

    @classmethod
    def create(cls, path: Path, size: int, staging: Path) -> MappedFile:
        """Make a file of zeros and map it.

        It gets its size under another name first: a broker refuses to start on a file of a
        wrong size, so none may be seen at `path` at any moment.

        Args:
            path: where it will stand.
            size: its bytes.
            staging: a directory on the same file system, ours alone.

        Raises:
            OSError: no space, no permission, or there is such a file.
        """
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        # One name, so that what killed writers leave behind is not more than one file.
        made = staging / "new"
        descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
        made.rename(path)
        return cls(path, size)

    def prepare(self, end: int) -> None:
        """Make all bytes before `end` writable without a fault.

        Raises:
            OSError: no space is left, a quota is reached, the device fails.
        """
        start = self.prepared // _PAGE * _PAGE
        stop = min(-(-end // _PAGE) * _PAGE, -(-self.size // _PAGE) * _PAGE)
        if stop <= start:
            return
        self._populate(start, stop - start)
        self.prepared = min(stop, self.size)

    def prepare_again(self, start: int, end: int) -> None:
        """Take the write faults that a flush has left on bytes prepared before."""
        first = start // _PAGE * _PAGE
        self._populate(first, -(-end // _PAGE) * _PAGE - first)

    def _populate(self, start: int, length: int) -> None:
        if _libc.madvise(self.address + start, length, _MADV_POPULATE_WRITE) == 0:
            return
        # Old kernels do not know the advice; for the rest, allocating says what is the matter.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, start, min(length, self.size - start))
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), str(self.path)) from error
        finally:
            os.close(descriptor)

    def write(self, at: int, data: bytes) -> None:
        """Write prepared bytes."""
        self.data[at : at + len(data)] = np.frombuffer(data, np.uint8)

    def read(self, at: int, length: int) -> bytes:
        """Return `length` bytes from `at`."""
        return self.data[at : at + length].tobytes()

    def flush(self, start: int = 0, end: int | None = None) -> None:
        """Have the bytes of [start, end) on disk before returning.

        Raises:
            OSError: the device failed; what is on disk is unknown.
        """
        first = start // _PAGE * _PAGE
        length = (self.size if end is None else min(end, self.size)) - first
        if length > 0 and _libc.msync(self.address + first, length, _MS_SYNC) != 0:
            raise _error(self.path)

    def close(self) -> None:
        """Give the memory back; written bytes stay in the page cache."""
        if self.address:
            self.data = np.zeros(0, np.uint8)
            _libc.munmap(self.address, self.size)
            self.address = 0


def sync_directory(path: Path) -> None:
    """Have the names in a directory on disk: a new file is lost with its name otherwise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
