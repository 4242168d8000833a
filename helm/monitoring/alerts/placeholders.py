"""Which numbers can an operator change? Those that have a default here and a place in the rules.

A rule has a placeholder, `${name}`, for each; the chart fills it from its values. `THRESHOLDS` has
the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

THRESHOLDS: dict[str, int | float | str] = {
    "behindBytes": 1 << 30,
    "behindBytesCritical": 10 << 30,
    "behindSeconds": 60,
    "behindSecondsCritical": 600,
    "retentionRatio": 0.5,
    "kafkaBehindBytes": 1 << 30,
    "freeRatio": 0.15,
    "freeRatioCritical": 0.05,
    "heapRatio": 0.9,
    "stalledFor": "5m",
    "restarts": 3,
}
# What belongs to this installation: namespaces and scrape jobs of its dispatchers (regular
# expressions), and how many there should be. The chart fills them from what it renders.
SCOPE: dict[str, int | float | str] = {"namespace": ".*", "job": ".*reput.*", "dispatchers": 1}
RUNBOOK = "${runbookUrl}"


def fill(text: str, values: Mapping[str, object]) -> str:
    """Fill the placeholders of a text."""
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", str(value))
    return text
