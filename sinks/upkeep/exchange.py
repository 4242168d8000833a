"""Puts files of a rebuild in the place of those of an output that are missing or different.

The rebuild stands in a directory of its own in the output, on disk. `plan` compares and changes
nothing but the rebuild: what the output still has of expired records comes into its files.
`apply` renames and removes. If it is interrupted anywhere and run again with another rebuild, it
ends the same, for what was exchanged before is then equal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.checkpoints.disk import changes as disk
from reput.formats.errors import StoreError
from reput.formats.rocketmq import commitlog, names
from reput.formats.rocketmq.batchconsumequeue import UNIT
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, PRE_BLANK
from reput.formats.rocketmq.indexfile import HEADER_SIZE, Header
from reput.sinks.files.consumequeue_ext import end_of_units
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.upkeep.heads import bases_of
from reput.sinks.upkeep.rollback import kinds, queue_directories, remove_empty
from reput.stores.findings import Report
from reput.stores.verify.index.reader import index_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.upkeep.heads import IndexHead

MADE, REPLACED, REMOVED, LOST = "made", "replaced", "removed", "lost"
_PIECE = 1 << 20


class Change(NamedTuple):
    """What is done about a file.

    Attributes:
        what: one of the constants above; lost: what it held of expired records is in no file.
        path: of the output.
        detail: why.
        source: the rebuild's file that replaces it.
    """

    what: str
    path: Path
    detail: str
    source: Path | None = None


@dataclass
class Plan:
    """What has to be done.

    Attributes:
        changes: to files of the output.
        kept: files that are right.
        in_the_way: files and the like that stand where a directory belongs; they go first.
        queues: where queues end that only expired records are in, by directory below the root.
        index_names: of the rebuild's index files: what they are called in the output.
        has_common: something in the output is of this log, or nothing was there.
    """

    changes: list[Change] = field(default_factory=list)
    kept: int = 0
    in_the_way: list[Path] = field(default_factory=list)
    queues: dict[str, int] = field(default_factory=dict)
    index_names: dict[str, str] = field(default_factory=dict)
    has_common: bool = True


class Exchange:
    """Compares an output with a rebuild of it."""

    def __init__(
        self,
        root: Path,
        copy: Path,
        staging: Path,
        settings: BrokerSettings,
        floor: int,
        known: Mapping[str, int],
        is_beyond: Callable[[str], bool],
    ) -> None:
        """Look at nothing yet.

        Args:
            root: the output root.
            copy: the rebuild's.
            staging: see `MappedFile.create`; of the rebuild.
            settings: file sizes.
            floor: physical offset where the log begins, and the rebuild.
            known: where the output's queues should end, as far as that was recorded.
            is_beyond: tells whether a queue is beyond the output's record: nothing of it is kept.
        """
        self._root = root
        self._copy = copy
        self._staging = staging
        self._settings = settings
        self._floor = floor
        self._known = known
        self._is_beyond = is_beyond
        self._plan = Plan()
        self._common = self._compared = 0
        self._made: frozenset[str] = frozenset()

    def plan(
        self, queues: Mapping[str, int], index: IndexHead, recorded: Mapping[str, Header]
    ) -> Plan:
        """Compare all files.

        Args:
            queues: where those of the rebuild end, by directory below the root.
            index: what the output has of expired records in its index.
            recorded: index files that the output should have, as far as that was recorded.

        Raises:
            StoreError: something stands where a file or a directory has to come.
            OSError: the device failed.
        """
        self._made = frozenset(queues)
        for name in sorted(self._made):
            self._compare_queue(name)
            follows = name.startswith((names.CONSUMEQUEUE_EXT, names.BATCH_CONSUMEQUEUE))
            if self._floor and follows and queues[name] < self._known.get(name, 0):
                detail = "units of expired records are damaged: it begins with the log's first"
                self._add(LOST, self._root / name, detail)
        for kind in kinds(self._settings):
            for path in sorted(queue_directories(self._root / kind)):
                name = path.relative_to(self._root).as_posix()
                if name not in self._made:
                    self._compare_other(name, path)
        self._compare_index(index, recorded)
        self._plan.has_common = self._common > 0 or self._compared == 0
        return self._plan

    def _add(self, what: str, path: Path, detail: str, source: Path | None = None) -> None:
        self._plan.changes.append(Change(what, path, detail, source))

    def _compare_queue(self, name: str) -> None:
        path, copy = self._root / name, self._copy / name
        self._clear_way(path)
        size = kinds(self._settings)[name.partition("/")[0]][0]
        there, made = set(bases_of(path)), bases_of(copy)
        older = [base for base in sorted(there) if made and base < made[0]]
        keeps = self._keeps(name)
        if keeps and name.startswith(f"{names.CONSUMEQUEUE}/") and made:
            older = self._keep_head(path, copy, made[0], size)
        elif older and (not keeps or not self._leads_on(path, older, made, size)):
            self._remove(path, older, "files before the queue's first record")
            older = []
        self._plan.kept += len(older)
        for base in made:
            file = names.offset_file(base)
            self._compare_file(path / file, copy / file, has_entries=True)
        beyond = [base for base in sorted(there) if made and base > made[-1]]
        self._remove(path, beyond, "a file beyond the queue's end")

    def _keeps(self, name: str) -> bool:
        """Tell whether what is sound of a queue's expired records stays."""
        return bool(self._floor) and not self._is_beyond(name)

    def _leads_on(self, path: Path, older: list[int], made: list[int], size: int) -> bool:
        """Tell whether files before those of the rebuild are without a gap, and of their size."""
        wanted = list(range(older[0], made[0], size))
        return older == wanted and all(_size(path, base) == size for base in older)

    def _remove(self, path: Path, bases: Sequence[int], detail: str) -> None:
        for base in bases:
            self._add(REMOVED, path / names.offset_file(base), detail)

    def _clear_way(self, path: Path) -> None:
        """Have what stands in the place of a directory, or of one above it, go."""
        above = [each for each in path.parents if each.is_relative_to(self._root)][:-1]
        for each in (path, *above):
            # A link to nowhere is in the way as well.
            if os.path.lexists(each) and not each.is_dir() and each not in self._plan.in_the_way:
                self._plan.in_the_way.append(each)
                self._add(REMOVED, each, "it stands where a directory belongs")

    def _compare_file(self, target: Path, source: Path, *, has_entries: bool = False) -> None:
        if not target.exists():
            self._add(MADE, target, "no such file", source)
            return
        if target.is_dir():
            raise StoreError(target, "a directory stands where a file belongs", "Move it away")
        self._compared += 1
        size, expected = target.stat().st_size, source.stat().st_size
        if size != expected:
            detail = f"the file had {size} bytes, expected {expected}"
            self._add(REPLACED, target, detail, source)
            self._common += has_entries and _is_alike(target, source)
            return
        at = first_difference(target, source)
        if at is None:
            self._plan.kept += 1
            self._common += 1
            return
        self._common += has_entries and _is_alike(target, source)
        self._add(REPLACED, target, f"different from byte {at} on", source)

    def _keep_head(self, path: Path, copy: Path, first: int, size: int) -> list[int]:
        """Copy the entries of expired records that are still sound into the rebuild's first file.

        Returns:
            Where the files before it begin that stay.
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
                self._add(LOST, path / names.offset_file(first), detail)
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
        """Remove files of expired records that a missing or damaged file follows."""
        for base in sorted(bases):
            file = path / names.offset_file(base)
            detail = "of expired records, damaged or before a damaged file"
            self._add(LOST, file, detail)
            self._add(REMOVED, file, detail)

    def _sound_from(self, entries: NDArray[np.void], count: int, limit: int) -> int:
        """Return the number from which on all entries before `count` may be of expired records."""
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

    def _compare_other(self, name: str, path: Path) -> None:
        """Look at a queue that no record of the log is in."""
        bases = bases_of(path)
        if not bases:
            return
        keeps = self._keeps(name)
        end = self._end_of_expired(name, path, bases) if keeps else 0
        if end:
            self._plan.queues[name] = end
            self._plan.kept += len(bases)
            return
        detail = "no record of the log is in this queue"
        if self._is_beyond(name):
            detail += ", nor is the queue in the progress record"
        for base in bases:
            if keeps:
                self._add(LOST, path / names.offset_file(base), "of expired records, damaged")
            self._add(REMOVED, path / names.offset_file(base), detail)

    def _end_of_expired(self, name: str, path: Path, bases: list[int]) -> int:
        """Return where a queue of expired records ends, 0 if it is damaged."""
        kind = name.partition("/")[0]
        size, unit = kinds(self._settings)[kind]
        whole = list(range(bases[0], bases[-1] + size, size))
        if bases != whole or any(_size(path, base) != size for base in bases):
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
                self._remove(path, [base], "a file beyond the queue's end")
        if used[count : (last - bases[0]) // size * room + room].any():
            self._clean(path / names.offset_file(last), name, end - last)
        return end

    def _is_sound(self, units: NDArray[np.void], kind: str) -> bool:
        """Tell whether these may be the units of a queue of which all records have expired."""
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
        self._add(REPLACED, path, f"there were bytes after the queue's end at byte {end}", source)

    def _end_of_units(self, name: str, path: Path, last: int) -> int:
        queue = f"{names.CONSUMEQUEUE}/{name.partition('/')[2]}"
        if queue not in self._plan.queues and queue not in self._made:
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

    def _compare_index(self, head: IndexHead, recorded: Mapping[str, Header]) -> None:
        directory, copy = self._root / names.INDEX, self._copy / names.INDEX
        if self._settings.writes_index:
            self._clear_way(directory)
        for name, header in sorted(recorded.items()):
            has_both = header.begin_offset < self._floor <= header.end_offset
            if has_both and name not in {*head.broken, *head.kept, head.copied}:
                self._add(LOST, directory / name, "items of expired records, not there")
        for name in head.broken:
            self._add(LOST, directory / name, "items of expired records, damaged")
        there = [path.name for path in index_files(directory, self._settings, Report())]
        there = [name for name in there if name not in head.kept]
        made = sorted(path.name for path in copy.iterdir()) if copy.is_dir() else []
        self._plan.kept += len(head.kept)
        called = self._call_index(there, made, sorted(set(recorded) - set(there)), head.kept)
        self._plan.index_names = called
        for name in made:
            self._compare_file(directory / called[name], copy / name)
        for name in there:
            if name not in called.values():
                self._add(REMOVED, directory / name, "no item of the log is in this file")

    def _call_index(
        self, there: list[str], made: list[str], gone: list[str], kept: Sequence[str]
    ) -> dict[str, str]:
        """Return what the rebuild's index files are called in the output: only their order counts.

        A file that is right keeps its name. Between two of these, others take the names of those
        that are damaged or were recorded, as far as there are any.
        """
        directory, copy = self._root / names.INDEX, self._copy / names.INDEX
        called: dict[str, str] = {}
        before = max(kept, default="")
        waiting: list[str] = []
        left = list(there)
        for name in made:
            same = next((e for e in left if _is_same(directory / e, copy / name)), None)
            if same is None:
                waiting.append(name)
                continue
            pool = sorted(e for e in {*left, *gone} if before < e < same)
            given = _names_between(before, same, pool, len(waiting))
            if given is None:
                # No name is free before it: the file is made again under a later name.
                waiting.append(name)
                continue
            called |= dict(zip(waiting, given, strict=True))
            waiting = []
            called[name] = before = same
            left = [e for e in left if e > same]
        pool = sorted(e for e in {*left, *gone} if e > before)
        for name in waiting:
            called[name] = before = pool.pop(0) if pool else max(name, _after(before))
        return called


def _after(name: str) -> str:
    return f"{int(name or 0) + 1:0{names.INDEX_DIGITS}d}"


def _names_between(before: str, after: str, pool: list[str], count: int) -> list[str] | None:
    """Return `count` names between two, from a pool if it has enough; None if there is no room."""
    if len(pool) >= count:
        return pool[:count]
    low, high = int(before or 0), int(after)
    if high - low <= count:
        return None
    return [f"{high - count + i:0{names.INDEX_DIGITS}d}" for i in range(count)]


def _is_same(a: Path, b: Path) -> bool:
    if a.stat().st_size != b.stat().st_size:
        return False
    with a.open("rb") as first, b.open("rb") as second:
        if first.read(HEADER_SIZE) != second.read(HEADER_SIZE):
            return False
    return first_difference(a, b) is None


def _size(path: Path, base: int) -> int:
    try:
        return (path / names.offset_file(base)).stat().st_size
    except FileNotFoundError:
        return -1


def _entries(path: Path, base: int, size: int) -> NDArray[np.void]:
    """Return the entries of a file, none if it is not there or of another size."""
    if _size(path, base) != size:
        return np.zeros(0, ENTRY)
    return np.fromfile(path / names.offset_file(base), ENTRY)


def _is_alike(target: Path, source: Path) -> bool:
    """Tell whether something in a file is what it should be: a piece of it that is not zero."""
    with target.open("rb") as first, source.open("rb") as second:
        while (a := first.read(_PIECE)) and (b := second.read(_PIECE)):
            least = min(len(a), len(b)) // ENTRY_SIZE * ENTRY_SIZE
            x = np.frombuffer(a[:least], np.uint8).reshape(-1, ENTRY_SIZE)
            y = np.frombuffer(b[:least], np.uint8).reshape(-1, ENTRY_SIZE)
            fill = np.frombuffer(PRE_BLANK, np.uint8)
            is_used = (x != 0).any(axis=1) & (x != fill).any(axis=1)
            if bool((is_used & (x == y).all(axis=1)).any()):
                return True
    return False


def first_difference(a: Path, b: Path) -> int | None:
    """Return the first byte in which two files of one size differ, None if they are equal.

    Raises:
        OSError: the device failed.
    """
    with a.open("rb") as first, b.open("rb") as second:
        size = os.fstat(first.fileno()).st_size
        at = 0
        while at < size:
            at = min(
                disk.next_data(first.fileno(), at, size), disk.next_data(second.fileno(), at, size)
            )
            x = os.pread(first.fileno(), _PIECE, at)
            y = os.pread(second.fileno(), _PIECE, at)
            if x != y:
                least = min(len(x), len(y))
                u, v = np.frombuffer(x[:least], np.uint8), np.frombuffer(y[:least], np.uint8)
                return at + (int(np.argmax(u != v)) if (u != v).any() else least)
            at += max(len(x), 1)
    return None


def apply(root: Path, plan: Plan) -> None:
    """Exchange the files, and have that on disk.

    Raises:
        OSError: the device failed; the next try does what is left.
    """
    for path in plan.in_the_way:
        disk.remove_file(path)
    for change in plan.changes:
        if change.source is not None:
            disk.make_directories(change.path.parent)
            disk.rename(change.source, change.path)
    for change in plan.changes:
        if change.what == REMOVED and change.path not in plan.in_the_way:
            disk.remove_file(change.path)
    for kind in names.DISPATCHED:
        remove_empty(root / kind)
    disk.sync_file_system(root)


__all__ = ["Change", "Exchange", "Plan", "apply", "first_difference"]
