"""How long a store waits that has failed: longer each time, until it was dispatched again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.streaming.dispatch.dispatcher import StoreDispatcher

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 30.0
# An output that was not flushed by itself until then is flushed: seconds after it was opened.
_WELL_SECONDS = 2.0


class Backoff:
    """Seconds to wait, doubled each time until the store is well again.

    A full disk may take what a turn writes, and refuse the next flush: a store is well again once
    its output was flushed. One that does not run without Kafka is not before Kafka takes it.
    """

    def __init__(self) -> None:
        """Begin with the shortest wait."""
        self._seconds = _FIRST_SECONDS
        self._recorded_end = -1
        self._opened_at = 0.0

    def next(self) -> float:
        """Return how long to wait now."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, _LONGEST_SECONDS)
        return seconds

    def begin(self, recorded_end: int) -> None:
        """Take how far is recorded as the output is opened, physical offset."""
        self._recorded_end, self._opened_at = recorded_end, time.monotonic()

    def has_ended_well(self, dispatcher: StoreDispatcher) -> bool:
        """Tell whether a store that had failed was well again as its output was closed."""
        return self._has_recorded(dispatcher) and not _waits_for_kafka(dispatcher)

    def _has_recorded(self, dispatcher: StoreDispatcher) -> bool:
        """Tell whether more is recorded than as the output was opened."""
        return dispatcher.recorded_end > self._recorded_end

    def is_well(self, dispatcher: StoreDispatcher) -> bool:
        """Tell whether a store that had failed is well again; waits are short again then.

        Args:
            dispatcher: of its output; is flushed where that did not happen for a while.

        Raises:
            ReputError, OSError: the flush has failed.
        """
        if _waits_for_kafka(dispatcher):
            return False
        if not self._has_recorded(dispatcher):
            if time.monotonic() - self._opened_at < _WELL_SECONDS:
                return False
            dispatcher.flush()
        self._seconds = _FIRST_SECONDS
        return True


def _waits_for_kafka(dispatcher: StoreDispatcher) -> bool:
    return dispatcher.kafka is not None and dispatcher.kafka.is_about_to_fail
