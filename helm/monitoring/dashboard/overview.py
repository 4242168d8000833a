"""Does dispatch keep up? Tiles answer at a glance, over all chosen stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from helm.monitoring import series as s
from helm.monitoring.alerts.placeholders import THRESHOLDS
from helm.monitoring.dashboard.promql import REMEMBERED, at, gone, if_none_is_gone, more, one, rate
from helm.monitoring.dashboard.visualizations import (
    BYTES,
    GREEN,
    GREY,
    PER_SECOND,
    RATIO,
    RED,
    SECONDS,
    SHORT,
    UNKNOWN,
    YELLOW,
    limits,
    query,
    thresholds,
    tile,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import stat

_COLUMNS = 24
_TILES_A_LINE = 4


def panels() -> list[stat.Panel]:
    """Return the row's tiles, four a line."""
    tiles = [_keeping_up(), _dispatchers(), *_lag(), _messages(), *_space(), _trouble()]
    return [each.span(_COLUMNS // _TILES_A_LINE) for each in tiles]


def _keeping_up() -> stat.Panel:
    """Say in a word whether the worst store keeps up."""
    behind_bytes = one(s.BEHIND_BYTES)
    is_stuck = (
        f"({behind_bytes} > bool 0)"
        f" * {s.WITHOUT_BROKER} (increase({one(s.LOG_BYTES)}[5m]) == bool 0)"
    )
    is_late = f"{behind_bytes} > bool {float(THRESHOLDS['behindBytes']):.0f}"
    is_behind = f"max(2 * ({is_stuck}) + {s.WITHOUT_BROKER} ({is_late}))"
    return tile(
        "Keeping up?",
        "The worst of all chosen stores: 0 yes, 1 behind, 2 nothing moves, 4 gone: it was"
        f" dispatched within {REMEMBERED} and is not now. Leave out a store that you removed"
        " on purpose by choosing the others above.",
        f"max(4 * ({gone()} > bool 0)) or {is_behind} or vector(-1)",
        SHORT,
        words={
            "0": ("yes", GREEN),
            "1": ("behind", YELLOW),
            "2": ("stalled", RED),
            "3": ("stalled", RED),
            "4": ("gone", RED),
            **UNKNOWN,
        },
    )


def _dispatchers() -> stat.Panel:
    """Count the dispatchers of all stores, as the expected number does."""
    up = f"(count(max by (namespace, job, pod, instance) ({s.STARTED})) or vector(0))"
    seen = f"count(max by (namespace, job, pod) (last_over_time({s.STARTED}[{REMEMBERED}])))"
    expected = f"(sum({s.EXPECTED}) or {seen} or vector(0))"
    panel = tile(
        "Dispatchers up / expected",
        "Over all clusters and stores, whatever you choose above. The alert rules say how many"
        f" there should be; without them, it is how many there were within {REMEMBERED}.",
        up,
        SHORT,
    )
    missing = f"clamp_min({expected} - {up}, 0)"
    panel = panel.targets(
        [
            query(expression, name, reference).instant()
            for expression, name, reference in (
                (up, "up", "A"), (expected, "expected", "B"), (missing, "missing", "C"),
            )
        ]
    )  # fmt: skip
    panel = panel.thresholds(thresholds((None, GREEN), (0.5, RED)))
    for name in ("up", "expected"):
        color = {"mode": "fixed", "fixedColor": GREY}
        panel = panel.override_by_name(name, [DynamicConfigValue(id_val="color", value=color)])
    return panel


def _lag() -> list[stat.Panel]:
    """Say how far the worst store is behind, and how long a record waits."""
    return [
        tile(
            "Furthest behind",
            "Bytes of log not dispatched yet, for the store with the most. Unknown while a store"
            " is gone.",
            if_none_is_gone(f"max({one(s.BEHIND_BYTES)})"),
            BYTES,
            (None, GREEN),
            *limits("behindBytes", "behindBytesCritical"),
            words=UNKNOWN,
        ),
        tile(
            "Longest wait",
            "How long the oldest undispatched record has waited, for the store with the oldest"
            " one. Unknown while a store is gone.",
            if_none_is_gone(f"max({one(s.AGE)})"),
            SECONDS,
            (None, GREEN),
            *limits("behindSeconds", "behindSecondsCritical"),
            words=UNKNOWN,
        ),
    ]


def _messages() -> stat.Panel:
    """Say how much all chosen stores dispatch."""
    return tile(
        "Messages",
        "Messages dispatched a second, over all chosen stores.",
        f"sum({rate(s.MESSAGES)})",
        PER_SECOND,
        is_neutral=True,
    )


def _space() -> list[stat.Panel]:
    """Say what is left before retention, and on the disk."""
    return [
        tile(
            "Room before retention",
            "Share of the retained log that is dispatched, for the worst store. At 0 % the broker "
            "deletes what was not dispatched. Unknown while a store is gone.",
            if_none_is_gone(
                f"min(1 - sum by (cluster, store) ({one(s.BEHIND_BYTES)})"
                f" / clamp_min({at('log_end')} - {at('log_begin')}, 1))"
            ),
            RATIO,
            (None, RED),
            (1 - float(THRESHOLDS["retentionRatio"]), YELLOW),
            (0.9, GREEN),
            words=UNKNOWN,
        ),
        tile(
            "Room on disk",
            "Free share of the output's file system, for the fullest one. Unknown while a store"
            " is gone.",
            if_none_is_gone(f"min({one(s.FREE)} / {one(s.SIZE)})"),
            RATIO,
            (None, RED),
            (float(THRESHOLDS["freeRatioCritical"]), YELLOW),
            (float(THRESHOLDS["freeRatio"]), GREEN),
            words=UNKNOWN,
        ),
    ]


def _trouble() -> stat.Panel:
    """Count what you need to look at."""
    return tile(
        "Things to look at",
        "Errors, corrupt records, entries out of turn and expired records in 24 hours, and"
        " stores that have failed or are gone.",
        " + ".join(
            f"(sum({each}) or vector(0))"
            for each in (
                f"increase({one(s.ERRORS)}[24h])",
                more(s.CORRUPT, "24h"),
                "increase(" + one(s.ENTRIES, 'outcome="misplaced"') + "[24h])",
                more(s.LOST_GAPS, "24h"),
                one(s.FAILED),
                f"{gone()} > bool 0",
            )
        )
        + f" unless on () absent({one(s.BEHIND_BYTES)}) or vector(-1)",
        SHORT,
        (None, GREEN),
        (0.5, RED),
        words=UNKNOWN,
    )
