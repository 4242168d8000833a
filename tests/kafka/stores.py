"""Stores to send, and what readers of Kafka have to find of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.rocketmq.encode import Message
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import StoreConfig, store_config
from reput.streaming.settings.kafka import kafka_settings
from tests.builders.stores import Log

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable
    from pathlib import Path

    from tests.kafka.broker import Broker

FILE_SIZE = 1 << 20
STORED_AT = 1_700_000_000_000


class Got(NamedTuple):
    """One message as a reader of Kafka has it."""

    queue: tuple[str, int]
    queue_offset: int
    physical_offset: int
    key: bytes | None
    body: bytes | None
    headers: dict[str, bytes]


def messages(count: int, topics: Iterable[str], pick: random.Random, queues: int = 4):
    """Yield messages of some topics with queue offsets that follow one another."""
    following: dict[tuple[str, int], int] = defaultdict(int)
    names = list(topics)
    for number in range(count):
        queue = pick.choice(names), pick.randrange(queues)
        yield Message(
            queue[0],
            body=pick.randbytes(pick.randrange(200)),
            properties={"KEYS": f"key-{number % 97}", "TAGS": pick.choice("ABC"), "n": str(number)},
            queue_id=queue[1],
            queue_offset=following[queue],
            store_timestamp=STORED_AT + number,
            born_timestamp=STORED_AT + number - 5,
        )
        following[queue] += 1


def write(store: Path, found: Iterable[Message]) -> Log:
    """Write a store with these messages."""
    log = Log(FILE_SIZE)
    for message in found:
        log.append(message)
    log.write(store)
    return log


def config(store: Path, output: Path, broker: Broker | str, **settings: Any) -> StoreConfig:
    """Return a store's configuration with a way to Kafka."""
    address = broker if isinstance(broker, str) else broker.address
    conf = {"mappedFileSizeCommitLog": str(FILE_SIZE)}
    made = store_config(store, output, name=settings.pop("name", "broker-a"), broker_conf=conf)
    settings = {"refusal_seconds": 2, "request_seconds": 10, **settings}
    return replace(made, kafka=kafka_settings({"bootstrap": address, **settings}))


def send(made: StoreConfig, **options: Any) -> StoreDispatcher:
    """Dispatch all that a store has, wait until Kafka has it, and close; return what was used."""
    dispatcher = StoreDispatcher(made, **options)
    try:
        go_on(dispatcher)
    finally:
        dispatcher.close()
    return dispatcher


def go_on(dispatcher: StoreDispatcher, end: int | None = None) -> None:
    """Dispatch up to `end`, or all that there is, and wait until Kafka has it."""
    dispatcher.dispatch(find_tail(dispatcher.log).end if end is None else end)
    dispatcher.drain_kafka(lambda: False)


def got(broker: Broker, *topics: str, level: str = "read_committed") -> list[Got]:
    """Return what readers of topics see."""
    found = []
    for record in broker.read(*topics, level=level):
        headers = dict(record.headers)
        found.append(
            Got(
                queue=(headers["rmq.topic"].decode(), int(headers["rmq.queueId"])),
                queue_offset=int(headers["rmq.queueOffset"]),
                physical_offset=int(headers["rmq.physicalOffset"]),
                key=record.key,
                body=record.value,
                headers=headers,
            )
        )
    return found


def by_queue(found: Iterable[Got]) -> dict[tuple[str, int], list[tuple[int, bytes | None]]]:
    """Return queue offset and body of messages, queue by queue, in the order of arrival."""
    queues = defaultdict(list)
    for each in found:
        queues[each.queue].append((each.queue_offset, each.body))
    return dict(queues)


def in_log(log: Log) -> dict[tuple[str, int], list[tuple[int, bytes | None]]]:
    """Return the same of a log."""
    queues = defaultdict(list)
    for place in log.places:
        m = place.message
        queues[str(m.topic), m.queue_id].append((m.queue_offset, m.body))
    return dict(queues)
