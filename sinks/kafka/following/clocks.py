"""Which records of a log are new, by their times: where bytes of old ones may follow new ones.

A broker that cuts its log erases nothing. Where its new records are as long as the old ones,
records of before the cut follow them. Neither points nor digests after that say where the new ones
begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import FormatError
from reput.sinks.kafka.messages.blocks import RowReader
from reput.stores.log import trail
from reput.stores.log.commitlog import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.following.parting import Parting
    from reput.sinks.kafka.position.position import Position
    from reput.stores.log.commitlog import CommitLog

_BLOCK_BYTES = 4 << 20
# Bytes before a place in which store times count, where nothing was sent before that place.
_NEAR_BYTES = 4 << 20


def first_newer(
    log: CommitLog, start: int, end: int, newest: int, gaps: Mapping[int, int]
) -> int | None:
    """Return the first record of a part of the log that is newer than all left-over ones after it.

    A broker that cuts its log erases nothing. Where its new records are as long as the old ones,
    records of before the cut follow them. The new ones were stored after all of these; and if the
    broker's clock has gone back, as at a change of master, they were born after that, by the clocks
    of the producers. To compare two born times says nothing: a delayed or repeated message keeps
    its own. Records out of order say nothing either: any clock is set back at times.

    Args:
        log: as it is now.
        start: physical offset of a record, or of a file's beginning.
        end: physical offset where the part ends.
        newest: see `Parting`.
        gaps: see `sinks.kafka.messages.blocks.RowReader`.

    Returns:
        Its physical offset; None if there is none, or something is in the way that is not a record.
    """
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    try:
        for block in reader.blocks(start, end, gaps):
            columns = block.columns
            last = np.maximum(columns.store_timestamp, columns.born_timestamp)
            found = np.flatnonzero(last > newest)
            if len(found):
                return int(columns.physical_offset[found[0]])
    except (FormatError, LogChangedError):
        return None
    return None


def last_newer(log: CommitLog, start: int, end: int, gaps: Mapping[int, int]) -> int | None:
    """Return the last record of a part of the log that was stored after all that follow it there.

    As `first_newer`, where nothing says which records are left over.

    Args:
        log: as it is now.
        start: physical offset of a record, or of a file's beginning.
        end: physical offset where the part ends.
        gaps: see `sinks.kafka.messages.blocks.RowReader`.

    Returns:
        Its physical offset; None if there is none, or something is in the way that is not a record.
    """
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    stored, offsets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    try:
        for block in reader.blocks(start, end, gaps):
            stored.append(block.columns.store_timestamp.copy())
            offsets.append(block.columns.physical_offset.copy())
    except (FormatError, LogChangedError):
        return None
    times = np.concatenate(stored)
    latest_after = np.maximum.accumulate(times[::-1])[::-1]
    found = np.flatnonzero(times[:-1] > latest_after[1:])
    return int(np.concatenate(offsets)[found[-1]]) if len(found) else None


def new_before(
    log: CommitLog, known: Position, parted: Parting, common: int, gaps: Mapping[int, int]
) -> int | None:
    """Return from where on new records may stand before those of which digests are known.

    Bytes of the old ones may follow them, so that all that was sent seems to be the same.

    A point tells for certain. Without one, where the digests find a new record: what is new
    stands together, so all before that is old. Only where they find none, the clocks tell.

    Args:
        log: as it is now.
        known: the position.
        parted: what the digests say.
        common: physical offset up to which the log is the same.
        gaps: see `sinks.kafka.messages.blocks.RowReader`.

    Returns:
        Physical offset; None if none are there.
    """
    if not parted.same or common >= parted.start:
        return None
    before = [p for p in known.points if p.record.physical_offset < parted.start]
    if not trail.check(log, before).is_same:
        return common
    if parted.differs:
        return None
    new = first_newer(log, common, parted.start, parted.newest, gaps)
    if new is None:
        return None
    # The first new records may not show it, as one that was born long before does not.
    return max([common, *(p.end for p in before if common < p.end <= new)])


class OldEnd:
    """Up to where all is old before a place, by the store times shortly before it."""

    def __init__(self, log: CommitLog) -> None:
        """Begin without having looked."""
        self._log = log
        # The last answer, and what it was for: a log at rest is not read again.
        self._found: tuple[tuple[int, int, int], int] | None = None

    def before(self, known: Position, extent: Extent) -> int:
        """Return up to where all is old before a position.

        New records may stand there between the points, and left-over ones after them.
        """
        key = known.end, extent.end, extent.last_cut
        if self._found is None or self._found[0] != key:
            near = [p for p in known.points if known.end - p.end <= _NEAR_BYTES]
            near = [p for p in near if p.record.physical_offset >= self._log.min_offset]
            new = None
            if near:
                start = near[0].record.physical_offset
                new = last_newer(self._log, start, known.end, dict(extent.gaps))
            ends = [p.end for p in near if new is not None and p.end <= new]
            self._found = key, max(ends, default=known.end)
        return self._found[1]
