"""Where a batch begins and ends: one store's commitlog as the planner of a query sees it.

A batch is the records that start before its end, so any physical offset is a good end. A cap in
bytes is an addition; only a cap in records walks from record to record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError, ReputError, StoreError, about
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import ACCEPT_V2, Verdict
from reput.stores.lazy import lazy_module
from reput.stores.log import broker_lock
from reput.stores.log.commitlog import PAD, CommitLog, commitlog_directories
from reput.stores.log.holes import HoleWatch, flaw_after
from reput.stores.log.tail import KnownEnd, chain_end
from reput.stores.log.tail_watch import TailWatch
from reput.stores.log.trail import Fingerprint
from reput.stores.log.unreadable import corruption, first_readable, next_record, place_of
from reput.stores.query.first_since import Passed, first_since, first_since_by_bisection
from reput.streaming.source.log_marks import LogMarks
from reput.streaming.source.marks import Mark
from reput.streaming.source.options import EARLIEST, LATEST
from reput.streaming.source.planning import NOTHING, skip_expired

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.kernels import frames
    from reput.stores.following import flushed
    from reput.streaming.source.options import Bound, Store

else:
    # They bring the compiler: a log that stands still is planned without.
    frames = lazy_module("reput.formats.kernels.frames")
    flushed = lazy_module("reput.stores.following.flushed")

_STEP = 16 << 20
_SMALLEST_STEP = 64 << 10
_BYTES_A_RECORD = 512
_REMEMBERED = 8


class StoreOffsets:
    """The offsets of one store; lives as long as the query and remembers the log's end."""

    def __init__(
        self,
        store: Store,
        *,
        skips_corrupt: bool = False,
        only_flushed: bool = False,
        ascending_time: bool = False,
    ) -> None:
        """Look at the store.

        Args:
            store: which.
            skips_corrupt: continue after what is corrupt.
            only_flushed: the log ends where the broker has flushed it to.
            ascending_time: no clock went back, so times are found by bisection.

        Raises:
            StoreError: it is missing, or is not a store.
        """
        self.name = store.name
        self._store = store
        self.path = store.path
        self._settings = store.settings
        self._log: CommitLog | None = None
        self._skips_corrupt = skips_corrupt
        self._ascending_time = ascending_time
        self._passed: Passed | None = None
        self._watch: TailWatch | None = None
        self._flushed = flushed.FlushedEnd(store.path) if only_flushed else None
        self._frozen: int | None = None
        self._marks: LogMarks | None = None
        self._floor: int | None = None
        # Where the whole records end, flushed or not.
        self._visible = NOTHING
        self._is_torn = False
        # Where records are known to begin: finding one reads the 4 MiB before.
        self._records: deque[int] = deque(maxlen=_REMEMBERED)
        # What stands at `end`, if it can neither be read nor waited for.
        self.error: FormatError | None = None
        self.log()

    def log(self) -> CommitLog | None:
        """Return the commitlog, None as long as it has no file.

        Raises:
            StoreError: the directories hold something else.
        """
        if self._log is None:
            directories = commitlog_directories(self.path, self._settings)
            try:
                self._log = CommitLog(directories, self._settings, self.path)
            except StoreError:
                if _has_files(directories):
                    raise
        return self._log

    def mark(self, position: int) -> Mark:
        """Return the mark of a place: it tells later that the log up to there is the same."""
        log = self.log()
        return Mark(position) if log is None else self._marks_of(log).mark(position)

    def is_same(self, mark: Mark) -> bool:
        """Tell whether the log up to a mark is the one that it was taken of, or has expired."""
        log = self.log()
        if log is None or mark.log is None:
            return True
        is_same = self._marks_of(log).is_same(mark)
        if not is_same:
            # Nothing that was known of the log holds.
            self._records.clear()
        return is_same

    def _marks_of(self, log: CommitLog) -> LogMarks:
        if self._marks is None:
            self._marks = LogMarks(log, self.path, skips_corrupt=self._skips_corrupt)
        return self._marks

    def freeze(self) -> None:
        """Freeze the log at its current end."""
        self._frozen = None
        self._frozen = self.end()
        log = self.log()
        if log is not None and self._is_torn and log.wait_for_rest():
            # A record that counts as torn while a broker may write it is whole if none does.
            self._frozen = None
            self._frozen = self.end()
        if log is not None and self.error is None and self._frozen == self._visible:
            # What is before is read first, as before a corrupt record.
            self.error = self.flaw(log)

    def flaw(self, log: CommitLog) -> FormatError | None:
        """Return what is wrong after the log's end and must not be skipped, None for nothing.

        A broker that holds the store has recovered it: it drops what follows.
        """
        if self._is_live():
            return None
        return flaw_after(log, self._visible, tolerates_damage=self._skips_corrupt)

    def _is_live(self) -> bool:
        return broker_lock.is_held(self.path / names.LOCK)

    def end(self) -> int:
        """Return the end of the whole records, `NOTHING` if there is no file.

        If a corrupt record stands before good ones, the end is there, and `error` says so: what
        is before is read first.
        """
        if self._frozen is not None:
            return self._frozen_end(self._frozen)
        log = self.log()
        if log is None:
            return NOTHING
        self.error = None
        if self._watch is None:
            holes = HoleWatch(log, self._is_live) if self._skips_corrupt else None
            self._watch = TailWatch(
                log, skips_corrupt=self._skips_corrupt, holes=holes, known=self._known()
            )
        try:
            tail = self._watch.look()
        except FormatError as error:
            position = place_of(log, error)
            if position is None:
                raise
            self.error = error
            return position
        end = self._visible = tail.end
        self._is_torn = tail.reason == Verdict.SHORT
        if self._flushed is not None:
            # `_floor`: where reading begins, if that is known.
            end = self._flushed.before(log, end, self._floor)
        self._records.append(end)
        return end

    def _frozen_end(self, frozen: int) -> int:
        """Return the end that was frozen; less if the log was cut and not flushed since."""
        log = self.log()
        if self._flushed is None or log is None or frozen <= log.min_offset:
            return frozen
        return min(self._flushed.before(log, max(self._visible, frozen), self._floor), frozen)

    def reaches(self, end: int, position: int) -> bool:
        """Tell whether whole records stand from the log's end up to a physical offset.

        A last one that ends with a zero byte does not count while a broker may be writing it.
        """
        log = self.log()
        return log is not None and end >= log.min_offset and chain_end(log, end) == position

    def _known(self) -> KnownEnd | None:
        # That end was found without looking past holes.
        known = self._store.known_end if not self._skips_corrupt else None
        return known and KnownEnd(known.end, Fingerprint(*known[1:]))

    def is_record(self, position: int) -> bool:
        """Tell whether a record is known to begin at `position`, now or later."""
        return position in self._records

    def resolve(self, bound: Bound, *, fail_on_data_loss: bool, is_known: bool = False) -> int:
        """Return the offset that `bound` means now.

        Args:
            bound: what the user has given.
            fail_on_data_loss: it must not have expired.
            is_known: an offset is taken as it is: the caller follows the log itself.

        Raises:
            ReputError: an offset that has expired, or that is past the log's end.
        """
        log = self.log()
        if log is None or bound.kind == LATEST:
            return self.end()
        log.refresh()
        if bound.kind == EARLIEST:
            return log.min_offset
        if bound.kind != "timestamp":
            self._floor = bound.value
            if is_known:
                return bound.value
        end = self.end()
        if bound.kind == "timestamp":
            return self._first_since(log, bound.value, end)
        if bound.value > end:
            with about(self.name):
                raise ReputError(
                    f"store {self.name}: offset {bound.value} is past the end of the commitlog, "
                    f"{end}"
                )
        return self.existing(bound.value, fail_on_data_loss=fail_on_data_loss)

    def _first_since(self, log: CommitLog, timestamp: int, end: int) -> int:
        if self._ascending_time:
            return first_since_by_bisection(log, timestamp, end)
        found = first_since(
            log, timestamp, end, passed=self._passed, skips_corrupt=self._skips_corrupt
        )
        # The second of two bounds need not look at what the first has passed.
        self._passed = Passed(timestamp, found, end)
        return found

    def existing(self, start: int, *, fail_on_data_loss: bool) -> int:
        """Return `start`, or the log's first offset where `start` has expired.

        Raises:
            ReputError: it has expired, and `fail_on_data_loss` is set.
        """
        log = self.log()
        return (
            start
            if log is None
            else skip_expired(log, self.name, start, fail_on_data_loss=fail_on_data_loss)
        )

    def after_bytes(self, start: int, wanted: int, end: int) -> int:
        """Return an end of a batch of about `wanted` bytes, and of one record at least."""
        log = self.log()
        if log is None or not wanted:
            return start
        start = max(start, log.min_offset)
        cut = start + wanted
        if cut >= end or wanted >= self._settings.max_record_size:
            return min(cut, end)
        first = self._first(log, start)
        if first >= end:
            return end
        try:
            reached = log.walk(first, max(cut, first + 1))
        except FormatError:
            # The task that reads the batch reports it, and where.
            return min(max(cut, first + 1), end)
        if reached <= start and self._skips_corrupt:
            # A hole, or what stands after a BLANK: else an empty batch is planned again and again.
            reached = next_record(log, first)
        self._records.append(reached)
        return min(reached, end)

    def after_records(self, start: int, wanted: int, end: int) -> tuple[int, int]:
        """Return the end of a batch of `wanted` records, or of fewer if they end, and how many.

        Raises:
            FormatError: the very first one is corrupt.
        """
        log = self.log()
        if log is None or not wanted:
            return start, 0
        position = self._first(log, start)
        left = wanted
        step = min(max(_SMALLEST_STEP, left * _BYTES_A_RECORD), _STEP)
        while left and position < end:
            verdict, reached, passed = self._hop(log, position, step, end, left)
            left -= passed
            if verdict == Verdict.SHORT and not passed:
                step *= 2
            elif self._skips_corrupt and verdict not in {
                Verdict.RECORD,
                Verdict.ROLL,
                Verdict.SHORT,
            }:
                reached = next_record(log, reached)
            elif verdict not in {Verdict.RECORD, Verdict.ROLL, Verdict.SHORT}:
                if left == wanted:
                    raise corruption(log, reached, verdict)
                return reached, wanted - left
            position = reached
        self._records.append(position)
        return min(position, end), wanted - left

    @staticmethod
    def _hop(
        log: CommitLog, position: int, step: int, end: int, count: int
    ) -> tuple[Verdict, int, int]:
        """Pass up to `count` records in the next `step` bytes; a BLANK leads to the next file."""
        file_end = log.base_of(position) + log.file_size
        data = log.read(position, min(step, file_end - position))
        code, reached, passed, *_ = frames.hop(
            data, PAD, len(data) - PAD, position, file_end, log.rules & ACCEPT_V2, end, count
        )
        verdict = Verdict(code)
        if verdict == Verdict.SHORT and position + step >= file_end:
            verdict = Verdict.BAD_LENGTH
        return verdict, file_end if verdict == Verdict.ROLL else int(reached), int(passed)

    def _first(self, log: CommitLog, start: int) -> int:
        if self.is_record(start):
            return start
        return first_readable(log, start, skips_corrupt=self._skips_corrupt)


def _has_files(directories: list[Path]) -> bool:
    """Tell whether the directories are missing, or hold a file that is not empty."""
    there = [directory for directory in directories if directory.is_dir()]
    return not there or any(
        path.stat().st_size for directory in there for path in directory.iterdir()
    )
