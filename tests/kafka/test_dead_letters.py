"""Messages that a real Kafka refuses: wherever they stand, and for whatever reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from reput.formats.errors import ReputError
from reput.formats.rocketmq.encode import Message
from tests.kafka import stores
from tests.kafka.test_failures import open_transactions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka
HOUR = 3_600_000


def message(topic: str, number: int, **changed: Any) -> Message:
    """Return a message that is now in order for any topic."""
    now = int(time.time() * 1000)
    found = Message(
        topic, b"body", {"KEYS": f"k{number}"}, queue_offset=number, store_timestamp=now,
        born_timestamp=now,
    )  # fmt: skip
    return found._replace(**changed)


def config(tmp_path: Path, broker: Broker, topic: str, **settings: Any) -> Any:
    return stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic,
                         dead_letter_topic=f"{topic}-dlq", **settings)  # fmt: skip


REFUSED = {
    "no-key": ({"properties": {}}, {"cleanup_policy": "compact"}, "Compacted topic", "key"),
    "too-late": ({"store_timestamp": int(time.time() * 1000) + 2 * HOUR}, {}, "Timestamp",
                 "clocks right"),
}  # fmt: skip


@pytest.mark.parametrize("bad", [(0,), (5,), (5, 7), tuple(range(10))], ids=str)
@pytest.mark.parametrize("kind", REFUSED)
def test_only_what_is_wrong_goes_to_the_dead_letters(
    broker: Broker, tmp_path: Path, kind: str, bad: tuple[int, ...]
) -> None:
    """
    All others arrive in order. What is refused stops nothing for the same reason there, and the
    message of the other setting names record and remedy, and leaves no transaction open.
    """
    change, configs, reason, remedy = REFUSED[kind]
    topic = f"{kind}-{'-'.join(map(str, bad))}"
    broker.make_topic(topic, 1, **configs)
    broker.make_topic(f"{topic}-dlq", 1, **configs)
    log = stores.write(
        tmp_path / "store",
        [message(topic, n, **(change if n in bad else {})) for n in range(10)],
    )
    place = rf"at byte {log.places[bad[0]].position}: Kafka refuses this record .*{remedy}"
    with pytest.raises(ReputError, match=place):
        stores.send(config(tmp_path, broker, topic))
    assert open_transactions(broker, topic) == []

    stores.send(config(tmp_path, broker, topic, on_refusal="dead-letter"))

    assert [g.queue_offset for g in stores.got(broker, topic)] == [
        n for n in range(10) if n not in bad
    ]
    dead = stores.got(broker, f"{topic}-dlq")
    assert [g.queue_offset for g in dead] == list(bad)
    for each in dead:
        wanted = log.places[each.queue_offset].message
        assert each.body == b"body"
        assert reason.encode() in each.headers["rmq.error"]
        assert int(each.headers["rmq.storeTimestamp"]) == wanted.store_timestamp
        assert (each.key or b"").startswith(b"k" if wanted.properties else topic.encode())


def test_what_is_after_a_refused_message_does_not_wait(broker: Broker, tmp_path: Path) -> None:
    """
    Batches of the partition are on their way after the one that is refused. None of them is tried
    until its patience is over, which would be an attempt that has failed.
    """
    topic = "no-stall"
    broker.make_topic(topic, 1, cleanup_policy="compact")
    broker.make_topic(f"{topic}-dlq", 1)
    bad = (500, 1500)
    stores.write(
        tmp_path / "store",
        [message(topic, n, body=bytes(2000), **({"properties": {}} if n in bad else {}))
         for n in range(2000)],
    )  # fmt: skip
    settings = {"transaction_bytes": "1m", "transaction_seconds": 0.5, "request_seconds": 3}
    sent = stores.send(config(tmp_path, broker, topic, on_refusal="dead-letter", **settings))

    assert sent.kafka is not None
    assert sent.kafka.state.retries == 0
    assert [g.queue_offset for g in stores.got(broker, topic)] == [
        n for n in range(2000) if n not in bad
    ]
    assert [g.queue_offset for g in stores.got(broker, f"{topic}-dlq")] == list(bad)


def test_a_dead_letter_that_is_too_large_is_sent_with_less(broker: Broker, tmp_path: Path) -> None:
    """
    The dead-letter topic takes no more than the topic itself: first the body goes, then the
    properties.
    """
    topic = "less-dead"
    for name in (topic, f"{topic}-dlq"):
        broker.make_topic(name, 1, max_message_bytes="5000")
    long = {"KEYS": "k", "long": "x" * 8000}
    stores.write(
        tmp_path / "store",
        [message(topic, 0), message(topic, 1, body=b"x" * 8000),
         message(topic, 2, properties=long), message(topic, 3)],
    )  # fmt: skip
    stores.send(config(tmp_path, broker, topic, on_refusal="dead-letter"))

    assert [g.queue_offset for g in stores.got(broker, topic)] == [0, 3]
    first, second = stores.got(broker, f"{topic}-dlq")
    assert (first.queue_offset, first.key, first.body) == (1, b"k1", None)
    assert first.headers["rmq.error.bodyBytes"] == b"8000"
    assert (second.queue_offset, second.body) == (2, None)
    assert "long" not in second.headers


def test_no_producer_can_say_where_a_message_stood(broker: Broker, tmp_path: Path) -> None:
    """
    What a reader finds under our names is ours, whether it takes the first header, the last or a
    dict of them; the producer's is there under another name. In dead letters as well.
    """
    topic = "spoofed"
    broker.make_topic(topic, 1)
    broker.make_topic(f"{topic}-dlq", 1)
    names = ("rmq.queueOffset", "rmq.store", "rmq.topic", "rmq.error", "rmq.mine")
    evil = {"KEYS": "k", **dict.fromkeys(names, "evil")}
    late = int(time.time() * 1000) + 2 * HOUR
    stores.write(
        tmp_path / "store",
        [message(topic, 0, properties=evil),
         message(topic, 1, properties=evil, store_timestamp=late)],
    )  # fmt: skip
    stores.send(config(tmp_path, broker, topic, on_refusal="dead-letter"))

    for number, name in ((0, topic), (1, f"{topic}-dlq")):
        (record,) = broker.read(name)
        found = dict(record.headers)
        assert len(found) == len(record.headers)
        assert found["rmq.queueOffset"] == str(number).encode()
        assert found["rmq.store"] == found["rmq.topic"] == topic.encode()
        assert all(found[f"property.{each}"] == b"evil" for each in names)
        assert ("rmq.error" in found) == (number == 1)
        assert "rmq.mine" not in found
