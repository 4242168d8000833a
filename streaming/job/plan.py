"""How far Spark has planned, and for how long stores have been dispatched past that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Plan:
    """What Spark has planned of each store, physical offsets."""

    def __init__(self, pause: float) -> None:
        """Begin without a plan.

        Args:
            pause: seconds that may lie between two of Spark's plans.
        """
        self._pause = pause
        self._ends: dict[str, int] = {}
        # Since when a store is dispatched past its plan, by a steady clock.
        self._since: float | None = None

    def begin(self, starts: Mapping[str, int]) -> None:
        """Take where stores are dispatched to before there is a plan."""
        self._ends = dict(starts)

    def take(self, ends: Mapping[str, int]) -> None:
        """Take what a batch is to dispatch up to."""
        self._ends.update(ends)
        self._since = None

    def end(self, store: str) -> int:
        """Return where a store's plan ends, 0 without one."""
        return max(self._ends.get(store, 0), 0)

    def silence(self, ends: Mapping[str, int]) -> float:
        """Return for how long some store has been dispatched past its plan, seconds.

        Args:
            ends: how far stores are dispatched. One that has failed or hangs is left out: where its
                log cannot be looked at, the best planner plans nothing of it.
        """
        now = time.monotonic()
        is_ahead = any(end > self._ends.get(store, end) for store, end in ends.items())
        self._since = (self._since or now) if is_ahead else None
        return max(now - (self._since or now) - self._pause, 0.0)
