"""How long records took from being stored to being visible, counted by size.

From 1 ms to an hour the upper bounds are a fifth apart at most, so that a quantile that Prometheus
computes from them is right within 20 per cent whatever the distribution: it lies in the same
interval as the true one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_STEPS_A_DECADE = 13
_SHORTEST, _LONGEST = 0.001, 3600.0
_DIGITS = 4


def _bounds() -> tuple[float, ...]:
    steps = math.ceil(math.log10(_LONGEST / _SHORTEST) * _STEPS_A_DECADE)
    raw = (_SHORTEST * 10 ** (step / _STEPS_A_DECADE) for step in range(steps))
    rounded = tuple(float(f"{bound:.{_DIGITS}g}") for bound in raw)
    return (*(bound for bound in rounded if bound < _LONGEST), _LONGEST)


# Seconds.
BOUNDS = _bounds()
_BOUNDS_MS = np.array(BOUNDS) * 1000


def count(
    counts: list[int], ages: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]
) -> list[int]:
    """Return counts with more records among them.

    Args:
        counts: by the bounds, one more than there are bounds: the last is of those beyond.
        ages: of the records, ms, of shape (n,).
        weights: how many records each age stands for, of shape (n,).
    """
    places = np.searchsorted(_BOUNDS_MS, ages)
    counted = np.bincount(places, weights, len(BOUNDS) + 1)
    return [a + int(b) for a, b in zip(counts, counted, strict=True)]
