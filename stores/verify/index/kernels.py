"""Kernels that compare index items with the keys of records; see `formats.kernels.indexfile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.indexfile import State
from reput.formats.kernels.memory import load_i32, load_i64
from reput.formats.layout import field_offsets
from reput.formats.rocketmq.commitlog import ROLLBACK, TRANSACTION_TYPE
from reput.formats.rocketmq.indexfile import FIRST_ITEM, ITEM, ITEM_SIZE, MAX_TIME_DIFF, NO_ITEM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

_KEY_HASH, _PHYSICAL_OFFSET, _TIME_DIFF, _PREVIOUS = field_offsets(ITEM)
_BEGIN_TIMESTAMP = State.BEGIN_TIMESTAMP
_END_TIMESTAMP = State.END_TIMESTAMP
_BEGIN_OFFSET = State.BEGIN_OFFSET
_END_OFFSET = State.END_OFFSET
_SLOTS_USED = State.SLOTS_USED
_COUNT = State.COUNT

DONE, FULL, WINDOW, PARTED = 0, 1, 2, 3


@kernel
def compare(  # noqa: C901 - kernel
    first: int,
    first_key: int,
    count: int,
    key_end: NDArray[np.int32],
    key_hash: NDArray[np.int32],
    physical_offset: NDArray[np.int64],
    store_timestamp: NDArray[np.int64],
    sys_flag: NDArray[np.int32],
    window: Bytes,
    window_first: int,
    window_end: int,
    items: int,
    slots: NDArray[np.int32],
    state: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Compare the items that the keys of records give, until the file or the window ends.

    Args:
        first: record to begin with.
        first_key: key to begin with; keys of all records are numbered through.
        count: records there are.
        key_end: by record: number of its last key + 1, shape (n,).
        key_hash: by key, shape (m,).
        physical_offset: by record, bytes.
        store_timestamp: by record, ms.
        sys_flag: by record.
        window: items read.
        window_first: number of the first one read.
        window_end: number after the last one read.
        items: capacity of the file.
        slots: what each slot holds after the items so far; written.
        state: the header after the items so far, see `State`; written.

    Returns:
        The record and key that come next and why it stopped: DONE, FULL, WINDOW, or PARTED where
        the next item is not as it should be.
    """
    number = state[_COUNT]
    key = first_key
    slot_count = len(slots)
    for i in range(first, count):
        # The broker asks for room before it looks at the record, be it without any key.
        if number >= items:
            return i, key, FULL
        if (sys_flag[i] & TRANSACTION_TYPE) == ROLLBACK:
            key = key_end[i]
            continue
        timestamp = store_timestamp[i]
        offset = physical_offset[i]
        while key < key_end[i]:
            if number >= items:
                return i, key, FULL
            if number < window_first or number >= window_end:
                return i, key, WINDOW
            hashed = key_hash[key]
            slot = hashed % slot_count
            previous = slots[slot]
            begin = state[_BEGIN_TIMESTAMP]
            difference = 0
            if begin > 0 and timestamp > begin:
                difference = min((timestamp - begin) // 1000, MAX_TIME_DIFF)
            at = (number - window_first) * ITEM_SIZE
            if (
                load_i32(window, at + _KEY_HASH) != hashed
                or load_i64(window, at + _PHYSICAL_OFFSET) != offset
                or load_i32(window, at + _TIME_DIFF) != difference
                or load_i32(window, at + _PREVIOUS) != previous
            ):
                return i, key, PARTED
            slots[slot] = number
            if number <= FIRST_ITEM:
                state[_BEGIN_OFFSET] = offset
                state[_BEGIN_TIMESTAMP] = timestamp
            if previous == NO_ITEM:
                state[_SLOTS_USED] += 1
            number += 1
            key += 1
            state[_COUNT] = number
            state[_END_OFFSET] = offset
            state[_END_TIMESTAMP] = timestamp
    return count, key, DONE


@kernel
def pass_expired(
    window: Bytes,
    window_first: int,
    window_end: int,
    floor: int,
    slots: NDArray[np.int32],
    state: NDArray[np.int64],
) -> int:
    """Replay items of records below `floor` into the slots, as far as their chains are right.

    Args:
        window: items read; this and the next two are those of `compare`.
        window_first: see `compare`.
        window_end: see `compare`.
        floor: physical offset.
        slots: written.
        state: written: count, slots used, end offset.

    Returns:
        WINDOW at its end, DONE at an item that is not below `floor`, PARTED at one whose chain is
        wrong.
    """
    number = state[_COUNT]
    slot_count = len(slots)
    while number < window_end:
        at = (number - window_first) * ITEM_SIZE
        offset = load_i64(window, at + _PHYSICAL_OFFSET)
        hashed = load_i32(window, at + _KEY_HASH)
        if offset >= floor or offset < state[_END_OFFSET] or hashed < 0:
            return DONE
        if offset == 0 and hashed == 0 and load_i64(window, at + _TIME_DIFF) == 0:
            return DONE
        slot = hashed % slot_count
        if load_i32(window, at + _PREVIOUS) != slots[slot]:
            return PARTED
        if slots[slot] == NO_ITEM:
            state[_SLOTS_USED] += 1
        slots[slot] = number
        if number <= FIRST_ITEM:
            state[_BEGIN_OFFSET] = offset
        state[_END_OFFSET] = offset
        number += 1
        state[_COUNT] = number
    return WINDOW
