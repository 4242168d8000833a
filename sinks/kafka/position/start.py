"""Where a store begins if only what comes from its first start on is wanted.

That place is decided once and may be used long after: Kafka may be away, and a new output has to
catch up first. An offset alone does not say whether the log before it is still the same, so records
before it are kept with it: they show a cut, and where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import FormatError
from reput.stores.log import trail
from reput.stores.log.files import LogChangedError
from reput.stores.log.trail import Fingerprint, Point
from reput.stores.log.unreadable import first_readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.log.commitlog import CommitLog

# How far before the place the records stand, bytes: what is sent again of what is older than a cut
# is at most about three times what was cut.
_DISTANCES = tuple(1 << 10 + 2 * number for number in range(14))
_FIELDS = 4
_SIZE_BYTES = 4


class Start(NamedTuple):
    """Where a store begins.

    Attributes:
        transactional_id: under which it was decided; it counts for the output, under any id.
        end: physical offset.
        cut: number of the last cut of the log before that.
        points: records before it, oldest first; none if an earlier version has written it.
    """

    transactional_id: str
    end: int
    cut: int
    points: tuple[Point, ...] = ()

    def pack(self) -> list[Any]:
        """Return what JSON takes; an earlier version reads the first three."""
        return [self.transactional_id, self.end, self.cut, pack_points(self.points)]

    @classmethod
    def unpack(cls, values: Sequence[Any]) -> Start:
        """Return what `pack` has made.

        Raises:
            ValueError, LookupError, TypeError: it has not.
        """
        points = unpack_points(values[3]) if len(values) >= _FIELDS else ()
        return cls(str(values[0]), int(values[1]), int(values[2]), points)


def pack_points(points: Sequence[Point]) -> list[list[int]]:
    """Return the records of points, and where each ends, as JSON takes them."""
    return [[p.record.physical_offset, p.record.size, p.record.hash, p.end] for p in points]


def unpack_points(values: Sequence[Sequence[Any]]) -> tuple[Point, ...]:
    """Return what `pack_points` has made.

    Raises:
        ValueError, TypeError: it has not.
    """
    return tuple(
        Point(Fingerprint(int(at), int(size), int(crc)), int(end)) for at, size, crc, end in values
    )


def points_before(log: CommitLog, end: int) -> tuple[Point, ...]:
    """Return records before a place: the log's first, the last, and more the nearer they are.

    Args:
        log: as it is now.
        end: physical offset where a record ends, or a file.
    """
    begin = log.min_offset
    starts = {begin}
    last = _last_before(log, end)
    if last is not None:
        starts.add(last)
    for target in (end - distance for distance in _DISTANCES):
        if target <= begin:
            break
        try:
            starts.add(first_readable(log, target, skips_corrupt=True))
        except (FormatError, LogChangedError):
            # Damage there; the other points are left.
            continue
    found = [_record_at(log, start) for start in sorted(starts) if begin <= start < end]
    return tuple(Point(each, each.end) for each in found if each is not None and each.end <= end)


def _record_at(log: CommitLog, start: int) -> Fingerprint | None:
    try:
        size = int.from_bytes(log.bytes_at(start, _SIZE_BYTES), "big", signed=True)
    except LogChangedError:
        return None
    return trail.fingerprint(log, start, size)


def _last_before(log: CommitLog, end: int) -> int | None:
    """Return where the last record before a place begins, also across a file's end."""
    if end <= log.min_offset:
        return None
    try:
        if end != log.base_of(end):
            return log.record_before(end)
        base = log.base_of(end - 1)
        for target in (max(base, end - distance) for distance in _DISTANCES):
            start = first_readable(log, target, skips_corrupt=True)
            if start < end:
                # Where the BLANK stands that fills the file.
                _, reached = log.hop(start, end, log.rules)
                return log.record_before(reached)
            # It fills more than that.
    except (FormatError, LogChangedError):
        return None
    return None


def same_until(log: CommitLog, end: int, points: Sequence[Point], tail: int | None) -> int | None:
    """Return up to where the log before a place is the one that it was; None if nothing tells.

    Args:
        log: as it is now.
        end: the place, or where dispatch was rolled back to since.
        points: records before the place.
        tail: where the log ends if that is before the place, else None.
    """
    # Where dispatch was rolled back to is more exact than points after that.
    found = trail.check(log, [p for p in points if p.end <= end])
    if not found.is_same:
        end = found.common.end if found.common is not None else log.min_offset
    if tail is None or end <= tail:
        return end
    if not points:
        return None
    # The bytes of records that were cut may still stand after the log's end.
    return max((p.end for p in points if p.end <= tail), default=log.min_offset)
