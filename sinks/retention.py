"""Removes files of an output whose records have expired, as a broker does with its own.

A file goes when its last entry's record lies before the commitlog's beginning; from the oldest on,
and never the last one. Source: RocketMQ `MappedFileQueue#deleteExpiredFileByOffset`,
`ConsumeQueueExt#truncateByMinAddress`, `IndexService#deleteExpiredFile`; spec DISPATCH §4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats import batchconsumequeue, consumequeue, consumequeue_ext, names
from formats.indexfile import HEADER_SIZE, Header
from sinks.cut import queue_directories
from stores import disk

if TYPE_CHECKING:
    from pathlib import Path

    from formats.broker import BrokerSettings


def remove_expired(root: Path, settings: BrokerSettings, min_offset: int) -> list[Path]:
    """Remove the files of an output that hold nothing but expired records.

    What they held is on disk and recorded; no crash brings anything but such files back.

    Args:
        root: the output root.
        settings: file sizes.
        min_offset: physical offset where the commitlog begins.

    Returns:
        The files that were removed.

    Raises:
        OSError: a file cannot be read or removed.
    """
    removed = []
    for path in sorted(queue_directories(root / names.CONSUMEQUEUE)):
        removed += _remove_units(path, settings.consumequeue_file_size, _ENTRY, min_offset)
        if settings.writes_ext:
            removed += _remove_ext(root, path, settings, min_offset)
    for path in sorted(queue_directories(root / names.BATCH_CONSUMEQUEUE)):
        removed += _remove_units(path, settings.batch_file_size, _UNIT, min_offset)
    return removed + _remove_index(root / names.INDEX, min_offset)


_ENTRY = consumequeue.ENTRY_SIZE
_UNIT = batchconsumequeue.UNIT_SIZE
# Both kinds of units begin with it.
_PHYSICAL_OFFSET_SIZE = 8


def _remove_units(path: Path, file_size: int, unit_size: int, min_offset: int) -> list[Path]:
    removed = []
    for file in sorted(path.iterdir())[:-1]:
        with file.open("rb") as stream:
            stream.seek(file_size - unit_size)
            last = int.from_bytes(stream.read(_PHYSICAL_OFFSET_SIZE), "big", signed=True)
        if last >= min_offset:
            break
        disk.remove_file(file)
        removed.append(file)
    return removed


def _remove_ext(root: Path, path: Path, settings: BrokerSettings, min_offset: int) -> list[Path]:
    """Remove the files of a queue's extension that lie before its first live unit."""
    ext = root / names.CONSUMEQUEUE_EXT / path.relative_to(root / names.CONSUMEQUEUE)
    if not ext.is_dir():
        return []
    # The files before are gone, so that is where the first live entry is, or there is none.
    units = np.fromfile(min(path.iterdir()), consumequeue.ENTRY)
    live = units["physical_offset"].astype(np.int64) >= min_offset
    codes = units["tags_code"][live & (units["size"] > 0)].astype(np.int64)
    if not len(codes) or not consumequeue_ext.is_address(int(codes[0])):
        return []
    first = consumequeue_ext.position(int(codes[0]))
    removed = []
    for file in sorted(ext.iterdir())[:-1]:
        base = names.parse_offset_file(file.name)
        if base is None or base + settings.ext_file_size >= first:
            break
        disk.remove_file(file)
        removed.append(file)
    return removed


def _remove_index(directory: Path, min_offset: int) -> list[Path]:
    removed: list[Path] = []
    if not directory.is_dir():
        return removed
    for file in sorted(directory.iterdir())[:-1]:
        with file.open("rb") as stream:
            header = Header.unpack(stream.read(HEADER_SIZE))
        if header.end_offset >= min_offset:
            break
        disk.remove_file(file)
        removed.append(file)
    return removed
