"""Whether a log is still the one that was read: what was read of each file, and looking again.

A broker that recovers, or a replica that is told to, cuts its log and writes other records at the
same physical offsets. It erases nothing: past the new records the old ones still stand, so points
that are found again cannot vouch for what lies between them. What vouches is a sum over the hashes
of all records of a file (`formats.rocketmq.record_hash`), taken from the bytes that were parsed.
Such sums are also known at the points of a trail, so a comparison tells the last point that both
have in common.

A file that nobody has touched since it was compared need not be compared again if another one
follows it: its stamp tells, inode and times. A time says little while it is young: a mapped page
that is written to again before it was flushed changes no time. Source:
docs/adr/0011-following-the-log.md.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq.commitlog import ACCEPT_V2, Verdict
from reput.stores.lazy import lazy_module
from reput.stores.log import runs, tail, trail
from reput.stores.log.commitlog import PAD
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.formats.kernels import heads
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.listing import Stamp
    from reput.stores.log.trail import Point
else:
    # It brings the compiler, which is not needed where nothing was dispatched yet.
    heads = lazy_module("reput.formats.kernels.heads")

__all__ = [
    "Comparison",
    "FileHeads",
    "FileWalk",
    "Known",
    "compare",
    "filled_place",
    "gone_back",
    "is_certain",
    "is_old",
    "settled",
    "with_records",
]

_MASK = (1 << 64) - 1
# Brokers flush everything every 10 s; a page that is written to after that changes the file's
# times.
_OLD_NS = 15_000_000_000
_STEP = 1 << 20


class FileHeads(NamedTuple):
    """What was read of one log file.

    Attributes:
        base: physical offset where the file begins.
        first: hash of its first record that was read.
        heads: sum of the hashes of the records that start in it and were read.
        stamp: the file as it was when that was certain; None while it is not.
    """

    base: int
    first: int
    heads: int
    stamp: Stamp | None = None


class Known(NamedTuple):
    """What was read of a log, up to some record's end.

    Attributes:
        files: in the order of the log; a file of which nothing was read is not in it.
        points: records to go back to, in the order of the log.
        end: physical offset up to which it was read.
        gaps: physical offsets where no record stands, and where records go on.
        passed: of these, places where a record stood that could not be dispatched: its hash.
    """

    files: Sequence[FileHeads]
    points: Sequence[Point]
    end: int
    gaps: Mapping[int, int]
    passed: Mapping[int, int] = MappingProxyType({})


class Comparison(NamedTuple):
    """What has become of a log.

    Attributes:
        is_same: it is the one that was read, as far as it was read and has not expired.
        common: the newest point up to which it is the same; None if there is none.
        is_related: it is the log that was read, even if only the first record of some file is left
            of it.
        certain: the files that were found to be as they were read, with the stamps they had before
            that. For young stamps see `settled`.
        damaged: where a file begins that differs from what was read though a later one does not: no
            broker does that. None if there is none.
    """

    is_same: bool
    common: Point | None
    is_related: bool
    certain: Mapping[int, Stamp]
    damaged: int | None = None


def is_old(stamp: Stamp) -> bool:
    """Tell whether a file's last write is old enough that any later one would change its times."""
    return time.time_ns() - stamp.modified > _OLD_NS


def is_certain(log: CommitLog, file: FileHeads) -> bool:
    """Tell whether a file is untouched since it was known to be as it was read."""
    return file.stamp is not None and log.stamps.get(file.base) == file.stamp


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
        first = bisect_right(known.points, file.base, key=_end_of)
        last = bisect_right(known.points, self._stop, key=_end_of)
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
            there = there[: bisect_right(there, self.refilled, key=_end_of)]
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
        """Go on through about `most` bytes.

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
            # A record goes on after the piece.
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
        """Tell whether a broker has cut its log at the place without a record, and gone on there.

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


def compare(log: CommitLog, known: Known, *, is_thorough: bool = False) -> Comparison:
    """Compare a log with what was read of it; files that nobody has touched are left out.

    The last file is always compared, whatever its times say: a page that stays dirty, for a broker
    flushes seldom or the file system never notes it, takes other bytes without a new time.

    Args:
        log: the files, looked at again just now. Where one goes meanwhile, they are looked at once
            more: one that has expired has nothing to compare.
        known: what was read.
        is_thorough: leave no file out.

    Raises:
        StoreError: no file is left.
        OSError: the device failed.
    """
    certain: dict[int, Stamp] = {}
    cut: FileWalk | None = None
    damaged: int | None = None
    newest_same = -1
    is_followed = False
    for number in range(len(known.files) - 1, -1, -1):
        file = known.files[number]
        if file.base < log.min_offset:
            break
        # A cut removes the files after it. So a stamp counts where the file after it is the same.
        if is_followed and not is_thorough and is_certain(log, file):
            continue
        walk = FileWalk(log, known, number)
        while not walk.is_over:
            walk.step(_STEP)
        if walk.is_gone:
            log.refresh()
            if file.base < log.min_offset:
                break
        is_followed = walk.is_same or (newest_same >= 0 and walk.has_records)
        if walk.is_same:
            newest_same = max(newest_same, file.base)
            if walk.stamp is not None:
                certain[file.base] = walk.stamp
        elif newest_same < 0:
            cut = walk
        elif walk.has_records:
            # What was passed over has been restored: a cut removes the files after it.
            newest_same = max(newest_same, file.base)
        else:
            # A broker's cut removes the files after it, so this is none.
            damaged = file.base
    there = [p for p in known.points if p.record.physical_offset >= log.min_offset]
    newest = there[-1] if there else None
    if cut is None:
        end = filled_place(log, known)
        if end is None and known.files and not is_certain(log, known.files[-1]):
            end = _readable_end(log, known)
        if end is None:
            return Comparison(True, newest, True, certain, damaged)
        common = max((p for p in there if p.end <= end), key=_end_of, default=None)
        return Comparison(False, common, True, {})
    base = cut.file.base
    common = cut.common or max((p for p in there if p.end <= base), key=_end_of, default=None)
    is_related = (
        common is not None
        or newest_same >= 0
        or cut.has_records
        or trail.hash_at(log, base) == cut.file.first
    )
    return Comparison(False, common, is_related, certain, damaged)


