"""Reads records as they lie in the log, with one read for those that stand close together.

What is read goes out as it is: no record is taken apart. Each has to begin where its entry says,
with the size that its entry says; more is not looked at, as in a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.commitlog import MIN_SIZE, PHYSICAL_OFFSET_AT, SIZE_AT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.stores.log.files import LogFiles

    Longs = NDArray[np.int64]

# A read of another place takes as long as copying this many bytes.
_NEAR = 16 << 10
_INT, _LONG = np.dtype(">i4"), np.dtype(">i8")
_STEP = (1,)


def pieces_of(log: LogFiles, offsets: Longs, sizes: Longs) -> list[memoryview] | None:
    """Return the bytes of records, one piece for those that lie side by side.

    Args:
        log: the commitlog.
        offsets: physical offsets, shape (n,), n at least 1.
        sizes: bytes of each, shape (n,).

    Returns:
        None unless all of them stand there.
    """
    if sizes.min() < MIN_SIZE:
        return None
    gaps = offsets[1:] - offsets[:-1] - sizes[:-1]
    size = log.file_size
    start, last = int(offsets[0]), int(offsets[-1] + sizes[-1]) - 1
    if start // size == last // size and (not len(gaps) or 0 <= gaps.min() <= gaps.max() <= _NEAR):
        return _near(log, offsets, sizes, gaps) if _are_held(log, start, last + 1) else None
    ends = offsets + sizes
    files = offsets // size
    is_inside = (ends - 1) // size == files
    if not is_inside.all() or not _are_held(log, int(offsets.min()), int(ends.max())):
        return None
    is_far = (gaps > _NEAR) | (gaps < 0) | (files[1:] != files[:-1])
    pieces: list[memoryview] = []
    first = 0
    for number in (*np.flatnonzero(is_far).tolist(), len(offsets) - 1):
        near = slice(first, number + 1)
        found = _near(log, offsets[near], sizes[near], gaps[first:number])
        if found is None:
            return None
        pieces += found
        first = number + 1
    return pieces


def _are_held(log: LogFiles, start: int, end: int) -> bool:
    return start >= log.min_offset and (end <= log.known_end or end <= log.end())


def _near(log: LogFiles, offsets: Longs, sizes: Longs, gaps: Longs) -> list[memoryview] | None:
    """Read records that stand close together in one file; see `pieces_of`."""
    at = offsets - offsets[0]
    length = int(at[-1] + sizes[-1])
    data = np.empty(length, np.uint8)
    whole = data.data
    if log.read_into(whole, int(offsets[0])) < length:
        return None
    # Every byte as the beginning of a record; those of the records are then picked.
    places = (length - MIN_SIZE + 1,)
    physical = np.ndarray(places, _LONG, data, PHYSICAL_OFFSET_AT, _STEP)
    stated = np.ndarray(places, _INT, data, SIZE_AT, _STEP)
    if (physical[at] != offsets).any() or (stated[at] != sizes).any():
        return None
    if not gaps.any():
        return [whole]
    firsts, lasts = at, at + sizes
    breaks = np.flatnonzero(gaps)
    if len(breaks) < len(gaps):
        firsts = firsts[np.concatenate(([0], breaks + 1))]
        lasts = lasts[np.concatenate((breaks, [len(at) - 1]))]
    return [whole[a:b] for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True)]
