"""The series of a store's way to Kafka, made from its state at a scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.streaming.kafka.state import TRANSACTION_BOUNDS

if TYPE_CHECKING:
    from reput.streaming.kafka.state import KafkaState
    from reput.streaming.observe.families import Families, Texts

_PREFIX = "rocketmq_reput_kafka"
_MILLISECONDS = 1000
TRANSACTION_SECONDS = f"{_PREFIX}_transaction_duration_seconds"
TEXTS: Texts = {
    f"{_PREFIX}_lag_bytes": ("Bytes of log that are dispatched and not committed to Kafka.", ()),
    f"{_PREFIX}_lag_seconds": (
        "Store time between the last dispatched record and the last one sent to Kafka.",
        (),
    ),
    f"{_PREFIX}_offset_bytes": ("Physical offset that is committed to Kafka.", ()),
    f"{_PREFIX}_in_flight_bytes": ("Bytes sent and not acknowledged yet.", ()),
    f"{_PREFIX}_connected": (
        "The last attempt to send went well; nothing before the first one.",
        (),
    ),
    f"{_PREFIX}_stopped": ("Kafka is held back until the job starts again.", ()),
    f"{_PREFIX}_messages_total": ("Messages and arrival notices sent.", ("product",)),
    f"{_PREFIX}_record_bytes_total": ("Bytes of records sent.", ()),
    f"{_PREFIX}_dead_letters_total": ("Sent to the dead-letter topic.", ()),
    f"{_PREFIX}_retries_total": ("Attempts that failed and were made again.", ()),
    f"{_PREFIX}_truncations_total": (
        "Times that the log was cut or expired below what Kafka was to have.",
        (),
    ),
    TRANSACTION_SECONDS: ("Time of a transaction, from reading the log to its commit.", ()),
}


def collect(
    families: Families, labels: tuple[str, ...], state: KafkaState, dispatched_timestamp: int
) -> None:
    """Add a store's series.

    Args:
        families: of the scrape.
        labels: of the store.
        state: of its way to Kafka.
        dispatched_timestamp: of the last record that is dispatched, ms.
    """
    late = max((dispatched_timestamp - state.store_timestamp) / _MILLISECONDS, 0.0)
    connected = None if state.is_connected is None else float(state.is_connected)
    known_late = late if state.store_timestamp > 0 else None
    for name, value in (
        ("lag_bytes", state.lag),
        ("lag_seconds", 0.0 if state.lag == 0 else known_late),
        ("offset_bytes", state.end if state.end >= 0 else None),
        ("in_flight_bytes", state.in_flight),
        ("connected", connected),
        ("stopped", float(bool(state.stopped))),
        ("record_bytes_total", state.bytes),
        ("dead_letters_total", state.dead_letters),
        ("retries_total", state.retries),
        ("truncations_total", state.truncations),
    ):
        # What is not known has no value: a zero would say that Kafka has everything.
        if value is not None:
            families.add(f"{_PREFIX}_{name}", labels, value)
    for product, count in (("messages", state.messages), ("arrivals", state.notices)):
        families.add(f"{_PREFIX}_messages_total", (*labels, product), count)
    families.add_histogram(
        TRANSACTION_SECONDS, labels, TRANSACTION_BOUNDS, state.seconds, state.total_seconds
    )
