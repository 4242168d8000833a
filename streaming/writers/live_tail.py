"""Follows the end of a log that grows, by the millisecond.

`TailWatch` finds the end whatever happened to the log; that takes milliseconds, most of them spent
waiting for the last record to settle. Where a log has only grown since the last look, this look
goes from the known end over the new records. A record that another one follows has settled. The
last one counts once it stayed as it was for as long as `tail.SETTLE_SECONDS`, or is followed; no
look waits for it. Everything else is left to `TailWatch`: a file's end, what is not a record, a
log that stands still.

A look does not ask whether the log was cut: what is dispatched is compared with the log first, see
`stores.following.vouch`.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq.commitlog import BLANK_SIZE, Verdict
from reput.stores.log.commitlog import LogChangedError
from reput.stores.log.tail import SETTLE_SECONDS, last_of, may_grow

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes
    from reput.stores.log.commitlog import Chain, CommitLog
    from reput.stores.log.tail_watch import TailWatch

# What a broker writes in a few milliseconds; where there is more, the next step is longer.
_STEP = 32 << 10
# Seconds between looks by `TailWatch` while the log stands still. Where something odd stands at its
# end they are as far apart as costs this share of the time.
_REST_SECONDS = 1.0
_ODD_SHARE = 0.1
_ODD_SECONDS = 0.02
# Half a record, as a reader may see it, is whole before that.
_WRITING_SECONDS = 0.02


_NOTHING = bytes(BLANK_SIZE)


class _Unsettled(NamedTuple):
    """The last record, while it may still change.

    Attributes:
        start: physical offset.
        data: its bytes between two pads.
        since: when they were read first, by a steady clock.
    """

    start: int
    data: Bytes
    since: float


class LiveTail:
    """The end of one log, up to which records may be dispatched."""

    def __init__(self, log: CommitLog, watch: TailWatch) -> None:
        """Know nothing of the end yet.

        Args:
            log: the files; shared with what dispatches them.
            watch: of the same log.
        """
        self._log = log
        self._watch = watch
        # Physical offset up to which records are whole; -1: `watch` has to look.
        self._end = -1
        # What stands there as long as nothing is written: zeros, or what is left over.
        self._resting = _NOTHING
        self._unsettled: _Unsettled | None = None
        self._looks_at = -math.inf
        # Where something stands that is not a record, and since when.
        self._odd: tuple[int, float] = (-1, 0.0)

    def look(self) -> int:
        """Return the end of the whole records, physical offset.

        Raises:
            FormatError: a corrupt record, with good ones after it.
            OSError: the device failed.
        """
        now = time.monotonic()
        if self._end < 0 or now >= self._looks_at:
            return self._look_thoroughly()
        try:
            if self._head(self._end) == self._resting:
                return self._end
            return self._look_on(now)
        except LogChangedError:
            return self._look_thoroughly()

    def has_news(self) -> bool:
        """Tell whether `look` has something to do; this changes nothing.

        Raises:
            LogChangedError: a file is no longer there.
            OSError: the device failed.
        """
        if self._end < 0 or time.monotonic() >= self._looks_at:
            return True
        return self._head(self._end) != self._resting

    def _head(self, position: int) -> bytes:
        return self._log.bytes_at(position, BLANK_SIZE)

    def _look_thoroughly(self) -> int:
        self._unsettled, self._end = None, -1
        began = time.monotonic()
        tail = self._watch.look()
        now = time.monotonic()
        self._resting, pause = _NOTHING, _REST_SECONDS
        if tail.reason not in {Verdict.END, Verdict.SHORT}:
            # A BLANK before a file that is not there yet, or what a cut has left.
            with contextlib.suppress(LogChangedError):
                self._resting = self._head(tail.end)
            pause = max((now - began) / _ODD_SHARE, _ODD_SECONDS)
        elif tail.end >= self._log.end_of_files:
            pause = _ODD_SECONDS
        self._end, self._looks_at = tail.end, now + pause
        return tail.end

    def _look_on(self, now: float) -> int:
        """Go over the records after the known end."""
        log, end = self._log, self._end
        chain = log.chain(end, log.base_of(end) + log.file_size, log.rules, _STEP)
        if chain.verdict != Verdict.END:
            if self._is_lasting(chain, now):
                return self._look_thoroughly()
            return self._take(chain.proven, now)
        last = last_of(chain)
        if last is None:
            return end
        is_settled = chain.proven == last[0] and self._has_settled(*last, now)
        return self._take(chain.reached if is_settled else chain.proven, now)

    def _take(self, end: int, now: float) -> int:
        if end > self._end:
            self._end, self._resting = end, _NOTHING
            self._looks_at = now + _REST_SECONDS
        return self._end

    def _is_lasting(self, chain: Chain, now: float) -> bool:
        """Tell whether what is not a record is more than one that is being written."""
        position, since = self._odd
        if chain.verdict in {Verdict.ROLL, Verdict.RECORD}:
            return True
        if position != chain.reached:
            self._odd = chain.reached, now
            return False
        return now - since > _WRITING_SECONDS

    def _has_settled(self, start: int, size: int, now: float) -> bool:
        """Tell whether the last record stayed as it was for long enough."""
        log, before = self._log, self._unsettled
        data = log.read(start, size)
        if before is None or before.start != start or not np.array_equal(before.data, data):
            self._unsettled = _Unsettled(start, data, now)
            return False
        return now - before.since >= SETTLE_SECONDS and not may_grow(log, start, data)
