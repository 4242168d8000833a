"""Which file is missing in the middle of a queue? For queues without a record of their writer.

A broker removes files of a queue from its beginning on, and adds them at its end. So what is not
there between two others was lost, as in a copy that is not whole. A broker passes over it without a
word.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reput.formats.rocketmq.broker import BrokerSettings

_OFFSET_BYTES = 8


def hole(root: Path, settings: BrokerSettings, floor: int = 0) -> str | None:
    """Return the first file of a queue that is missing between two others; None if none is.

    Args:
        root: of the queues: a store, or an output.
        settings: file sizes.
        floor: physical offset where the log begins. A file whose messages have all expired is not
            missed.
    """
    sizes = {
        names.CONSUMEQUEUE: settings.consumequeue_file_size,
        names.BATCH_CONSUMEQUEUE: settings.batch_file_size,
    }
    for kind, size in sizes.items():
        # What cannot be listed is said by whatever opens the queue.
        for directory, _, files in os.walk(root / kind):
            # Files that go during a look may leave a hole in it, and not in the next one.
            if any(_holes(files, size)):
                for missing, after in _holes(_listed(directory), size):
                    if not _has_expired(Path(directory, names.offset_file(after)), floor):
                        return f"{directory}/{names.offset_file(missing)}"
    return None


def _listed(directory: str) -> Iterator[str]:
    try:
        yield from (each.name for each in Path(directory).iterdir())
    except FileNotFoundError:
        # The topic was deleted meanwhile.
        return


def _holes(files: Iterable[str], size: int) -> Iterator[tuple[int, int]]:
    """Yield where each hole begins, and where the file after it does."""
    bases = (names.parse_offset_file(file) for file in files)
    for before, after in pairwise(sorted(base for base in bases if base is not None)):
        if after > before + size:
            yield before + size, after


def _has_expired(after: Path, floor: int) -> bool:
    """Tell whether the log has none of the messages before a file of a queue."""
    try:
        with after.open("rb") as file:
            # Entries of both kinds of queues begin with a record's physical offset.
            first = file.read(_OFFSET_BYTES)
    except FileNotFoundError:
        # It has expired itself meanwhile, and the hole is no longer between two files.
        return True
    return len(first) == _OFFSET_BYTES and 0 < int.from_bytes(first, "big") <= floor
