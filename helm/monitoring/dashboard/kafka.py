"""Does Kafka get what is dispatched? Graphs show lag, flow and trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helm.monitoring import series as s
from helm.monitoring.dashboard.promql import one, quantile, rate
from helm.monitoring.dashboard.visualizations import (
    BYTES,
    BYTES_PER_SECOND,
    NAMED,
    PER_SECOND,
    RED,
    SECONDS,
    SHORT,
    graph,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import timeseries


def panels() -> list[timeseries.Panel]:
    """Return the row's graphs."""
    return [*_lag(), *_flow(), *_trouble()]


def _lag() -> list[timeseries.Panel]:
    """Graph how far Kafka lags behind dispatch."""
    return [
        graph(
            "Kafka behind, bytes",
            "Log that is dispatched and not committed to Kafka. Dispatch does not wait for it.",
            BYTES,
            [(one(s.KAFKA_LAG_BYTES), NAMED)],
            8,
        ),
        graph(
            "Kafka behind, seconds",
            "How much later Kafka's consumers see messages than RocketMQ's.",
            SECONDS,
            [(one(s.KAFKA_LAG_SECONDS), NAMED)],
            8,
        ),
    ]


def _flow() -> list[timeseries.Panel]:
    """Graph how much goes to Kafka, and how fast."""
    return [
        graph(
            "To Kafka a second",
            "Messages and arrival notices sent, and the log's offset moving.",
            PER_SECOND,
            [(rate(s.KAFKA_MESSAGES), f"{NAMED} {{{{product}}}}")],
            8,
        ),
        graph(
            "Transactions",
            "99 of 100, and half of them, take no longer than this.",
            SECONDS,
            [
                (quantile(0.99, s.KAFKA_SECONDS), f"{NAMED} p99"),
                (quantile(0.5, s.KAFKA_SECONDS), f"{NAMED} p50"),
            ],
            8,
        ),
        graph(
            "Bytes to Kafka a second",
            "Records sent, and log committed.",
            BYTES_PER_SECOND,
            [
                (rate(s.KAFKA_BYTES), f"{NAMED} records"),
                (f"clamp_min(deriv({one(s.KAFKA_OFFSET)}[5m]), 0)", f"{NAMED} log"),
            ],
            8,
        ),
        graph(
            "On the way to Kafka",
            "Bytes sent and not acknowledged yet.",
            BYTES,
            [(one(s.KAFKA_IN_FLIGHT), NAMED)],
            8,
        ),
    ]


def _trouble() -> list[timeseries.Panel]:
    """Graph what Kafka refuses, and whether it is away or held back."""
    return [
        graph(
            "Trouble with Kafka, in an hour",
            "Repeated attempts, dead letters, logs that were cut.",
            SHORT,
            [
                (f"increase({one(s.KAFKA_RETRIES)}[1h])", f"{NAMED} retries"),
                (f"increase({one(s.KAFKA_DEAD)}[1h])", f"{NAMED} dead letters"),
                (f"increase({one(s.KAFKA_TRUNCATIONS)}[1h])", f"{NAMED} log cut"),
            ],
            8,
        ),
        graph(
            "Kafka held back",
            "1: nothing is sent until you act and restart the job. The job's log names topic,"
            " record and remedy.",
            SHORT,
            [(one(s.KAFKA_HELD), NAMED)],
            8,
            (1.0, RED),
        ).max(1),
        graph(
            "Kafka connected",
            "1: the last attempt succeeded. 0: it failed, and the job tries again.",
            SHORT,
            [(one(s.KAFKA_CONNECTED), NAMED)],
            8,
        ).max(1),
    ]
