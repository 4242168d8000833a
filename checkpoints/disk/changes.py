"""Every change that is made to a file system, one function each, and what makes it last.

Being safe from crashes is a matter of the order of these calls, so they are all here: a reader can
follow that order, and the tests put a fault, a kill or a power cut between any two of them.

Bytes that are written through memory are in the page cache at once, so they outlive the process;
they outlive the machine from `sync_memory` on. A name outlives it from `sync_directory` on.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

PAGE = mmap.PAGESIZE
_MAP_SHARED = mmap.MAP_SHARED
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
_MADV_POPULATE_WRITE = 23
_MS_SYNC = 4
_SYNC_FILE_RANGE_WRITE = 2
_PIECE = 1 << 20
_FAILED = ctypes.c_void_p(-1).value

# The C library's mmap: Python's own keeps a file descriptor open for each map, which ten thousand
# queues would not have, and holds the interpreter's lock while it syncs.
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
_libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
_libc.syncfs.argtypes = [ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _error(path: Path) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), str(path))


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make an error of a system call name the file that it is about, where the call does not.

    Raises:
        OSError: what the call raised.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from error


def _named(call: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    @functools.wraps(call)
    def named(path: Path, *args: P.args, **options: P.kwargs) -> R:
        with naming(path):
            return call(path, *args, **options)

    return named  # type: ignore[return-value]


def make_directories(path: Path) -> list[Path]:
    """Make a directory and those above it that are missing.

    Returns:
        The directories that have a new name in them, the uppermost first: sync these.

    Raises:
        OSError: no permission, no space.
    """
    missing = []
    above = path
    while not above.is_dir():
        missing.append(above)
        above = above.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
    return [directory.parent for directory in reversed(missing)]


@_named
def make_file(path: Path, size: int) -> None:
    """Make a file of zeros, all of them holes.

    Raises:
        OSError: no space, no permission.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


@_named
def write_file(path: Path, data: bytes) -> None:
    """Make a file of these bytes and have them on disk; its name is another matter.

    Raises:
        OSError: no space, no permission, the device failed.
    """
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@_named
def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Make a file of these bytes, one piece after another, and have them on disk; not its name.

    Raises:
        OSError: no space, no permission, the device failed.
    """
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


@_named
def clear(path: Path, start: int) -> int:
    """Make the bytes of a file from `start` on zeros again; holes stay holes.

    Returns:
        How many there were, from `start` to the last one that was none.

    Raises:
        OSError: the device failed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        # Reading ahead would fill the page cache with what holes hold.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        size = os.fstat(descriptor).st_size
        end = at = start
        while at < size:
            data = next_data(descriptor, at, size)
            hole = os.lseek(descriptor, data, os.SEEK_HOLE) if data < size else size
            piece = os.pread(descriptor, min(_PIECE, hole - data), data)
            used = len(piece.rstrip(b"\0"))
            if used:
                first = used - len(piece[:used].lstrip(b"\0"))
                os.pwrite(descriptor, bytes(used - first), data + first)
                end = data + used
            at = data + max(len(piece), 1)
        return end - start
    finally:
        os.close(descriptor)


def next_data(descriptor: int, at: int, size: int) -> int:
    """Return where bytes after a hole resume, `size` if they do not."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        raise


@_named
def sync_file_system(path: Path) -> None:
    """Flush everything that was changed in the file system that `path` is on.

    Raises:
        OSError: the device failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            raise _error(path)
    finally:
        os.close(descriptor)


def rename(path: Path, target: Path) -> None:
    """Give a file another name, in place of what has that name."""
    path.replace(target)


def remove_file(path: Path) -> None:
    """Remove a file."""
    path.unlink()


def remove_directory(path: Path) -> None:
    """Remove an empty directory."""
    path.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it, if it is there."""
    for directory, _, files in os.walk(path, topdown=False):
        for name in files:
            remove_file(Path(directory) / name)
        remove_directory(Path(directory))


@_named
def sync_directory(path: Path) -> None:
    """Flush the names in a directory: without its name a new file is lost.

    Raises:
        OSError: the device failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(path: Path) -> None:
    """Flush the names that lead to a directory.

    Raises:
        OSError: the device failed.
    """
    device = path.stat().st_dev
    for above in path.parents:
        # What cannot be read is not ours, and neither is anything above it.
        if above.stat().st_dev != device or not os.access(above, os.R_OK):
            return
        sync_directory(above)


def map_file(path: Path, size: int) -> int:
    """Map a file for writing and return the address; `unmap` gives it back.

    Raises:
        OSError: it cannot be opened or mapped.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        address = _libc.mmap(None, size, _PROTECTION, _MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if address in {None, _FAILED}:
        raise _error(path)
    return int(address)


def unmap(address: int, size: int) -> None:
    """Give a map back; what was written stays in the page cache."""
    _libc.munmap(address, size)


def fault_single_pages(address: int, size: int) -> None:
    """Bring in no page of a map but the one that is touched; advice, so nothing can fail."""
    _libc.madvise(address, size, mmap.MADV_RANDOM)


def populate(path: Path, address: int, start: int, length: int, size: int) -> None:
    """Get blocks and pages for bytes of a map, so that writing them can neither fault nor fail.

    Args:
        path: the mapped file.
        address: where it is mapped.
        start: first byte, at a page's beginning.
        length: bytes.
        size: of the file.

    Raises:
        OSError: no space is left, a quota is reached, the device fails.
    """
    if _libc.madvise(address + start, length, _MADV_POPULATE_WRITE) == 0:
        return
    # Old kernels do not know the advice; for the rest, allocating says what is the matter.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, start, min(length, size - start))
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from error
    finally:
        os.close(descriptor)


def sync_memory(path: Path, address: int, start: int, length: int) -> None:
    """Flush bytes of a map before returning.

    Args:
        path: the mapped file.
        address: where it is mapped.
        start: first byte, at a page's beginning.
        length: bytes.

    Raises:
        OSError: the device failed; what is on disk is unknown.
    """
    if _libc.msync(address + start, length, _MS_SYNC) != 0:
        raise _error(path)


@_named
def begin_sync(path: Path, start: int, length: int) -> None:
    """Start writing new bytes of a file to the device; `sync_memory` waits for it.

    Files that are synced one after the other, or by several threads, take two to three times as
    long without. Whether it succeeds is not told here: it is told to `sync_memory`.

    Args:
        path: the file.
        start: first byte.
        length: bytes.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _libc.sync_file_range(descriptor, start, length, _SYNC_FILE_RANGE_WRITE)
    finally:
        os.close(descriptor)
