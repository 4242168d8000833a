"""How long a store waits that has failed: longer each time, until it was dispatched again."""

from __future__ import annotations

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 30.0


class Backoff:
    """Seconds to wait, doubled each time until the store's output was flushed again.

    A full disk may take what a turn writes, and refuse the next flush.
    """

    def __init__(self) -> None:
        """Begin with the shortest wait."""
        self._seconds = _FIRST_SECONDS
        self._recorded_end = -1

    def next(self) -> float:
        """Return how long to wait now."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, _LONGEST_SECONDS)
        return seconds

    def begin(self, recorded_end: int) -> None:
        """Take how far is recorded as the output is opened, physical offset."""
        self._recorded_end = recorded_end

    def note(self, recorded_end: int) -> None:
        """Take how far is recorded now: where that is farther, waits are short again."""
        if recorded_end > self._recorded_end:
            self._seconds = _FIRST_SECONDS
