"""What an output still has of records that have expired from the log, for a rebuild to go on from.

A rebuild begins where the log does. In an index file, an extension or a batch queue the place of
what comes then follows from what stands before it, so the part before is copied; the entries of a
consume queue have places of their own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.rocketmq import (
    batchconsumequeue,
    consumequeue,
    consumequeue_ext,
    indexfile,
    names,
)
from reput.formats.rocketmq.consumequeue_ext import END_MARK, UNIT
from reput.formats.rocketmq.indexfile import HEADER_SIZE, SLOT_SIZE, Header
from reput.sinks.files.consumequeue_ext import end_of_units
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.upkeep.rollback import queue_directories
from reput.stores.findings import Report, Scope
from reput.stores.verify.index.compare import IndexCheck
from reput.stores.verify.index.reader import IndexReader

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record

_PIECE = 1 << 20


class IndexHead(NamedTuple):
    """The index files that begin with an item of an expired record.

    Attributes:
        kept: names of those that hold nothing else, and are sound.
        broken: of those that are damaged: what they hold cannot be made again.
        copied: the one that goes on with items of the log, "" for none.
        flushed_timestamp: end timestamp of the last one that is kept; 0 for none.
    """

    kept: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    copied: str = ""
    flushed_timestamp: int = 0


class _NoLog:
    """A log without records, see `stores.verify.index.parting.Records`."""

    other_tags_before = 0

    def columns(self, _start: int, _end: int) -> Generator[tuple[Columns, int]]:
        yield from ()

    def keys_at(self, _position: int) -> list[int] | None:
        return None

    def record_at(self, _position: int) -> Record | None:
        return None


def copy_index_head(
    root: Path,
    copy: Path,
    staging: Path,
    settings: BrokerSettings,
    floor: int,
    known: Mapping[str, Header],
) -> IndexHead:
    """Copy the index file in which the log's first key belongs, without the items from there on.

    Args:
        root: the output root.
        copy: another one, which gets the file.
        staging: of that one, see `MappedFile.create`.
        settings: slots and items of a file.
        floor: physical offset where the log begins.
        known: headers by file, as far as they were recorded.

    Raises:
        OSError: the device failed.
    """
    report = Report()
    check = IndexCheck(root, settings, Scope(floor, floor, True, True), report, _NoLog())
    replay = check.head()
    opened = replay.files[: replay.opened]
    try:
        if not opened:
            return IndexHead()
        bad = {finding.path for finding in report.findings}
        if report.found > len(report.findings):
            bad = {str(path) for path in opened}
        broken = [path.name for path in opened if str(path) in bad]
        kept = [path.name for path in opened[:-1] if str(path) not in bad]
        last = opened[-1]
        if last.name in broken or replay.reader is None:
            return _after_broken(root, copy, staging, settings, kept, broken)
        found = replay.reader.header()
        witness = known.get(last.name, found)
        header = Header(*replay.state.tolist())._replace(
            begin_timestamp=witness.begin_timestamp, end_timestamp=witness.end_timestamp
        )
        _write_index(last, copy / names.INDEX, staging, settings, header, replay.slots)
        flushed = _end_of_last(root, kept, settings)
        return IndexHead(tuple(kept), tuple(broken), last.name, flushed)
    finally:
        if replay.reader is not None:
            replay.reader.close()
            replay.reader = None


def _after_broken(
    root: Path,
    copy: Path,
    staging: Path,
    settings: BrokerSettings,
    kept: list[str],
    broken: list[str],
) -> IndexHead:
    """Copy the last file that is sound: the next one's header carries its end on."""
    if not kept:
        return IndexHead((), tuple(broken))
    source, directory = root / names.INDEX / kept[-1], copy / names.INDEX
    changes.make_directories(directory)
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    file = MappedFile.create(directory / source.name, size, staging)
    try:
        file.prepare(size)
        _copy(source, file, 0, size)
        file.flush()
    finally:
        file.close()
    flushed = _end_of_last(root, kept[:-1], settings)
    return IndexHead(tuple(kept[:-1]), tuple(broken), source.name, flushed)


