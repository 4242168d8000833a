"""Compares consume queues with the records of the log: each entry at the place it belongs to.

The twin of `sinks.files.consumequeue`: it asks the same questions in the same order, but reads
where the sink writes. The kernel `compare` does the common case, the next entry of a queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, NEVER, Entry, head_of
from reput.stores.findings import Kind
from reput.stores.verify.ends import NOT_THERE, HeadCheck, RestCheck
from reput.stores.verify.entry_findings import (
    Repeated,
    note_repeated,
    report_difference,
    report_shift,
    report_stale,
)
from reput.stores.verify.entry_windows import EntryWindows
from reput.stores.verify.stored_files import StoredFiles, queue_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report, Scope
    from reput.stores.following.lost_places import LostPlaces
    from reput.stores.verify.left_out import LeftOut


@dataclass
class _Queue:
    """What is known of one queue.

    Attributes:
        files: its files.
        first: number of its first entry that can be verified.
        has_head: entries of records that the log no longer has stand before that one.
        is_gone: its topic was deleted: nothing is expected of it.
        may_be_shifted: its first entry may stand too low, after others that cannot be verified.
        lost_entries: entries of lost records.
        repeated: entries that are left out, None for none.
        is_made_ahead: an empty file may stand after a full one: the next entry would begin it.
    """

    files: StoredFiles
    first: int
    has_head: bool
    is_gone: bool = False
    may_be_shifted: bool = False
    lost_entries: int = 0
    repeated: Repeated | None = None
    is_made_ahead: bool = False


class QueueCheck:
    """All consume queues of one output root."""

    def __init__(
        self,
        root: Path,
        settings: BrokerSettings,
        scope: Scope,
        report: Report,
        is_record: Callable[[int, int], bool],
        is_deleted: Callable[[str], bool],
        lost: LostPlaces,
        left_out: LeftOut,
    ) -> None:
        """Read nothing yet; each queue is read when its first record comes.

        Args:
            root: the output root.
            settings: file size, largest record.
            scope: which records count.
            report: gets what is found.
            is_record: tells whether a record of a size stands at a physical offset.
            is_deleted: tells whether a topic was deleted, its queues with it.
            lost: places of the log that cannot be read. When a record comes, all places before it
                are known.
            left_out: places that the output is known to have no entries of.
        """
        self.directory = root / names.CONSUMEQUEUE
        self._settings = settings
        self._file_size = settings.consumequeue_file_size
        self._scope = scope
        self._report = report
        self._is_record = is_record
        self._is_deleted = is_deleted
        self._lost = lost
        self._left_out = left_out
        self._windows = EntryWindows()
        self._queues: dict[int, _Queue] = {}

    def compare(
        self,
        columns: Columns,
        count: int,
        queues: Sequence[tuple[str, int]],
        expect_special: Callable[[int], None],
    ) -> None:
        """Compare the entries of the first `count` records of a block.

        Args:
            columns: the block; blocks come in commitlog order.
            count: records in it.
            queues: topic and queue id by queue number.
            expect_special: called with the row of a record that is more than one plain entry.
        """
        self._windows.grow(len(queues))
        row = 0
        while True:
            row = self._windows.compare(row, count, columns)
            if row >= count:
                return
            if columns.special[row]:
                expect_special(row)
            else:
                number = int(columns.queue[row])
                self.expect(
                    number,
                    queues[number],
                    int(columns.queue_offset[row]),
                    Entry(
                        int(columns.physical_offset[row]),
                        int(columns.size[row]),
                        int(columns.tags_code[row]),
                    ),
                )
            row += 1

    def begin(self, number: int, name: tuple[str, int], queue_offset: int, position: int) -> bool:
        """Look at a queue's files when its first record comes; tell what stands before its entry.

        Args:
            number: the queue's.
            name: topic and queue id.
            queue_offset: the record's.
            position: its physical offset.

        Returns:
            Whether entries of records that the log no longer has stand before the queue's first.
        """
        self._windows.grow(number + 1)
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = self._open(name, queue_offset, position)
            self._windows.next_entry[number] = queue.first
        return queue.has_head

    def _open(self, name: tuple[str, int], queue_offset: int, position: int) -> _Queue:
        """Look at a queue's files; see `begin`."""
        files = StoredFiles(self.directory / name[0] / str(name[1]), self._file_size, self._report)
        is_known = not self._lost and self._scope.floor == 0
        first = queue_offset if is_known else self._first_of(files, queue_offset, position)
        head = HeadCheck(files, self._settings, self._scope, self._report, self._lost)
        queue = _Queue(files, first, head.check(first))
        queue.may_be_shifted = bool(self._left_out) and not is_known
        if not files.bases and self._is_deleted(name[0]):
            queue.is_gone = True
            detail = "the topic was deleted, its records are still in the log"
            self._report.note(Kind.MISSING, files.directory, 0, detail)
        return queue

    def _first_of(self, files: StoredFiles, queue_offset: int, position: int) -> int:
        """Return the number of the entry of a queue's first record after others that are gone.

        Mostly it is the record's queue offset. If the queue was shifted before it, or if the record
        was repeated and has no entry, it is the number of the next one that has, or the entries'
        end.
        """
        there = files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
        bases = [] if _is_of(there, position) else files.bases
        end = 0
        for base in bases:
            raw = files.read(base, self._file_size)
            entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            found = (entries["physical_offset"] >= position) & (entries["size"] > 0)
            if bool(found.any()):
                return base // ENTRY_SIZE + int(np.argmax(found))
            used = np.flatnonzero(entries["size"] > 0)
            end = base // ENTRY_SIZE + int(used[-1]) + 1 if len(used) else end
        return max(queue_offset, end)

    def is_gone(self, number: int) -> bool:
        """Tell whether a queue was deleted: nothing is expected of it."""
        return self._queues[number].is_gone

    def found(
        self, number: int, name: tuple[str, int], queue_offset: int, position: int
    ) -> Entry | None:
        """Return the entry that stands where a queue's next one belongs, None for none.

        Args:
            number: the queue's.
            name: topic and queue id.
            queue_offset: the record's.
            position: its physical offset.
        """
        self.begin(number, name, queue_offset, position)
        if self._lost:
            self._pass_lost(number, queue_offset, position)
        raw = self._raw(number, int(self._windows.next_entry[number]))
        return Entry.of(raw) if len(raw) == ENTRY_SIZE else None

    def _pass_lost(self, number: int, queue_offset: int, position: int) -> None:
        """Go past the entries of lost records before the entry of the record at a physical offset.

        Where that entry stands at the number that its record names, all before it are looked at:
        one that is of no lost record is damaged.
        """
        files = self._queues[number].files
        is_in_turn: bool | None = None
        while True:
            following = int(self._windows.next_entry[number])
            last_end = max(int(self._windows.last_end[number]), 0)
            raw = self._raw(number, following)
            found = Entry.of(raw.ljust(ENTRY_SIZE, b"\0"))
            if found.physical_offset == position and any(raw):
                return
            is_before = last_end <= found.physical_offset < position
            if is_before and self._lost.holds(found.physical_offset, found.size):
                self._report.unverifiable += 1
                self._windows.last_end[number] = found.physical_offset + found.size
            else:
                if following >= queue_offset or not self._lost.between(last_end, position):
                    return
                if is_in_turn is None:
                    there = files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
                    is_in_turn = _is_of(there, position)
                if not is_in_turn:
                    return
                path, byte = files.place(following * ENTRY_SIZE)
                if any(raw):
                    what = f"entry {following} is {tuple(found)}"
                    detail = f"{what} and belongs to no record before {position}"
                    self._report.add(Kind.WRONG_BYTES, path, byte, detail)
                else:
                    self._report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, NOT_THERE)
            self._windows.next_entry[number] = following + 1
            self._queues[number].lost_entries += 1

    def expect(self, number: int, name: tuple[str, int], queue_offset: int, entry: Entry) -> None:
        """Compare one entry with what a broker would have put, in turn or not.

        Args:
            number: the queue's.
            name: topic and queue id.
            queue_offset: where the record says that it belongs.
            entry: what it should be.
        """
        self.begin(number, name, queue_offset, entry.physical_offset)
        queue = self._queues[number]
        if queue.is_gone:
            return
        end = entry.physical_offset + entry.size
        if end <= self._windows.last_end[number]:
            return
        if self._lost:
            self._pass_lost(number, queue_offset, entry.physical_offset)
        following = int(self._windows.next_entry[number])
        if queue_offset != 0 and queue_offset < following:
            if self._is_stale(number):
                report_stale(self._report, queue.files, queue_offset)
                return
            # The broker asks for the last file before it sees that there is nothing to put.
            if following * ENTRY_SIZE % self._file_size == 0:
                queue.is_made_ahead = True
            first = queue.repeated or Repeated(0, queue_offset, entry.physical_offset)
            queue.repeated = first._replace(entries=first.entries + 1)
            return
        raw = self._raw(number, following)
        if raw != entry.pack():
            report_difference(
                self._report, queue.files, following, entry, raw, is_record=self._is_record
            )
        elif queue.may_be_shifted and following == queue.first < queue_offset:
            self._check_shift(queue.files, following, queue_offset, entry)
        self._windows.next_entry[number] = following + 1
        self._windows.last_end[number] = end
        queue.is_made_ahead = False

    def _raw(self, number: int, entry: int) -> bytes:
        return self._windows.read(number, entry, self._queues[number].files)

    def _is_stale(self, number: int) -> bool:
        """Tell whether only records that have expired have a number that a record gives again.

        What is built of the log as it is begins the queue with that record. After one that has an
        entry, those that give a number again are left out by a broker's rebuild as well.
        """
        return self._scope.floor > 0 and self._windows.last_end[number] == NEVER

    def _check_shift(
        self, files: StoredFiles, number: int, queue_offset: int, entry: Entry
    ) -> None:
        """Report a queue whose first entry that can be verified stands too low, with the rest."""
        if self._lost.between(self._scope.floor, entry.physical_offset):
            # The records of earlier entries cannot be read: nothing tells where they belong.
            return
        place = self._left_out.before(files, entry.physical_offset)
        if place is not None:
            report_shift(self._report, files, number, queue_offset, entry, place)

    def finish(self) -> None:
        """Look at what stands after the last entries, and at queues that no record belongs to."""
        known = set()
        for number, queue in self._queues.items():
            files = queue.files
            known.add(files.directory)
            following = int(self._windows.next_entry[number])
            self._report.entries += following - queue.first - queue.lost_entries
            last_end = int(self._windows.last_end[number])
            rest = RestCheck(files, ENTRY, self._scope, self._report, self._lost)
            rest.check(following * ENTRY_SIZE, max(last_end, 0), 1 if queue.is_made_ahead else 0)
            if queue.repeated is not None:
                note_repeated(self._report, files, queue.repeated)
        for path in queue_directories(self.directory, self._report):
            if path not in known:
                self._check_unknown(StoredFiles(path, self._file_size, self._report))
        self._report.end_runs()

    def _check_unknown(self, files: StoredFiles) -> None:
        """Check a queue that no record in the scope belongs to."""
        head = HeadCheck(files, self._settings, self._scope, self._report, self._lost)
        rest = RestCheck(files, ENTRY, self._scope, self._report, self._lost)
        end = head.known_end() if self._lost else None
        if end is not None:
            rest.check(end, 0)
        elif self._scope.is_ours and self._scope.tolerates_leftovers:
            rest.check(rest.pass_expired(), 0)
        else:
            head.check_all()


def _is_of(entry: bytes, position: int) -> bool:
    """Tell whether an entry is there, and is that of the record at a physical offset."""
    return len(entry) == ENTRY_SIZE and head_of(entry)[0] == position
