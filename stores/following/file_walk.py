"""Compares one file of a log with what was read of it, in steps."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.commitlog import ACCEPT_V2, Verdict
from reput.stores.following.known import end_of
from reput.stores.lazy import lazy_module
from reput.stores.log import runs, trail
from reput.stores.log.commitlog import PAD
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from reput.formats.kernels import heads
    from reput.stores.following.known import Known
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.trail import Point
else:
    # It brings the compiler, which is not needed where nothing was dispatched yet.
    heads = lazy_module("reput.formats.kernels.heads")

_STEP = 1 << 20


class FileWalk:
    """Adds up one file's records again, and compares the sums where they are known.

    Attributes:
        file: what was read of it.
        stamp: the file as it was before it was looked at; None if it is not there.
        seconds: spent so far.
        is_over: there is nothing more to read.
        is_gone: the file went, or another one came, before all was read.
        refilled: physical offset of the first place without a record, in what was read, that a
            broker has written to since; None if there is none.
    """

    def __init__(self, log: CommitLog, known: Known, number: int) -> None:
        """Begin at the file's first byte.

        Args:
            log: the files.
            known: what was read.
            number: of the file, in `known.files`.
        """
        self._log = log
        self._gaps = known.gaps
        self._passed = known.passed
        # Of places without a record, and of whole records that no queue could take: their hashes
        # are in no sum.
        self._gap_starts = sorted(known.gaps)
        self.file = file = known.files[number]
        self._file_end = file.base + log.file_size
        self._stop = min(known.end, self._file_end)
        first = bisect_right(known.points, file.base, key=end_of)
        last = bisect_right(known.points, self._stop, key=end_of)
        self._points = known.points[first:last]
        self._marks = np.array([*(p.end for p in self._points), self._stop], np.int64)
        self._wanted = [*(p.heads for p in self._points), file.heads]
        self._sums = np.zeros(len(self._marks), np.uint64)
        self._met = 0
        self._position = file.base
        self._length = _STEP
        self._total = 0
        self.seconds = 0.0
        self.stamp = log.stamps.get(file.base)
        self.is_over = self.is_gone = False
        self.refilled: int | None = None

    def finish(self) -> None:
        """Read all that is left.

        Raises:
            OSError: the device failed.
        """
        while not self.is_over:
            self.step(_STEP)

    @property
    def common(self) -> Point | None:
        """Return the newest point in this file up to which it is as it was."""
        same = 0
        for found, wanted in zip(self._sums[: self._met].tolist(), self._wanted, strict=False):
            if found != wanted:
                break
            same += 1
        there = self._points[:same]
        if self.refilled is not None:
            there = there[: bisect_right(there, self.refilled, key=end_of)]
        return there[-1] if there else None

    @property
    def is_same(self) -> bool:
        """Tell, once it is over, whether the whole file is as it was read."""
        return self.has_records and self.refilled is None

    @property
    def has_records(self) -> bool:
        """Tell, once it is over, whether all records that were read stand where they did."""
        return self._met == len(self._marks) and self._sums.tolist() == self._wanted

    def step(self, most: int) -> None:
        """Continue through about `most` bytes.

        Raises:
            OSError: the device failed.
        """
        began = time.perf_counter()
        until = self._position + most
        while not self.is_over and self._position < until:
            try:
                self._read_on()
            except LogChangedError:
                # It expired, or was removed: what is not there has no sum.
                self.is_over = self.is_gone = True
        self.seconds += time.perf_counter() - began

    def _read_on(self) -> None:
        log = self._log
        length = min(self._length, self._file_end - self._position)
        data = log.read(self._position, length)
        code, reached, total, self._met, _ = heads.sum_heads(
            data,
            PAD,
            len(data) - PAD,
            self._position,
            self._file_end,
            log.rules & ACCEPT_V2,
            self._stop_before_gap(),
            np.uint64(self._total),
            self._marks,
            self._sums,
            self._met,
        )
        has_moved = int(reached) > self._position
        self._position, self._total = int(reached), int(total)
        verdict = Verdict(code)
        is_cut_off = len(data) - 2 * PAD == length and reached + length < self._file_end
        if verdict == Verdict.SHORT and (has_moved or is_cut_off):
            # A record continues after the piece.
            self._length = _STEP if has_moved else self._length * 8
        elif verdict == Verdict.SHORT and self._length < log.file_size:
            self._length = log.file_size
        elif self._position < self._stop and self._position in self._gaps:
            self._pass_gap(self._gaps[self._position])
        elif verdict == Verdict.ROLL:
            self._meet_end()
        else:
            self.is_over = True

    def _stop_before_gap(self) -> int:
        number = bisect_left(self._gap_starts, self._position)
        return min([self._stop, *self._gap_starts[number : number + 1]])

    def _pass_gap(self, following: int) -> None:
        if self.refilled is None and self._is_refilled(following):
            self.refilled = self._position
        if following >= self._stop:
            self._meet_end()
        else:
            self._position = following

    def _is_refilled(self, following: int) -> bool:
        """Tell whether a broker has cut its log at a place without a record, and written on there.

        It erases nothing, so the records after the place may still stand there. Then its own tell:
        a BLANK before them, a record that reaches over the first of them, or one that
        makes it a record that was left over. A place that was restored has none of these. See
        `filled_place` for one that nothing was read after.
        """
        log, position = self._log, self._position
        if log.damage_at(position) is not None or following >= self._file_end:
            # The next file tells: a cut removes it.
            return False
        verdict, reached = log.hop(position, following, log.rules)
        if verdict == Verdict.ROLL or reached > following:
            return True
        if reached == position:
            return False
        is_known = position in self._passed
        if is_known and self._passed[position] == trail.hash_at(log, position):
            return False
        return runs.is_left_over(log, following, reached)

    def _meet_end(self) -> None:
        """End where the file has no more records: marks after that have the sum of all."""
        self._sums[self._met :] = self._total
        self._met = len(self._marks)
        self.is_over = True
