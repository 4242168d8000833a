"""Follows the messages of a topic as they come into its queues, on a live store.

An entry says where its record is, and counts once the record says the same. Until then it is being
written, or the broker has cut it and not yet written over it: the tail waits for it. If the broker
cuts its log below what was shown, the tail resumes at the first message that is another one now.

Some messages never come into a queue, because the log was damaged or had expired. Those after them
stand at lower places than their records say. Such an entry counts if the log holds no record of the
queue between its record and the one before it: then it is the queue's next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.consumequeue import PRE_BLANK_RECORD_SIZE
from reput.stores.following.queue_records import has_record
from reput.stores.log.records import is_in_queue, read_record
from reput.stores.query.tail_place import Passed, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.config.message_filter import MessageFilter
    from reput.stores.query.message_store import MessageStore
    from reput.stores.query.tail_place import Entry
    from reput.stores.queues.open_queues import AnyQueue

# Entries after one that does not fit that are looked at for one that does.
_LOOKED_AHEAD = 64


class Arrival(NamedTuple):
    """A message that has come: its queue, its offset there, and itself."""

    queue_id: int
    queue_offset: int
    record: Record


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
        self._places: dict[int, Place] = {}
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
            place = self._places[queue_id] = Place(queue, self._store.log, _start_of(queue))
            if not from_start:
                place.stand_at_end()

    def look(self) -> Iterator[Arrival]:
        """Yield what has come since the last look, each queue's messages in their order."""
        # A queue that was not there before is new as a whole.
        self._find_queues(from_start=True)
        for queue_id, place in self._places.items():
            place.queue.files.look(self._store.report)
            self._go_back(queue_id, place)
            yield from self._arrivals(queue_id, place)

    def _go_back(self, queue_id: int, place: Place) -> None:
        """Go back to the first message that is another one than was shown, if one is."""
        first = place.first_changed()
        if first is None:
            return
        count, unit = len(place.passed), place.queue.files.unit
        begin, end = place.cut_back(first)
        self._store.log.look_again()
        which = f"the messages at queue offsets {begin // unit + first} to {end // unit - 1}"
        if place.queue.is_batch:
            which = f"the last {count - first} batches"
        self.notes.append(
            f"queue {queue_id}: the log was cut; {which} are gone or have been replaced"
        )

    def _arrivals(self, queue_id: int, place: Place) -> Iterator[Arrival]:
        files = place.queue.files
        while True:
            if files.bases and place.position < files.bases[0]:
                place.position = files.bases[0]
                place.passed.clear()
            entry = place.entry(place.position)
            if entry is None:
                return
            record = self._own_record(queue_id, place, entry)
            head = place.head(entry)
            if place.cut.get(place.position) == (entry.names, head):
                # It was cut, and nothing has been written over it.
                return
            if record is None and entry.size != PRE_BLANK_RECORD_SIZE:
                if not self._is_passed_by(queue_id, place):
                    return
                # It may have been written since it was read.
                entry = place.entry(place.position)
                if entry is None:
                    return
                record, head = self._own_record(queue_id, place, entry), place.head(entry)
            place.cut.pop(place.position, None)
            place.passed.append(Passed(entry.names, head if record is not None else 0))
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

    def _own_record(self, queue_id: int, place: Place, entry: Entry) -> Record | None:
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

    def _is_next(self, queue_id: int, place: Place, entry: Entry, record: Record) -> bool:
        """Tell whether a record with a higher number than its entry's place is the queue's next.

        Then the messages with the numbers in between never came into the queue. A stale entry can
        name a record of its own queue, too, but then the queue's next one stands before it in the
        log.
        """
        if record.queue_offset < entry.queue_offset:
            return False
        before = place.entry(place.position - place.queue.files.unit)
        start = 0
        if before is not None and before.size != PRE_BLANK_RECORD_SIZE:
            start = before.physical_offset + before.size
        # An entry after the place counts only if the one at the place leads to before it.
        here = place.entry(place.position) or entry
        if here.physical_offset < start or (
            here != entry and here.physical_offset >= entry.physical_offset
        ):
            return False
        left_out = tuple(self._left_out())
        asked = (entry, start, place.head(entry), left_out)
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

    def _note_shift(self, queue_id: int, place: Place, entry: Entry, record: Record) -> None:
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

    def _is_passed_by(self, queue_id: int, place: Place) -> bool:
        """Tell whether an entry that fits stands after this one: then no broker will write here.

        Its own record has expired, or is damaged.
        """
        unit = place.queue.files.unit
        for i in range(1, _LOOKED_AHEAD + 1):
            entry = place.entry(place.position + i * unit)
            if entry is None:
                return False
            if place.cut.get(place.position + i * unit) == (entry.names, place.head(entry)):
                continue
            if self._own_record(queue_id, place, entry) is not None:
                return True
        return False


def _start_of(queue: AnyQueue) -> int:
    if queue.is_batch:
        return queue.files.bases[0] if queue.files.bases else 0
    return max(queue.min_position, *queue.files.bases[:1], 0)
