"""Files of one size laid end to end: what consume queues, their extensions and batches share."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from reput.checkpoints.disk import changes
from reput.formats.errors import TOUCHED_REMEDY, FormatError, StoreError
from reput.formats.rocketmq import names
from reput.sinks.files.mapped_file import MappedFile

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST_STEP = 256 << 10


class FileQueue:
    """Writes at positions that only grow; keeps the last file mapped."""

    def __init__(self, directory: Path, file_size: int, staging: Path) -> None:
        """Take the files that are there.

        Args:
            directory: where they stand; made with the first file.
            file_size: bytes of each.
            staging: see `MappedFile.create`.

        Raises:
            StoreError: a name or a size that no broker would have written, or a gap.
        """
        self.directory = directory
        self.file_size = file_size
        self.staging = staging
        self.bases = _bases(directory, file_size)
        self.file: MappedFile | None = None
        # Where writing began in the last file, None before.
        self._began: int | None = None
        self._unflushed: list[MappedFile] = []
        # The last file's size is not on disk.
        self._is_new = False
        self._unsynced: set[Path] = set()

    @property
    def base(self) -> int | None:
        """Return the offset of the last file, None when there is none."""
        return self.bases[-1] if self.bases else None

    def path(self, base: int) -> Path:
        """Return the path of the file that begins at `base`."""
        return self.directory / names.offset_file(base)

    def last(self) -> MappedFile:
        """Return the last file, mapped; there must be one."""
        if self.file is None:
            self.file = MappedFile(self.path(self.bases[-1]), self.file_size)
            self.file.fault_single_pages()
        return self.file

    def add(self, base: int) -> MappedFile:
        """Make the file that begins at `base` the last one.

        Raises:
            OSError: no space, no permission.
        """
        self._unsynced.update(changes.make_directories(self.directory), [self.directory])
        made = MappedFile.create(self.path(base), self.file_size, self.staging)
        made.fault_single_pages()
        if self.file is not None:
            self._unflushed.append(self.file)
        self.file = made
        self._is_new = True
        self._began = None
        self.bases.append(base)
        return made

    def room(self, at: int, length: int) -> int:
        """Prepare the last file for `length` bytes at `at`, and some more; return how far it is.

        As much again as was written here: a page for a quiet queue, because there may be thousands;
        a busy one gets a quarter of a megabyte, and the next one meanwhile.
        """
        file = self.last()
        end = at + length
        # What lies before was written earlier and will not be touched again.
        file.prepared = max(file.prepared, at // changes.PAGE * changes.PAGE)
        if self._began is None:
            self._began = at
        if end > file.prepared:
            step = min(max(at - self._began, 0), _LARGEST_STEP)
            file.prepare(min(end + step, self.file_size))
            if step == _LARGEST_STEP:
                file.prepare_ahead(min(file.prepared + step, self.file_size))
        return file.prepared

    def begin_flush(self, start: int, end: int) -> None:
        """Start the write-back that `flush` waits for; the same arguments.

        Raises:
            OSError: a file cannot be opened.
        """
        for full in self._unflushed:
            full.begin_flush()
        if end > start:
            self.last().begin_flush(start, end)

    def flush(self, start: int, end: int) -> None:
        """Flush all that was written, [start, end) being what is new in the last file."""
        for full in self._unflushed:
            full.flush()
            full.close()
        self._unflushed = []
        if end > start or self._is_new:
            self.last().flush(start, max(end, start + 1))
        self._is_new = False
        for directory in sorted(self._unsynced):
            changes.sync_directory(directory)
        self._unsynced = set()

    def unmap(self) -> None:
        """Give the last file's map back; the file is mapped again when it is needed."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def close(self) -> None:
        """Give all maps back."""
        for full in self._unflushed:
            full.close()
        self._unflushed = []
        self.unmap()


def _bases(directory: Path, file_size: int) -> list[int]:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    bases = []
    for entry in entries:
        base = names.parse_offset_file(entry.name)
        if base is None or base % file_size:
            raise StoreError(
                directory / entry.name,
                f"a queue's files are named by multiples of {file_size}, this one is not",
                "A broker does not start on it; move it away or check mappedFileSize… settings",
            )
        size = entry.stat().st_size
        if size != file_size:
            raise FormatError(
                directory / entry.name,
                size,
                f"the file ends here, expected {file_size} bytes",
                "Check the file size settings, or remove the output and rebuild it.",
            )
        bases.append(base)
    for before, after in pairwise(bases):
        if after != before + file_size:
            raise StoreError(
                directory,
                f"no file between {names.offset_file(before)} and {names.offset_file(after)}",
                "Remove the output and rebuild it",
            )
    return bases


def require_end(directory: Path, end: int, recorded: int | None) -> None:
    """Refuse a queue that was touched after the output was opened: new units would hide it.

    Args:
        directory: of the queue.
        end: byte where its files end.
        recorded: the same by the output's record; None if it does not know the queue.

    Raises:
        StoreError: they differ.
    """
    if recorded is not None and end != recorded:
        raise StoreError(
            directory, f"the queue has {end} bytes, expected {recorded}", TOUCHED_REMEDY
        )
