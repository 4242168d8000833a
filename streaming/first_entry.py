"""Where the records begin that an output has entries of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats import names
from formats.consumequeue import ENTRY, ENTRY_SIZE
from stores.findings import Report
from stores.stored_files import StoredFiles, queue_directories

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["first_entry"]

# What fills a queue's file before its first entry (`ConsumeQueue#fillPreBlank`).
_FILLER = (1 << 31) - 1


def first_entry(output: Path, file_size: int) -> int | None:
    """Return the lowest physical offset of the queues' first entries, None if there is none.

    Args:
        output: where consumequeue/ is.
        file_size: of consume queue files, bytes.

    Raises:
        OSError: the device failed.
    """
    ignored = Report()
    found = []
    for directory in queue_directories(output / names.CONSUMEQUEUE, ignored):
        files = StoredFiles(directory, file_size, ignored)
        for base in files.bases[:1]:
            raw = files.read(base, file_size)
            entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            own = np.flatnonzero((entries["size"] > 0) & (entries["size"] < _FILLER))
            if len(own):
                found.append(int(entries["physical_offset"][own[0]]))
    return min(found, default=None)
