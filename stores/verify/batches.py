"""Compares batch consume queues with the records of the log.

The twin of `sinks.files.batchconsumequeue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import batchconsumequeue, names
from reput.stores.findings import Kind
from reput.stores.verify.ends import NOT_THERE, RestCheck
from reput.stores.verify.stored_files import StoredFiles, queue_directories
from reput.stores.verify.units import UnitPlace

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report, Scope
    from reput.stores.following.lost_places import LostPlaces

# Damaged units in a row after which the place of the next one is not looked for.
_MOST_WRONG = 1000


class BatchCheck:
    """All batch consume queues of one output root."""

    def __init__(
        self,
        root: Path,
        settings: BrokerSettings,
        scope: Scope,
        report: Report,
        lost: LostPlaces,
    ) -> None:
        self._lost = lost
        self._directory = root / names.BATCH_CONSUMEQUEUE
        self._file_size = settings.batch_file_size
        self._scope = scope
        self._report = report
        self._queues: dict[tuple[str, int], UnitPlace] = {}

    def expect(self, name: tuple[str, int], unit: batchconsumequeue.Unit) -> None:
        """Compare a queue's next unit.

        Args:
            name: topic and queue id.
            unit: what it should be.
        """
        place = self._queues.get(name)
        if place is None:
            directory = self._directory / name[0] / str(name[1])
            place = UnitPlace(StoredFiles(directory, self._file_size, self._report))
            self._queues[name] = place
            self._begin(place)
        if unit.physical_offset <= place.last_offset:
            return
        raw = unit.pack()
        if self._lost:
            self._pass_lost(place, unit)
        found = place.read(place.position, len(raw))
        if found != raw:
            self._report_difference(place, unit, found)
        place.position += len(raw)
        place.last_offset = unit.physical_offset
        self._report.entries += 1

    def _begin(self, place: UnitPlace) -> None:
        """Go past the units of records that have expired."""
        place.position = min(place.files.bases, default=0)
        layout = batchconsumequeue.UNIT_STRUCT
        while self._scope.floor > 0:
            raw = place.read(place.position, layout.size)
            if len(raw) < layout.size:
                return
            unit = batchconsumequeue.Unit(*layout.unpack(raw))
            if unit.size <= 0 or not place.last_offset < unit.physical_offset < self._scope.floor:
                return
            place.last_offset = unit.physical_offset
            place.position += layout.size
            self._report.unverifiable += 1

    def _pass_lost(self, place: UnitPlace, unit: batchconsumequeue.Unit) -> None:
        """Go past the units of lost records, and report those among them that are damaged."""
        layout = batchconsumequeue.UNIT_STRUCT
        wrong: list[int] = []
        position, last = place.position, place.last_offset
        while self._lost.between(last + 1, unit.physical_offset):
            raw = place.read(position, layout.size)
            if len(raw) < layout.size or raw == unit.pack():
                break
            found = batchconsumequeue.Unit(*layout.unpack(raw))
            is_before = last < found.physical_offset < unit.physical_offset
            if is_before and self._lost.holds(found.physical_offset, found.size):
                self._report.unverifiable += 1
                last = found.physical_offset
                self._add_wrong(place, wrong, unit)
                place.position, place.last_offset = position + layout.size, last
                wrong = []
            elif len(wrong) >= _MOST_WRONG:
                return
            else:
                wrong.append(position)
            position += layout.size
        if place.read(position, layout.size) == unit.pack():
            self._add_wrong(place, wrong, unit)
            place.position = position

    def _add_wrong(self, place: UnitPlace, wrong: list[int], unit: batchconsumequeue.Unit) -> None:
        for position in wrong:
            path, byte = place.files.place(position)
            detail = f"a unit that belongs to no record before {unit.physical_offset}"
            self._report.add(Kind.WRONG_BYTES, path, byte, detail)

    def _report_difference(
        self, place: UnitPlace, unit: batchconsumequeue.Unit, found: bytes
    ) -> None:
        path, byte = place.files.place(place.position)
        if len(found) < batchconsumequeue.UNIT_SIZE or not any(found):
            size = batchconsumequeue.UNIT_SIZE
            self._report.add_to_run(Kind.MISSING, path, byte, size, NOT_THERE)
            return
        other = batchconsumequeue.Unit(*batchconsumequeue.UNIT_STRUCT.unpack(found))
        self._report.add(
            Kind.WRONG_BYTES, path, byte, f"unit is {tuple(other)}, expected {tuple(unit)}"
        )

    def finish(self) -> None:
        """Look at what stands after the last units, and at queues without any."""
        known = set()
        for place in self._queues.values():
            known.add(place.files.directory)
            files = place.files
            rest = RestCheck(files, batchconsumequeue.UNIT, self._scope, self._report, self._lost)
            rest.check(place.position, max(place.last_offset + 1, 0))
        for path in queue_directories(self._directory, self._report):
            if path not in known:
                self._check_unknown(StoredFiles(path, self._file_size, self._report))
        self._report.end_runs()

    def _check_unknown(self, files: StoredFiles) -> None:
        """Check a queue that no record in the scope belongs to."""
        rest = RestCheck(files, batchconsumequeue.UNIT, self._scope, self._report, self._lost)
        start = min(files.bases, default=0)
        if rest.count_lost(start, 0)[0]:
            rest.check(start, 0)
            return
        if self._scope.is_ours and self._scope.tolerates_leftovers:
            rest.check(rest.pass_expired(), 0)
            return
        for base in files.bases:
            detail = "no record of the log is in this queue"
            if self._scope.floor > 0:
                self._report.note(Kind.SURPLUS, files.path(base), 0, detail)
            else:
                self._report.add(Kind.SURPLUS, files.path(base), 0, detail)
