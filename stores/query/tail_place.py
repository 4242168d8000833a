"""One queue that is followed: what stands there, and whether what was passed is still the same."""

from __future__ import annotations

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.batchconsumequeue import UNIT_STRUCT, Unit
from reput.formats.rocketmq.commitlog import MIN_SIZE
from reput.formats.rocketmq.consumequeue import ENTRY_STRUCT
from reput.stores.log.records import read_record

if TYPE_CHECKING:
    from reput.stores.log.files import LogFiles
    from reput.stores.queues.open_queues import AnyQueue

# Messages of a queue that are remembered, to tell whether a broker has cut them.
_REMEMBERED = 1024
# This many of their records are compared at each look, besides the newest: all of them in half a
# minute. All entries are compared each time, but an equal entry may name a different record.
_COMPARED = 16
# Bytes of an entry, of either kind, that name a record: the rest may be written later.
_NAMES = 12


class Entry(NamedTuple):
    """What stands at a place of a queue; `names` are the bytes that name its record."""

    names: bytes
    queue_offset: int
    physical_offset: int
    size: int


class Passed(NamedTuple):
    """An entry that was passed: where its record is, and what tells that from others."""

    names: bytes
    head: int


@dataclass
class Place:
    """Where a queue is followed from.

    Attributes:
        queue: the queue.
        log: what its entries point into.
        position: of the next entry, bytes.
        passed: the entries before it, the newest ones.
        cut: by position: entries that were passed, and cut since.
        compared: which of the passed ones are compared next.
        newest: store timestamp of the newest message that was passed, ms.
        since: only what was stored later is new, before a position.
        shift: places by which the newest entry that was passed stands below its record's number.
        refused: entries that stand below their record's number for no known reason, with the parts
            of the log that were left out at that look.
    """

    queue: AnyQueue
    log: LogFiles
    position: int
    passed: deque[Passed] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    cut: dict[int, Passed] = field(default_factory=dict)
    compared: int = 0
    newest: int = 0
    since: tuple[int, int] = (0, 0)
    shift: int = 0
    refused: set[tuple[object, ...]] = field(default_factory=set)

    def stand_at_end(self) -> None:
        """Go to the queue's end, and remember the newest entries before it."""
        files, end = self.queue.files, self.queue.end
        first = max(self.position, end - _REMEMBERED * files.unit)
        self.position = end
        for position in range(first, end, files.unit):
            # What was there before is remembered as what was shown: it may be cut as well.
            entry = self.entry(position)
            if entry is None:
                self.passed.clear()
                continue
            is_near = end - position <= _COMPARED * files.unit
            self.passed.append(Passed(entry.names, self.head(entry) if is_near else 0))
        last = self.entry(end - files.unit) if self.passed else None
        record = read_record(self.log, last.physical_offset) if last is not None else None
        self.newest = record.store_timestamp if record is not None else 0
        if last is not None and record is not None:
            self.shift = record.queue_offset - last.queue_offset

    def entry(self, position: int) -> Entry | None:
        """Return what stands at a position, None if nothing does."""
        files = self.queue.files
        raw = files.read(position, files.unit) if position >= 0 else b""
        if len(raw) < files.unit:
            return None
        if self.queue.is_batch:
            unit = Unit(*UNIT_STRUCT.unpack(raw))
            found = Entry(raw[:_NAMES], unit.base_offset, unit.physical_offset, unit.size)
        else:
            offset, size, _ = ENTRY_STRUCT.unpack(raw)
            found = Entry(raw[:_NAMES], position // files.unit, offset, size)
        return found if found.size > 0 and found.physical_offset >= 0 else None

    def head(self, entry: Entry) -> int:
        """Return what tells a record from another one at its place, 0 where there is none."""
        log = self.log
        if not log.min_offset <= entry.physical_offset < log.end_of_files:
            return 0
        return zlib.crc32(log.bytes_at(entry.physical_offset, MIN_SIZE))

    def first_changed(self) -> int | None:
        """Return which of the entries that were passed is the first that is another one now.

        Returns:
            Its number in `passed`; None if this look found none.
        """
        count, unit = len(self.passed), self.queue.files.unit
        if not count:
            return None
        looked_at = {
            count - 1,
            *(i % count for i in range(self.compared, self.compared + _COMPARED)),
        }
        self.compared = (self.compared + _COMPARED) % count
        begin = self.position - count * unit
        # All entries in one go: those are few bytes.
        if self._are_same_entries(begin) and all(self._is_same(begin, i) for i in looked_at):
            return None
        return next((i for i in range(count) if not self._is_same(begin, i)), None)

    def cut_back(self, first: int) -> tuple[int, int]:
        """Go back to an entry that was passed; return where the entries begin and end, bytes.

        Args:
            first: its number in `passed`.
        """
        count, unit = len(self.passed), self.queue.files.unit
        begin, end = self.position - count * unit, self.position
        gone = [self.passed.pop() for _ in range(count - first)][::-1]
        self.shift = 0
        self.refused.clear()
        self.position = begin + first * unit
        self.cut |= {self.position + i * unit: each for i, each in enumerate(gone)}
        if first == 0 and begin > 0:
            # More is gone than is remembered: then only what was stored later than what was shown
            # is new.
            self.position, self.since = 0, (end, self.newest)
        return begin, end

    def _are_same_entries(self, begin: int) -> bool:
        # Commands that do not need numpy import this module too.
        import numpy as np  # noqa: PLC0415

        files = self.queue.files
        names = np.frombuffer(b"".join(each.names for each in self.passed), np.uint8)
        expected = names.reshape(-1, _NAMES)
        first = files.bases[0] if files.bases else self.position
        position = max(begin, first)
        while position < self.position:
            length = min(self.position, position - position % files.file_size + files.file_size)
            length -= position
            found = np.frombuffer(files.read(position, length), np.uint8)
            if len(found) != length:
                return False
            first_unit = (position - begin) // files.unit
            units = found.reshape(-1, files.unit)
            if not np.array_equal(units[:, :_NAMES], expected[first_unit:][: len(units)]):
                return False
            position += length
        return first < self.position or not files.bases

    def _is_same(self, begin: int, i: int) -> bool:
        """Tell whether the i-th entry that was passed, and its record, are what they were."""
        files, before = self.queue.files, self.passed[i]
        position = begin + i * files.unit
        entry = self.entry(position)
        if entry is None:
            # Its file has expired.
            return bool(files.bases) and position < files.bases[0]
        if entry.names != before.names:
            return False
        # An expired record counts as unchanged.
        return entry.physical_offset < self.log.min_offset or (before.head in {0, self.head(entry)})
