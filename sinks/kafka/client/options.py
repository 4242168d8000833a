"""Settings that kafka-python is given: those of all its clients, and those of a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.sinks.kafka.client.settings import NONE

if TYPE_CHECKING:
    from reput.sinks.kafka.client.settings import KafkaSettings

MILLISECONDS = 1000
# Requests carry batches of several partitions up to this; brokers take 100 MiB by default.
_REQUEST_BYTES = 8 << 20


def connection_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return how to reach Kafka, but for security."""
    milliseconds = int(settings.request_seconds * MILLISECONDS)
    return {
        "bootstrap_servers": [host.strip() for host in settings.bootstrap.split(",")],
        "client_id": settings.client_id,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
    }


def producer_options(settings: KafkaSettings, transactional_id: str | None) -> dict[str, Any]:
    """Return kafka-python's settings of a producer, but for security."""
    milliseconds = int(settings.request_seconds * MILLISECONDS)
    return {
        **connection_options(settings),
        "transactional_id": transactional_id,
        "transaction_timeout_ms": int(settings.transaction_timeout_seconds * MILLISECONDS),
        "enable_idempotence": True,
        "acks": "all",
        "compression_type": None if settings.compression == NONE else settings.compression,
        "max_request_size": max(_REQUEST_BYTES, settings.max_message_bytes),
        "max_block_ms": milliseconds,
        "delivery_timeout_ms": 2 * milliseconds,
        "reconnect_backoff_max_ms": MILLISECONDS,
        "allow_auto_create_topics": settings.auto_create_topics,
        "metrics_enabled": False,
    }