def _end_of_last(root: Path, kept: list[str], settings: BrokerSettings) -> int:
    """Return the end timestamp of the last of some index files, ms; 0 for none."""
    if not kept:
        return 0
    reader = IndexReader(root / names.INDEX / kept[-1], settings)
    try:
        return reader.header().end_timestamp
    finally:
        reader.close()


def _write_index(
    source: Path,
    directory: Path,
    staging: Path,
    settings: BrokerSettings,
    header: Header,
    slots: np.ndarray,
) -> None:
    changes.make_directories(directory)
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    items_at = indexfile.item_position(0, settings.index_slots)
    end = indexfile.item_position(header.next_item, settings.index_slots)
    file = MappedFile.create(directory / source.name, size, staging)
    try:
        file.prepare(end)
        file.write(0, header.pack())
        file.write(HEADER_SIZE, slots.astype(">i4").tobytes()[: settings.index_slots * SLOT_SIZE])
        _copy(source, file, items_at, end)
        file.flush()
    finally:
        file.close()


def _copy(source: Path, file: MappedFile, start: int, end: int) -> None:
    with source.open("rb") as stream:
        for at in range(start, end, _PIECE):
            file.write(at, os.pread(stream.fileno(), min(_PIECE, end - at), at))


def copy_unit_heads(
    root: Path,
    copy: Path,
    staging: Path,
    settings: BrokerSettings,
    floor: int,
    known: Mapping[str, int],
    is_beyond: Callable[[str], bool],
) -> None:
    """Copy the files of extensions and batch queues in which the log's first units belong.

    Without those units. Where what stands before them is damaged, nothing is copied: the queue
    then begins with the log's first unit, as in a rebuild.

    Args:
        root: the output root.
        copy: another one, which gets the files.
        staging: of that one, see `MappedFile.create`.
        settings: file sizes.
        floor: physical offset where the log begins.
        known: where queues should end, as far as that was recorded.
        is_beyond: tells whether a queue is beyond the output's record: nothing of it is copied.

    Raises:
        OSError: the device failed.
    """
    size = settings.batch_file_size
    for path in sorted(queue_directories(root / names.BATCH_CONSUMEQUEUE)):
        if is_beyond(path.relative_to(root).as_posix()):
            continue
        end = _batch_head(path, size, floor)
        if end is not None:
            begins = end == bases_of(path)[0]
            _copy_head(path, copy / path.relative_to(root), staging, size, end, begins=begins)
    if not settings.writes_ext:
        return
    size = settings.ext_file_size
    for path in sorted(queue_directories(root / names.CONSUMEQUEUE)):
        rest = path.relative_to(root / names.CONSUMEQUEUE)
        ext = root / names.CONSUMEQUEUE_EXT / rest
        if is_beyond(ext.relative_to(root).as_posix()):
            continue
        at = _ext_head(path, ext, settings, floor, known.get(f"{names.CONSUMEQUEUE}/{rest}"))
        if at is not None:
            target = copy / ext.relative_to(root)
            _copy_head(ext, target, staging, size, at, begins=at == bases_of(ext)[0])


def _copy_head(
    source: Path, target: Path, staging: Path, size: int, end: int, *, begins: bool
) -> None:
    """Copy a queue's file up to byte `end` of the queue.

    Args:
        source: the queue's directory.
        target: where the copy goes.
        staging: see `MappedFile.create`.
        size: of the files.
        end: from the queue's beginning.
        begins: nothing is left before it. Otherwise, if `end` is the end of a file, that file is
            copied: the next unit has no room in it and begins another.
    """
    base = end if begins else (end - 1) // size * size
    changes.make_directories(target)
    file = MappedFile.create(target / names.offset_file(base), size, staging)
    try:
        if end > base:
            file.prepare(end - base)
            _copy(source / names.offset_file(base), file, 0, end - base)
        file.flush()
    finally:
        file.close()


