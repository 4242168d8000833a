"""Makes the files of an output hold what a record of progress names, and nothing beyond.

Where a queue ends, and the index, was recorded after a flush, so up to there everything is on
disk. What stands beyond is what a killed writer had got to, and after a power cut any part of it:
it becomes zeros again and is written anew. The index's slots follow from its items: a slot holds
the newest item of its chain. Source: docs/adr/0010-one-record-after-a-flush.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.errors import FormatError, StoreError
from reput.formats.kernels import indexfile as indexfile_kernels
from reput.formats.rocketmq import (
    batchconsumequeue,
    consumequeue,
    consumequeue_ext,
    indexfile,
    names,
)
from reput.formats.rocketmq.consumequeue import PRE_BLANK
from reput.formats.rocketmq.indexfile import HEADER_SIZE, SLOT_SIZE
from reput.sinks.files.file_queue import FileQueue
from reput.sinks.files.mapped_file import MappedFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.index import IndexPosition

_REMEDY = "Somebody has removed it; remove the output and rebuild it."


@dataclass
class Taken:
    """What was taken back.

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
) -> Taken:
    """Take back all that is beyond these positions, and have that on disk.

    Doing it twice, or again after it was cut off, gives the same.

    Args:
        root: the output root.
        staging: see `MappedFile.create`.
        settings: file sizes.
        queues: see `Progress.queues`; a queue that is not named has to go.
        index: where the index ends.
        ahead: see `Progress.ahead`.

    Raises:
        FormatError: less is there than these positions say.
        OSError: the device failed.
    """
    taken = Taken()
    missing = set(queues)
    for kind, (file_size, unit_size) in kinds(settings).items():
        for path in queue_directories(root / kind):
            name = path.relative_to(root).as_posix()
            missing.discard(name)
            cleared = _remove_beyond(path, queues.get(name, 0), keeps_next=name in ahead)
            if name in ahead:
                _remake(path / names.offset_file(queues[name]), file_size, staging)
            files = FileQueue(path, file_size, staging)
            cleared += _restore_queue(files, queues.get(name, 0), is_ahead=name in ahead)
            taken.entries += -(-cleared // unit_size) if unit_size else 0
        remove_empty(root / kind)
    for name in sorted(missing):
        if queues[name] > 0:
            raise FormatError(root / name, 0, f"nothing is here, expected {queues[name]} bytes")
    taken.items = _restore_index(root / names.INDEX, settings, index)
    changes.sync_file_system(root)
    return taken


def kinds(settings: BrokerSettings) -> dict[str, tuple[int, int]]:
    """Return file size and unit size by kind of queue; 0 for units of any size."""
    return {
        names.CONSUMEQUEUE: (settings.consumequeue_file_size, consumequeue.ENTRY_SIZE),
        names.CONSUMEQUEUE_EXT: (settings.ext_file_size, 0),
        names.BATCH_CONSUMEQUEUE: (settings.batch_file_size, batchconsumequeue.UNIT_SIZE),
    }


def queue_directories(base: Path) -> Iterator[Path]:
    """Yield the directory of every queue below `base`: those that have files in them."""
    for directory, _, files in os.walk(base):
        if files:
            yield Path(directory)


def _remove_beyond(path: Path, end: int, *, keeps_next: bool) -> int:
    """Remove the files of a queue behind byte `end`; return how many bytes were in them.

    Of any size: a file that was made just before a power cut may have its name and nothing else.
    """
    cleared = 0
    for file in sorted(path.iterdir()):
        base = names.parse_offset_file(file.name)
        if base is not None and base >= (end + 1 if keeps_next else end):
            cleared += changes.clear(file, 0)
            changes.remove_file(file)
    return cleared


def _remake(path: Path, size: int, staging: Path) -> None:
    """Make an empty file anew that has lost its size: it was made and never written to."""
    if not path.is_file() or path.stat().st_size != size:
        changes.make_file(staging / "new", size)
        changes.rename(staging / "new", path)


def _restore_queue(files: FileQueue, end: int, *, is_ahead: bool) -> int:
    """Have zeros behind byte `end` of a queue; return how many bytes were there."""
    if end == 0:
        return 0
    if not files.bases or files.bases[-1] + files.file_size < end + is_ahead:
        path = files.path((end - 1) // files.file_size * files.file_size)
        raise FormatError(path, 0, f"no such file; the queue has {end} bytes", _REMEDY)
    return changes.clear(files.path(files.bases[-1]), end - files.bases[-1])


def remove_empty(base: Path) -> None:
    """Remove the directories in which nothing is left, also those of an earlier, unfinished try."""
    for directory, _, _ in os.walk(base, topdown=False):
        if not os.listdir(directory):  # noqa: PTH208 - thousands of them: no Path for each name
            changes.remove_directory(Path(directory))


def _restore_index(directory: Path, settings: BrokerSettings, position: IndexPosition) -> int:
    """Take the index back; return how many items were beyond."""
    taken = 0
    found = sorted(directory.iterdir(), reverse=True) if directory.is_dir() else []
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    for path in found:
        if path.name <= position.name:
            break
        taken += _items_written(path, size)
        changes.remove_file(path)
    if not position.name:
        if directory.is_dir():
            changes.remove_directory(directory)
        return taken
    path = directory / position.name
    if not path.is_file() or path.stat().st_size != size:
        raise FormatError(path, 0, f"no index file of {size} bytes is here", _REMEDY)
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
    return taken + -(-beyond // indexfile.ITEM_SIZE)


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
        files = _Units(root / name, kinds(settings)[kind][0], unit)
        if files.have_expired(stop) and lasts.get(name, end + 1) <= end:
            # All that it has is of records before `end`.
            continue
        position, following = files.position_before(end, stop)
        before[name] = position
        ext = f"{names.CONSUMEQUEUE_EXT}/{rest}"
        if kind == names.CONSUMEQUEUE and ext in queues:
            before[ext] = (
                _ext_end(root / ext, settings, files, following, stop, queues[ext])
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
            units = _Units(root / name, settings.batch_file_size, batchconsumequeue.UNIT)
            before[name] = units.end_before(number, queues[name])
            continue
        stop, following = queues[name], number * consumequeue.ENTRY_SIZE
        files = _Units(root / name, settings.consumequeue_file_size, consumequeue.ENTRY)
        before[name] = following if files.has_units_before(following) else 0
        ext = name.replace(names.CONSUMEQUEUE, names.CONSUMEQUEUE_EXT, 1)
        if ext in queues:
            before[ext] = (
                _ext_end(root / ext, settings, files, following, stop, queues[ext], is_expired=True)
                if before[name]
                else 0
            )
    return {name: position for name, position in before.items() if position > 0}


def _ext_end(
    path: Path,
    settings: BrokerSettings,
    files: _Units,
    following: int,
    stop: int,
    end: int,
    *,
    is_expired: bool = False,
) -> int:
    """Return where an extension ends without the units of entries from byte `following` on.

    Where it would end in a file that was removed as expired it begins again, as in a rebuild: the
    units of all entries that stay were removed too.

    Args:
        path: of the extension.
        settings: file sizes.
        files: the consume queue; it keeps entries.
        following: byte of the first entry that goes.
        stop: byte where the queue ends.
        end: byte where the extension ends.
        is_expired: the records of the entries that go have expired, so their units may be gone.

    Raises:
        StoreError: the unit of an entry that goes was removed though its record is there.
    """
    codes = (int(code) for code in files.codes_from(following, stop))
    address = next((code for code in codes if consumequeue_ext.is_address(code)), None)
    if address is None:
        return end
    size = settings.ext_file_size
    place = consumequeue_ext.position(address)
    file = path / names.offset_file(place - place % size)
    if not file.exists():
        if is_expired:
            return 0
        raise StoreError(
            file,
            "this file was removed when its records had expired, and the log, which was set back "
            "or cut since, ends in them now",
            "`reput rebuild --repair` with the same store and output makes it again from the log",
        )
    last = files.code_before(following)
    if place % size == 0 and last is not None:
        # The unit did not fit into the file before: its mark there goes with it.
        place = _unit_end(path, size, last, place)
    if place and not (path / names.offset_file((place - 1) // size * size)).exists():
        return 0
    return place


def _unit_end(path: Path, file_size: int, code: int, place: int) -> int:
    """Return where the unit of an entry ends; `place` if the entry has none, or it has expired.

    Raises:
        FormatError: no unit stands where the entry says.
    """
    if not consumequeue_ext.is_address(code):
        return place
    start = consumequeue_ext.position(code)
    file = path / names.offset_file(start - start % file_size)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return place
    try:
        unit = consumequeue_ext.unpack(data, start % file_size)
    except ValueError as error:
        raise FormatError(file, start % file_size, str(error), _REMEDY) from error
    return place if unit is None else start + unit.size


class _Units:
    """The units of a queue, to be searched by the physical offsets in them."""

    def __init__(self, path: Path, file_size: int, unit: np.dtype[np.void]) -> None:
        self._path = path
        self._file_size = file_size
        self._unit = unit
        self._bases = [
            base
            for entry in sorted(path.iterdir())
            if (base := names.parse_offset_file(entry.name)) is not None
        ]

    def position_before(self, end: int, stop: int) -> tuple[int, int]:
        """Return where the units of records before `end` end, and where the next one begins.

        These are the same, except where nothing is left but the fill before a queue's first unit,
        which belongs to it: then the queue ends at 0.
        """
        for base in reversed(self._bases):
            units = self._read(base, stop)
            offsets = units["physical_offset"].astype(np.int64)
            count = int(np.searchsorted(offsets, end))
            if not count:
                continue
            at = base + count * self._unit.itemsize
            fill = np.frombuffer(PRE_BLANK, consumequeue.ENTRY)[0]
            is_fill = self._unit is consumequeue.ENTRY and units[count - 1] == fill
            return (0 if is_fill else at), at
        return 0, self._bases[0] if self._bases else 0

    def have_expired(self, stop: int) -> bool:
        """Tell whether the files of all units before byte `stop` were removed as expired."""
        return bool(self._bases) and stop <= self._bases[0]

    def has_units_before(self, position: int) -> bool:
        """Tell whether a unit of a record stands before byte `position`, and not only fill."""
        if not self._bases or position <= self._bases[0]:
            return False
        start = position - self._unit.itemsize
        last = self._read(start - start % self._file_size, position)[-1]
        return bool(last != np.frombuffer(PRE_BLANK, consumequeue.ENTRY)[0])

    def end_before(self, queue_offset: int, stop: int) -> int:
        """Return where the units of a batch queue end that have only lower queue offsets."""
        for base in self._bases:
            units = self._read(base, stop)
            ends = units["base_offset"].astype(np.int64) + units["batch_size"]
            (others,) = np.nonzero(ends > queue_offset)
            if len(others):
                at = base + int(others[0]) * self._unit.itemsize
                return at if at > self._bases[0] else 0
        return stop

    def codes_from(self, position: int, stop: int) -> Iterator[int]:
        """Yield the tags codes of the units from byte `position` on."""
        for base in self._bases:
            if base + self._file_size > position:
                units = self._read(base, stop)
                yield from units["tags_code"][max(position - base, 0) // self._unit.itemsize :]

    def code_before(self, position: int) -> int | None:
        """Return the tags code of the unit before byte `position`, None if there is none."""
        start = position - self._unit.itemsize
        base = start - start % self._file_size
        if base not in self._bases:
            return None
        return int(self._read(base, position)["tags_code"][-1])

    def _read(self, base: int, stop: int) -> np.ndarray:
        path = self._path / names.offset_file(base)
        room = min(self._file_size, max(stop - base, 0)) // self._unit.itemsize
        return np.fromfile(path, self._unit, count=room)
