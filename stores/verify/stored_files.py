"""Reads what stands in an output: the files of a queue end to end, and where a file is not zero.

Everything is `pread` into memory of our own, a window at a time: files that are cut, missing or
too short give fewer bytes, which the caller reports, and memory does not grow with them.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import names
from reput.stores.findings import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.stores.findings import Report

_CHUNK = 1 << 20
# A run of surplus units is handed over in pieces of this many.
_RUN_UNITS = 4096


class StoredFiles:
    """The files of one directory that are named by the offset of their first byte."""

    def __init__(self, directory: Path, file_size: int, report: Report) -> None:
        """Look at the files.

        Args:
            directory: need not be there.
            file_size: bytes of each.
            report: gets the files with a wrong name or size.
        """
        self.directory = directory
        self.file_size = file_size
        self.bases: list[int] = []
        for path in entries_of(directory):
            if path.is_dir():
                continue
            base = names.parse_offset_file(path.name)
            if base is None or base % file_size:
                report.add(Kind.NAME, path, 0, f"not named by a multiple of {file_size}")
                continue
            report.files += 1
            size = path.stat().st_size
            if size != file_size:
                report.add(
                    Kind.SIZE, path, size, f"the file has {size} bytes, expected {file_size}"
                )
            self.bases.append(base)
        self._known = frozenset(self.bases)

    def __contains__(self, base: int) -> bool:
        return base in self._known

    def path(self, base: int) -> Path:
        """Return the path of the file that begins at `base`."""
        return self.directory / names.offset_file(base)

    def place(self, position: int) -> tuple[Path, int]:
        """Return the file that holds a position, there or not, and the byte in it."""
        byte = position % self.file_size
        return self.path(position - byte), byte

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of one file from `position` on: fewer where it ends, none if not there."""
        path, byte = self.place(position)
        if position - byte not in self._known:
            return b""
        with path.open("rb") as file:
            return os.pread(file.fileno(), min(length, self.file_size - byte), byte)


def entries_of(directory: Path) -> list[Path]:
    """Return what stands in a directory in the order of names, nothing if it is not there."""
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def queue_directories(base: Path, report: Report) -> Iterator[Path]:
    """Yield the directory of every queue below `base`, those of names with a slash too.

    Args:
        base: consumequeue or one of its kind.
        report: gets files that stand where directories should.
    """
    for path in entries_of(base):
        if not path.is_dir():
            # A queue's files are looked at with the queue.
            if not _is_queue(base):
                report.add(Kind.NAME, path, 0, "not in a queue's directory")
            continue
        if _is_queue(path):
            yield path
        yield from queue_directories(path, report)


def _is_queue(path: Path) -> bool:
    return path.name.isascii() and path.name.isdigit()


def surplus_runs(path: Path, start: int, unit: int) -> Iterator[tuple[int, bytes]]:
    """Yield the units of a file that are not all zero, those in a row together.

    Args:
        path: the file.
        start: byte of a unit to begin with.
        unit: bytes of each.

    Yields:
        Byte of the first unit of a run, and the bytes of its units.
    """
    position = start
    with path.open("rb") as file:
        descriptor = file.fileno()
        while (first := _first_written(descriptor, position)) is not None:
            position = first - (first - start) % unit
            data = os.pread(descriptor, unit * _RUN_UNITS, position)
            whole = data.ljust(-(-len(data) // unit) * unit, b"\0")
            used: NDArray[np.bool_] = np.any(
                np.frombuffer(whole, np.uint8).reshape(-1, unit), axis=1
            )
            length = len(used) if used.all() else int(np.argmin(used))
            yield position, whole[: length * unit]
            position += length * unit


def _first_written(descriptor: int, position: int) -> int | None:
    """Return the first byte from `position` on that is not zero."""
    while True:
        try:
            # Output files are mostly holes: 400 MB of them in an index file.
            position = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno != errno.EINVAL:
                raise
        data = os.pread(descriptor, _CHUNK, position)
        if not data:
            return None
        array = np.frombuffer(data, np.uint8)
        if array.any():
            return position + int(np.argmax(array != 0))
        position += len(data)
