"""Compares consume queue entries with records, compiled; see `formats.kernels.consumequeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import load_i32, load_i64
from reput.formats.layout import field_offsets
from reput.formats.rocketmq.commitlog import COMMIT, TRANSACTION_TYPE
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

# Entries read at a time, of each queue: 100,000 queues then take 400 MB.
WINDOW = 200
_PHYSICAL_OFFSET, _SIZE, _TAGS_CODE = field_offsets(ENTRY)


@kernel
def compare(
    first: int,
    count: int,
    queue: NDArray[np.int32],
    queue_offset: NDArray[np.int64],
    physical_offset: NDArray[np.int64],
    size: NDArray[np.int32],
    tags_code: NDArray[np.int64],
    sys_flag: NDArray[np.int32],
    special: NDArray[np.uint8],
    next_entry: NDArray[np.int64],
    last_end: NDArray[np.int64],
    window: Bytes,
    window_first: NDArray[np.int64],
    window_end: NDArray[np.int64],
) -> int:
    """Compare entries until one is not the plain next one of its queue, or not as it should be.

    Args:
        first: record to begin with.
        count: records there are.
        queue: dense queue numbers, shape (n,); so the other columns.
        queue_offset: entries.
        physical_offset: bytes.
        size: bytes.
        tags_code: see `formats.rocketmq.consumequeue`.
        sys_flag: see `formats.rocketmq.commitlog`.
        special: not 0 for a record that has more than one plain entry.
        next_entry: by queue: number of its next entry; written.
        last_end: by queue: end of the last record put, -1 for none; written.
        window: entries read, `WINDOW` a queue.
        window_first: by queue: number of the first one read.
        window_end: by queue: number after the last one read.

    Returns:
        The record that the caller has to look at, `count` when all are done.
    """
    for i in range(first, count):
        transaction = sys_flag[i] & TRANSACTION_TYPE
        if transaction != 0 and transaction != COMMIT:
            continue
        number = queue[i]
        entry = queue_offset[i]
        end = physical_offset[i] + np.int64(size[i])
        if (
            special[i] != 0
            or entry != next_entry[number]
            or entry >= window_end[number]
            or end <= last_end[number]
        ):
            return i
        at = (number * WINDOW + entry - window_first[number]) * ENTRY_SIZE
        if (
            load_i64(window, at + _PHYSICAL_OFFSET) != physical_offset[i]
            or load_i32(window, at + _SIZE) != size[i]
            or load_i64(window, at + _TAGS_CODE) != tags_code[i]
        ):
            return i
        next_entry[number] = entry + 1
        last_end[number] = end
    return count