def bases_of(path: Path) -> list[int]:
    """Return where the files of a queue begin."""
    try:
        listed = os.listdir(path)  # noqa: PTH208 - thousands of them: no Path for each name
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (names.parse_offset_file(name) for name in listed)
    return sorted(base for base in found if base is not None)


def _batch_head(path: Path, file_size: int, floor: int) -> int | None:
    """Return the byte where the units of expired records end, None if they are not sound."""
    bases = bases_of(path)
    last = -1
    room = file_size // batchconsumequeue.UNIT_SIZE
    end = bases[0] if bases else None
    for number, base in enumerate(bases):
        file = path / names.offset_file(base)
        if base != bases[0] + number * file_size:
            return None
        units = np.fromfile(file, batchconsumequeue.UNIT, count=room)
        offsets = units["physical_offset"].astype(np.int64)
        used = units["size"].astype(np.int64) > 0
        is_old = used & (offsets < floor)
        count = len(units) if is_old.all() else int(np.argmin(is_old))
        if count == len(units) < room:
            return None
        if count and (np.diff(offsets[:count], prepend=last) <= 0).any():
            return None
        if count:
            last = int(offsets[count - 1])
            end = base + count * batchconsumequeue.UNIT_SIZE
        if count < room:
            return end
    return end


def _ext_head(
    path: Path, ext: Path, settings: BrokerSettings, floor: int, known: int | None
) -> int | None:
    """Return where the unit of a queue's first record in the log belongs, None if nothing says it.

    Args:
        path: the consume queue.
        ext: its extension.
        settings: file sizes.
        floor: physical offset where the log begins.
        known: where the consume queue should end, None if that was not recorded.
    """
    size = settings.consumequeue_file_size
    bases = [base for base in bases_of(path) if _size(path, base) == size]
    if not bases:
        return None
    read = [np.fromfile(path / names.offset_file(base), consumequeue.ENTRY) for base in bases]
    entries = np.concatenate(read)
    entries = entries[: int(np.max(np.flatnonzero(entries["size"]), initial=-1)) + 1]
    is_live = (entries["physical_offset"] >= floor) & (entries["size"] > 0)
    # The place that best separates expired entries from live ones, as some may be damaged.
    live_before = np.concatenate([[0], np.cumsum(is_live)])
    old_after = np.concatenate([np.cumsum(~is_live[::-1])[::-1], [0]])
    first = int(np.argmin(live_before + old_after))
    room = size // consumequeue.ENTRY_SIZE
    before = bases[max(first - 1, 0) // room]
    if first < len(entries):
        if bases[first // room] > before + size:
            # The first live entry may be in the missing file between them.
            return None
        code = int(entries["tags_code"][first])
        if not consumequeue_ext.is_address(code):
            return None
        at = consumequeue_ext.position(code)
        return at if _leads_to(ext, settings.ext_file_size, at) else None
    # All of them have expired: the next unit comes after the last one.
    end = before + ((first - 1) % room + 1) * consumequeue.ENTRY_SIZE
    if known not in {None, end}:
        return None
    last = max(bases_of(ext), default=None)
    if last is None:
        return None
    try:
        end = last + end_of_units((ext / names.offset_file(last)).read_bytes())
    except ValueError:
        return None
    return end if _leads_to(ext, settings.ext_file_size, end) else None


def _size(path: Path, base: int) -> int:
    return (path / names.offset_file(base)).stat().st_size


def _leads_to(path: Path, file_size: int, position: int) -> bool:
    """Tell whether the units of an extension, from its first file on, end at a position."""
    bases = bases_of(path)
    if not bases:
        return False
    at = bases[0]
    data, base = b"", -1
    while at < position:
        if base != at - at % file_size:
            base = at - at % file_size
            file = path / names.offset_file(base)
            if not file.is_file() or file.stat().st_size != file_size:
                return False
            data = file.read_bytes()
        size = int.from_bytes(data[at - base : at - base + 2], "big", signed=True)
        if data[at - base : at - base + 2] == END_MARK or at - base + len(END_MARK) > file_size:
            at = base + file_size
        elif size < UNIT.size:
            return False
        else:
            at += size
    return at == position
