"""Makes the position after a range that was sent, and sends it with its trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.sinks.kafka.position.position import Position
from reput.sinks.kafka.position.progress import put_records
from reput.stores.log import trail
from reput.stores.log.trail import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.sinks.kafka.client.partition import Partition
    from reput.sinks.kafka.client.producer import Client
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.position.trail import Trail
    from reput.sinks.kafka.sent import Sent

# Records that are kept to find again, and how far from one to the next at least.
_POINTS = 16
_NEWEST_POINTS = 4
# A log in which nothing is wanted still moves the position now and then, to be read only once.
_IDLE_BYTES = 64 << 20


def is_due(known: Position, sent: Sent) -> bool:
    """Tell whether Kafka is to have a position after a range.

    Args:
        known: the position before it.
        sent: what was sent of it.
    """
    # A position that has no record of the log yet gets one, to be known by.
    return not sent.is_empty or known.has_no_record or sent.end - sent.start >= _IDLE_BYTES


class PositionWriter:
    """Writes the positions of one store.

    Attributes:
        partition: of the progress topic, where they stand; None before an opening.
    """

    def __init__(
        self,
        link: Link,
        sent: Trail,
        first_record: Callable[[], tuple[int, int] | None],
    ) -> None:
        """Begin without a partition.

        Args:
            link: the store and its Kafka.
            sent: the trail of what is sent.
            first_record: returns physical offset and hash of the log's first record.
        """
        self._link = link
        self._trail = sent
        self._first_record = first_record
        self.partition: Partition | None = None

    def after(self, known: Position, sent: Sent, place: tuple[int, int]) -> Position:
        """Return the position after a range, without the process that writes it.

        Args:
            known: the position before it.
            sent: what was sent of it.
            place: physical offset and size of its last record, size 0 if it has none.
        """
        log = self._link.log
        last = trail.fingerprint(log, *place) if place[1] else None
        points = known.points
        if last is not None:
            points = trail.extended(points, Point(last, sent.end), _POINTS, _NEWEST_POINTS)
        return Position(
            end=sent.end,
            points=points,
            messages=known.messages + sent.messages,
            dead_letters=known.dead_letters + sent.dead_letters,
            cut=known.cut,
            store_timestamp=sent.store_timestamp or known.store_timestamp,
            first=self._first_record() or known.first,
            chunk=self._trail.number,
            accepted=known.accepted,
            since=known.since,
        )

    def add(
        self, client: Client, position: Position, chunks: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send a position, and before it the chunks of its trail, in batches that Kafka takes.

        Raises:
            KafkaError: something of this transaction has failed.
        """
        if self.partition is None:
            raise RuntimeError("the sink is not open")
        last = (self._link.transactional_id.encode(), position.pack())
        put_records(self._link.settings, client, self.partition, [*chunks, last])

    def commit(self, client: Client, position: Position) -> None:
        """Write a position in a transaction of its own.

        Raises:
            KafkaError: it could not be written.
        """
        client.begin()
        self.add(client, position)
        client.commit()
