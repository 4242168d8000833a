"""Puts the plain next entries of consume queues, compiled; see `formats.rocketmq.consumequeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import store_i32_at, store_i64_at
from reput.formats.layout import field_offsets
from reput.formats.rocketmq.commitlog import COMMIT, TRANSACTION_TYPE
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PHYSICAL_OFFSET, _SIZE, _TAGS_CODE = field_offsets(ENTRY)


@kernel
def put(
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
    window_address: NDArray[np.int64],
    window_end: NDArray[np.int64],
) -> int:
    """Put records into their queues until one is not the plain next entry of its queue.

    Args:
        first: record to begin with.
        count: records there are.
        queue: dense queue numbers, shape (n,); so the other columns.
        queue_offset: entries.
        physical_offset: bytes.
        size: bytes.
        tags_code: see the module.
        sys_flag: see `formats.rocketmq.commitlog`.
        special: not 0 for a record that needs more than one plain entry.
        next_entry: by queue: number of the entry to write next; written.
        last_end: by queue: end of the last record put, -1 for none; written.
        window_address: by queue: memory address where entry 0 would be.
        window_end: by queue: first entry that is not mapped for writing.

    Returns:
        The record that the caller has to put himself, `count` when all are done.
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
        at = window_address[number] + entry * ENTRY_SIZE
        # Size last: a reader takes an entry of size 0 for the end of the queue.
        store_i64_at(at + _PHYSICAL_OFFSET, physical_offset[i])
        store_i64_at(at + _TAGS_CODE, tags_code[i])
        store_i32_at(at + _SIZE, size[i])
        next_entry[number] = entry + 1
        last_end[number] = end
    return count
