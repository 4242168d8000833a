"""What goes wrong with Kafka: more causes of alerts (`causes`), with a real Kafka broker.

Each function starts a broker and a job that sends to it, and checks that all is well before it
breaks something.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from helm.monitoring import panels
from helm.monitoring import series as s
from tests.alerts.place import until
from tests.cluster.rig import expect
from tests.kafka.broker import Broker

if TYPE_CHECKING:
    from reput.streaming.demo.writer import Writer
    from tests.alerts.place import Place

# Longer than any of Kafka's alerts but that about lag looks back and waits.
_QUIET_SECONDS = 30.0
# Bytes a second that Kafka takes: a tenth of what is appended.
_QUOTA = 30_000
# Messages, five times a second.
_APPENDED = 200
# Bytes: what a topic takes, and the body of a message that it does not. A log file has 256 KiB.
_TOPIC_TAKES, _TOO_LARGE = 50_000, 100_000


def kafka_slow(place: Place) -> None:
    """A log grows, and a quota in Kafka lets the job send a tenth of it."""
    broker = _kafka(place)
    writer = _send(place, broker)
    broker.limit("reput", _QUOTA)
    _grow(place, writer, "KafkaBehind")
    _, wrong = panels.run_all(place.server.url)
    expect(not wrong, f"panels over {place.name}: {', '.join(wrong)}")


def kafka_killed(place: Place) -> None:
    """A log grows, and Kafka is killed."""
    broker = _kafka(place)
    writer = _send(place, broker)
    broker.kill()
    _grow(place, writer, "KafkaAway")


def kafka_refuses(place: Place) -> None:
    """A message is larger than its topic takes, and the job has a dead-letter topic."""
    broker = _kafka(place, _TOPIC_TAKES)
    broker.make_topic("reput-dead-letters", 1)
    _append_too_large(_send(place, broker, "--kafka", "on_refusal=dead-letter"))


def kafka_stopped(place: Place) -> None:
    """The same, but the job has no such topic: it holds Kafka back."""
    broker = _kafka(place, _TOPIC_TAKES)
    _append_too_large(_send(place, broker))


def _kafka(place: Place, takes: int = 1 << 20) -> Broker:
    """Start a broker with a topic for the store; it ends after the job.

    Args:
        place: whose.
        takes: bytes, the largest batch that the topic takes.
    """
    broker = Broker(place.directory / f"{place.name}-kafka")
    place.beside.callback(broker.stop)
    broker.start()
    broker.make_topic(place.name, max_message_bytes=str(takes))
    return broker


def _send(place: Place, broker: Broker, *more: str) -> Writer:
    """Start a job that sends a log to that topic, and declare that the cause begins now.

    Returns:
        what appends more to the log.
    """
    writer = place.write(2000)
    has_all = {s.KAFKA_CONNECTED: 1, s.KAFKA_LAG_BYTES: 0}

    def is_well() -> bool:
        return all(place.value(name) == value for name, value in has_all.items())

    # A busy machine takes longer for a start than what three minutes are here.
    place.server.is_due = is_well
    place.start("--kafka-bootstrap", broker.address, "--kafka", "topic={store}", *more)
    place.wait_until_ready()
    until(is_well, f"{place.name}: a Kafka that has all")
    time.sleep(_QUIET_SECONDS)
    place.begin()
    return writer


def _grow(place: Place, writer: Writer, alert: str) -> None:
    """Append at a rate until an alert fires."""

    def has_fired() -> bool:
        for _ in range(_APPENDED):
            writer.append(writer.next_message())
        return place.server.has_fired(alert)

    until(has_fired, f"{alert} by {place.name}")


def _append_too_large(writer: Writer) -> None:
    writer.append(writer.next_message()._replace(body=bytes(_TOO_LARGE)))