def filled_place(log: CommitLog, known: Known) -> int | None:
    """Return where something stands now that was passed over, if nothing after it was read.

    Nothing read tells there whether the log was cut or the place restored: what stands there has
    its turn either way.

    Args:
        log: the files.
        known: what was read.
    """
    starts = {end: start for start, end in known.gaps.items()}
    places, end = [], known.end
    last = max((each for each in starts if each < end), default=-1)
    if end not in starts and end == log.base_of(last) + log.file_size and _is_blank(log, last):
        # No record was read after the place, but the BLANK that its file ends with.
        end = last
    while end in starts:
        places.append((starts[end], end))
        end = starts[end]
    for start, following in reversed(places):
        position = max(start, log.min_offset)
        while (damage := log.damage_at(position)) is not None and damage.end < following:
            position = damage.end
        is_there = damage is None and position < min(following, log.end_of_files)
        if is_there and _stands_at(log, position, following, known.passed):
            return position
    return None


def _is_blank(log: CommitLog, position: int) -> bool:
    try:
        return log.is_blank(position)
    except LogChangedError:
        # The next look is at what is there then.
        return False


def _stands_at(log: CommitLog, position: int, end: int, passed: Mapping[int, int]) -> bool:
    """Tell whether a record or BLANK stands at a position, other than when that was passed over.

    The position is where a place begins, or where damage at its beginning ends now.
    """
    stop = min(end, log.base_of(position) + log.file_size)
    try:
        verdict, reached = log.hop(position, stop, log.rules)
    except LogChangedError:
        # The next look is at what is there then.
        return False
    if verdict != Verdict.ROLL and reached == position:
        return False
    return position not in passed or passed[position] != trail.hash_at(log, position)


def _readable_end(log: CommitLog, known: Known) -> int | None:
    """Return where the last records that were read have become unreadable; None if they have not.

    A power cut may leave a record's head and not its body. A broker's recovery cuts the log there.
    Where good records follow it is damage, and no cut.
    """
    base = known.files[-1].base
    stop = min(known.end, base + log.file_size)
    position = base
    while position < stop and position < log.end_of_files:
        try:
            verdict, reached = log.hop(position, stop, log.rules)
        except LogChangedError:
            # The next look is at what is there then.
            return None
        if verdict in {Verdict.RECORD, Verdict.ROLL}:
            return None
        following = known.gaps.get(reached)
        if following is None:
            return None if tail.goes_on(log, reached) else reached
        position = following
    return None


def with_records(
    files: tuple[FileHeads, ...], base: int, first: int, heads_sum: int
) -> tuple[FileHeads, ...]:
    """Return what was read of a log, with more records of its last file or of one after it.

    Args:
        files: so far.
        base: physical offset where the records' file begins.
        first: hash of the first of them.
        heads_sum: sum of their hashes.
    """
    if files and files[-1].base == base:
        last = files[-1]
        return (*files[:-1], FileHeads(base, last.first, (last.heads + heads_sum) & _MASK))
    return (*files, FileHeads(base, first, heads_sum & _MASK))


def gone_back(files: tuple[FileHeads, ...], common: Point, file_size: int) -> tuple[FileHeads, ...]:
    """Return what was read of a log up to a point.

    Args:
        files: what was read.
        common: where it goes back to.
        file_size: of the log's files.
    """
    base = common.record.physical_offset // file_size * file_size
    kept = [file for file in files if file.base <= base]
    return (*kept[:-1], kept[-1]._replace(heads=common.heads, stamp=None)) if kept else ()


def settled(
    files: tuple[FileHeads, ...], certain: Mapping[int, Stamp], min_offset: int
) -> tuple[FileHeads, ...]:
    """Return what was read of a log, with the stamps of files that are certain; none expired.

    A stamp that is young is left out: it does not tell of a write that came right after it.

    Args:
        files: what was read.
        certain: stamps by where the file begins.
        min_offset: the log's first physical offset.
    """
    old = {base: stamp for base, stamp in certain.items() if is_old(stamp)}
    return tuple(
        file._replace(stamp=old.get(file.base, file.stamp))
        for file in files
        if file.base >= min_offset
    )


def _end_of(point: Point) -> int:
    return point.end
