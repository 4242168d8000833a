"""What the entries of an output's consume queues name, without the log: its first record, its last.

Plain queues only: batch queues have a reader of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats import names
from formats.consumequeue import ENTRY, ENTRY_SIZE, ENTRY_STRUCT, PRE_BLANK, Entry
from stores.findings import Report
from stores.stored_files import StoredFiles, queue_directories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["first_entry", "has_entries_from"]

_FILLER = Entry(*ENTRY_STRUCT.unpack(PRE_BLANK)).size
_OLDEST_FILE = slice(1)
# A broker makes the one after the last ahead.
_NEWEST_FILES = slice(-2, None)


def first_entry(output: Path, file_size: int) -> int | None:
    """Return the lowest physical offset of the queues' first entries, None if there is none.

    Args:
        output: where consumequeue/ is.
        file_size: of consume queue files, bytes.

    Raises:
        OSError: the device failed.
    """
    firsts = (int(each[0]) for each in _offsets(output, file_size, _OLDEST_FILE) if len(each))
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
        bool((each >= position).any()) for each in _offsets(output, file_size, _NEWEST_FILES)
    )


def _offsets(output: Path, file_size: int, which: slice) -> Iterator[NDArray[np.int64]]:
    """Yield the physical offsets of the entries in some files of each queue, a file at a time."""
    ignored = Report()
    for directory in queue_directories(output / names.CONSUMEQUEUE, ignored):
        files = StoredFiles(directory, file_size, ignored)
        for base in files.bases[which]:
            raw = files.read(base, file_size)
            entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            own = (entries["size"] > 0) & (entries["size"] < _FILLER)
            yield entries["physical_offset"][own]
