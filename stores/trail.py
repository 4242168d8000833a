"""Whether a log is still the one that was read: records to find again, with what was known there.

A broker that recovers, or a replica that is told to, cuts its log and writes other records at the
same physical offsets. Whoever has read the old ones keeps a trail of points, looks at the newest of
them before he goes on, and goes back to the last one that is still there.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from stores.commitlog import PAD, LogChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stores.commitlog import CommitLog

# Points that are kept; the newest ones all, older ones the further apart the older they are.
_POINTS = 96
_NEWEST = 24
# A record's head has its store timestamp, its place in log and queue and its body's CRC.
_BYTES = 4096


@dataclass(frozen=True)
class Fingerprint:
    """What identifies one record: found again at its offset, the log up to it is the same one."""

    physical_offset: int
    size: int
    crc: int

    @property
    def end(self) -> int:
        """Return the physical offset behind the record."""
        return self.physical_offset + self.size


@dataclass(frozen=True)
class Point:
    """A record, and how far an output was when that was the last one dispatched.

    Attributes:
        record: which.
        end: physical offset where dispatch went on; behind the record, or behind a BLANK there.
        messages: see `checkpoints.progress.Progress`, so the others.
        logics_timestamp: ms.
        logics_offset: physical offset.
        repeated: records.
        store_timestamp: ms.
        index_name: the newest index file.
        index_header: its header.
    """

    record: Fingerprint
    end: int
    messages: int = 0
    logics_timestamp: int = 0
    logics_offset: int = 0
    repeated: int = 0
    store_timestamp: int = 0
    index_name: str = ""
    index_header: tuple[int, ...] = (0, 0, 0, 0, 0, 0)


class Check(NamedTuple):
    """What has become of a trail.

    Attributes:
        is_same: all points are in the log, or have expired.
        common: the newest one up to which the log is the same, None if there is none.
    """

    is_same: bool
    common: Point | None


def fingerprint(log: CommitLog, position: int, size: int) -> Fingerprint | None:
    """Return what identifies the record at a physical offset, None behind the log's end."""
    if position < log.min_offset or position + size > log.end_of_files:
        return None
    try:
        data = log.read(position, min(size, _BYTES))[PAD:-PAD]
    except LogChangedError:
        # Its file went between the two looks.
        return None
    return Fingerprint(position, size, zlib.crc32(data.tobytes()))


def is_there(log: CommitLog, record: Fingerprint) -> bool:
    """Tell whether a record is in the log as it was."""
    return fingerprint(log, record.physical_offset, record.size) == record


def check(log: CommitLog, trail: Sequence[Point]) -> Check:
    """Look for the points of a trail in the log.

    All of them: where a log is overwritten from its cut on, old records still stand behind the
    new ones, so the oldest point that is missing tells.
    """
    common = None
    for point in trail:
        if point.record.physical_offset < log.min_offset:
            continue
        if not is_there(log, point.record):
            return Check(is_same=False, common=common)
        common = point
    return Check(is_same=True, common=common)


def extended(
    trail: Sequence[Point], point: Point, most: int = _POINTS, newest: int = _NEWEST
) -> tuple[Point, ...]:
    """Return a trail with one more point, thinned out where it is older.

    Args:
        trail: the points so far.
        point: the new one.
        most: points that are kept.
        newest: of these, which are never thinned out.
    """
    points = [*trail, point]
    if len(points) > most:
        old = range(1, len(points) - newest)

        def density(i: int) -> float:
            return (points[i + 1].end - points[i - 1].end) / (point.end - points[i].end + 1)

        del points[min(old, key=density)]
    return tuple(points)
