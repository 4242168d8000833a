"""Records of a log to find again, with what was known there: where to go back to.

Whether the log in between is still the same is for `stores.following.identity` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.commitlog import MIN_SIZE, ReadRules, Verdict
from reput.formats.rocketmq.record_hash import hash_of
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.log.files import LogFiles

# Points that are kept; the newest ones all, older ones the further apart the older they are.
_POINTS = 96
_NEWEST = 24
_SIZE_BYTES = 4
# The body's CRC is in the hashed head; whether it fits the body is checked elsewhere.
_ANY_BODY = ReadRules(checks_body_crc=False)


@dataclass(frozen=True)
class Fingerprint:
    """What identifies one record: its place, and its hash (`formats.rocketmq.record_hash`)."""

    physical_offset: int
    size: int
    hash: int

    @property
    def end(self) -> int:
        """Return the physical offset after the record."""
        return self.physical_offset + self.size


@dataclass(frozen=True)
class Point:
    """A record, and how far an output was when that was the last one dispatched.

    Attributes:
        record: which.
        end: physical offset where dispatch continued; after the record, or after a BLANK there.
        heads: sum of the hashes of the records of its file up to this one.
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
    heads: int = 0
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
        is_same: all points are in the log, have expired, or lie in a file that is damaged.
        common: the newest one up to which the log is the same, None if there is none.
    """

    is_same: bool
    common: Point | None


def fingerprint(log: LogFiles, position: int, size: int) -> Fingerprint | None:
    """Return what identifies the record at a physical offset; None if none of that size is there.

    Args:
        log: the files.
        position: physical offset.
        size: bytes of the record.
    """
    found = _hash_of(log, position, size)
    return None if found is None else Fingerprint(position, size, found)


def hash_at(log: LogFiles, position: int, most: int | None = None) -> int | None:
    """Return the hash of the record at a physical offset; None if none is there.

    Args:
        log: the files.
        position: physical offset.
        most: bytes of a record; what says that it is longer is none. None for up to a file.
    """
    try:
        size = int.from_bytes(log.bytes_at(position, _SIZE_BYTES), "big", signed=True)
    except LogChangedError:
        return None
    return None if most is not None and size > most else _hash_of(log, position, size)


def _hash_of(log: LogFiles, position: int, size: int) -> int | None:
    file_end = log.base_of(position) + log.file_size
    if position < log.min_offset or position + size > min(file_end, log.end_of_files):
        return None
    if size < MIN_SIZE:
        return None
    try:
        raw = log.bytes_at(position, size)
    except LogChangedError:
        # Its file went between the two looks.
        return None
    # Only a real record has lengths inside that can be trusted.
    verdict, _ = commitlog.read(raw, 0, position, file_end, _ANY_BODY)
    return hash_of(raw) if verdict == Verdict.RECORD else None


def is_there(log: LogFiles, record: Fingerprint) -> bool:
    """Tell whether a record is in the log as it was: head, topic and properties."""
    return fingerprint(log, record.physical_offset, record.size) == record


def check(log: LogFiles, trail: Sequence[Point]) -> Check:
    """Look for the points of a trail in the log.

    All of them, because where a log is overwritten from its cut on, stale records remain after the
    new ones, so the oldest point that is missing tells.
    """
    common = None
    for point in trail:
        if point.record.physical_offset < log.min_offset:
            continue
        if log.damage_at(point.record.end - 1) is not None:
            # Its bytes are in no file: that says nothing of what the log was.
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
        ends = [each.end for each in points]
        triples = zip(ends, ends[1:-newest], ends[2:], strict=False)
        densities = [(after - before) / (point.end - at + 1) for before, at, after in triples]
        del points[1 + densities.index(min(densities))]
    return tuple(points)
