"""Follows the messages of a topic as they come into its queues, on a live store.

An entry says where its record is, and is believed when the record says the same. One that is being
written, or that a broker has cut and not yet written over, does not: it is waited for. Where the
broker cuts its log below what was shown, the queue is followed from the first message that is
another one now.

Where messages never came into a queue, because the log was damaged or had expired, those after them
stand at lower places than their records say. Such an entry is believed when the log holds no record
of the queue between its record and the one before it: it is the queue's next one.
"""

from __future__ import annotations

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.batchconsumequeue import UNIT_STRUCT, Unit
from reput.formats.rocketmq.commitlog import MIN_SIZE
from reput.formats.rocketmq.consumequeue import ENTRY_STRUCT
from reput.stores.following.queue_records import has_record
from reput.stores.log.records import is_in_queue, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.config.message_filter import MessageFilter
    from reput.stores.query.message_store import AnyQueue, MessageStore

# Messages of a queue that are remembered, to tell whether a broker has cut them.
_REMEMBERED = 1024
# This many of their records are compared at each look, besides the newest: all of them in half a
# minute. All entries are compared each time, but an equal entry may name a different record.
_COMPARED = 16
# Entries after one that does not fit that are looked at for one that does.
_LOOKED_AHEAD = 64
# Bytes of an entry, of either kind, that name a record: the rest may be written later.
_NAMES = 12
# What an entry says that fills a gap in a queue.
_FILLING_SIZE = 0x7FFFFFFF


class Arrival(NamedTuple):
    """A message that has come: its queue, its offset there, and itself."""

    queue_id: int
    queue_offset: int
    record: Record


class _Entry(NamedTuple):
    """What stands at a place of a queue; `names` are the bytes that name its record."""

    names: bytes
    queue_offset: int
    physical_offset: int
    size: int


class _Passed(NamedTuple):
    """An entry that was passed: where its record is, and what tells that from others."""

    names: bytes
    head: int


