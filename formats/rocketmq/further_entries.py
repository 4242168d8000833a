"""What a record gives the queues beyond one plain entry, as a list of puts.

Most records give one entry to one queue. A record with an extension gives a unit too. One of a
topic of type BatchCQ gives a unit in place of its entry. With multi dispatch a record names further
queues in its properties, and each gets an entry. The sink writes these puts; verification expects
them.

Source: RocketMQ `ConsumeQueue#putMessagePositionInfoWrapper`,
`BatchConsumeQueue#putMessagePositionInfoWrapper`, `MultiDispatchUtils`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from reput.formats.java import strings
from reput.formats.rocketmq import consumequeue
from reput.formats.rocketmq.batchconsumequeue import Unit, inner_batch
from reput.formats.rocketmq.consumequeue import Entry
from reput.formats.rocketmq.consumequeue_ext import Unit as ExtUnit
from reput.formats.rocketmq.names import RETRY, QueueName
from reput.formats.rocketmq.properties import MULTI_DISPATCH, MULTI_QUEUE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record

_LMQ_PREFIX = "%LMQ%"
_SEPARATOR = ","
_NEVER_MULTI = (RETRY, "rmq_sys_")


class TopicSettings(Protocol):
    """What a broker's files say of a record's topic."""

    def is_batch(self, topic: str, store_timestamp: int) -> bool:
        """Tell whether a record's queue is one of type BatchCQ."""

    def bitmap_for(
        self, topic: str, properties: Mapping[str, str], store_timestamp: int
    ) -> bytes | None:
        """Return the bit map of a record's extension, None for none."""


class Own(NamedTuple):
    """A record's plain entry, and the record's facts beside it.

    Attributes:
        queue: the queue that the record names.
        queue_offset: its number there.
        entry: its entry, with the tags code.
        store_timestamp: ms.
    """

    queue: QueueName
    queue_offset: int
    entry: Entry
    store_timestamp: int


class EntryPut(NamedTuple):
    """An entry of a consume queue.

    Attributes:
        queue: which.
        queue_offset: where the record says that it belongs.
        entry: the entry, with the tags code.
        extension: a unit whose address takes the place of the tags code; None for none.
        is_further: a queue that the record names in its properties.
    """

    queue: QueueName
    queue_offset: int
    entry: Entry
    extension: ExtUnit | None
    is_further: bool


class BatchPut(NamedTuple):
    """A unit of a batch queue."""

    queue: QueueName
    unit: Unit


def own_of(record: Record, tags_code: int) -> Own:
    """Return a record's plain entry."""
    return Own(
        QueueName(record.topic, record.queue_id),
        record.queue_offset,
        Entry(record.physical_offset, record.size, tags_code),
        record.store_timestamp,
    )


def puts_of(
    own: Own, record: Record | None, settings: BrokerSettings, topics: TopicSettings
) -> Iterator[EntryPut | BatchPut]:
    """Yield what a record gives its queues, in the order in which a broker puts it.

    Each is made when it is asked for: what cannot be made (a property that is not a number) leaves
    those before it put, as in a broker.

    Args:
        own: its plain entry.
        record: the whole record; None if neither its topic, filters nor further queues need it.
        settings: the broker's.
        topics: types of topics, and consumers' filters.

    Yields:
        Nothing at all for a batch that no queue takes
        (`BatchConsumeQueue#putMessagePositionInfoWrapper`).

    Raises:
        ValueError: a property is not a number.
    """
    if record is not None and topics.is_batch(own.queue.topic, own.store_timestamp):
        unit = batch_unit(own, record)
        if unit.base_offset >= 0 and unit.batch_size >= 0:
            yield BatchPut(own.queue, unit)
        return
    extension = None
    if settings.writes_ext:
        bitmap = None
        if record is not None:
            bitmap = topics.bitmap_for(record.topic, record.properties, own.store_timestamp)
        extension = ExtUnit(own.entry.tags_code, own.store_timestamp, bitmap or b"")
    yield EntryPut(own.queue, own.queue_offset, own.entry, extension, is_further=False)
    if record is not None and settings.multi_dispatch:
        for queue, queue_offset in further_queues(record, settings):
            yield EntryPut(queue, queue_offset, own.entry, None, is_further=True)


def batch_unit(own: Own, record: Record) -> Unit:
    """Return the unit of a record in a batch queue.

    Raises:
        ValueError: its inner batch is not made of numbers.
    """
    position, size, code = own.entry
    inner = inner_batch(record.properties)
    return unit_of(position, size, code, own.store_timestamp, own.queue_offset, inner)


def unit_of(
    physical_offset: int,
    size: int,
    tags_code: int,
    store_timestamp: int,
    queue_offset: int,
    inner: tuple[int, int] | None,
) -> Unit:
    """Return the unit of a record.

    Args:
        physical_offset: bytes.
        size: bytes.
        tags_code: as in a consume queue.
        store_timestamp: ms.
        queue_offset: the record's.
        inner: first queue offset and number of messages of an inner batch.
    """
    base, messages = inner if inner is not None else (queue_offset, 1)
    return Unit(physical_offset, size, tags_code, store_timestamp, base, messages)


def further_queues(record: Record, settings: BrokerSettings) -> list[tuple[QueueName, int]]:
    """Return the further queues of a record by a broker's settings; see `multi_queues`."""
    system, nested = settings.version.multi_dispatches_system, settings.version.nests_queues
    return multi_queues(record, lmq=settings.lmq, system=system, nested=nested)


def multi_queues(
    record: Record, *, lmq: bool, system: bool, nested: bool
) -> list[tuple[QueueName, int]]:
    """Return the further queues of a record and its offset in each (`MultiDispatchUtils`).

    Args:
        record: the record.
        lmq: the broker's `enableLmq`.
        system: see `BrokerVersion.multi_dispatches_system`.
        nested: see `BrokerVersion.nests_queues`.

    Raises:
        ValueError: an offset is not a number.
    """
    topic = record.topic
    is_system = topic.startswith(_NEVER_MULTI) or topic == consumequeue.SCHEDULE_TOPIC
    if is_system and not system:
        return []
    names = _split(record.properties.get(MULTI_DISPATCH, ""))
    offsets = _split(record.properties.get(MULTI_QUEUE_OFFSET, ""))
    if not names or len(names) != len(offsets):
        return []
    return [
        (
            QueueName(name, 0 if lmq and name.startswith(_LMQ_PREFIX) else record.queue_id),
            strings.parse_long(offset),
        )
        for name, offset in zip(names, offsets, strict=True)
        if nested or "/" not in name
    ]


def _split(text: str) -> list[str]:
    """Split as Java does, which drops empty pieces at the end."""
    if strings.is_blank(text):
        return []
    pieces = text.split(_SEPARATOR)
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces
