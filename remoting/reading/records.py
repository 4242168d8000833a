"""Reads records as they lie in the log, with one read for those that stand close together.

What is read goes out as it is: no record is taken apart. Each has to begin where its entry says,
with the size that its entry says; more is not looked at, as in a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.commitlog import (
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    SIZE_AT,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.stores.log.files import LogFiles

    Longs = NDArray[np.int64]

# A read of another place takes as long as copying this many bytes.
_NEAR = 16 << 10
# What tells that a record begins at a place.
_SIGNS = np.dtype(
    {
        "names": ["size", "magic", "physical_offset"],
        "formats": [">i4", ">i4", ">i8"],
        "offsets": [SIZE_AT, MAGIC_AT, PHYSICAL_OFFSET_AT],
        "itemsize": MIN_SIZE,
    }
)


def pieces_of(log: LogFiles, offsets: Longs, sizes: Longs) -> list[memoryview] | None:
    """Return the bytes of records, one piece for those that lie side by side.

    Args:
        log: the commitlog.
        offsets: physical offsets, shape (n,), n at least 1.
        sizes: bytes of each, shape (n,).

    Returns:
        None unless all of them stand there.
    """
    ends = offsets + sizes
    size = log.file_size
    if sizes.min() < MIN_SIZE or not _are_held(log, int(offsets.min()), int(ends.max())):
        return None
    if ((ends - 1) // size != offsets // size).any():
        return None
    gaps = offsets[1:] - ends[:-1]
    breaks = np.flatnonzero(
        (gaps > _NEAR) | (gaps < 0) | (offsets[1:] // size != offsets[:-1] // size)
    )
    pieces: list[memoryview] = []
    first = 0
    for last in (*breaks.tolist(), len(offsets) - 1):
        near = slice(first, last + 1)
        found = _near(log, offsets[near], sizes[near], gaps[first:last])
        if found is None:
            return None
        pieces += found
        first = last + 1
    return pieces


def _are_held(log: LogFiles, start: int, end: int) -> bool:
    if start < log.min_offset:
        return False
    return end <= log.known_end or end <= log.end()


def _near(log: LogFiles, offsets: Longs, sizes: Longs, gaps: Longs) -> list[memoryview] | None:
    """Read records that stand close together; see `pieces_of`."""
    start = int(offsets[0])
    length = int(offsets[-1] + sizes[-1]) - start
    data = np.empty(length, np.uint8)
    whole = data.data
    if log.read_into(whole, start) < length:
        return None
    # Every byte as the beginning of a record; those of the records are then picked.
    any_place = np.ndarray((length - MIN_SIZE + 1,), _SIGNS, data, strides=(1,))
    signs = any_place[offsets - start]
    magic = signs["magic"]
    is_record = (signs["size"] == sizes) & (signs["physical_offset"] == offsets)
    is_record &= (magic == MAGIC_V1) | (magic == MAGIC_V2)
    if not is_record.all():
        return None
    if not gaps.any():
        return [whole]
    pieces = []
    at = 0
    firsts = (offsets - start).tolist()
    for number in np.flatnonzero(gaps).tolist():
        pieces.append(whole[at : firsts[number] + int(sizes[number])])
        at = firsts[number + 1]
    pieces.append(whole[at:])
    return pieces
