"""What identifies records of a log: a hash of all but their bodies, and sums of such hashes.

A record's hash covers its head, its topic and its properties; the head has the body's CRC. So all
that dispatch makes of a record follows from hashed bytes: two logs of equal hashes give equal
queues and indexes. The head also names the record's own physical offset, so the hashes of a part
of a log may be added in any order: the sum is the same however the part was cut into pieces, and
another one if any record in it is another one.

Kernels; the slow twin and the definition are `formats.rocketmq.record_hash`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import inlined_kernel, kernel
from reput.formats.kernels.frames import check
from reput.formats.kernels.memory import keyed_products
from reput.formats.rocketmq.commitlog import Verdict
from reput.formats.rocketmq.record_hash import BLOCK, FOLD, MIX_1, MIX_2

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

_RECORD = int(Verdict.RECORD)
_BAD_OFFSET = int(Verdict.BAD_OFFSET)
_FOLD = np.uint64(FOLD)
_MIX_1, _MIX_2 = np.uint64(MIX_1), np.uint64(MIX_2)
_SHIFT_1, _SHIFT_2 = np.uint64(32), np.uint64(29)


@inlined_kernel
def _hash_part(state: np.uint64, data: Bytes, at: int, end: int) -> np.uint64:
    """Continue a hash over [`at`, `end`): whole blocks, then the last 64 bytes once more.

    A part may be shorter than a block: then bytes before it are hashed with it.
    """
    while at + BLOCK <= end:
        state = state * _FOLD + keyed_products(data, at)
        at += BLOCK
    return state * _FOLD + keyed_products(data, end - BLOCK)


@kernel
def record_hash(data: Bytes, at: int, size: int, body_at: int, body_length: int) -> np.uint64:
    """Return the hash of a record's bytes but those of its body.

    Args:
        data: bytes that hold the record.
        at: index of its first byte.
        size: bytes of it.
        body_at: index of its body.
        body_length: bytes of that.
    """
    state = _hash_part(np.uint64(size), data, at, body_at)
    state = _hash_part(state, data, body_at + body_length, at + size)
    state ^= state >> _SHIFT_1
    state *= _MIX_1
    state ^= state >> _SHIFT_2
    state *= _MIX_2
    return state ^ (state >> _SHIFT_1)


@kernel
def sum_heads(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    stop: int,
    total: np.uint64,
    marks: NDArray[np.int64],
    sums: NDArray[np.uint64],
    first_mark: int,
) -> tuple[int, int, np.uint64, int, int]:
    """Go from record to record inside one file, adding up their hashes.

    Args:
        data: see `frames.check`.
        at: index of a record.
        limit: index after the last readable byte.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `frames.check`.
        stop: physical offset; records that start before it are added.
        total: the sum so far.
        marks: physical offsets, ascending.
        sums: by mark; gets the sum of the records before a mark where one starts or ends there.
        first_mark: number of the first mark at or after `position`.

    Returns:
        The verdict of what stands where it ended (RECORD: `stop` is reached), its physical offset,
        the sum, the number of the first mark that was not met, the size of the last record added
        (0 for none). A mark inside a record ends it after that record, with BAD_OFFSET.
    """
    mark = first_mark
    last = 0
    while True:
        if mark < len(marks) and marks[mark] <= position:
            if marks[mark] < position:
                return _BAD_OFFSET, position, total, mark, last
            sums[mark] = total
            mark += 1
            continue
        if position >= stop:
            return _RECORD, position, total, mark, last
        verdict, size, _, body_at, body_length, _, _, _ = check(
            data, at, limit, position, file_end, rules
        )
        if verdict != _RECORD:
            return verdict, position, total, mark, last
        total += record_hash(data, at, size, body_at, body_length)
        at += size
        position += size
        last = size
