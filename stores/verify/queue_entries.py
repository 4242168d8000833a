"""What the entries of an output's consume queues name, without the log: its first record, its last.

Plain queues only: batch queues have a reader of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import (
    ENTRY,
    ENTRY_SIZE,
    PRE_BLANK_RECORD_SIZE,
)
from reput.stores.findings import Report
from reput.stores.verify.stored_files import StoredFiles, queue_directories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["first_entry", "has_entries_from"]

# A queue's first entry is most often the first of its file; before one that begins late is filler.
_WINDOW = 4096 * ENTRY_SIZE
# A broker makes the one after the last ahead.
_NEWEST_FILES = 2


def first_entry(output: Path, file_size: int) -> int | None:
    """Return the lowest physical offset of the queues' first entries, None if there is none.

    Args:
        output: where consumequeue/ is.
        file_size: of consume queue files, bytes.

    Raises:
        OSError: the device failed.
    """
    firsts = []
    for files in _queues(output, file_size):
        windows = (each for base in files.bases[:1] for each in _windows(files, base, _WINDOW))
        first = next((int(each[0]) for each in windows if len(each)), None)
        if first is not None:
            firsts.append(first)
    return min(firsts, default=None)


def has_entries_from(output: Path, file_size: int, position: int) -> bool:
    """Tell whether a consume queue has an entry of a record at or after a physical offset.

    Args:
        output: where consumequeue/ is.
        file_size: of consume queue files, bytes.
        position: physical offset.

    Raises:
        OSError: the device failed.
    """
    return any(
        bool((each >= position).any())
        for files in _queues(output, file_size)
        for base in files.bases[-_NEWEST_FILES:]
        for each in _windows(files, base, file_size)
    )


def _queues(output: Path, file_size: int) -> Iterator[StoredFiles]:
    """Yield the files of each queue."""
    ignored = Report()
    for directory in queue_directories(output / names.CONSUMEQUEUE, ignored):
        yield StoredFiles(directory, file_size, ignored)


def _windows(files: StoredFiles, base: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Yield the physical offsets of the entries in a file, of shape (n,), piece by piece.

    Args:
        files: of the queue.
        base: where the file begins.
        size: bytes to read at a time, a multiple of an entry's.
    """
    for at in range(0, files.file_size, size):
        raw = files.read(base + at, size)
        entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
        own = (entries["size"] > 0) & (entries["size"] < PRE_BLANK_RECORD_SIZE)
        yield entries["physical_offset"][own]
        if len(raw) < size:
            return
