"""Reads the records of one answer; `remoting.reading.records` is the twin to read.

Records of a queue lie apart. A read of the file has to bring what lies between them, too, and that
is most of it. So files are mapped, and one `pwritev` copies records out of the mapping into `out`,
which is a file in memory: if the mapped file was cut, or cannot be read, the call says so, where a
copy of ours would end the process. `mincore` is asked first whether all pages are in memory.
Where a file cannot be mapped, or nobody tells us what is in memory, it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import load_i32, load_i64, prefetch_at
from reput.formats.rocketmq.commitlog import PHYSICAL_OFFSET_AT, SIZE_AT
from reput.remoting.lanes import places as p
from reput.remoting.lanes.libc import is_resident, preadv_now, write_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

    Longs = NDArray[np.int64]

# How much of a record is asked for before it is copied; a line of the processor's cache.
_LINES, _LINE = 1024, 64
# What `read` returns for what Python has to answer; the second also says which file to open.
NOT_HERE, NO_LOG_FILE = -1, -2


@kernel
def _from_mapping(
    first: int, taken: int, base: int, state: Longs, filled: int, work: Bytes, vectors: Longs
) -> int:
    """Copy the records of one file that is mapped, from one record on.

    Returns:
        The first record that is not copied, `NOT_HERE` where one is not in memory.
    """
    file = base // state[p.LOG_FILE_SIZE] % p.LOG_FILES
    address = state[p.FILE_ADDRESSES + file]
    low = max(state[p.LOG_MIN] - base, 0)
    end = min(state[p.LOG_END] - base, state[p.FILE_MAPPED + file])
    count = 0
    number = first
    begin = 0
    until = 0
    place = filled
    while number < taken:
        at = vectors[p.POSITIONS + number] - base
        size = vectors[p.SIZES + number]
        if at < low or at + size > end:
            break
        if number == first or at < until or at - until > p.GAP:
            # What was close together is looked at as one.
            if count and not is_resident(address + begin, until - begin, work, p.PAGES_AT):
                return NOT_HERE
            begin = at
        if count and at == until:
            vectors[2 * count - 1] += size
        else:
            vectors[2 * count] = address + at
            vectors[2 * count + 1] = size
            count += 1
        # Otherwise each copy would wait for its own lines. A prefetch touches no page.
        for line in range(0, min(size, _LINES), _LINE):
            prefetch_at(address + at + line)
        until = at + size
        vectors[p.RECORDS_AT + number] = place
        place += size
        number += 1
    if not count:
        return first
    if not is_resident(address + begin, until - begin, work, p.PAGES_AT):
        return NOT_HERE
    if write_vectors(state[p.OUT_FILE], vectors, count, filled) != place - filled:
        return NOT_HERE
    return number


@kernel
def _from_file(
    first: int,
    taken: int,
    base: int,
    state: Longs,
    out: Bytes,
    filled: int,
    work: Bytes,
    vectors: Longs,
) -> int:
    """Read the records of one file that stand close together, from one record on.

    Returns:
        The first record that is not read, `NOT_HERE` where one is not in memory.
    """
    file_size = state[p.LOG_FILE_SIZE]
    end = min(state[p.LOG_END], base + file_size)
    start = vectors[p.POSITIONS + first]
    count = 0
    position = start
    number = first
    while number < taken:
        offset = vectors[p.POSITIONS + number]
        size = vectors[p.SIZES + number]
        gap = offset - position
        if number > first and (gap < 0 or gap > p.GAP):
            break
        if offset + size > end:
            if number > first:
                break
            return NOT_HERE
        if gap:
            vectors[2 * count] = work.ctypes.data + p.GAP_AT
            vectors[2 * count + 1] = gap
            count += 1
        if gap or not count:
            vectors[2 * count] = out.ctypes.data + filled
            vectors[2 * count + 1] = size
            count += 1
        else:
            vectors[2 * count - 1] += size
        vectors[p.RECORDS_AT + number] = filled
        filled += size
        position = offset + size
        number += 1
    file = base // file_size % p.LOG_FILES
    got = preadv_now(state[p.FILE_DESCRIPTORS + file], vectors, count, start - base)
    return number if got == position - start else NOT_HERE


@kernel
def read(
    taken: int, state: Longs, out: Bytes, filled: int, work: Bytes, vectors: Longs
) -> tuple[int, int]:
    """Read records into `out`, one after the other.

    Args:
        taken: how many; positions and sizes stand in `vectors`.
        state: see `places`.
        out: gets them.
        filled: where they are to begin.
        work: scratch.
        vectors: see `places`.

    Returns:
        Their bytes, or why Python has to answer, with the file that has to be opened.
    """
    file_size = state[p.LOG_FILE_SIZE]
    number = 0
    place = filled
    while number < taken:
        start = vectors[p.POSITIONS + number]
        if start < state[p.LOG_MIN]:
            return NOT_HERE, 0
        base = start - start % file_size
        file = base // file_size % p.LOG_FILES
        if state[p.FILE_BASES + file] != base:
            return NO_LOG_FILE, base
        following = number
        if state[p.FILE_MAPPED + file]:
            following = _from_mapping(number, taken, base, state, place, work, vectors)
        if following == number:
            following = _from_file(number, taken, base, state, out, place, work, vectors)
        if following < 0:
            return NOT_HERE, 0
        place = vectors[p.RECORDS_AT + following - 1] + vectors[p.SIZES + following - 1]
        number = following
    for i in range(taken):
        at = vectors[p.RECORDS_AT + i]
        if load_i32(out, at + SIZE_AT) != vectors[p.SIZES + i]:
            return NOT_HERE, 0
        if load_i64(out, at + PHYSICAL_OFFSET_AT) != vectors[p.POSITIONS + i]:
            return NOT_HERE, 0
    return place - filled, 0
