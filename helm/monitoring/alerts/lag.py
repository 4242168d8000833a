"""How late is dispatch? Alerts about lag, and about retention that may outrun it."""

from __future__ import annotations

from helm.monitoring import series as s
from helm.monitoring.alerts.alert import CRITICAL, STORE, WARNING, Alert
from helm.monitoring.alerts.conditions import BEHIND, behind, offset

_RETAINED = f"({offset('log_end')} - {offset('log_begin')})"

ALERTS = (
    Alert(
        "BehindBytes",
        WARNING,
        "2m",
        behind(s.BEHIND_BYTES, "${behindBytes}", "30m", "10m"),
        f"Dispatch of {STORE} is behind its log",
        "On average {{ $value | humanize1024 }}B were not dispatched over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "BehindBytesCritical",
        CRITICAL,
        "2m",
        behind(s.BEHIND_BYTES, "${behindBytesCritical}", "30m", "10m"),
        f"Dispatch of {STORE} is far behind its log",
        "On average {{ $value | humanize1024 }}B were not dispatched over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "BehindSeconds",
        WARNING,
        "2m",
        behind(s.AGE, "${behindSeconds}", "30m", "10m"),
        f"Consumers of {STORE} see messages late",
        "Dispatch was {{ $value | humanizeDuration }} late on average over 30 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "BehindSecondsCritical",
        CRITICAL,
        "2m",
        behind(s.AGE, "${behindSecondsCritical}", "15m", "10m"),
        f"Consumers of {STORE} see messages very late",
        "Dispatch was {{ $value | humanizeDuration }} late on average over 15 minutes; the last 10"
        " minutes are above the threshold too.",
    ),
    Alert(
        "RetentionNear",
        CRITICAL,
        "15m",
        f"last_over_time({BEHIND}[10m])"
        f" > {s.WITHOUT_BROKER} ${{retentionRatio}} * {_RETAINED}\n"
        f"and {s.WITHOUT_BROKER} delta({BEHIND}[30m]) >= 0",
        f"Retention may outrun the dispatch of {STORE}",
        "{{ $value | humanize1024 }}B are not dispatched. This is a large part of what the broker"
        " keeps, and it is not shrinking. The broker deletes by age, dispatched or not.",
    ),
)
