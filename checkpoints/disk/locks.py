"""One writer: locks on files, held for as long as the holder lives.

An output root has a lock file of ours that names its holder. A broker's store is written in place
only under the broker's own lock. Both are POSIX record locks, as Java's FileLock takes them: they
work across hosts where the file system supports them, they end with the process, and they vanish
when *any* descriptor of the file is closed in it, so the file is opened once and never again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from typing import TYPE_CHECKING

from reput.checkpoints.disk import changes
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.stores.log.broker_lock import HELD, is_held

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["WRITER_LOCK", "FileLock", "holder_of", "is_held", "lock_output", "lock_store"]

WRITER_LOCK = "writer.lock"
_BUSY = {errno.EACCES, errno.EAGAIN}
_HOLDER_BYTES = 200


def _is_ours(store: Path) -> bool:
    """Tell whether the abort marker is one that a killed writer of ours has left.

    A broker writes its process id, or nothing.
    """
    try:
        return (store / names.ABORT).read_text("ascii").startswith(names.OUR_ABORT)
    except (FileNotFoundError, UnicodeDecodeError):
        return False


class FileLock:
    """A lock on byte 0 of a file, held from `acquire` to `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = ""
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False when another process has it.

        Raises:
            OSError: the file cannot be made or opened.
        """
        self._name = os.path.realpath(self.path)
        if self._name in HELD:
            return False
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _BUSY:
                return False
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._descriptor, found = descriptor, os.fstat(descriptor)
        HELD[self._name] = found.st_dev, found.st_ino
        return True

    def is_in_place(self) -> bool:
        """Tell whether it is held, and its file is still the one of that name: others see it there.

        Raises:
            OSError: the file cannot be looked at.
        """
        if self._descriptor is None:
            return False
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return HELD.get(self._name) == (found.st_dev, found.st_ino)

    def write(self, text: str) -> None:
        """Write the holder's name into the file."""
        if self._descriptor is None:
            raise RuntimeError("the lock is not held")
        with changes.naming(self.path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)
            os.fsync(self._descriptor)

    def release(self) -> None:
        """Give the lock up."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            HELD.pop(self._name, None)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _holder(path: Path) -> str:
    """Return the holder that a lock file names.

    Our own file is not opened: closing it would end the lock.
    """
    if os.path.realpath(path) in HELD:
        return f"this process, {os.getpid()}"
    return path.read_text("utf-8", "replace")[:_HOLDER_BYTES].strip()


def holder_of(state_directory: Path) -> str:
    """Return what the process that writes to an output calls itself, "" if none does.

    Nothing is taken or made. Where the file system shows no locks of other hosts, a writer there is
    not seen.
    """
    path = state_directory / WRITER_LOCK
    if os.path.realpath(path) not in HELD and not is_held(path):
        return ""
    return _holder(path) or "another process"


def lock_output(state_directory: Path) -> FileLock:
    """Take the writer's lock of an output root.

    Raises:
        StoreError: another process writes there; names it.
    """
    path = state_directory / WRITER_LOCK
    lock = FileLock(path)
    if not lock.acquire():
        holder = _holder(path) or "another process"
        raise StoreError(
            state_directory.parent,
            f"{holder} is writing to this output",
            "Stop it first, or give another --output; two writers would corrupt the files",
        )
    try:
        lock.write(f"reput, process {os.getpid()} on {socket.gethostname()}")
        changes.sync_directory(state_directory)
    except BaseException:
        lock.release()
        raise
    return lock


def lock_store(store: Path) -> FileLock:
    """Take a broker's lock of its own store, to write in place.

    Raises:
        StoreError: a broker runs on it, or died on it.
    """
    if (store / names.ABORT).exists() and not _is_ours(store):
        raise StoreError(
            store / names.ABORT,
            "the store was not closed in order, or a broker runs on it",
            "Write to a directory of its own with --output, or let the broker recover and stop",
        )
    lock = FileLock(store / names.LOCK)
    if not lock.acquire():
        raise StoreError(
            store / names.LOCK,
            "a broker holds this store's lock",
            "Stop the broker first, or write to a directory of its own with --output",
        )
    return lock
