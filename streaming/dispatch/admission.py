"""Which records may be dispatched now: a running broker may yet cut away the last ones.

A record has to wait that came out of turn, until the log shows that it is a part of it; and one for
which the broker may not have written its consumers' filters yet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import locks
from reput.formats.rocketmq import names
from reput.stores.log import trail
from reput.stores.log.commitlog import active_file
from reput.stores.log.tail import chain_end
from reput.streaming.dispatch.live_settings import FILTER_SECONDS

if TYPE_CHECKING:
    from reput.sinks.files.queues import QueueDirectory
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.trail import Fingerprint
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.live_settings import LiveSettings
    from reput.streaming.dispatch.news import News
    from reput.streaming.settings.config import StoreConfig


@dataclass(frozen=True)
class _Held:
    """A record that came out of turn, and where the log ended when it was first seen."""

    record: Fingerprint
    tail: int


@dataclass(frozen=True)
class _Awaited:
    """A record whose filters are not known yet, and since when it waits, by a steady clock."""

    position: int
    store_timestamp: int
    since: float

    @property
    def is_overdue(self) -> bool:
        """Tell whether it has waited for long enough, whatever the clocks say."""
        return time.monotonic() - self.since >= FILTER_SECONDS


def is_broker_running(config: StoreConfig) -> bool:
    """Tell whether a broker holds the store; of one that is written in place, we do."""
    return not config.in_place and locks.is_held(config.path / names.LOCK)


class Admission:
    """Decides how much of a block is dispatched."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        books: Books,
        queues: QueueDirectory,
        live: LiveSettings,
        news: News,
    ) -> None:
        """Hold back nothing yet.

        Args:
            config: the store.
            log: its log.
            books: the last record that was dispatched.
            queues: gets to know which topics are special.
            live: what the broker's files say of topics.
            news: gets what changed in these files.
        """
        self._config = config
        self._log = log
        self._books = books
        self._queues = queues
        self._live = live
        self._news = news
        self._is_live = False
        # The record that is held back, and up to where records have been found to be real.
        self._held: _Held | None = None
        self._settled = 0
        # The record that waits until the filters of its time are known.
        self._awaited: _Awaited | None = None

    def begin(self) -> None:
        """Look whether a broker runs, which counts for a whole batch."""
        self._is_live = is_broker_running(self._config)
        if not self._is_live:
            self._held = None

    def forget(self) -> None:
        """Forget what waits: the log was cut."""
        self._held = self._awaited = None
        self._settled = 0

    @property
    def holds(self) -> bool:
        """Tell whether a record that came out of turn is held back."""
        return self._held is not None

    @property
    def has_released(self) -> bool:
        """Tell whether a record that was left out of the last batch need not wait any longer."""
        if self._awaited is not None:
            limit = self._live.known_until()
            is_known = limit is None or self._awaited.store_timestamp < limit
            return (
                is_known
                or self._awaited.is_overdue
                or not locks.is_held(self._config.path / names.LOCK)
            )
        return self._held is not None and not locks.is_held(self._config.path / names.LOCK)

    def look_if_idle(self) -> None:
        """Look at the broker's files between two batches, so that no state of them is missed."""
        events = self._live.look_if_idle()
        if events:
            self._news.notice(events)
            self._queues.reconsider()

    def admit(self, block: Block) -> None:
        """End a block before the first record that has to wait, with today's settings applied."""
        self._follow_settings(block)
        if self._is_live:
            self._end_in_order(block)
        self._end_with_known_filters(block)

    def _follow_settings(self, block: Block) -> None:
        """Apply what the broker's files say by now, also to a block parsed before that."""
        events = self._live.look()
        topics = self._queues.take_new_topics()
        if topics and self._is_live and block.count:
            newest = int(block.columns.store_timestamp[block.count - 1])
            events += self._live.await_topics(topics, newest)
        if events:
            self._news.say(events)
            self._queues.reconsider()
        if block.generation != self._queues.generation:
            columns, count = block.columns, block.count
            self._queues.mark_special(columns.queue[:count], columns.special[:count])

    def _end_in_order(self, block: Block) -> None:
        """End a block before a record that was stored too early.

        A recovered log may have older records after its end. A broker's clock that went back
        looks the same, so such a record is held back, not dropped.
        """
        columns = block.columns
        stored = columns.store_timestamp[: block.count]
        before = np.concatenate([[self._books.progress.store_timestamp], stored[:-1]])
        for row in np.flatnonzero(stored < before).tolist():
            if not self.is_settled(int(columns.physical_offset[row]), int(columns.size[row])):
                block.end_before(row)
                return

    def _end_with_known_filters(self, block: Block) -> None:
        """End a block before the first record for which consumers' filters are not known.

        A running broker writes them every ten seconds, and dispatches with what it has in memory.
        """
        before, self._awaited = self._awaited, None
        if before is not None and before.is_overdue:
            self._live.stop_waiting_for(before.store_timestamp)
        limit = self._live.known_until() if self._is_live else None
        if limit is None:
            return
        columns = block.columns
        (late,) = np.nonzero(columns.store_timestamp[: block.count] >= limit)
        if not len(late):
            return
        row = int(late[0])
        position = int(columns.physical_offset[row])
        if before is not None and before.position == position:
            self._awaited = before
        else:
            stored = int(columns.store_timestamp[row])
            self._awaited = _Awaited(position, stored, time.monotonic())
        block.end_before(row)

    def is_settled(self, position: int, size: int) -> bool:
        """Tell whether a record that came out of turn is really part of the log; else hold it back.

        While a broker runs, it is if the log has grown after it and it is still the same: a
        broker appends at its log's end, so it would have overwritten what is not part of that.
        """
        if not self._is_live or position < self._settled:
            return True
        if self._log.base_of(position) < active_file(self._log):
            # A broker that cuts its log removes the files after the cut.
            return True
        end = chain_end(self._log, position)
        record = trail.fingerprint(self._log, position, size)
        held = self._held
        if held is None or held.record != record or end < held.tail:
            # The end has come closer: the log was cut after this record, and growth counts from
            # there.
            self._held = _Held(record, end) if record is not None else None
            return False
        if end <= held.tail:
            return False
        self._held = None
        self._settled = held.tail
        return True
