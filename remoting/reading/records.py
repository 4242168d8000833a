"""Reads records as they lie in the log, with one read for those that stand close together.

What is read goes out as it is: no record is taken apart. Each has to begin where its entry says,
with the size that its entry says; more is not looked at, as in a broker.
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from operator import add, sub
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.commitlog import MIN_SIZE, PHYSICAL_OFFSET_AT, SIZE_AT
from reput.stores.reads import ColdError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.log.files import LogFiles
    from reput.stores.reads import Span

# A read of another place takes as long as copying this many bytes.
_NEAR = 16 << 10
# Size and physical offset of a record; they are not side by side.
_HEAD = struct.Struct(f">i{PHYSICAL_OFFSET_AT - SIZE_AT - 4}xq")


def pieces_of(
    log: LogFiles, offsets: Sequence[int], sizes: Sequence[int]
) -> list[memoryview] | None:
    """Return the bytes of records, one piece for those that lie side by side.

    Args:
        log: the commitlog.
        offsets: physical offsets, at least one.
        sizes: bytes of each.

    Returns:
        None unless all of them stand there.

    Raises:
        ColdError: some are not in memory; all of those are named.
    """
    if min(sizes) < MIN_SIZE:
        return None
    size, start = log.file_size, offsets[0]
    *places, end = accumulate(sizes, initial=start)
    if places == list(offsets) and start // size == (end - 1) // size:
        return _near(log, offsets, sizes) if _are_held(log, start, end) else None
    ends = list(map(add, offsets, sizes))
    gaps = list(map(sub, offsets[1:], ends))
    is_near = start // size == (ends[-1] - 1) // size and bool(gaps)
    if is_near and min(gaps) >= 0 and max(gaps) <= _NEAR:
        return _near(log, offsets, sizes, gaps) if _are_held(log, start, ends[-1]) else None
    if not _are_held(log, min(offsets), max(ends)):
        return None
    files = [offset // size for offset in offsets]
    if files != [(end - 1) // size for end in ends]:
        return None
    runs = []
    first = 0
    for number in (*_far(files, gaps), len(offsets) - 1):
        near = slice(first, number + 1)
        runs.append((offsets[near], sizes[near], gaps[first:number]))
        first = number + 1
    return _all_of(log, runs)


def _far(files: Sequence[int], gaps: Sequence[int]) -> list[int]:
    """Return the numbers of the records after which another read begins."""
    return [
        number
        for number, ((one, other), gap) in enumerate(zip(pairwise(files), gaps, strict=True))
        if not 0 <= gap <= _NEAR or one != other
    ]


def _all_of(
    log: LogFiles, runs: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]]
) -> list[memoryview] | None:
    """Read several parts of the log; what of them is not in memory is named all at once."""
    pieces: list[memoryview] = []
    cold: list[Span] = []
    is_known = True
    for run in runs:
        try:
            found = _near(log, *run)
        except ColdError as error:
            cold += error.spans
            is_known = is_known and error.is_known
            continue
        if found is None:
            return None
        pieces += found
    if cold:
        raise ColdError(cold, is_known=is_known)
    return pieces


def _are_held(log: LogFiles, start: int, end: int) -> bool:
    return start >= log.min_offset and (end <= log.known_end or end <= log.end())


def _near(
    log: LogFiles, offsets: Sequence[int], sizes: Sequence[int], gaps: Sequence[int] = ()
) -> list[memoryview] | None:
    """Read records that stand close together in one file; see `pieces_of`."""
    start = offsets[0]
    length = offsets[-1] + sizes[-1] - start
    # Not zeroed before it is filled.
    whole = np.empty(length, np.uint8).data
    got = log.read_once([whole], start)
    if got < length and got + log.read_into(whole[got:], start + got) < length:
        return None
    head_at = _HEAD.unpack_from
    stated = [head_at(whole, offset - start) for offset in offsets]
    if stated != list(zip(sizes, offsets, strict=False)):
        return None
    if not any(gaps):
        return [whole]
    pieces = []
    begin = start
    for following, gap in zip(offsets[1:], gaps, strict=True):
        if gap:
            pieces.append(whole[begin - start : following - gap - start])
            begin = following
    pieces.append(whole[begin - start :])
    return pieces
