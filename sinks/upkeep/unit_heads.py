"""The units that an output still has of expired records: of its extensions and batch queues.

The place of the log's first unit follows from the units before it, so a rebuild gets a copy of the
file that they stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.rocketmq import (
    batchconsumequeue,
    consumequeue,
    consumequeue_ext,
    names,
)
from reput.formats.rocketmq.consumequeue_ext import END_MARK, UNIT
from reput.sinks.files.consumequeue_ext import end_of_units
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.upkeep.listing import bases_of, queue_directories, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings


class UnitHeads:
    """Copies the files that the log's first units belong into, up to those units.

    If what stands before them is damaged, nothing is copied: the queue then begins with the log's
    first unit, as in a rebuild.
    """

    def __init__(
        self,
        root: Path,
        copy: Path,
        staging: Path,
        settings: BrokerSettings,
        floor: int,
        is_beyond: Callable[[str], bool],
    ) -> None:
        """Look at nothing yet.

        Args:
            root: the output root.
            copy: the root that gets the files.
            staging: see `MappedFile.create`; of the copy.
            settings: file sizes.
            floor: physical offset where the log begins.
            is_beyond: tells whether a queue is beyond the output's record: nothing of it is copied.
        """
        self._root = root
        self._copy = copy
        self._staging = staging
        self._settings = settings
        self._floor = floor
        self._is_beyond = is_beyond

    def copy_batches(self) -> None:
        """Copy files of batch queues.

        Raises:
            OSError: the device failed.
        """
        size = self._settings.batch_file_size
        for path in sorted(queue_directories(self._root / names.BATCH_CONSUMEQUEUE)):
            if self._is_beyond(path.relative_to(self._root).as_posix()):
                continue
            end = _batch_head(path, size, self._floor)
            if end is not None:
                self._copy_head(path, size, end)

    def copy_extensions(self, known: Mapping[str, int]) -> None:
        """Copy files of extensions.

        Args:
            known: where consume queues should end, as far as that was recorded.

        Raises:
            OSError: the device failed.
        """
        for path in sorted(queue_directories(self._root / names.CONSUMEQUEUE)):
            rest = path.relative_to(self._root / names.CONSUMEQUEUE)
            ext = self._root / names.CONSUMEQUEUE_EXT / rest
            if self._is_beyond(ext.relative_to(self._root).as_posix()):
                continue
            end = known.get(f"{names.CONSUMEQUEUE}/{rest}")
            at = _ext_head(path, ext, self._settings, self._floor, end)
            if at is not None:
                self._copy_head(ext, self._settings.ext_file_size, at)

    def _copy_head(self, source: Path, size: int, end: int) -> None:
        """Copy a queue's file up to byte `end` of the queue.

        If `end` is the end of a file, that file is copied: the next unit has no room in it and
        begins another. But if nothing is left before `end`, the copy begins there.
        """
        base = end if end == bases_of(source)[0] else (end - 1) // size * size
        target = self._copy / source.relative_to(self._root)
        changes.make_directories(target)
        file = MappedFile.create(target / names.offset_file(base), size, self._staging)
        try:
            if end > base:
                file.prepare(end - base)
                file.copy_from(source / names.offset_file(base), 0, end - base)
            file.flush()
        finally:
            file.close()


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
    bases = [base for base in bases_of(path) if size_of(path, base) == size]
    if not bases:
        return None
    entries = _entries(path, bases)
    first = _first_live(entries, floor)
    room = size // consumequeue.ENTRY_SIZE
    before = bases[max(first - 1, 0) // room]
    if first == len(entries):
        # All of them have expired: the next unit comes after the last one.
        end = before + ((first - 1) % room + 1) * consumequeue.ENTRY_SIZE
        at = _end_of_extension(ext) if known in {None, end} else None
    elif bases[first // room] > before + size:
        # The first live entry may be in the missing file between them.
        return None
    else:
        code = int(entries["tags_code"][first])
        is_address = consumequeue_ext.is_address(code)
        at = consumequeue_ext.position(code) if is_address else None
    return at if at is not None and _leads_to(ext, settings.ext_file_size, at) else None


def _entries(path: Path, bases: list[int]) -> NDArray[np.void]:
    """Return the entries of a queue's files, up to the last one that is written."""
    read = [np.fromfile(path / names.offset_file(base), consumequeue.ENTRY) for base in bases]
    entries = np.concatenate(read)
    return entries[: int(np.max(np.flatnonzero(entries["size"]), initial=-1)) + 1]


def _first_live(entries: NDArray[np.void], floor: int) -> int:
    """Return the number that best separates expired entries from live ones: some may be damaged."""
    is_live = (entries["physical_offset"] >= floor) & (entries["size"] > 0)
    live_before = np.concatenate([[0], np.cumsum(is_live)])
    old_after = np.concatenate([np.cumsum(~is_live[::-1])[::-1], [0]])
    return int(np.argmin(live_before + old_after))


def _end_of_extension(ext: Path) -> int | None:
    """Return where the units of an extension's last file end, None if it has none that is sound."""
    last = max(bases_of(ext), default=None)
    if last is None:
        return None
    try:
        return last + end_of_units((ext / names.offset_file(last)).read_bytes())
    except ValueError:
        return None


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
        size = consumequeue_ext.size_of(data[at - base : at - base + len(END_MARK)])
        if size == consumequeue_ext.ENDED or at - base + len(END_MARK) > file_size:
            at = base + file_size
        elif size < UNIT.size:
            return False
        else:
            at += size
    return at == position
