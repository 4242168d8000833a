"""Which store does not keep up, or has failed? Graphs have a line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helm.monitoring import series as s
from helm.monitoring.alerts.dispatchers import SILENT_SECONDS
from helm.monitoring.dashboard.promql import LOG_END, at, one, quantile, rate
from helm.monitoring.dashboard.visualizations import (
    BYTES,
    BYTES_PER_SECOND,
    NAMED,
    PER_SECOND,
    RED,
    SECONDS,
    SHORT,
    graph,
    limits,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import timeseries


def panels() -> list[timeseries.Panel]:
    """Return the row's graphs."""
    return [*_lag(), *_flow(), *_writers()]


def _lag() -> list[timeseries.Panel]:
    """Graph how late dispatch is, and what space it has left."""
    return [
        graph(
            "Behind, bytes",
            "Log that is not dispatched yet. It rises if the log grows faster than it is"
            " dispatched. The lines are where the alerts begin.",
            BYTES,
            [(one(s.BEHIND_BYTES), NAMED)],
            12,
            *limits("behindBytes", "behindBytesCritical"),
        ),
        graph(
            "Oldest undispatched record",
            "How long it has waited, by the dispatcher's clock: how late consumers see messages."
            " The lines are where the alerts begin.",
            SECONDS,
            [(one(s.AGE), NAMED)],
            12,
            *limits("behindSeconds", "behindSecondsCritical"),
        ),
        graph(
            "Behind, seconds",
            "Store time between the log's last record and the last dispatched one. It does not grow"
            " while the log is idle.",
            SECONDS,
            [(one(s.BEHIND_SECONDS), NAMED)],
        ),
        graph(
            "Free space of the output",
            "Free bytes of the output's file system.",
            BYTES,
            [(one(s.FREE), NAMED)],
        ),
    ]


def _flow() -> list[timeseries.Panel]:
    """Graph how much is dispatched, how soon, and what of it is not recorded."""
    return [
        graph(
            "Messages a second",
            "Records dispatched.",
            PER_SECOND,
            [(rate(s.MESSAGES), NAMED)],
        ),
        graph(
            "Log, dispatched and written",
            "Bytes a second: what is dispatched, and what the broker writes.",
            BYTES_PER_SECOND,
            [
                (rate(s.LOG_BYTES), f"{NAMED} dispatched"),
                (f"clamp_min(deriv({one(s.OFFSET, LOG_END)}[5m]), 0)", f"{NAMED} written"),
            ],
        ),
        graph(
            "Stored until visible",
            "From a record's store timestamp to its consume queue entry.",
            SECONDS,
            [
                (quantile(0.5, s.LATENCY), f"{NAMED} p50"),
                (quantile(0.99, s.LATENCY), f"{NAMED} p99"),
            ],
        ),
        graph(
            "Not recorded yet",
            "Dispatched bytes that a restart would dispatch again. Falls to 0 each time that"
            " progress is recorded, once a minute as in a broker.",
            BYTES,
            [
                (
                    f"clamp_min({at('dispatched')} - ({at('recorded')} or {at('log_begin')}), 0)",
                    NAMED,
                )
            ],
        ),
    ]


def _writers() -> list[timeseries.Panel]:
    """Graph which stores have failed, and which writers do not move."""
    return [
        graph(
            "Stores that have failed",
            "1: the store is not dispatched. It has failed and is tried again, or waits at damage;"
            " the job's log names file and remedy.",
            SHORT,
            [(one(s.FAILED), NAMED)],
            12,
            (1.0, RED),
        ).max(1),
        graph(
            "Silence of writers",
            "How long ago each store's writer was last seen to work. The line is where the alert"
            " begins. It rises while a disk hangs, and for some seconds in a slow flush.",
            SECONDS,
            [(one(s.SILENT), NAMED)],
            12,
            (float(SILENT_SECONDS), RED),
        ),
    ]
