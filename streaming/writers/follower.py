"""Follows one store's log: what is new is dispatched at once, as ReputMessageService does it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail_watch import TailWatch
from reput.stores.log.unreadable import place_of
from reput.streaming.dispatch.admission import is_broker_running
from reput.streaming.writers.live_tail import LiveTail

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher

# What is due besides new records: flushes, a cut at rest, records that had to wait.
_TEND_SECONDS = 0.1
# A turn of a backlog ends after this much of the log, to be told.
_MOST_BYTES = 1 << 30
# What a turn has left out is tried again: this often while the log grows, and while it does not.
_HELD_SECONDS = 0.02
_AGAIN_SECONDS = 0.1
# Between two looks; the longest after a second in which nothing came.
_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
_PAUSE_SHARE = 0.02


class Follower:
    """Dispatches what a log gets, turn by turn, on the thread that calls."""

    def __init__(
        self, dispatcher: StoreDispatcher, *, skips_corrupt: bool, most_bytes: int | None = None
    ) -> None:
        """Look at nothing yet.

        Args:
            dispatcher: the store's; nobody else dispatches by it meanwhile.
            skips_corrupt: look past what is corrupt.
            most_bytes: of log that a turn takes, about; None for a gigabyte.
        """
        self._most_bytes = _MOST_BYTES if most_bytes is None else most_bytes
        log, config = dispatcher.log, dispatcher.config
        holes = HoleWatch(log, lambda: is_broker_running(config)) if skips_corrupt else None
        self._dispatcher = dispatcher
        self._tail = LiveTail(log, TailWatch(log, skips_corrupt=skips_corrupt, holes=holes))
        # Up to where the last turn was to dispatch: what it left out is not tried again and again.
        self._tried = -1
        self._again_at = self._held_until = self._tends_at = 0.0
        self._moved_at = time.monotonic()

    def turn(
        self, batches: list[Batch], observe: Callable[[Block], None], is_over: Callable[[], bool]
    ) -> None:
        """Dispatch what is new, and do what is due.

        Args:
            batches: gets what was dispatched, also where an error ends this.
            observe: called with each block that is written whole.
            is_over: asked after each block whether to end there.

        Raises:
            ReputError: a corrupt record, data loss, a queue that cannot have a directory.
            OSError: the output cannot be written.
        """
        before = len(batches)
        self._dispatch_new(batches, observe, is_over)
        now = time.monotonic()
        if now >= self._tends_at:
            self._dispatcher.flush_if_due()
            self._dispatcher.catch_up(batches)
            self._tends_at = now + _TEND_SECONDS
        if any(batch.messages for batch in batches[before:]):
            self._moved_at = now

    def _dispatch_new(
        self, batches: list[Batch], observe: Callable[[Block], None], is_over: Callable[[], bool]
    ) -> None:
        log, dispatcher = self._dispatcher.log, self._dispatcher
        failure, position = None, -1
        try:
            end = self._tail.look()
        except FormatError as error:
            # What is before it is dispatched first.
            place = place_of(log, error)
            if place is None:
                raise
            end = position = place
            failure = error
        now, done = time.monotonic(), dispatcher.progress.end
        end = min(end, max(done, log.min_offset) + self._most_bytes)
        is_new = end != self._tried and now >= self._held_until
        if is_new or (end != done and now >= self._again_at):
            self._tried, self._again_at = end, now + _AGAIN_SECONDS
            batches.append(dispatcher.dispatch(end, observe, is_over))
            if dispatcher.progress.end == done:
                # It waits: for a flush of the broker, for Kafka, or for what follows it.
                self._held_until = now + _HELD_SECONDS
        if failure is not None and dispatcher.progress.end == position:
            raise failure

    def pause(self) -> float:
        """Return the seconds until the next turn: the longer nothing came, the more."""
        idle = (time.monotonic() - self._moved_at) * _PAUSE_SHARE
        return min(max(idle, _SHORTEST_PAUSE), _LONGEST_PAUSE)
