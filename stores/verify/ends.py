"""Checks what stands before and after the entries of a queue that can be compared with the log.

Before them: fill up to a queue's very first record, and entries of records that have expired.
After them: nothing, or what a crash has left. Entries of lost records
(`stores.following.lost_places`) may stand on either side.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, PRE_BLANK, Entry
from reput.stores.findings import Kind
from reput.stores.verify.stored_files import surplus_runs

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report, Scope
    from reput.stores.following.lost_places import LostPlaces
    from reput.stores.verify.stored_files import StoredFiles

NOT_THERE = "entries that the log gives are not there"
_HEAD_PIECE = 1 << 14
_LAST = (1 << 63) - 1


class HeadCheck:
    """The entries before the first one that can be verified: fill, or of expired records."""

    def __init__(
        self,
        files: StoredFiles,
        settings: BrokerSettings,
        scope: Scope,
        report: Report,
        lost: LostPlaces,
    ) -> None:
        self._files = files
        self._largest = settings.max_record_size
        self._floor = scope.floor
        self._lost = lost
        self._report = report
        self._end = 0

    def check(self, end: int) -> bool:
        """Check the entries before number `end`; tell whether any is one of a record."""
        files = self._files
        end_byte = end * ENTRY_SIZE
        expected = end_byte - end_byte % files.file_size
        has_records = False
        self._check_gaps([base for base in files.bases if base <= expected])
        for base in files.bases:
            if base > expected:
                break
            if base < expected and self._floor == 0 and not self._lost:
                self._report.add(
                    Kind.SURPLUS, files.path(base), 0, f"the queue's first entry is number {end}"
                )
                continue
            stop = min(base + files.file_size, end_byte)
            has_records |= self._check_file(
                base, stop, may_be_fill=base == files.bases[0] and not has_records
            )
        return has_records

    def _check_gaps(self, bases: list[int]) -> None:
        for before, after in pairwise(bases):
            if after != before + self._files.file_size:
                path = self._files.path(before + self._files.file_size)
                self._report.add(Kind.MISSING, path, 0, f"no file before {after}")

    def check_all(self) -> None:
        """Check a queue that no record of the log belongs to."""
        files = self._files
        self._check_gaps(files.bases)
        for base in files.bases:
            path = files.path(base)
            if self._floor == 0:
                self._report.add(Kind.SURPLUS, path, 0, "no record of the log is in this queue")
                continue
            runs = list(surplus_runs(path, 0, ENTRY_SIZE))
            used = runs[-1][0] + len(runs[-1][1]) if runs else 0
            self._check_file(base, base + used, may_be_fill=base == files.bases[0])

    def known_end(self) -> int | None:
        """Return where the entries end that fill, expired and lost records give a queue, bytes.

        None if none of them is of a lost record.
        """
        position = min(self._files.bases, default=0)
        entries, may_be_fill, has_lost = 0, True, False
        while True:
            raw = self._files.read(position, _HEAD_PIECE * ENTRY_SIZE)
            found = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            if not len(found):
                break
            good = self._plausible(found)
            offset = found["physical_offset"].astype(np.int64)
            has_lost |= bool((good & (offset >= self._floor)).any())
            is_fill = found == np.frombuffer(PRE_BLANK, ENTRY)[0]
            first_record = int(np.argmax(good)) if good.any() else len(found)
            if may_be_fill:
                good[:first_record] |= is_fill[:first_record]
                may_be_fill = first_record == len(found)
            count = len(found) if good.all() else int(np.argmin(good))
            entries += int(np.count_nonzero(good[:count] & ~is_fill[:count]))
            position += count * ENTRY_SIZE
            if count < len(found):
                break
        if not has_lost:
            return None
        self._report.unverifiable += entries
        return position

    def _check_file(self, base: int, stop: int, *, may_be_fill: bool) -> bool:
        """Check the entries of one file before byte `stop` of the queue."""
        has_records = False
        position = base
        while position < stop:
            length = min(_HEAD_PIECE * ENTRY_SIZE, stop - position)
            raw = self._files.read(position, length)
            entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            is_fill = entries == np.frombuffer(PRE_BLANK, ENTRY)[0]
            good = self._plausible(entries)
            self._report.unverifiable += int(np.count_nonzero(good))
            has_records |= bool(good.any())
            # Fill stands before a queue's very first record, nowhere else.
            first_record = int(np.argmax(good)) if good.any() else len(entries)
            if may_be_fill:
                good[:first_record] |= is_fill[:first_record]
                may_be_fill = first_record == len(entries)
            self._report_bad(position, entries, good)
            if len(raw) < length:
                path, byte = self._files.place(position + len(entries) * ENTRY_SIZE)
                self._report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, NOT_THERE)
                return has_records
            position += length
        return has_records

    def _plausible(self, entries: NDArray[np.void]) -> NDArray[np.bool_]:
        """Tell which entries could be of records that the log does not have, in order."""
        offset = entries["physical_offset"].astype(np.int64)
        size = entries["size"].astype(np.int64)
        good = (offset >= 0) & (size >= commitlog.MIN_SIZE) & (size <= self._largest)
        end = np.where(good, offset + size, 0)
        good &= (end <= self._floor) | self._lost.of_records(offset, size)
        before = np.maximum.accumulate(np.concatenate([[self._end], np.where(good, end, 0)]))
        self._end = int(before[-1])
        in_order: NDArray[np.bool_] = good & (offset >= before[:-1])
        return in_order

    def _report_bad(
        self, position: int, entries: NDArray[np.void], good: NDArray[np.bool_]
    ) -> None:
        for i in np.flatnonzero(~good).tolist():
            path, byte = self._files.place(position + i * ENTRY_SIZE)
            found = Entry(*entries[i].item())
            self._report.add(
                Kind.WRONG_BYTES,
                path,
                byte,
                f"{tuple(found)} is neither fill nor an entry of a record below {self._floor}"
                + (" or in a damaged place" if self._lost else ""),
            )


class RestCheck:
    """What stands after the last unit of a queue: nothing, or what a crash has left."""

    def __init__(
        self,
        files: StoredFiles,
        unit: np.dtype[np.void],
        scope: Scope,
        report: Report,
        lost: LostPlaces,
    ) -> None:
        self._files = files
        self._unit = unit
        self._scope = scope
        self._report = report
        self._lost = lost

    def check(self, position: int, last_end: int, ahead: int = 0) -> None:
        """Check all bytes from `position` of the queue on.

        Args:
            position: byte after the last unit.
            last_end: physical offset after the record of the last unit.
            ahead: empty files that may stand after the last one.
        """
        files = self._files
        lost, last_end = self.count_lost(position, last_end)
        position += lost * self._unit.itemsize
        self._report.unverifiable += lost
        if position % files.file_size == 0 and self._lost.between(last_end, _LAST):
            # A lost record that was repeated may have had the next file made.
            ahead = 1
        boundary = (-(-position // files.file_size) + ahead) * files.file_size
        for base in files.bases:
            path = files.path(base)
            if base >= boundary:
                self._check_runs(path, 0, last_end, "a file after the queue's last one")
            elif base + files.file_size > position:
                self._check_runs(path, position - base, last_end, "")

    def pass_expired(self) -> int:
        """Return the byte after a queue's units of expired records, and the fill before them.

        It is for a queue that the log has no record of.
        """
        itemsize = self._unit.itemsize
        position = min(self._files.bases, default=0)
        while True:
            raw = self._files.read(position, _HEAD_PIECE * itemsize)
            units = np.frombuffer(raw[: len(raw) // itemsize * itemsize], self._unit)
            offset = units["physical_offset"].astype(np.int64)
            size = units["size"].astype(np.int64)
            good = (offset >= 0) & (size > 0) & (offset + size <= self._scope.floor)
            if self._unit is ENTRY:
                good |= (units == np.frombuffer(PRE_BLANK, ENTRY)[0]) & (self._scope.floor > 0)
            count = len(units) if good.all() else int(np.argmin(good))
            self._report.unverifiable += count
            position += count * itemsize
            if count < len(units) or not len(units):
                return position

    def count_lost(self, position: int, last_end: int) -> tuple[int, int]:
        """Return how many units from a byte on are of lost records, and where the last one ends."""
        itemsize = self._unit.itemsize
        lost = 0
        while self._lost:
            raw = self._files.read(position + lost * itemsize, _HEAD_PIECE * itemsize)
            units = np.frombuffer(raw[: len(raw) // itemsize * itemsize], self._unit)
            if not len(units):
                break
            offset = units["physical_offset"].astype(np.int64)
            size = units["size"].astype(np.int64)
            good = self._lost.of_records(offset, size)
            ends = np.concatenate([[last_end], np.where(good, offset + size, 0)])
            good &= offset >= np.maximum.accumulate(ends)[:-1]
            count = len(units) if good.all() else int(np.argmin(good))
            lost += count
            last_end = int(ends[: count + 1].max())
            if count < len(units):
                break
        return lost, last_end

    def _check_runs(self, path: Path, start: int, last_end: int, is_whole: str) -> None:
        is_left_over, is_empty = False, True
        for byte, raw in surplus_runs(path, start, self._unit.itemsize):
            is_empty = False
            units = np.frombuffer(raw, self._unit)
            entries = "1 entry" if len(units) == 1 else f"{len(units)} entries"
            if self._are_leftovers(units, last_end):
                detail = f"{entries} after the last, {self._report.left_by}"
                self._report.note(Kind.SURPLUS, path, byte, detail)
                is_left_over = True
            elif not is_whole:
                detail = f"{entries} after the last one that the log gives"
                self._report.add(Kind.SURPLUS, path, byte, detail)
        if is_whole and is_empty and self._scope.is_ours and self._scope.tolerates_leftovers:
            # A writer makes a file before it has an entry for it: the disk may be full then.
            detail = f"an empty file after the queue's last one, {self._report.left_by}"
            self._report.note(Kind.SURPLUS, path, 0, detail)
        elif is_whole and not is_left_over:
            self._report.add(Kind.SURPLUS, path, 0, is_whole)

    def _are_leftovers(self, units: NDArray[np.void], last_end: int) -> bool:
        if not self._scope.tolerates_leftovers:
            return False
        beyond = self._scope.end if self._scope.is_ours else last_end
        offsets = units["physical_offset"].astype(np.int64)
        good = (offsets >= beyond) & (units["size"].astype(np.int64) > 0)
        if self._scope.is_ours:
            # Killed between the fields of an entry, or after the fill of a new queue.
            good = offsets >= beyond
            if self._unit is ENTRY:
                good |= units == np.frombuffer(PRE_BLANK, ENTRY)[0]
        return bool(np.all(good))
