"""How long a store waits that has failed: longer each time, until it was dispatched again."""

from __future__ import annotations

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 30.0


class Backoff:
    """Seconds to wait, doubled with each call."""

    def __init__(self) -> None:
        """Begin with the shortest wait."""
        self._seconds = _FIRST_SECONDS

    def next(self) -> float:
        """Return how long to wait now."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, _LONGEST_SECONDS)
        return seconds

    def reset(self) -> None:
        """Begin again with the shortest wait."""
        self._seconds = _FIRST_SECONDS
