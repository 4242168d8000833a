"""What is told of many latencies: median, 99th percentile and the longest, in ms."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIGURES = ("p50_ms", "p99_ms", "max_ms")


def figures_of(late: np.ndarray | Sequence[float]) -> dict[str, float]:
    """Return the `FIGURES` of latencies in ms."""
    return dict(zip(FIGURES, np.percentile(late, [50, 99, 100]).tolist(), strict=True))


def spread(values: Sequence[float], form: str) -> str:
    """Return a median with its minimum and maximum."""
    least, middle, most = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} ({least:{form}} to {most:{form}})"


def spread_of(rows: Sequence[Mapping[str, Any]], unit: str = "") -> str:
    """Return the `FIGURES` of several runs, each as a `spread`, and a unit after it."""
    return ", ".join(
        f"{name[:-3]} {spread([row[name] for row in rows], '.2f')}{unit}" for name in FIGURES
    )
