"""Rolls the files of an output back to what a progress record names.

The ends of the queues and of the index are recorded after a flush, so everything up to them is on
disk. Beyond them stands what a killed writer had got to, or after a power cut any part of it: this
becomes zeros and is written again. The index's slots follow from its items: a slot holds the
newest item of its chain. Source: docs/adr/0010-one-record-after-a-flush.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.errors import FormatError
from reput.formats.kernels import indexfile as indexfile_kernels
from reput.formats.rocketmq import (
    batchconsumequeue,
    consumequeue,
    indexfile,
    names,
)
from reput.formats.rocketmq.indexfile import HEADER_SIZE, SLOT_SIZE
from reput.sinks.files.file_queue import FileQueue
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.upkeep.listing import kinds, queue_directories, remove_empty
from reput.sinks.upkeep.queue_units import REMEDY, Units, end_of_extension

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.index import IndexPosition


@dataclass
class RolledBack:
    """What a rollback removed.

    Attributes:
        entries: of consume queues and batch consume queues.
        items: of the index.
    """

    entries: int = 0
    items: int = 0


def restore(
    root: Path,
    staging: Path,
    settings: BrokerSettings,
    queues: Mapping[str, int],
    index: IndexPosition,
    ahead: Collection[str] = (),
) -> RolledBack:
    """Roll the output back to these positions, and flush that.

    Doing it twice, or again after an interruption, gives the same.

    Args:
        root: the output root.
        staging: see `MappedFile.create`.
        settings: file sizes.
        queues: see `Progress.queues`; a queue that is not named is removed.
        index: where the index ends.
        ahead: see `Progress.ahead`.

    Raises:
        FormatError: less is there than these positions say.
        OSError: the device failed.
    """
    removed = RolledBack()
    missing = set(queues)
    for kind, (file_size, unit_size) in kinds(settings).items():
        for path in queue_directories(root / kind):
            name = path.relative_to(root).as_posix()
            missing.discard(name)
            end, is_ahead = queues.get(name, 0), name in ahead
            cleared = _restore_queue(path, file_size, staging, end, is_ahead=is_ahead)
            removed.entries += -(-cleared // unit_size) if unit_size else 0
        remove_empty(root / kind)
    for name in sorted(missing):
        if queues[name] > 0:
            raise FormatError(root / name, 0, f"nothing is here, expected {queues[name]} bytes")
    removed.items = _restore_index(root / names.INDEX, settings, index)
    changes.sync_file_system(root)
    return removed


def _remove_beyond(path: Path, end: int, *, keeps_next: bool) -> int:
    """Remove a queue's files after byte `end`, whatever their size; return the bytes in them.

    A file that was made just before a power cut may have its name and nothing else.
    """
    cleared = 0
    for file in sorted(path.iterdir()):
        base = names.parse_offset_file(file.name)
        if base is not None and base >= (end + 1 if keeps_next else end):
            cleared += changes.clear(file, 0)
            changes.remove_file(file)
    return cleared


def _remake(path: Path, size: int, staging: Path) -> None:
    """Make an empty file again if it has lost its size: it was never written to."""
    if not path.is_file() or path.stat().st_size != size:
        changes.make_file(staging / "new", size)
        changes.rename(staging / "new", path)


def _restore_queue(path: Path, file_size: int, staging: Path, end: int, *, is_ahead: bool) -> int:
    """Roll a queue back to byte `end`; return how many bytes were after it."""
    cleared = _remove_beyond(path, end, keeps_next=is_ahead)
    if is_ahead:
        _remake(path / names.offset_file(end), file_size, staging)
    files = FileQueue(path, file_size, staging)
    if end == 0:
        return cleared
    if not files.bases or files.bases[-1] + file_size < end + is_ahead:
        missing = files.path((end - 1) // file_size * file_size)
        raise FormatError(missing, 0, f"no such file; the queue has {end} bytes", REMEDY)
    return cleared + changes.clear(files.path(files.bases[-1]), end - files.bases[-1])


def _restore_index(directory: Path, settings: BrokerSettings, position: IndexPosition) -> int:
    """Roll the index back; return how many items were beyond."""
    removed = 0
    found = sorted(directory.iterdir(), reverse=True) if directory.is_dir() else []
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    for path in found:
        if path.name <= position.name:
            break
        removed += _items_written(path, size)
        changes.remove_file(path)
    if not position.name:
        if directory.is_dir():
            changes.remove_directory(directory)
        return removed
    path = directory / position.name
    if not path.is_file() or path.stat().st_size != size:
        raise FormatError(path, 0, f"no index file of {size} bytes is here", REMEDY)
    file = MappedFile(path, size)
    count, slots = position.header.next_item, settings.index_slots
    try:
        file.prepare(HEADER_SIZE + slots * SLOT_SIZE)
        heads = np.zeros(slots, np.int32)
        indexfile_kernels.restore_slots(file.data, count, slots, heads)
        file.write(0, position.header.pack())
    finally:
        file.close()
    beyond = changes.clear(path, indexfile.item_position(count, slots))
    return removed + -(-beyond // indexfile.ITEM_SIZE)


def _items_written(path: Path, size: int) -> int:
    """Return how many items an index file holds, for the report."""
    if path.stat().st_size != size:
        return 0
    with path.open("rb") as file:
        header = indexfile.Header.unpack(file.read(HEADER_SIZE))
    return header.next_item - indexfile.FIRST_ITEM


def queues_before(
    root: Path,
    settings: BrokerSettings,
    queues: Mapping[str, int],
    end: int,
    lasts: Mapping[str, int],
) -> dict[str, int]:
    """Return where queues end if only records that start before `end` are in them.

    Args:
        root: the output root; its files hold what `queues` says.
        settings: file sizes.
        queues: see `Progress.queues`.
        end: physical offset.
        lasts: see `Progress.lasts`.

    Raises:
        StoreError: an extension would end in a file that was removed as expired.
    """
    before = dict(queues)
    for name, stop in queues.items():
        kind, _, rest = name.partition("/")
        if kind == names.CONSUMEQUEUE_EXT:
            continue
        unit = consumequeue.ENTRY if kind == names.CONSUMEQUEUE else batchconsumequeue.UNIT
        files = Units(root / name, kinds(settings)[kind][0], unit)
        if files.have_expired(stop) and lasts.get(name, end + 1) <= end:
            # All that it has is of records before `end`.
            continue
        position, following = files.position_before(end, stop)
        before[name] = position
        ext = f"{names.CONSUMEQUEUE_EXT}/{rest}"
        if kind == names.CONSUMEQUEUE and ext in queues:
            before[ext] = (
                end_of_extension(root / ext, settings, files, following, stop, queues[ext])
                if position
                else 0
            )
    return {name: position for name, position in before.items() if position > 0}


def queues_up_to(
    root: Path, settings: BrokerSettings, queues: Mapping[str, int], numbers: Mapping[str, int]
) -> dict[str, int]:
    """Return where queues end if some of them have only entries of lower queue offsets.

    All entries that go are of records that have expired.

    Args:
        root: the output root; its files hold what `queues` says.
        settings: file sizes.
        queues: see `Progress.queues`.
        numbers: by queue, one that ends later: the first queue offset that it does not have.
    """
    before = dict(queues)
    for name, number in numbers.items():
        if name.startswith(f"{names.BATCH_CONSUMEQUEUE}/"):
            units = Units(root / name, settings.batch_file_size, batchconsumequeue.UNIT)
            before[name] = units.end_before(number, queues[name])
            continue
        stop, following = queues[name], number * consumequeue.ENTRY_SIZE
        files = Units(root / name, settings.consumequeue_file_size, consumequeue.ENTRY)
        before[name] = following if files.has_units_before(following) else 0
        ext = name.replace(names.CONSUMEQUEUE, names.CONSUMEQUEUE_EXT, 1)
        if ext in queues:
            before[ext] = (
                end_of_extension(
                    root / ext, settings, files, following, stop, queues[ext], is_expired=True
                )
                if before[name]
                else 0
            )
    return {name: position for name, position in before.items() if position > 0}
