"""Compares consume queues with the records of the log: each entry at the place it belongs to.

The twin of `sinks.files.consumequeue`: the same questions in the same order, but where that writes
this reads. The common case, the next entry of a queue, is the kernel `compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, ENTRY_STRUCT, NEVER, Entry
from reput.stores.findings import Kind, left_out
from reput.stores.verify.ends import NOT_THERE, HeadCheck, RestCheck
from reput.stores.verify.entry_kernels import WINDOW, compare
from reput.stores.verify.stored_files import StoredFiles, queue_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report, Scope
    from reput.stores.following.lost_places import LostPlaces
    from reput.stores.verify.left_out import LeftOut

_FIRST_CAPACITY = 256
_STALE = (
    "entries that the log gives are not there: others have their numbers, of records that have "
    "expired. `reput rebuild --repair` puts them right"
)
_UNKNOWN = -1


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
            scope: see there.
            report: gets what is found.
            is_record: tells whether a record of a size stands at a physical offset.
            is_deleted: tells whether a topic was deleted, its queues with it.
            lost: places of the log that cannot be read, as far as they are known when a record
                comes: all that are before it.
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
        # By queue: entries of lost records.
        self._lost_entries: dict[int, int] = {}
        self._files: dict[int, StoredFiles] = {}
        self._next_entry = np.full(_FIRST_CAPACITY, _UNKNOWN, np.int64)
        self._last_end = np.full(_FIRST_CAPACITY, NEVER, np.int64)
        self._window = np.zeros(_FIRST_CAPACITY * WINDOW * ENTRY_SIZE, np.uint8)
        self._window_first = np.zeros(_FIRST_CAPACITY, np.int64)
        # No window: the kernel hands the queue's first entry over.
        self._window_end = np.zeros(_FIRST_CAPACITY, np.int64)
        # By queue: its first entry that can be verified, whether others stand before it.
        self._first: dict[int, int] = {}
        self._has_head: dict[int, bool] = {}
        self._gone: set[int] = set()
        # Queues whose first entry may stand too low, after others that cannot be verified.
        self._may_be_shifted: set[int] = set()
        # By queue: entries that are left out, and the queue and physical offset of the first.
        self._repeated: dict[int, tuple[int, int, int]] = {}
        # Queues with an empty file behind a full one, if their next entry would begin it.
        self._made_ahead: set[int] = set()

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
        self._grow(len(queues))
        row = 0
        while True:
            row = self._compare(row, count, columns)
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

    def _compare(self, row: int, count: int, columns: Columns) -> int:
        return int(
            compare(
                row,
                count,
                columns.queue,
                columns.queue_offset,
                columns.physical_offset,
                columns.size,
                columns.tags_code,
                columns.sys_flag,
                columns.special,
                self._next_entry,
                self._last_end,
                self._window,
                self._window_first,
                self._window_end,
            )
        )

    def begin(self, number: int, name: tuple[str, int], queue_offset: int, position: int) -> bool:
        """Look at a queue's files when its first record comes; tell what stands before its entry.

        Args:
            number: the queue's.
            name: topic and queue id.
            queue_offset: the record's.
            position: its physical offset.

        Returns:
            Entries of records that the log has no more stand before the queue's first.
        """
        self._grow(number + 1)
        if number not in self._files:
            files = StoredFiles(
                self.directory / name[0] / str(name[1]), self._file_size, self._report
            )
            self._files[number] = files
            is_known = not self._lost and self._scope.floor == 0
            first = queue_offset if is_known else self._first_of(files, queue_offset, position)
            self._next_entry[number] = self._first[number] = first
            if self._left_out and not is_known:
                self._may_be_shifted.add(number)
            head = HeadCheck(files, self._settings, self._scope, self._report, self._lost)
            self._has_head[number] = head.check(first)
            if not files.bases and self._is_deleted(name[0]):
                self._gone.add(number)
                detail = "the topic was deleted, its records are still in the log"
                self._report.note(Kind.MISSING, files.directory, 0, detail)
        return self._has_head[number]

    def _first_of(self, files: StoredFiles, queue_offset: int, position: int) -> int:
        """Return the number of the entry of a queue's first record after others that are not there.

        It is the record's queue offset, but where the queue was shifted before it, or where the
        record was repeated and has no entry: then it is that of the next one that has, or the
        entries' end.
        """
        there = files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
        bases = files.bases if there[:8] != position.to_bytes(8, "big") else []
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
        return number in self._gone

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
        raw = self._raw(number, int(self._next_entry[number]))
        return Entry(*ENTRY_STRUCT.unpack(raw)) if len(raw) == ENTRY_SIZE else None

    def _pass_lost(self, number: int, queue_offset: int, position: int) -> None:
        """Go past the entries of lost records before the entry of the record at a physical offset.

        Where that entry stands at the number that its record names, all before it are looked at:
        one that is of no lost record is damaged.
        """
        files = self._files[number]
        is_in_turn: bool | None = None
        while True:
            following = int(self._next_entry[number])
            last_end = max(int(self._last_end[number]), 0)
            raw = self._raw(number, following)
            found = Entry(*ENTRY_STRUCT.unpack(raw.ljust(ENTRY_SIZE, b"\0")))
            if found.physical_offset == position and any(raw):
                return
            is_before = last_end <= found.physical_offset < position
            if is_before and self._lost.holds(found.physical_offset, found.size):
                self._report.unverifiable += 1
                self._last_end[number] = found.physical_offset + found.size
            else:
                if following >= queue_offset or not self._lost.between(last_end, position):
                    return
                if is_in_turn is None:
                    there = files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
                    is_in_turn = there[:8] == position.to_bytes(8, "big")
                if not is_in_turn:
                    return
                path, byte = files.place(following * ENTRY_SIZE)
                if any(raw):
                    detail = f"entry {following} is {tuple(found)}, of no record before {position}"
                    self._report.add(Kind.WRONG_BYTES, path, byte, detail)
                else:
                    self._report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, NOT_THERE)
            self._next_entry[number] = following + 1
            self._lost_entries[number] = self._lost_entries.get(number, 0) + 1

    def expect(self, number: int, name: tuple[str, int], queue_offset: int, entry: Entry) -> None:
        """Compare one entry with what a broker would have put, in turn or not.

        Args:
            number: the queue's.
            name: topic and queue id.
            queue_offset: where the record says that it belongs.
            entry: what it should be.
        """
        self.begin(number, name, queue_offset, entry.physical_offset)
        if self.is_gone(number):
            return
        end = entry.physical_offset + entry.size
        if end <= self._last_end[number]:
            return
        if self._lost:
            self._pass_lost(number, queue_offset, entry.physical_offset)
        following = int(self._next_entry[number])
        if queue_offset != 0 and queue_offset < following:
            if self._is_stale(number):
                path, byte = self._files[number].place(queue_offset * ENTRY_SIZE)
                self._report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, _STALE)
                return
            # The broker asks for the last file before it sees that there is nothing to put.
            if following * ENTRY_SIZE % self._file_size == 0:
                self._made_ahead.add(number)
            count, *first = self._repeated.get(number, (0, queue_offset, entry.physical_offset))
            self._repeated[number] = (count + 1, first[0], first[1])
            return
        raw = self._raw(number, following)
        if raw != entry.pack():
            self._report_difference(self._files[number], following, entry, raw)
        elif number in self._may_be_shifted and following == self._first[number] < queue_offset:
            self._report_shift(self._files[number], following, queue_offset, entry)
        self._next_entry[number] = following + 1
        self._last_end[number] = end
        self._made_ahead.discard(number)

    def _raw(self, number: int, entry: int) -> bytes:
        """Return an entry's bytes, fewer where the file ends; reads the window that it begins."""
        first, end = int(self._window_first[number]), int(self._window_end[number])
        start = number * WINDOW * ENTRY_SIZE
        if not first <= entry < end:
            data = self._files[number].read(entry * ENTRY_SIZE, WINDOW * ENTRY_SIZE)
            read = len(data) // ENTRY_SIZE
            self._window[start : start + len(data)] = np.frombuffer(data, np.uint8)
            self._window_first[number], self._window_end[number] = entry, entry + read
            if read == 0:
                return b""
            first = entry
        at = start + (entry - first) * ENTRY_SIZE
        return self._window[at : at + ENTRY_SIZE].tobytes()

    def _is_stale(self, number: int) -> bool:
        """Tell whether only records that have expired have a number that a record gives again.

        What is built of the log as it is begins the queue with that record. After one that has an
        entry, those that give a number again are left out by a broker's rebuild as well.
        """
        return self._scope.floor > 0 and self._last_end[number] == NEVER

    def _report_shift(
        self, files: StoredFiles, number: int, queue_offset: int, entry: Entry
    ) -> None:
        """Report a queue whose first entry that can be verified stands too low, with the rest."""
        position = entry.physical_offset
        if self._lost.between(self._scope.floor, position):
            # The records of entries before this one cannot be read: nothing says where they belong.
            return
        place = self._left_out.before(files, position)
        if place is None:
            return
        path, byte = files.place(number * ENTRY_SIZE)
        lacks = f"the output has nothing of physical offsets {place[0]} to {place[1]}"
        if place[0] == place[1]:
            lacks = f"the log may have been cut before physical offset {place[1]}"
        detail = (
            f"entry {number} is of the record at physical offset {position}, which says "
            f"{queue_offset}: {lacks}, so later entries of this queue stand too low. "
            "`reput rebuild --repair` puts them right"
        )
        self._report.add(Kind.SHIFTED, path, byte, detail)

    def _report_difference(self, files: StoredFiles, number: int, entry: Entry, raw: bytes) -> None:
        path, byte = files.place(number * ENTRY_SIZE)
        if len(raw) < ENTRY_SIZE or not any(raw):
            self._report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, NOT_THERE)
            return
        found = Entry(*ENTRY_STRUCT.unpack(raw))
        is_other = found.physical_offset != entry.physical_offset
        if is_other and self._is_record(found.physical_offset, found.size):
            kind = Kind.MISPLACED
        else:
            kind = Kind.WRONG_BYTES
        self._report.add(
            kind, path, byte, f"entry {number} is {tuple(found)}, expected {tuple(entry)}"
        )

    def _grow(self, queues: int) -> None:
        capacity = len(self._next_entry)
        if queues <= capacity:
            return
        more = max(queues, capacity * 2) - capacity
        self._next_entry = np.concatenate([self._next_entry, np.full(more, _UNKNOWN, np.int64)])
        self._last_end = np.concatenate([self._last_end, np.full(more, NEVER, np.int64)])
        empty = np.zeros(more, np.int64)
        self._window_first = np.concatenate([self._window_first, empty])
        self._window_end = np.concatenate([self._window_end, empty])
        room = np.zeros(more * WINDOW * ENTRY_SIZE, np.uint8)
        self._window = np.concatenate([self._window, room])

    def finish(self) -> None:
        """Look at what stands after the last entries, and at queues that no record belongs to."""
        known = set()
        for number, files in self._files.items():
            known.add(files.directory)
            following = int(self._next_entry[number])
            lost = self._lost_entries.get(number, 0)
            self._report.entries += following - self._first[number] - lost
            last_end = int(self._last_end[number])
            rest = RestCheck(files, ENTRY, self._scope, self._report, self._lost)
            ahead = 1 if number in self._made_ahead else 0
            rest.check(following * ENTRY_SIZE, max(last_end, 0), ahead)
            self._note_repeated(number, files)
        for path in queue_directories(self.directory, self._report):
            if path not in known:
                self._check_unknown(StoredFiles(path, self._file_size, self._report))
        self._report.end_runs()

    def _note_repeated(self, number: int, files: StoredFiles) -> None:
        """Note the entries that a queue does not have, as in a broker's own rebuild."""
        if number not in self._repeated:
            return
        count, queue_offset, position = self._repeated[number]
        self._report.repeated += count
        path, byte = files.place(queue_offset * ENTRY_SIZE)
        detail = (
            f"{left_out(count)}: {'it' if count == 1 else 'the first'} is {queue_offset}, of the "
            f"record at physical offset {position}. A broker's own rebuild does the same"
        )
        self._report.note(Kind.REPEATED, path, byte, detail)

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
