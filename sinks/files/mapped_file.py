"""A file of fixed size that is written through memory.

Files are made whole, then prepared piece by piece ahead of the writer. Linux allocates blocks and
pages then. So a later write costs no page fault, and a full disk is an `OSError` here, and not a
SIGBUS when compiled code writes. Only what was prepared may be written.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reput.checkpoints.disk import changes
from reput.checkpoints.disk.changes import PAGE
from reput.formats.errors import TOUCHED_REMEDY, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.kernels.memory import Bytes


# A page may have to wait for its disk. Python's own copies hold the interpreter's lock meanwhile,
# and no other store, no signal and no health check is served; a call of the C library does not.
_copy = ctypes.CDLL(None).memcpy
_copy.restype = None
_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

# Below this, beginning early gains nothing.
_WORTH_BEGINNING = 64 << 10
_COPIED_AT_ONCE = 1 << 20


@functools.lru_cache(maxsize=1)
def _helpers(_process: int) -> ThreadPoolExecutor:
    """Return a process's threads that work ahead; a forked child does not inherit them.

    One prepares, mostly in the kernel, while another may wait for the device.
    """
    return ThreadPoolExecutor(2, thread_name_prefix="ahead")


class MappedFile:
    """One mapped file; only `close` gives its memory back.

    Attributes:
        maps: how many there are in this process, which Linux limits (vm.max_map_count, 65530).
    """

    maps: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path, size: int) -> None:
        """Map the file `path`, which has `size` bytes.

        Raises:
            OSError: it cannot be opened or mapped, or has another size.
        """
        self.path = path
        self.size = size
        # What is on disk already has its blocks; a hole is prepared like new.
        self.prepared = 0
        # What is being prepared, and how far.
        self._coming: Future[None] | None = None
        self._coming_end = 0
        found = path.stat().st_size
        if found != size:
            raise OSError(errno.EINVAL, f"has {found} bytes, expected {size}", str(path))
        self.address = changes.map_file(path, size)
        self._identity = _identity_of(path)
        self._count(1)
        memory = (ctypes.c_uint8 * size).from_address(self.address)
        self.data: Bytes = np.ctypeslib.as_array(memory)

    @classmethod
    def create(cls, path: Path, size: int, staging: Path) -> MappedFile:
        """Make a file of zeros and map it; its directory must be there.

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
        # One name, so that killed writers leave one file at most.
        made = staging / "new"
        changes.make_file(made, size)
        changes.rename(made, path)
        return cls(path, size)

    @classmethod
    def _count(cls, more: int) -> None:
        with cls._lock:
            MappedFile.maps += more

    def fault_single_pages(self) -> None:
        """Load only the page that is touched.

        The kernel brings in those around it otherwise, as many as the device reads ahead: of a new
        file pages of zeros by the megabyte, which cost a thousand times what the one page does.
        """
        changes.fault_single_pages(self.address, self.size)

    def prepare(self, end: int) -> None:
        """Make all bytes before `end` writable without a fault.

        Raises:
            OSError: no space is left, a quota is reached, the device fails.
        """
        if end > self.prepared:
            self._take_coming()
        start, stop = self._pages_to(end)
        if stop > start:
            changes.populate(self.path, self.address, start, stop - start, self.size)
            self.prepared = min(stop, self.size)

    def prepare_ahead(self, end: int) -> None:
        """Let another thread prepare all bytes before `end` meanwhile.

        Making pages costs more than writing them. What fails there is tried again by `prepare`,
        which says so, if it ever comes to that.
        """
        start, stop = self._pages_to(end)
        if self._coming is None and stop > start:
            self._coming = _helpers(os.getpid()).submit(
                changes.populate, self.path, self.address, start, stop - start, self.size
            )
            self._coming_end = min(stop, self.size)

    def _pages_to(self, end: int) -> tuple[int, int]:
        """Return where the pages that are not prepared begin, and where those before `end` end."""
        start = self.prepared // PAGE * PAGE
        return start, min(-(-end // PAGE) * PAGE, -(-self.size // PAGE) * PAGE)

    def _take_coming(self) -> None:
        """Wait for what `prepare_ahead` has begun, if it has.

        Both helpers may wait for the disk of another store.
        """
        coming, self._coming = self._coming, None
        if coming is not None and not coming.cancel() and coming.exception() is None:
            self.prepared = max(self.prepared, self._coming_end)

    def prepare_again(self, start: int, end: int) -> None:
        """Take the write faults that a flush has left on bytes prepared before."""
        first = start // PAGE * PAGE
        changes.populate(self.path, self.address, first, -(-end // PAGE) * PAGE - first, self.size)

    def write(self, at: int, data: bytes) -> None:
        """Write prepared bytes."""
        _copy(self._address_of(at, len(data)), data, len(data))

    def copy_from(self, source: Path, start: int, end: int) -> None:
        """Copy the bytes [`start`, `end`) of another file to the same place.

        Raises:
            OSError: the device failed.
        """
        with source.open("rb") as stream:
            for at in range(start, end, _COPIED_AT_ONCE):
                self.write(at, os.pread(stream.fileno(), min(_COPIED_AT_ONCE, end - at), at))

    def read(self, at: int, length: int) -> bytes:
        """Return `length` bytes from `at`."""
        found = ctypes.create_string_buffer(length)
        _copy(found, self._address_of(at, length), length)
        return found.raw

    def _address_of(self, at: int, length: int) -> int:
        if not 0 <= at <= at + length <= len(self.data):
            raise IndexError(f"{self.path}: bytes {at} to {at + length} are not in the map")
        return self.address + at

    def flush(self, start: int = 0, end: int | None = None) -> None:
        """Flush the bytes of [start, end), and wait for it.

        Raises:
            StoreError: another file stands at the path, or none: what was written is in no file.
            OSError: the device failed; what is on disk is unknown.
        """
        first = start // PAGE * PAGE
        length = (self.size if end is None else min(end, self.size)) - first
        if length > 0:
            changes.sync_memory(self.path, self.address, first, length)
            self._require_in_place()

    def _require_in_place(self) -> None:
        """Refuse to continue with a file that somebody has removed or replaced."""
        if _identity_of(self.path) != self._identity:
            raise StoreError(
                self.path, "this is not the file that is being written", TOUCHED_REMEDY
            )

    def begin_flush(self, start: int = 0, end: int | None = None) -> None:
        """Start the write-back of [start, end); `flush` waits for it.

        Raises:
            OSError: the file cannot be opened.
        """
        length = (self.size if end is None else min(end, self.size)) - start
        if length >= _WORTH_BEGINNING:
            changes.begin_sync(self.path, start, length)

    def begin_flush_meanwhile(self) -> None:
        """Let another thread start to flush all of it; `flush` reports what fails there."""
        if self.size >= _WORTH_BEGINNING:
            _helpers(os.getpid()).submit(changes.begin_sync, self.path, 0, self.size)

    def close(self) -> None:
        """Give the memory back; written bytes stay in the page cache."""
        if self.address:
            # Whatever takes the addresses next must not be touched.
            self._take_coming()
            self.data = np.zeros(0, np.uint8)
            changes.unmap(self.address, self.size)
            self.address = 0
            self._count(-1)


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return what a file keeps as long as it is there; None if nothing stands at the path."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
