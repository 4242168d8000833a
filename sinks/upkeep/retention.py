"""Says which files of an output have only expired records: a broker removes such files of its own.

A file goes when its last entry's record lies before the commitlog's beginning; from the oldest on,
and never the last one. Source: RocketMQ `MappedFileQueue#deleteExpiredFileByOffset`,
`ConsumeQueueExt#truncateByMinAddress`, `IndexService#deleteExpiredFile`; spec DISPATCH §4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import batchconsumequeue, consumequeue, consumequeue_ext, names
from reput.formats.rocketmq.indexfile import HEADER_SIZE, Header
from reput.sinks.upkeep.listing import bases_of, kinds, queue_directories

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings


def expired_files(root: Path, settings: BrokerSettings, min_offset: int) -> list[Path]:
    """Return the files of an output that hold nothing but expired records.

    What they held is on disk and recorded; no crash brings anything but such files back.

    Args:
        root: the output root.
        settings: file sizes.
        min_offset: physical offset where the commitlog begins.

    Raises:
        OSError: a file cannot be read.
    """
    found = []
    for path in sorted(queue_directories(root / names.CONSUMEQUEUE)):
        files = _expired_units(path, settings.consumequeue_file_size, _ENTRY, min_offset)
        found += files
        if settings.writes_ext:
            found += _expired_ext(root, path, len(files), settings, min_offset)
    for path in sorted(queue_directories(root / names.BATCH_CONSUMEQUEUE)):
        found += _expired_units(path, settings.batch_file_size, _UNIT, min_offset)
    return found + _expired_index(root / names.INDEX, min_offset)


def left_behind(root: Path, settings: BrokerSettings, firsts: Mapping[str, int]) -> list[Path]:
    """Return files from before a queue's beginning, with a gap between.

    They were removed as expired, one by one and without a sync, so a power cut may bring back one
    and not the next; a queue with a gap can be opened by nobody.

    Args:
        root: the output root.
        settings: file sizes.
        firsts: where queues begin, bytes, by directory below the root.

    Raises:
        OSError: a directory cannot be read.
    """
    found: list[Path] = []
    for name, first in firsts.items():
        size = kinds(settings)[name.partition("/")[0]][0]
        older = [base for base in reversed(bases_of(root / name)) if base < first]
        leads_on = 0
        while leads_on < len(older) and older[leads_on] == first - (leads_on + 1) * size:
            leads_on += 1
        found += [root / name / names.offset_file(base) for base in older[leads_on:]]
    return found


def firsts_without(root: Path, settings: BrokerSettings, expired: list[Path]) -> dict[str, int]:
    """Return where queues begin once these files are gone, by directory below the root."""
    sizes = {
        names.CONSUMEQUEUE: settings.consumequeue_file_size,
        names.CONSUMEQUEUE_EXT: settings.ext_file_size,
        names.BATCH_CONSUMEQUEUE: settings.batch_file_size,
    }
    firsts: dict[str, int] = {}
    for path in expired:
        name = path.parent.relative_to(root).as_posix()
        size = sizes.get(name.partition("/")[0])
        base = names.parse_offset_file(path.name)
        if size is not None and base is not None:
            firsts[name] = max(firsts.get(name, 0), base + size)
    return firsts


_ENTRY = consumequeue.ENTRY_SIZE
_UNIT = batchconsumequeue.UNIT_SIZE


def _expired_units(path: Path, file_size: int, unit_size: int, min_offset: int) -> list[Path]:
    found = []
    for file in sorted(path.iterdir())[:-1]:
        with file.open("rb") as stream:
            stream.seek(file_size - unit_size)
            last, _ = consumequeue.head_of(stream.read(consumequeue.HEAD.size))
        if last >= min_offset:
            break
        found.append(file)
    return found


def _expired_ext(
    root: Path, path: Path, gone: int, settings: BrokerSettings, min_offset: int
) -> list[Path]:
    """Return the files of a queue's extension that lie before its first live unit."""
    ext = root / names.CONSUMEQUEUE_EXT / path.relative_to(root / names.CONSUMEQUEUE)
    if not ext.is_dir():
        return []
    # The files before this one go, so the first live entry is in it, or nowhere.
    units = np.fromfile(sorted(path.iterdir())[gone], consumequeue.ENTRY)
    live = units["physical_offset"].astype(np.int64) >= min_offset
    codes = units["tags_code"][live & (units["size"] > 0)].astype(np.int64)
    if not len(codes) or not consumequeue_ext.is_address(int(codes[0])):
        return []
    first = consumequeue_ext.position(int(codes[0]))
    found = []
    for file in sorted(ext.iterdir())[:-1]:
        base = names.parse_offset_file(file.name)
        if base is None or base + settings.ext_file_size >= first:
            break
        found.append(file)
    return found


def _expired_index(directory: Path, min_offset: int) -> list[Path]:
    found: list[Path] = []
    if not directory.is_dir():
        return found
    for file in sorted(directory.iterdir())[:-1]:
        with file.open("rb") as stream:
            header = Header.unpack(stream.read(HEADER_SIZE))
        if header.end_offset >= min_offset:
            break
        found.append(file)
    return found
