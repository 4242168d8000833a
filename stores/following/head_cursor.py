"""Sums of record hashes along a log, for a reader that keeps nothing of what it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.commitlog import ACCEPT_V2, Verdict
from reput.stores.following.known import FileHeads, Known
from reput.stores.lazy import lazy_module
from reput.stores.log import trail
from reput.stores.log.commitlog import PAD
from reput.stores.log.trail import Fingerprint, Point
from reput.stores.log.unreadable import next_record

if TYPE_CHECKING:
    from reput.formats.kernels import heads
    from reput.stores.log.commitlog import CommitLog
else:
    # It brings the compiler, which is not needed while the log stands still.
    heads = lazy_module("reput.formats.kernels.heads")

_STEP = 1 << 20
_NO_MARKS = np.zeros(0, np.int64)
_NO_SUMS = np.zeros(0, np.uint64)


class HeadCursor:
    """Adds up the records of a log's file up to a place, and continues from the place before."""

    def __init__(self, log: CommitLog, *, skips_corrupt: bool = False) -> None:
        """Begin nowhere.

        Args:
            log: the files.
            skips_corrupt: records resume after what is not one.
        """
        self._log = log
        self._skips_corrupt = skips_corrupt
        self.forget()

    def forget(self) -> None:
        """Begin at a file's first byte again: the log is another one."""
        self._base = self._position = -1
        self._total = 0
        self._last: Fingerprint | None = None
        self._gaps: dict[int, int] = {}

    def sum_to(self, position: int) -> int | None:
        """Return the sum of a file's record hashes up to a place; None at the log's beginning.

        Args:
            position: physical offset; the records that start before it count.

        Raises:
            LogChangedError: its file is gone.
        """
        log = self._log
        if position <= log.min_offset:
            return None
        base = log.base_of(position - 1)
        if base != self._base or position < self._position:
            self.forget()
            self._base = self._position = base
        self._go_to(position)
        return self._total

    def known(self) -> Known:
        """Return what was read up to the last place."""
        file = FileHeads(self._base, 0, self._total)
        points = (Point(self._last, self._position, self._total),) if self._last else ()
        return Known((file,), points, self._position, self._gaps)

    def _go_to(self, stop: int) -> None:
        log, base = self._log, self._base
        file_end = base + log.file_size
        length = _STEP
        while self._position < stop:
            wanted = min(length, file_end - self._position)
            data = log.read(self._position, wanted)
            code, reached, total, _, size = heads.sum_heads(
                data,
                PAD,
                len(data) - PAD,
                self._position,
                file_end,
                log.rules & ACCEPT_V2,
                stop,
                np.uint64(self._total),
                _NO_MARKS,
                _NO_SUMS,
                0,
            )
            reached, verdict = int(reached), Verdict(code)
            has_moved = reached > self._position
            if has_moved:
                self._last = trail.fingerprint(log, reached - int(size), int(size))
            self._position, self._total = reached, int(total)
            if verdict == Verdict.RECORD:
                return
            if verdict == Verdict.SHORT and length < log.file_size:
                length = _STEP if has_moved else length * 8
                continue
            following = next_record(log, reached) if self._is_gap(verdict) else file_end
            if following >= min(stop, file_end):
                return
            self._gaps[reached] = following
            self._position = following

    def _is_gap(self, verdict: Verdict) -> bool:
        # Zeros may be the end of the file's records, or a hole before others.
        return self._skips_corrupt and verdict != Verdict.ROLL
