"""Follows the messages of a topic as they come into its queues, on a live store."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.batchconsumequeue import UNIT_STRUCT, Unit
from formats.consumequeue import ENTRY_STRUCT
from formats.consumequeue_ext import is_address
from stores.records import read_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.commitlog import Record
    from stores.message_filter import MessageFilter
    from stores.message_store import AnyQueue, MessageStore


class Arrival(NamedTuple):
    """A message that has come: its queue, its offset there, and itself."""

    queue_id: int
    queue_offset: int
    record: Record


class QueueTail:
    """The queues of a topic, each from a place on; a look gives what has come since."""

    def __init__(
        self,
        store: MessageStore,
        topic: str,
        message_filter: MessageFilter | None = None,
        queue_ids: frozenset[int] = frozenset(),
        *,
        from_start: bool = False,
    ) -> None:
        """Stand at the queues' ends, or their starts.

        Args:
            store: the store; only what is read by this object may be stale in it.
            topic: need not have queues yet.
            message_filter: None for all messages.
            queue_ids: only these; none for all.
            from_start: begin with the oldest message; else with the next one.
        """
        self._store = store
        self._topic = topic
        self._filter = message_filter
        self._queue_ids = queue_ids
        self._queues: dict[int, AnyQueue] = {}
        self._places: dict[int, int] = {}
        self._find_queues(from_start=from_start)

    def _find_queues(self, *, from_start: bool) -> None:
        for queue_id in self._store.queue_ids(self._topic):
            if queue_id in self._queues or (self._queue_ids and queue_id not in self._queue_ids):
                continue
            queue = self._store.queue(self._topic, queue_id)
            if queue is None:
                continue
            self._queues[queue_id] = queue
            if not from_start:
                self._places[queue_id] = queue.end
            elif queue.is_batch:
                self._places[queue_id] = queue.files.bases[0] if queue.files.bases else 0
            else:
                self._places[queue_id] = max(queue.min_position, *queue.files.bases[:1], 0)

    def look(self) -> Iterator[Arrival]:
        """Yield what has come since the last look, each queue's messages in their order."""
        # A queue that was not there before is new as a whole.
        self._find_queues(from_start=True)
        for queue_id in self._queues:
            yield from self._arrivals(queue_id)

    def _arrivals(self, queue_id: int) -> Iterator[Arrival]:
        queue, log = self._queues[queue_id], self._store.log
        files = queue.files
        while True:
            place = self._places[queue_id]
            raw = files.read(place, files.unit)
            if not raw:
                files.look(self._store.report)
                raw = files.read(place, files.unit)
            if len(raw) < files.unit:
                return
            if queue.is_batch:
                unit = Unit(*UNIT_STRUCT.unpack(raw))
                physical_offset, size, code = unit.physical_offset, unit.size, unit.tags_code
                queue_offset = unit.base_offset
            else:
                physical_offset, size, code = ENTRY_STRUCT.unpack(raw)
                queue_offset = place // files.unit
            if size <= 0:
                return
            if self._filter is not None and not self._filter.matches_code(_plain(code)):
                self._places[queue_id] = place + files.unit
                continue
            if physical_offset >= log.end_of_files:
                log.refresh()
            record = None
            if physical_offset >= log.min_offset:
                record = read_record(log, physical_offset)
                if record is None and physical_offset + size <= log.end_of_files:
                    if not self._is_followed(queue_id):
                        # Its record is not there as a whole yet.
                        return
            self._places[queue_id] = place + files.unit
            if record is not None and (
                self._filter is None or self._filter.matches(record.properties)
            ):
                yield Arrival(queue_id, queue_offset, record)

    def _is_followed(self, queue_id: int) -> bool:
        """Tell whether another entry stands behind this one: then it is not being written."""
        files = self._queues[queue_id].files
        raw = files.read(self._places[queue_id] + files.unit, files.unit)
        return len(raw) == files.unit and int.from_bytes(raw[8:12], "big", signed=True) > 0


def _plain(code: int) -> int | None:
    """Return a tags code, None where it stands in an extension; the message will say."""
    return None if is_address(code) else code
