"""Settings of kafka-python that its producer, consumer and administrator have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reput.sinks.kafka.client.settings import KafkaSettings

MILLISECONDS = 1000


def connection_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return how to reach Kafka, but for security."""
    milliseconds = int(settings.request_seconds * MILLISECONDS)
    return {
        "bootstrap_servers": [host.strip() for host in settings.bootstrap.split(",")],
        "client_id": settings.client_id,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
    }
