"""Sees what comes into queues that pulls wait for, by looking at their files.

A look costs the same however many pulls wait. It reads eight bytes at the log's end; what was
appended there names the queues to look at. A queue is looked at once a millisecond from the moment
its record stands in the log until its entry stands in the queue. A few of the other queues are
looked at in turn, for messages that go into further queues, and for a log that is not followed.
Source: RocketMQ `NotifyMessageArrivingListener#arriving`, `ReputMessageService#doReput`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.remoting.holding.appended import Appended
from reput.remoting.holding.spots import MOST_SPOTS, Spots
from reput.stores.log.records import read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.remoting.holding.holds import Holds
    from reput.remoting.holding.spots import Spot
    from reput.remoting.reading.served import Served
    from reput.stores.queues.open_queues import AnyQueue
    from reput.stores.queues.reader import QueueEntry

    Key = tuple[str, int]

_log = logging.getLogger(__name__)

# Seconds between looks: where something came lately, and where nothing did.
_PAUSE, _LONG_PAUSE = 0.001, 0.0015
_LIVELY_SECONDS = 1.0
# Queues that one look looks at: with an expected message, and without.
_EXPECTED_AT_ONCE, _OTHERS_AT_ONCE = 64, 3
# Queues whose appended records are remembered; pulls may come for them before their entries do.
_REMEMBERED = 10_000
# New entries of a queue of which pulls are told one by one; more wake all that wait for it.
_TOLD = 512
_TICK_SECONDS = 0.1
# After this long without a look, what was appended meanwhile is not gone through.
_ASLEEP_SECONDS = 1.0
# What was expected and did not come is then looked at in turn with the others.
_PATIENCE_SECONDS = 30.0


def _nothing() -> None:
    pass


class Watch:
    """Tells `Holds` of what comes into the queues of one store.

    Attributes:
        on_unwatched: called when a pull waits for a queue that is not among the last `spots`.
    """

    def __init__(self, served: Served, holds: Holds, now: Callable[[], float]) -> None:
        """Stand at the log's end.

        Args:
            served: what has the queues.
            holds: the pulls that wait.
            now: seconds, of a clock that never goes back.
        """
        self._served = served
        self._holds = holds
        self._now = now
        self._appended = Appended(served.store.log)
        # By queue: the offset after its last appended record.
        self._ends: dict[Key, int] = {}
        self._expected: dict[Key, float] = {}
        self._others: list[Key] = []
        self._told: dict[Key, int] = {}
        self._spots = Spots(served.store)
        self._watched: dict[Key, int] = {}
        # Queues that pulls wait for in the rest that is on, and that have no spot.
        self._spotless: list[Key] = []
        # Ends of queues, and of the log, after which there are bytes that nobody takes in.
        self._odd: dict[Key, int] = {}
        self._odd_end = -1
        self.on_unwatched: Callable[[], None] = _nothing
        # What the last look failed with, since `follow` looked.
        self._problem = ""
        self._came_at = now()
        self._ticked_at = self._looked_at = now()
        self._cuts = served.store.presence.cuts

    def add(self, key: Key, offset: int) -> None:
        """Look at a queue from now on: a pull waits for it.

        Args:
            key: topic and queue id.
            offset: what the pull asked for. Messages that have come since its answer count.
        """
        self._told[key] = min(self._told.get(key, offset), offset)
        self._expected.setdefault(key, self._now())
        if key not in self._watched:
            self.on_unwatched()

    def spots(self) -> list[Spot] | None:
        """Return where the next bytes come, the log first; None where that is not enough."""
        store = self._served.store
        # Of the rest that begins now, if one does.
        self._watched = {}
        if self._served.kept is not None or store.presence.away is not None:
            # What was sent back comes at another log's end.
            return None
        if self._holds.is_ready:
            # Too many to be answered in one turn.
            return None
        end = self._appended.position
        if self.pause < _LONG_PAUSE or self._expected or end == self._odd_end:
            return None
        log = None if self._appended.is_lost else self._spots.of_log(end)
        if log is None:
            return None
        keys = list(self._holds)
        if len(keys) > MOST_SPOTS:
            return None
        # A queue without a file has no spot. The record of its first message is seen in the log,
        # and without that, its entry by the look after the rest, ten times a second.
        found = self._spots.of_queues(keys)
        self._spotless = list({*keys} - {each.key for each in found})
        found = [each for each in found if self._odd.get(each.key or ("", 0)) != each.position]
        self._watched = {each.key: each.position for each in found if each.key is not None}
        return [log, *found]

    def came(self, spot: Spot) -> None:
        """See what has come at a spot."""
        if self._served.store.presence.away is not None:
            return
        if spot.key is None:
            end = self._appended.position
            self.look()
            self._odd_end = end if self._appended.position == end else -1
            return
        before = self._watched.get(spot.key)
        self._expected.setdefault(spot.key, self._now())
        self.look()
        if before is not None and self._spots.position_of(spot.key) == before:
            self._odd = {key: self._odd[key] for key in self._odd if key in self._holds}
            self._odd[spot.key] = before

    def close(self) -> None:
        """Close the files."""
        self._spots.close()

    @property
    def pause(self) -> float:
        """Return the seconds until the next look, as many as a pull may still wake in 2 ms."""
        return _PAUSE if self._looked_at - self._came_at < _LIVELY_SECONDS else _LONG_PAUSE

    def look(self) -> None:
        """Tell of what has come since the last look, and of pulls whose time is up."""
        now = self._now()
        if now - self._ticked_at >= _TICK_SECONDS:
            self._tick(now)
        try:
            self._look(now)
        except (ReputError, OSError) as error:
            # Files went since `follow` looked at them, or cannot be read. Pulls wait on.
            self._expect_all(now)
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("what comes for pulls that wait is looked at again: %s", error)

    def _look(self, now: float) -> None:
        if now - self._looked_at > _ASLEEP_SECONDS:
            # Nothing waited for a while: what came meanwhile is looked at as pulls come.
            self._appended.restart()
        self._looked_at = now
        if not self._appended.look(self._append):
            self._expect_all(now)
        while self._spotless:
            self._expected.setdefault(self._spotless.pop(), now)
        for _ in range(min(len(self._expected), _EXPECTED_AT_ONCE)):
            key = next(iter(self._expected))
            since = self._expected.pop(key)
            if key not in self._holds:
                continue
            if self._look_at(key) < self._ends.get(key, 0) and now - since < _PATIENCE_SECONDS:
                # After the others.
                self._expected[key] = since
        self._look_at_others()
        if self._holds.is_sweep_due():
            self._holds.sweep(self._look_at)

    def _append(self, key: Key, end: int) -> None:
        # The newest ones are the last.
        self._ends.pop(key, None)
        self._ends[key] = end
        if len(self._ends) > _REMEMBERED:
            del self._ends[next(iter(self._ends))]
        if key in self._holds:
            self._expected.setdefault(key, self._looked_at)

    def _expect_all(self, now: float) -> None:
        for key in self._holds:
            self._expected.setdefault(key, now)

    def _look_at_others(self) -> None:
        for _ in range(_OTHERS_AT_ONCE):
            if not self._others:
                self._others = list(self._holds)
                return
            key = self._others.pop()
            if key in self._holds:
                self._look_at(key)

    def _look_at(self, key: Key) -> int:
        """Tell of what has come into a queue; return its greatest offset."""
        queue = self._served.queue_now(*key)
        if queue is None:
            return 0
        end = queue.max_offset
        told = self._told.get(key, end)
        if end != told:
            self._told[key] = end
            self._came_at = self._looked_at
            if end > told:
                self._tell(key, queue, told)
        return end

    def _tell(self, key: Key, queue: AnyQueue, told: int) -> None:
        if queue.max_offset - told > _TOLD:
            self._holds.arrived(key, queue.max_offset)
            return
        for entry in queue.all_entries(told):
            if key not in self._holds:
                break
            end = entry.queue_offset + entry.messages
            self._holds.arrived(key, end, entry, self._properties)

    def _properties(self, entry: QueueEntry) -> Mapping[str, str] | None:
        store = self._served.store_at(entry.physical_offset)
        record = read_record(store.log, entry.physical_offset)
        return record.properties if record is not None else None

    def _tick(self, now: float) -> None:
        self._ticked_at = now
        self._holds.tick()
        self._told = {key: told for key, told in self._told.items() if key in self._holds}

    def look_at_files(self) -> None:
        """Look at the store's files again: new ones come, old ones go, a broker cuts its log.

        Call it each second, also while no pull waits.

        Raises:
            StoreError: the log or all queues are not there; see `stores.query.presence`.
        """
        self._served.look_at_files()
        self._problem = ""
        cuts = self._served.store.presence.cuts
        if cuts != self._cuts or self._appended.is_lost:
            self._appended.restart()
            self._cuts = cuts
            self._ends.clear()
            self._expect_all(self._now())
