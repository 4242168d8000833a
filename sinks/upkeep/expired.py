"""What an output still has of its queues' expired records, as far as that is sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes as disk
from reput.formats.rocketmq import commitlog, names
from reput.formats.rocketmq.batchconsumequeue import UNIT
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, PRE_BLANK
from reput.sinks.files.consumequeue_ext import end_of_units
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.upkeep.listing import bases_of, kinds, size_of
from reput.sinks.upkeep.plan import LOST, REMOVED, REPLACED, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings


class ExpiredUnits:
    """Looks at entries and units that no record of the log says anything of."""

    def __init__(
        self,
        root: Path,
        copy: Path,
        settings: BrokerSettings,
        floor: int,
        known: Mapping[str, int],
        plan: Plan,
    ) -> None:
        """Look at nothing yet.

        Args:
            root: the output root.
            copy: the rebuild's.
            settings: file sizes.
            floor: physical offset where the log begins.
            known: where the output's queues should end, as far as that was recorded.
            plan: gets what has to be done.
        """
        self._root = root
        self._copy = copy
        self._settings = settings
        self._floor = floor
        self._known = known
        self._plan = plan
        # The queues that the rebuild has.
        self.made: frozenset[str] = frozenset()

    def keep_head(self, path: Path, copy: Path, first: int, size: int) -> list[int]:
        """Copy the entries of expired records that are still sound into the rebuild's first file.

        Returns:
            Where the files before it begin, of those that stay.
        """
        made = np.fromfile(copy / names.offset_file(first), ENTRY)
        fill = np.frombuffer(PRE_BLANK, ENTRY)[0]
        is_fill = made == fill
        lead = len(made) if is_fill.all() else int(np.argmin(is_fill))
        older = [base for base in reversed(bases_of(path)) if base < first]
        found = _entries(path, first, size)[:lead]
        good = self._sound_from(found, lead, self._floor)
        limit = int(found["physical_offset"][good]) if good < lead else self._floor
        if good < lead:
            self._write_head(copy / names.offset_file(first), found, good)
        if good:
            is_gap = bool(older) or (len(found) == lead and not (found[:good] == fill).all())
            name = path.relative_to(self._root).as_posix()
            if is_gap or (len(found) < lead and name in self._known):
                detail = f"{good} entries of expired records are not there, or not sound"
                self._plan.add(LOST, path / names.offset_file(first), detail)
            self._drop(path, older)
            return []
        for number, base in enumerate(older):
            entries = _entries(path, base, size)
            count = size // ENTRY_SIZE
            is_next = base == first - (number + 1) * size
            good = self._sound_from(entries, count, limit) if is_next else count
            is_oldest = number == len(older) - 1 and bool((entries[:good] == fill).all())
            if good == count or (good and not is_oldest):
                self._drop(path, older[number:])
                return sorted(older[:number])
            limit = int(entries["physical_offset"][good])
        return sorted(older)

    def _drop(self, path: Path, bases: Sequence[int]) -> None:
        """Remove files of expired records before a missing or damaged file."""
        for base in sorted(bases):
            file = path / names.offset_file(base)
            detail = "of expired records, damaged or before a damaged file"
            self._plan.add(LOST, file, detail)
            self._plan.add(REMOVED, file, detail)

    def _sound_from(self, entries: NDArray[np.void], count: int, limit: int) -> int:
        """Return from which number on all entries before `count` may be of expired records."""
        if len(entries) < count:
            return count
        offset = entries["physical_offset"].astype(np.int64)
        size = entries["size"].astype(np.int64)
        good = (offset >= 0) & (size >= commitlog.MIN_SIZE)
        good &= (size <= self._settings.max_record_size) & (offset + size <= limit)
        good[:-1] &= offset[:-1] + size[:-1] <= offset[1:]
        bad = np.flatnonzero(~good)
        return int(bad[-1]) + 1 if len(bad) else 0

    def _write_head(self, path: Path, entries: NDArray[np.void], start: int) -> None:
        file = MappedFile(path, path.stat().st_size)
        try:
            file.prepare(len(entries) * ENTRY_SIZE)
            file.write(start * ENTRY_SIZE, entries[start:].tobytes())
            file.flush(0, len(entries) * ENTRY_SIZE)
        finally:
            file.close()

    def end_of(self, name: str, path: Path, bases: list[int]) -> int:
        """Return where a queue of expired records ends, 0 if it is damaged."""
        kind = name.partition("/")[0]
        size, unit = kinds(self._settings)[kind]
        whole = list(range(bases[0], bases[-1] + size, size))
        if bases != whole or any(size_of(path, base) != size for base in bases):
            return 0
        if not unit:
            return self._end_of_units(name, path, bases[-1])
        dtype = ENTRY if kind == names.CONSUMEQUEUE else UNIT
        room = size // unit
        units = np.concatenate(
            [np.fromfile(path / names.offset_file(base), dtype, count=room) for base in bases]
        )
        known = self._known.get(name)
        raw = np.frombuffer(units.tobytes(), np.uint8).reshape(-1, unit)
        used: NDArray[np.bool_] = np.any(raw, axis=1)
        count = int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0
        if known is not None:
            count = (known // size - bases[0] // size) * room + known % size // unit
        if not 0 < count <= len(units) or not self._is_sound(units[:count], kind):
            return 0
        last = bases[0] + (count - 1) // room * size
        end = last + ((count - 1) % room + 1) * unit
        for base in bases:
            if base >= end:
                self._plan.remove(path, [base], "a file beyond the queue's end")
        if used[count : (last - bases[0]) // size * room + room].any():
            self._clean(path / names.offset_file(last), name, end - last)
        return end

    def _is_sound(self, units: NDArray[np.void], kind: str) -> bool:
        """Tell whether these may be the units of a queue whose records have all expired."""
        if kind == names.CONSUMEQUEUE:
            good = self._sound_from(units, len(units), self._floor)
            fill = np.frombuffer(PRE_BLANK, ENTRY)[0]
            return good < len(units) and bool((units[:good] == fill).all())
        offsets = units["physical_offset"].astype(np.int64)
        is_sound = (units["size"] > 0).all() and (np.diff(offsets, prepend=-1) > 0).all()
        return bool(is_sound) and int(offsets[-1]) < self._floor

    def _clean(self, path: Path, name: str, end: int) -> None:
        """Zero a file from a byte on: nothing after it belongs to a record."""
        source = self._copy / name / path.name
        disk.make_directories(source.parent)
        raw = path.read_bytes()
        disk.write_file(source, raw[:end].ljust(len(raw), b"\0"))
        self._plan.add(
            REPLACED, path, f"there were bytes after the queue's end at byte {end}", source
        )

    def _end_of_units(self, name: str, path: Path, last: int) -> int:
        queue = f"{names.CONSUMEQUEUE}/{name.partition('/')[2]}"
        if queue not in self._plan.queues and queue not in self.made:
            return 0
        raw = (path / names.offset_file(last)).read_bytes()
        known = self._known.get(name)
        try:
            end = end_of_units(raw)
        except ValueError:
            end = -1
        if known is not None and end != known - last:
            return 0
        if end > 0 and any(raw[end:]):
            self._clean(path / names.offset_file(last), name, end)
        return last + end if end >= 0 else 0


def _entries(path: Path, base: int, size: int) -> NDArray[np.void]:
    """Return the entries of a file, none if it is missing or has another size."""
    if size_of(path, base) != size:
        return np.zeros(0, ENTRY)
    return np.fromfile(path / names.offset_file(base), ENTRY)
