"""Takes back what was written beyond a position: the leftovers of a killed process.

Consume queue entries of records at or beyond the cut become zeros again, files that hold nothing
else go. Index items are undone from the newest down: an item knows what its slot held before it.
Source: docs/adr/0003-recovery.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from formats import batchconsumequeue, consumequeue, consumequeue_ext, indexfile, names
from formats.indexfile import HEADER_SIZE
from sinks.file_queue import FileQueue
from sinks.mapped_file import MappedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.broker import BrokerSettings
    from formats.memory import Bytes
    from sinks.index import IndexPosition


def cut_queues(root: Path, staging: Path, settings: BrokerSettings, end: int) -> int:
    """Take back all entries of records that start at `end` or beyond.

    Args:
        root: the output root.
        staging: see `MappedFile.create`.
        settings: file sizes.
        end: physical offset.

    Returns:
        Entries taken back.
    """
    cut = 0
    for path in queue_directories(root / names.CONSUMEQUEUE):
        files = FileQueue(path, settings.consumequeue_file_size, staging)
        cut += _cut_units(files, consumequeue.ENTRY, end)
    # A unit comes before its entry: a new queue may have an extension and nothing else.
    for path in queue_directories(root / names.CONSUMEQUEUE_EXT):
        entries = root / names.CONSUMEQUEUE / path.relative_to(root / names.CONSUMEQUEUE_EXT)
        _cut_ext(FileQueue(path, settings.ext_file_size, staging), _last_address(entries))
    for path in queue_directories(root / names.BATCH_CONSUMEQUEUE):
        unit = batchconsumequeue.UNIT
        cut += _cut_units(FileQueue(path, settings.batch_file_size, staging), unit, end)
    return cut


def queue_directories(base: Path) -> Iterator[Path]:
    """Yield the directory of every queue below `base`: those that have files in them."""
    for directory, _, files in os.walk(base):
        if files:
            yield Path(directory)


def _cut_units(files: FileQueue, unit: np.dtype[np.void], end: int) -> int:
    """Zero units from the first one at or beyond `end`; an emptied file goes."""
    cut = 0
    while files.bases:
        data = files.last().data
        units = data[: len(data) // unit.itemsize * unit.itemsize].view(unit)
        used = units["size"] > 0
        beyond = used & (units["physical_offset"].astype(np.int64) >= end)
        first = int(np.argmax(beyond)) if beyond.any() else int(np.count_nonzero(used))
        stale = int(np.count_nonzero(beyond))
        # Zeros too where a write was cut off between its fields.
        _zero(data[first * unit.itemsize :])
        cut += stale
        # Entries that only fill up the file to its first record belong to that record.
        is_filler = first > 0 and not np.any(units["physical_offset"][:first].astype(np.int64))
        has_filler_size = first > 0 and bool(np.all(units["size"][:first] == 0x7FFFFFFF))
        if first > 0 and not (is_filler and has_filler_size):
            files.last().flush()
            break
        drop_last(files)
    files.close()
    return cut


def _zero(data: Bytes) -> None:
    """Write zeros where something else is: holes stay holes, and a full disk takes no SIGBUS."""
    data[data != 0] = 0


def drop_last(files: FileQueue) -> None:
    """Remove the last file of a queue, and its directory with the only one."""
    path = files.path(files.bases.pop())
    if files.file is not None:
        files.file.close()
        files.file = None
    path.unlink()
    if not files.bases:
        path.parent.rmdir()


def _last_address(path: Path) -> int:
    """Return the position of the last ext unit that a queue's entries point to, -1 for none."""
    if not path.is_dir():
        return -1
    for file in sorted(path.iterdir(), reverse=True):
        codes = np.fromfile(file, consumequeue.ENTRY)["tags_code"].astype(np.int64)
        addresses = codes[codes <= consumequeue_ext.MAX_ADDRESS]
        if len(addresses):
            return consumequeue_ext.position(int(addresses[-1]))
    return -1


def _cut_ext(files: FileQueue, last: int) -> None:
    """Zero ext units behind the one at `last`; files behind it go."""
    while files.bases and files.bases[-1] > last:
        drop_last(files)
    if not files.bases:
        return
    file = files.last()
    at = last - files.bases[-1]
    unit = consumequeue_ext.unpack(file.read(0, file.size), at)
    _zero(file.data[at + (unit.size if unit else 0) :])
    file.flush()
    files.close()


def cut_index(root: Path, settings: BrokerSettings, position: IndexPosition) -> int:
    """Take the index back to a position that was recorded when nothing was being written.

    Args:
        root: the output root.
        settings: slots and items of a file.
        position: where it ended then.

    Returns:
        Items taken back.
    """
    directory = root / names.INDEX
    cut = 0
    if not directory.is_dir():
        return cut
    for path in sorted(directory.iterdir(), reverse=True):
        if path.name == position.name:
            break
        cut += _items_written(path)
        path.unlink()
    if not position.name:
        directory.rmdir()
        return cut
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    file = MappedFile(directory / position.name, size)
    first = position.header.next_item
    cut += int(indexfile.undo(first, file.data, settings.index_slots, settings.index_items)) - first
    file.write(0, position.header.pack())
    file.flush()
    file.close()
    return cut


def _items_written(path: Path) -> int:
    with path.open("rb") as file:
        return indexfile.Header.unpack(file.read(HEADER_SIZE)).next_item - indexfile.FIRST_ITEM
