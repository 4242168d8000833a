"""Fills index files, compiled; layout: `formats.rocketmq.indexfile`; its twins are in the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import inlined_kernel, kernel, making_kernel
from reput.formats.kernels.memory import load_i32, prefetch_write, store_i32, store_i64
from reput.formats.layout import field_offsets
from reput.formats.rocketmq.commitlog import ROLLBACK, TRANSACTION_TYPE
from reput.formats.rocketmq.indexfile import (
    FIRST_ITEM,
    HEADER_SIZE,
    ITEM,
    ITEM_SIZE,
    MAX_TIME_DIFF,
    NO_ITEM,
    SLOT_SIZE,
    Header,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

_KEY_HASH, _PHYSICAL_OFFSET, _TIME_DIFF, _PREVIOUS = field_offsets(ITEM)
# Far enough ahead that a slot's cache line is there when its item comes (measured: 12 to 24).
_PREFETCH_ITEMS = 16
_AHEAD_MASK = _PREFETCH_ITEMS - 1


class State:
    """Places of the header's fields in the int64 array that `insert` keeps up to date."""

    BEGIN_TIMESTAMP = Header._fields.index("begin_timestamp")
    END_TIMESTAMP = Header._fields.index("end_timestamp")
    BEGIN_OFFSET = Header._fields.index("begin_offset")
    END_OFFSET = Header._fields.index("end_offset")
    SLOTS_USED = Header._fields.index("slots_used")
    COUNT = Header._fields.index("index_count")
    FIELDS = len(Header._fields)


# A kernel freezes its module's globals, not a class's attributes.
_BEGIN_TIMESTAMP = State.BEGIN_TIMESTAMP
_END_TIMESTAMP = State.END_TIMESTAMP
_BEGIN_OFFSET = State.BEGIN_OFFSET
_END_OFFSET = State.END_OFFSET
_SLOTS_USED = State.SLOTS_USED
_COUNT = State.COUNT


@inlined_kernel
def _look_ahead(
    key: int,
    keys: int,
    key_hash: NDArray[np.int32],
    divisor: np.uint32,
    ahead: NDArray[np.int64],
    file: Bytes,
) -> None:
    """Replace this key's slot by that of a key further on, and prefetch it."""
    following = key + _PREFETCH_ITEMS
    if following < keys:
        slot_at = HEADER_SIZE + np.int64(np.uint32(key_hash[following]) % divisor) * SLOT_SIZE
        ahead[key & _AHEAD_MASK] = slot_at
        prefetch_write(file, int(slot_at))


@making_kernel
def insert(  # noqa: C901 - kernel
    first: int,
    first_key: int,
    count: int,
    key_end: NDArray[np.int32],
    key_hash: NDArray[np.int32],
    physical_offset: NDArray[np.int64],
    store_timestamp: NDArray[np.int64],
    sys_flag: NDArray[np.int32],
    file: Bytes,
    slots: int,
    items: int,
    state: NDArray[np.int64],
) -> tuple[int, int]:
    """Chain the keys of records onto their slots, in order, until the file is full.

    Args:
        first: record to begin with.
        first_key: key to begin with; keys of all records are numbered through.
        count: records there are.
        key_end: by record: number of its last key + 1, shape (n,).
        key_hash: by key, shape (m,).
        physical_offset: by record, bytes.
        store_timestamp: by record, ms.
        sys_flag: by record.
        file: the whole index file, writable.
        slots: slots in it.
        items: first item number that may not be written (the file's capacity, or the end of
            what is prepared of it).
        state: the header's fields, see `State`; written. The header itself is not.

    Returns:
        The record and key that come next; `count` and the number of keys when all are done.
    """
    items_at = HEADER_SIZE + slots * SLOT_SIZE
    # 32 bits: their division is several times as fast.
    divisor = np.uint32(slots)
    number = state[_COUNT]
    key = first_key
    keys = key_end[count - 1] if count > 0 else 0
    # The next keys' slots, each computed once: first prefetched, then written.
    ahead = np.empty(_PREFETCH_ITEMS, np.int64)
    for k in range(key, min(key + _PREFETCH_ITEMS, keys)):
        slot = np.int64(np.uint32(key_hash[k]) % divisor)
        ahead[k & _AHEAD_MASK] = HEADER_SIZE + slot * SLOT_SIZE
    for i in range(first, count):
        # The broker asks for room before it looks at the record, even at one without keys.
        if number >= items:
            state[_COUNT] = number
            return i, key
        if (sys_flag[i] & TRANSACTION_TYPE) == ROLLBACK:
            while key < key_end[i]:
                _look_ahead(key, keys, key_hash, divisor, ahead, file)
                key += 1
            continue
        timestamp = store_timestamp[i]
        offset = physical_offset[i]
        while key < key_end[i]:
            if number >= items:
                state[_COUNT] = number
                return i, key
            hashed = key_hash[key]
            slot_at = ahead[key & _AHEAD_MASK]
            _look_ahead(key, keys, key_hash, divisor, ahead, file)
            previous = load_i32(file, slot_at)
            # After a crash a slot may point past the header's count: that chain is void.
            if previous <= NO_ITEM or previous > number:
                previous = NO_ITEM
            begin = state[_BEGIN_TIMESTAMP]
            difference = 0
            if begin > 0 and timestamp > begin:
                difference = min((timestamp - begin) // 1000, MAX_TIME_DIFF)
            at = items_at + number * ITEM_SIZE
            store_i32(file, at + _KEY_HASH, hashed)
            store_i64(file, at + _PHYSICAL_OFFSET, offset)
            store_i32(file, at + _TIME_DIFF, difference)
            store_i32(file, at + _PREVIOUS, previous)
            # The slot last: until here the item is unreachable, so no lookup sees half of it.
            store_i32(file, slot_at, number)
            if number <= FIRST_ITEM:
                state[_BEGIN_OFFSET] = offset
                state[_BEGIN_TIMESTAMP] = timestamp
            if previous == NO_ITEM:
                state[_SLOTS_USED] += 1
            number += 1
            key += 1
            state[_END_OFFSET] = offset
            state[_END_TIMESTAMP] = timestamp
    state[_COUNT] = number
    return count, keys


@kernel
def restore_slots(file: Bytes, count: int, slots: int, heads: NDArray[np.int32]) -> None:
    """Point each slot to the newest of its items, as it was when the file had `count - 1` items.

    Args:
        file: the whole index file, writable.
        count: number after the last item that counts.
        slots: slots in it.
        heads: zeros, shape (slots,); written.
    """
    items_at = HEADER_SIZE + slots * SLOT_SIZE
    for number in range(FIRST_ITEM, count):
        heads[load_i32(file, items_at + number * ITEM_SIZE + _KEY_HASH) % slots] = number
    for slot in range(slots):
        # Write only what differs: a page that stays clean need not go to disk.
        slot_at = HEADER_SIZE + slot * SLOT_SIZE
        if load_i32(file, slot_at) != heads[slot]:
            store_i32(file, slot_at, heads[slot])
