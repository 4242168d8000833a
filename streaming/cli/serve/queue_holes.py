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


def hole(root: Path, settings: BrokerSettings) -> str | None:
    """Return the first file of a queue that is missing between two others; None if none is.

    Args:
        root: of the queues: a store, or an output.
        settings: file sizes.
    """
    sizes = {
        names.CONSUMEQUEUE: settings.consumequeue_file_size,
        names.BATCH_CONSUMEQUEUE: settings.batch_file_size,
    }
    for kind, size in sizes.items():
        # What cannot be listed is said by whatever opens the queue.
        for directory, _, files in os.walk(root / kind):
            # Files that go during a look may leave a hole in it, and not in the next one.
            if _missing(files, size) is not None:
                missing = _missing(_listed(directory), size)
                if missing is not None:
                    return f"{directory}/{names.offset_file(missing)}"
    return None


def _listed(directory: str) -> Iterator[str]:
    try:
        yield from (each.name for each in Path(directory).iterdir())
    except FileNotFoundError:
        # The topic was deleted meanwhile.
        return


def _missing(files: Iterable[str], size: int) -> int | None:
    bases = (names.parse_offset_file(file) for file in files)
    for before, after in pairwise(sorted(base for base in bases if base is not None)):
        if after > before + size:
            return before + size
    return None