@dataclass
class _Place:
    """Where a queue is followed from.

    Attributes:
        queue: the queue.
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
    position: int
    passed: deque[_Passed] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    cut: dict[int, _Passed] = field(default_factory=dict)
    compared: int = 0
    newest: int = 0
    since: tuple[int, int] = (0, 0)
    shift: int = 0
    refused: set[tuple[object, ...]] = field(default_factory=set)


def _nothing() -> Sequence[tuple[int, int]]:
    return ()


class QueueTail:
    """The queues of a topic, each from a place on; a look gives what has come since.

    Attributes:
        notes: what happened to messages already shown, in words; the caller prints and clears them.
        looked_at: messages that came, whether the filter lets them pass or not.
    """

    def __init__(
        self,
        store: MessageStore,
        topic: str,
        message_filter: MessageFilter | None = None,
        queue_ids: frozenset[int] = frozenset(),
        *,
        from_start: bool = False,
        left_out: Callable[[], Sequence[tuple[int, int]]] = _nothing,
    ) -> None:
        """Stand at the queues' ends, or their starts.

        Args:
            store: the store; only what is read by this object may be stale in it.
            topic: need not have queues yet.
            message_filter: None for all messages.
            queue_ids: only these; none for all.
            from_start: begin with the oldest message; else with the next one.
            left_out: returns physical offsets [start, end) whose records the queues do not have.
        """
        self._left_out = left_out
        self._is_shift_noted = False
        self._store = store
        self._topic = topic
        self._filter = message_filter
        self._queue_ids = queue_ids
        self._places: dict[int, _Place] = {}
        self.notes: list[str] = []
        self.looked_at = 0
        self._find_queues(from_start=from_start)

    @property
    def has_queues(self) -> bool:
        """Tell whether there is anything to follow."""
        return bool(self._places)

    def _find_queues(self, *, from_start: bool) -> None:
        for queue_id in self._store.queue_ids(self._topic):
            if queue_id in self._places or (self._queue_ids and queue_id not in self._queue_ids):
                continue
            queue = self._store.queue(self._topic, queue_id)
            if queue is None:
                continue
            place = self._places[queue_id] = _Place(queue, _start_of(queue))
            if not from_start:
                self._stand_at_end(place)

    def _stand_at_end(self, place: _Place) -> None:
        files, end = place.queue.files, place.queue.end
        first = max(place.position, end - _REMEMBERED * files.unit)
        place.position = end
        for position in range(first, end, files.unit):
            # What was there before is remembered as what was shown: it may be cut as well.
            entry = self._entry(place, position)
            if entry is None:
                place.passed.clear()
                continue
            is_near = end - position <= _COMPARED * files.unit
            place.passed.append(_Passed(entry.names, self._head(entry) if is_near else 0))
        last = self._entry(place, end - files.unit) if place.passed else None
        record = read_record(self._store.log, last.physical_offset) if last is not None else None
        place.newest = record.store_timestamp if record is not None else 0
        if last is not None and record is not None:
            place.shift = record.queue_offset - last.queue_offset

    def look(self) -> Iterator[Arrival]:
        """Yield what has come since the last look, each queue's messages in their order."""
        # A queue that was not there before is new as a whole.
        self._find_queues(from_start=True)
        for queue_id, place in self._places.items():
            place.queue.files.look(self._store.report)
            self._go_back(queue_id, place)
            yield from self._arrivals(queue_id, place)

    def _entry(self, place: _Place, position: int) -> _Entry | None:
        """Return what stands at a position, None if nothing does."""
        files = place.queue.files
        raw = files.read(position, files.unit) if position >= 0 else b""
        if len(raw) < files.unit:
            return None
        if place.queue.is_batch:
            unit = Unit(*UNIT_STRUCT.unpack(raw))
            found = _Entry(raw[:_NAMES], unit.base_offset, unit.physical_offset, unit.size)
        else:
            offset, size, _ = ENTRY_STRUCT.unpack(raw)
            found = _Entry(raw[:_NAMES], position // files.unit, offset, size)
        return found if found.size > 0 and found.physical_offset >= 0 else None

    def _head(self, entry: _Entry) -> int:
        """Return what tells a record from another one at its place, 0 where there is none."""
        log = self._store.log
        if not log.min_offset <= entry.physical_offset < log.end_of_files:
            return 0
        return zlib.crc32(log.bytes_at(entry.physical_offset, MIN_SIZE))

    def _go_back(self, queue_id: int, place: _Place) -> None:
        """Go back to the first message that is another one than was shown, if one is."""
        count, unit = len(place.passed), place.queue.files.unit
        if not count:
            return
        looked_at = {
            count - 1,
            *(i % count for i in range(place.compared, place.compared + _COMPARED)),
        }
        place.compared = (place.compared + _COMPARED) % count
        begin = place.position - count * unit
        # All entries in one go: those are few bytes.
        if not self._are_same_entries(place, begin) or not all(
            self._is_same(place, begin, i) for i in looked_at
        ):
            first = next((i for i in range(count) if not self._is_same(place, begin, i)), count)
            self._cut(queue_id, place, begin, first)

    @staticmethod
    def _are_same_entries(place: _Place, begin: int) -> bool:
        # Commands that do not need numpy import this module too.
        import numpy as np  # noqa: PLC0415

        files = place.queue.files
        names = np.frombuffer(b"".join(each.names for each in place.passed), np.uint8)
        expected = names.reshape(-1, _NAMES)
        first = files.bases[0] if files.bases else place.position
        position = max(begin, first)
        while position < place.position:
            length = min(place.position, position - position % files.file_size + files.file_size)
            length -= position
            found = np.frombuffer(files.read(position, length), np.uint8)
            if len(found) != length:
                return False
            first_unit = (position - begin) // files.unit
            units = found.reshape(-1, files.unit)
            if not np.array_equal(units[:, :_NAMES], expected[first_unit:][: len(units)]):
                return False
            position += length
        return first < place.position or not files.bases

    def _is_same(self, place: _Place, begin: int, i: int) -> bool:
        """Tell whether the i-th entry that was passed, and its record, are what they were."""
        files, before = place.queue.files, place.passed[i]
        position = begin + i * files.unit
        entry = self._entry(place, position)
        if entry is None:
            # Its file has expired.
            return bool(files.bases) and position < files.bases[0]
        if entry.names != before.names:
            return False
        # An expired record counts as unchanged.
        return entry.physical_offset < self._store.log.min_offset or (
            before.head in {0, self._head(entry)}
        )

    def _cut(self, queue_id: int, place: _Place, begin: int, first: int) -> None:
        count, unit = len(place.passed), place.queue.files.unit
        if first == count:
            return
        gone = [place.passed.pop() for _ in range(count - first)][::-1]
        place.shift = 0
        place.refused.clear()
        end, place.position = place.position, begin + first * unit
        place.cut |= {place.position + i * unit: each for i, each in enumerate(gone)}
        if first == 0 and begin > 0:
            # More is gone than is remembered: then only what was stored later than what was shown
            # is new.
            place.position, place.since = 0, (end, place.newest)
        self._store.log.look_again()
        which = f"the messages at queue offsets {begin // unit + first} to {end // unit - 1}"
        if place.queue.is_batch:
            which = f"the last {count - first} batches"
        self.notes.append(
            f"queue {queue_id}: the log was cut; {which} are gone or have been replaced"
        )

    def _arrivals(self, queue_id: int, place: _Place) -> Iterator[Arrival]:
        files = place.queue.files
        while True:
            if files.bases and place.position < files.bases[0]:
                place.position = files.bases[0]
                place.passed.clear()
            entry = self._entry(place, place.position)
            if entry is None:
                return
            record = self._own_record(queue_id, place, entry)
            head = self._head(entry)
            if place.cut.get(place.position) == (entry.names, head):
                # It was cut, and nothing has been written over it.
                return
            if record is None and entry.size != _FILLING_SIZE:
                if not self._is_passed_by(queue_id, place):
                    return
                # It may have been written since it was read.
                entry = self._entry(place, place.position)
                if entry is None:
                    return
                record, head = self._own_record(queue_id, place, entry), self._head(entry)
            place.cut.pop(place.position, None)
            place.passed.append(_Passed(entry.names, head if record is not None else 0))
            is_new = place.position >= place.since[0] or (
                record is not None and record.store_timestamp > place.since[1]
            )
            place.position += files.unit
            place.refused.clear()
            if record is None:
                continue
            self._note_shift(queue_id, place, entry, record)
            place.newest = max(place.newest, record.store_timestamp)
            self.looked_at += is_new
            if is_new and (self._filter is None or self._filter.matches(record.properties)):
                yield Arrival(queue_id, entry.queue_offset, record)

    def _own_record(self, queue_id: int, place: _Place, entry: _Entry) -> Record | None:
        """Return the record of an entry if it is in the log, as a whole, and says the same."""
        log = self._store.log
        if entry.physical_offset >= log.end_of_files:
            log.refresh()
        record = read_record(log, entry.physical_offset)
        if record is None or record.size != entry.size:
            return None
        if not is_in_queue(record, self._topic, queue_id):
            return None
        if (record.topic, record.queue_id) != (self._topic, queue_id):
            # Its number in a further queue stands in its properties.
            return record
        if place.queue.is_batch:
            return record
        shift = record.queue_offset - entry.queue_offset
        if shift not in {0, place.shift} and not self._is_next(queue_id, place, entry, record):
            return None
        return record

    def _is_next(self, queue_id: int, place: _Place, entry: _Entry, record: Record) -> bool:
        """Tell whether a record with a higher number than its entry's place is the queue's next.

        Then what has the numbers in between never came into the queue. A stale entry can name a
        record of its own queue, too, but then the queue's next one stands before that in the log.
        """
        if record.queue_offset < entry.queue_offset:
            return False
        before = self._entry(place, place.position - place.queue.files.unit)
        start = 0
        if before is not None and before.size != _FILLING_SIZE:
            start = before.physical_offset + before.size
        # An entry after the place counts only if the one at the place leads to before it.
        here = self._entry(place, place.position) or entry
        if here.physical_offset < start or (
            here != entry and here.physical_offset >= entry.physical_offset
        ):
            return False
        left_out = tuple(self._left_out())
        asked = (entry, start, self._head(entry), left_out)
        if asked in place.refused:
            return False
        if has_record(
            self._store.log,
            (start, entry.physical_offset),
            (self._topic, queue_id),
            (place.position // place.queue.files.unit, record.queue_offset),
            left_out,
        ):
            place.refused.add(asked)
            return False
        return True

    def _note_shift(self, queue_id: int, place: _Place, entry: _Entry, record: Record) -> None:
        """Keep how far an entry that was passed stands below its record's number, and say so."""
        is_own = (record.topic, record.queue_id) == (self._topic, queue_id)
        if place.queue.is_batch or not is_own:
            return
        place.shift = record.queue_offset - entry.queue_offset
        if place.shift > 0 and not self._is_shift_noted:
            self._is_shift_noted = True
            self.notes.append(
                f"queue {queue_id}: at queue offset {entry.queue_offset}, messages stand "
                f"{place.shift} places below the queue offsets in their records: earlier messages "
                "never came into the queue, as their part of the log was passed over or had "
                "expired. Other queues may have such places, too"
            )

    def _is_passed_by(self, queue_id: int, place: _Place) -> bool:
        """Tell whether an entry that fits stands after this one: then nobody will write here.

        Its own record has expired, or is damaged.
        """
        unit = place.queue.files.unit
        for i in range(1, _LOOKED_AHEAD + 1):
            entry = self._entry(place, place.position + i * unit)
            if entry is None:
                return False
            if place.cut.get(place.position + i * unit) == (entry.names, self._head(entry)):
                continue
            if self._own_record(queue_id, place, entry) is not None:
                return True
        return False


def _start_of(queue: AnyQueue) -> int:
    if queue.is_batch:
        return queue.files.bases[0] if queue.files.bases else 0
    return max(queue.min_position, *queue.files.bases[:1], 0)
