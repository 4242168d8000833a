"""Which rules does Prometheus load? All alerts, for the chart and for a plain Prometheus."""

from __future__ import annotations

import re
from typing import Any

from helm.monitoring import series as s
from helm.monitoring.alerts import dispatchers, integrity, kafka, lag, serving, space
from helm.monitoring.alerts.conditions import AGE, DAY

ALERTS = (
    *dispatchers.ALERTS,
    *lag.ALERTS,
    *space.ALERTS,
    *integrity.ALERTS,
    *kafka.ALERTS,
    *serving.ALERTS,
)

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+)([smh])\b")
_WINDOW = re.compile(r"\[[^\]]+\]|\boffset \w+")
_AGE = re.compile(rf"(?<={re.escape(AGE)} )(<|>=) (\d+)")


def rule_file(speed: int = 1, *, has_links: bool = True) -> dict[str, Any]:
    """Return the rule file with its placeholders.

    Args:
        speed: divides windows, holds, ages and the distance of predictions, which spares a test
            hours; the expressions stay what they are.
        has_links: each alert links to its section, under the placeholder `runbookUrl`.
    """
    rules = [alert.as_rule() for alert in ALERTS]
    if not has_links:
        for rule in rules:
            del rule["annotations"]["runbook_url"]
    if speed > 1:
        for rule in rules:
            rule["for"] = _shortened(rule["for"], speed)
            rule["expr"] = _WINDOW.sub(lambda w: _shortened(w[0], speed), rule["expr"])
            rule["expr"] = rule["expr"].replace(f", {DAY})", f", {DAY // speed})")
            rule["expr"] = _AGE.sub(lambda a: f"{a[1]} {int(a[2]) // speed}", rule["expr"])
    recorded = [
        {"record": s.START, "expr": dispatchers.recorded(s.STARTED)},
        {"record": s.TARGET, "expr": dispatchers.recorded(s.UP)},
        {
            "record": s.EXPECTED,
            "expr": "vector(${dispatchers})",
            "labels": {"scope": "${namespace}/${job}"},
        },
    ]
    return {
        "groups": [
            {"name": "reput-dispatchers", "rules": recorded},
            {"name": "reput", "rules": rules},
        ]
    }


def _shortened(text: str, speed: int) -> str:
    """Divide the durations in a text."""

    def divided(match: re.Match[str]) -> str:
        seconds = int(match[1]) * _SECONDS[match[2]]
        return f"{max(round(1000 * seconds / speed), 1000 * bool(seconds))}ms"

    return _DURATION.sub(divided, text)
