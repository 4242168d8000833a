"""Follows one store's log: what is new is dispatched at once, as ReputMessageService does it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError, ReputError
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail_watch import TailWatch
from reput.stores.log.unreadable import place_of
from reput.streaming.dispatch.admission import is_broker_running
from reput.streaming.writers.counted import Counted
from reput.streaming.writers.live_tail import LiveTail
from reput.streaming.writers.turnstile import Turnstile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher

# What is due besides new records: flushes, a cut at rest, records that had to wait.
_TEND_SECONDS = 0.1
_REST_TEND_SECONDS = 0.5
# A log counts as at rest after this long without a record.
_REST_AFTER_SECONDS = 1.0
# A turn of a backlog ends after this much of the log, to be told.
_MOST_BYTES = 1 << 30
# What a turn has left out is tried again: this often while the log grows, and while it does not.
_HELD_SECONDS = 0.02
_AGAIN_SECONDS = 0.1
# Between two looks; the longest after a second in which nothing came.
_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
_PAUSE_SHARE = 0.02
# A turn that takes this many times its processor time has had to wait, for other stores' turns or a
# disk: pauses become longer by the first factor, up to the last figure, and shorter by the second.
_CROWDED = 4.0
_LONGER = 2.0
_SHORTER = 0.8
_LONGEST_SPACING = 0.014


class Follower:
    """Dispatches what a log gets, turn by turn, on the thread that calls."""

    def __init__(
        self,
        dispatcher: StoreDispatcher,
        *,
        skips_corrupt: bool,
        most_bytes: int | None = None,
        counted: Counted | None = None,
        turnstile: Turnstile | None = None,
    ) -> None:
        """Look at nothing yet.

        Args:
            dispatcher: the store's; nobody else dispatches by it meanwhile.
            skips_corrupt: look past what is corrupt.
            most_bytes: of log that a turn takes, about; None for a gigabyte.
            counted: how far the store is counted, which has begun with this dispatcher; None for
                nothing yet.
            turnstile: of all stores of the process; None where there is no other one.
        """
        self._turnstile = turnstile or Turnstile()
        self.counted = Counted() if counted is None else counted
        self._most_bytes = _MOST_BYTES if most_bytes is None else most_bytes
        log, config = dispatcher.log, dispatcher.config
        holes = HoleWatch(log, lambda: is_broker_running(config)) if skips_corrupt else None
        self._dispatcher = dispatcher
        self.tail = LiveTail(log, TailWatch(log, skips_corrupt=skips_corrupt, holes=holes))
        # Up to where the last turn was to dispatch: what it left out is not tried again and again.
        self._tried = -1
        self._again_at = self._held_until = self._tends_at = 0.0
        self._moved_at = time.monotonic()
        self._spacing = _SHORTEST_PAUSE

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
        asked, busy = time.monotonic(), time.thread_time()
        with self._telling(batches) as done, self._turnstile.turn():
            self._do_turn(done, observe, is_over)
        if any(batch.messages for batch in done):
            self._space(time.monotonic() - asked, time.thread_time() - busy)

    def dispatch(self, batches: list[Batch], end: int, is_over: Callable[[], bool]) -> None:
        """Dispatch up to a physical offset at once, without a look at what is new.

        Args:
            batches: gets what was dispatched, also where an error ends this.
            end: physical offset.
            is_over: asked after each block whether to end there.

        Raises:
            ReputError, OSError: as `turn`.
        """
        with self._telling(batches) as done:
            for each in self.counted.ends(self._dispatcher.progress.end, end):
                done.append(self._dispatcher.dispatch(each, is_over=is_over))

    @contextlib.contextmanager
    def _telling(self, batches: list[Batch]) -> Iterator[list[Batch]]:
        """Yield a list for batches; what of them is to be counted goes into another one."""
        done: list[Batch] = []
        try:
            yield done
        except (ReputError, OSError):
            done += self._dispatcher.take_ended()
            raise
        finally:
            batches += self.counted.take(done, self._dispatcher.progress)

    def _do_turn(
        self, batches: list[Batch], observe: Callable[[Block], None], is_over: Callable[[], bool]
    ) -> None:
        self._dispatch_new(batches, observe, is_over)
        now = time.monotonic()
        if now >= self._tends_at:
            self._dispatcher.flush_if_due()
            self._dispatcher.catch_up(batches)
            is_resting = now - self._moved_at >= _REST_AFTER_SECONDS and not self._dispatcher.waits
            self._tends_at = now + (_REST_TEND_SECONDS if is_resting else _TEND_SECONDS)
        if any(batch.messages for batch in batches):
            self._moved_at = now

    def _space(self, wall: float, busy: float) -> None:
        """Let fewer turns take more where a turn has to wait.

        Args:
            wall: seconds from when the turn was asked for until it was done.
            busy: seconds of the processor that it took.
        """
        factor = _LONGER if wall > _CROWDED * busy else _SHORTER
        self._spacing = min(max(factor * self._spacing, _SHORTEST_PAUSE), _LONGEST_SPACING)

    def _dispatch_new(
        self, batches: list[Batch], observe: Callable[[Block], None], is_over: Callable[[], bool]
    ) -> None:
        log, dispatcher = self._dispatcher.log, self._dispatcher
        failure, position = None, -1
        try:
            end = self.tail.look()
        except FormatError as error:
            # What is before it is dispatched first.
            place = place_of(log, error)
            if place is None:
                raise
            end = position = place
            failure = error
        now, done = time.monotonic(), dispatcher.progress.end
        end = min(end, max(done, log.min_offset) + self._most_bytes)
        if done < self.counted.mark.end:
            # By itself, so that it is not counted with what is new.
            end = min(end, self.counted.mark.end)
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
        return min(max(idle, self._spacing), _LONGEST_PAUSE)

    def rest(self) -> float:
        """Return for how long the turns after this one have nothing to do while no record comes."""
        if self._tried != self._dispatcher.progress.end or self._dispatcher.waits:
            return 0.0
        is_resting = time.monotonic() - self._moved_at >= _REST_AFTER_SECONDS
        return max(self._tends_at - time.monotonic(), 0.0) if is_resting else 0.0
