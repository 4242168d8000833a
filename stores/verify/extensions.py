"""Compares consume queue extensions with the records of the log.

The twin of `sinks.files.consumequeue_ext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import consumequeue_ext, names
from reput.formats.rocketmq.consumequeue_ext import END_MARK, MAX_UNIT_SIZE, SPARE, TRIES
from reput.stores.findings import Kind
from reput.stores.verify.stored_files import StoredFiles, queue_directories, surplus_runs
from reput.stores.verify.units import NEVER, UnitPlace

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report, Scope
    from reput.stores.following.lost_places import LostPlaces

_LAST = (1 << 63) - 1


class ExtCheck:
    """All extensions of one output root."""

    def __init__(
        self,
        root: Path,
        settings: BrokerSettings,
        scope: Scope,
        report: Report,
        lost: LostPlaces,
    ) -> None:
        self._lost = lost
        self._directory = root / names.CONSUMEQUEUE_EXT
        self._file_size = settings.ext_file_size
        self._is_expected = settings.writes_ext
        self._scope = scope
        self._report = report
        self._queues: dict[tuple[str, int], UnitPlace] = {}

    def expect(
        self,
        name: tuple[str, int],
        unit: consumequeue_ext.Unit,
        held: int,
        *,
        has_head: bool,
        position: int,
        is_own: bool,
    ) -> int | None:
        """Compare a queue's next unit and return its address; None if it is too large to be kept.

        Args:
            name: topic and queue id.
            unit: what it should be.
            held: what the entry in the consume queue holds, right or wrong.
            has_head: entries of expired records stand before the queue's first: then only its
                own entry tells where its unit is.
            position: the record's physical offset.
            is_own: that entry is the record's.
        """
        place = self._queues.get(name)
        last = NEVER if place is None else place.last_offset
        if place is not None:
            place.last_offset = position
        known = held if is_own or not self._lost else 0
        if unit.size > MAX_UNIT_SIZE:
            return None
        if place is None:
            place = self._open(name, known, has_head=has_head)
            place.last_offset = position
        if unit.size > self._file_size - SPARE:
            for _ in range(TRIES):
                self._end_file(place)
            return None
        raw = unit.pack()
        if self._lost.between(last + 1, position):
            self._skip_lost(place, raw, known)
        return self._compare(place, unit, raw, held)

    def _open(self, name: tuple[str, int], held: int, *, has_head: bool) -> UnitPlace:
        """Return the place of a queue's first unit; see `expect`."""
        directory = self._directory / name[0] / str(name[1])
        place = UnitPlace(StoredFiles(directory, self._file_size, self._report))
        self._queues[name] = place
        self._begin(place, held, has_head=has_head)
        return place

    def _compare(self, place: UnitPlace, unit: consumequeue_ext.Unit, raw: bytes, held: int) -> int:
        """Compare the next unit with `raw`, its bytes, go past it, and return its address."""
        if place.position % self._file_size + len(raw) > self._file_size - SPARE:
            self._end_file(place)
        if not self._scope.is_ours:
            self._skip_orphans(place, raw, held)
        found = place.read(place.position, len(raw))
        if found != raw:
            self._report_difference(place, unit, found)
        start = place.position
        place.position += len(raw)
        self._report.units += 1
        return consumequeue_ext.address(start)

    def _begin(self, place: UnitPlace, held: int, *, has_head: bool) -> None:
        # Where records have expired, so may the files have that held their entries.
        has_head = has_head or self._scope.floor > 0
        if not (has_head and consumequeue_ext.is_address(held)):
            return
        place.position = consumequeue_ext.position(held)
        start = min(place.files.bases, default=place.position)
        units = self._units_between(place, start, place.position)
        if units is None:
            path = place.files.path(start)
            detail = f"the units do not lead to the queue's first at {place.position}"
            self._report.add(Kind.WRONG_BYTES, path, 0, detail)
        self._report.unverifiable += units or 0

    def _skip_lost(self, place: UnitPlace, raw: bytes, held: int) -> None:
        """Go over the units of lost records, up to the one that a record gives.

        Its own entry points to it. A record that was repeated has a unit and no entry: then the
        first unit that is the same counts as its.
        """
        is_known = consumequeue_ext.is_address(held)
        target = consumequeue_ext.position(held) if is_known else 0
        is_known = is_known and target >= place.position and place.read(target, len(raw)) == raw
        position, units = self._past_mark(place, place.position), 0
        while position != target if is_known else place.read(position, len(raw)) != raw:
            following = self._after(place, position)
            if following is None or (is_known and following > target):
                if is_known:
                    path, byte = place.files.place(position)
                    detail = f"the units do not lead to the one at {target}"
                    self._report.add(Kind.WRONG_BYTES, path, byte, detail)
                    place.position = target
                return
            position, units = following, units + 1
        self._report.unverifiable += units
        place.position = position

    def _after(self, place: UnitPlace, position: int) -> int | None:
        """Return where the unit after the one at a position begins, None if there is none."""
        size = self._size_at(place, position)
        if size < consumequeue_ext.UNIT.size:
            return None
        return self._past_mark(place, position + size)

    @staticmethod
    def _size_at(place: UnitPlace, position: int) -> int:
        return consumequeue_ext.size_of(place.read(position, consumequeue_ext.SIZE.size))

    def _past_mark(self, place: UnitPlace, position: int) -> int:
        """Return where the next file begins if a mark at a position ends this one."""
        has_mark = place.read(position, len(END_MARK)) == END_MARK
        return position + (self._file_size - position % self._file_size if has_mark else 0)

    def _skip_orphans(self, place: UnitPlace, raw: bytes, held: int) -> None:
        """Go over units that no entry points to: a broker's, dispatched again after a crash."""
        target = consumequeue_ext.position(held) if consumequeue_ext.is_address(held) else 0
        if target <= place.position or place.read(target, len(raw)) != raw:
            return
        orphans = self._units_between(place, place.position, target)
        if orphans:
            path, byte = place.files.place(place.position)
            self._report.note(Kind.SURPLUS, path, byte, f"{orphans} units without an entry")
            place.position = target

    def _units_between(self, place: UnitPlace, start: int, stop: int) -> int | None:
        """Return how many units fill [start, stop), None if they do not lead there."""
        position, units = start, 0
        while position < stop:
            size = self._size_at(place, position)
            if size == consumequeue_ext.ENDED:
                position += self._file_size - position % self._file_size
            elif size < consumequeue_ext.UNIT.size:
                return None
            else:
                position += size
                units += 1
        return units if position == stop else None

    def _end_file(self, place: UnitPlace) -> None:
        """Check what stands after a full file's last unit, the mark and zeros; go to the next."""
        wrote = place.position % self._file_size
        self._check_end_of_file(place, wrote)
        place.position += self._file_size - wrote

    def _check_end_of_file(self, place: UnitPlace, wrote: int) -> None:
        path, byte = place.files.place(place.position)
        expected = END_MARK if wrote + len(END_MARK) <= self._file_size else b""
        found = place.read(place.position, len(expected))
        if found != expected:
            kind = Kind.WRONG_BYTES if any(found) else Kind.MISSING
            self._report.add(
                kind, path, byte, f"{found.hex() or 'nothing'}, expected the end mark ffff"
            )
        if place.position - wrote in place.files:
            for at, raw in surplus_runs(path, wrote + len(expected), 1):
                detail = f"{len(raw)} bytes after the last unit are not zero"
                self._report.add(Kind.SURPLUS, path, at, detail)

    def _report_difference(
        self, place: UnitPlace, unit: consumequeue_ext.Unit, found: bytes
    ) -> None:
        path, byte = place.files.place(place.position)
        if len(found) < unit.size or not any(found):
            what = "bytes of units that the log gives are not there"
            self._report.add(Kind.MISSING, path, byte, f"{unit.size} {what}")
            return
        wanted = unit.pack()
        head = consumequeue_ext.UNIT.size
        is_bitmap = found[:head] == wanted[:head]
        what = "unit" if not is_bitmap else "bit map (have the consumers' filters changed since?)"
        detail = f"{what}: {found.hex()}, expected {wanted.hex()}"
        self._report.add(Kind.WRONG_BYTES, path, byte, detail)

    def finish(self) -> None:
        """Look at what stands after the last units, and at queues without any."""
        known = set()
        for place in self._queues.values():
            files = place.files
            known.add(files.directory)
            self._skip_rest(place)
            boundary = -(-place.position // self._file_size) * self._file_size
            for base in files.bases:
                if base >= boundary:
                    self._rest(files.path(base), 0)
                elif base + self._file_size > place.position:
                    self._rest(files.path(base), place.position - base)
        for path in queue_directories(self._directory, self._report):
            if path not in known:
                self._unknown(StoredFiles(path, self._file_size, self._report))

    def _skip_rest(self, place: UnitPlace) -> None:
        """Go over the units at a queue's end that lost records may have given."""
        while self._lost.between(place.last_offset + 1, _LAST):
            following = self._after(place, self._past_mark(place, place.position))
            if following is None:
                return
            place.position = following
            self._report.unverifiable += 1

    def _rest(self, path: Path, start: int) -> None:
        if start == 0 and not self._scope.tolerates_leftovers:
            self._report.add(Kind.SURPLUS, path, 0, "a file after the queue's last one")
            return
        for byte, raw in surplus_runs(path, start, 1):
            what = f"{len(raw)} bytes after the last unit are not zero"
            if self._scope.tolerates_leftovers and _is_unit(path, byte):
                self._report.note(Kind.SURPLUS, path, byte, f"{what}: {self._report.left_by}")
                return
            self._report.add(Kind.SURPLUS, path, byte, what)

    def _unknown(self, files: StoredFiles) -> None:
        place = UnitPlace(files, min(files.bases, default=0))
        self._skip_rest(place)
        for base in files.bases:
            if base < place.position:
                self._rest(files.path(base), min(place.position - base, self._file_size))
                continue
            path = files.path(base)
            # A broker that had extensions once keeps them until their queue expires.
            is_old = self._scope.floor > 0 or (not self._is_expected and not self._scope.is_ours)
            if is_old or (self._scope.is_ours and self._scope.tolerates_leftovers):
                self._report.note(Kind.SURPLUS, path, 0, "no record of the log points here")
            else:
                self._report.add(Kind.SURPLUS, path, 0, "no record of the log is in this queue")


def _is_unit(path: Path, byte: int) -> bool:
    """Tell whether a well-formed unit begins in a file at its first byte that is not zero."""
    with path.open("rb") as file:
        # A size below 256 begins with a zero byte.
        for start in (byte - 1, byte):
            if start >= 0:
                file.seek(start)
                try:
                    unit = consumequeue_ext.unpack(file.read(MAX_UNIT_SIZE), 0)
                except ValueError:
                    continue
                if unit is not None and unit.store_timestamp > 0:
                    return True
    return False
