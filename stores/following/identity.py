"""Compares a log with what was read of it: which part of it is still the same.

A broker that recovers, or a replica that is told to, cuts its log and writes other records at the
same physical offsets. It erases nothing: past the new records the old ones still stand, so points
that are found again cannot vouch for what lies between them. A sum over the hashes of all records
of a file (`formats.rocketmq.record_hash`) can; it is taken from the bytes that were parsed. The
points of a trail have such sums too, so a comparison finds the last point that both logs share.

A file that is untouched since it was compared need not be compared again if another one follows
it: its stamp tells, inode and times. A time says little while it is young: a mapped page
that is written to again before it was flushed changes no time. Source:
docs/adr/0011-following-the-log.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.following.file_walk import FileWalk
from reput.stores.following.known import (
    end_of,
    is_certain,
)
from reput.stores.log import tail, trail
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.stores.following.known import Known
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.listing import Stamp
    from reput.stores.log.trail import Point


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


class _Walked(NamedTuple):
    """What a walk back over the files found.

    Attributes:
        cut: the newest file that is not as it was read, if no later one is as it was.
        newest_same: where the newest file begins that is as it was read, -1 for none.
        certain: see `Comparison`.
        damaged: likewise.
    """

    cut: FileWalk | None
    newest_same: int
    certain: Mapping[int, Stamp]
    damaged: int | None


def compare(log: CommitLog, known: Known, *, is_thorough: bool = False) -> Comparison:
    """Compare a log with what was read of it; untouched files are left out.

    The last file is always compared, whatever its times say: a page that stays dirty takes other
    bytes without a new time, because a broker flushes seldom or the file system never notes it.

    Args:
        log: the files, looked at again just now. Where one goes meanwhile, they are looked at once
            more: one that has expired has nothing to compare.
        known: what was read.
        is_thorough: leave no file out.

    Raises:
        StoreError: no file is left.
        OSError: the device failed.
    """
    walked = _walk_back(log, known, is_thorough=is_thorough)
    there = [p for p in known.points if p.record.physical_offset >= log.min_offset]
    if walked.cut is not None:
        return _cut_off(log, walked.cut, walked, there)
    end = filled_place(log, known)
    if end is None and known.files and not is_certain(log, known.files[-1]):
        end = _readable_end(log, known)
    if end is None:
        newest = there[-1] if there else None
        return Comparison(True, newest, True, walked.certain, walked.damaged)
    return Comparison(False, _newest_until(there, end), True, {})


def _walk_back(log: CommitLog, known: Known, *, is_thorough: bool) -> _Walked:
    """Compare the files from the last one back to the first that has not expired."""
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
        walk.finish()
        if walk.is_gone:
            log.refresh()
            if file.base < log.min_offset:
                break
        # Records that are all there before a good file: what was passed over has been restored.
        is_followed = walk.is_same or (newest_same >= 0 and walk.has_records)
        if is_followed:
            newest_same = max(newest_same, file.base)
            if walk.is_same and walk.stamp is not None:
                certain[file.base] = walk.stamp
        elif newest_same < 0:
            cut = walk
        else:
            # A broker's cut removes the files after it, so this is not a cut.
            damaged = file.base
    return _Walked(cut, newest_same, certain, damaged)


def _cut_off(log: CommitLog, cut: FileWalk, walked: _Walked, there: Sequence[Point]) -> Comparison:
    """Return what has become of a log that was cut in a file, with the points that are left."""
    base = cut.file.base
    common = cut.common or _newest_until(there, base)
    is_related = (
        common is not None
        or walked.newest_same >= 0
        or cut.has_records
        or trail.hash_at(log, base) == cut.file.first
    )
    return Comparison(False, common, is_related, walked.certain, walked.damaged)


def _newest_until(points: Sequence[Point], end: int) -> Point | None:
    return max((p for p in points if p.end <= end), key=end_of, default=None)


def filled_place(log: CommitLog, known: Known) -> int | None:
    """Return where something stands now that was passed over, if nothing after it was read.

    Nothing that was read tells whether the log was cut there or the place was restored. What
    stands there is dispatched either way.

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
