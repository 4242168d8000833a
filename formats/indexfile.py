"""Index files: which records have a key, by hash. A header, slots, then items in log order.

====== ==== ================ =========================================================
offset size header field     meaning (all integers signed, big-endian)
====== ==== ================ =========================================================
     0    8 begin_timestamp  store timestamp of the first item, ms
     8    8 end_timestamp    of the last
    16    8 begin_offset     physical offset of the first item
    24    8 end_offset       of the last
    32    4 slots_used       slots that are not empty
    36    4 index_count      number of the next item: items + 1
====== ==== ================ =========================================================

====== ==== ================ =========================================================
offset size item field
====== ==== ================ =========================================================
     0    4 key_hash         abs(hash of "topic#key")
     4    8 physical_offset  of the record
    12    4 time_diff        seconds since begin_timestamp
    16    4 previous         number of the item before it in its slot's chain, 0: none
====== ==== ================ =========================================================

Slot *s* (4 bytes, at ``40 + 4 s``) holds the number of the newest item whose hash is *s* modulo
the slot count. Items count from 1. An insert is not repeatable: unlike a consume queue's entry
an item's place is where the file ends. Source: docs/formats/indexfile.md, RocketMQ
`IndexFile#putKey`, `IndexService#buildIndex`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from formats import java
from formats.commitlog import ROLLBACK, TRANSACTION_TYPE
from formats.layout import field_offsets
from formats.memory import load_i32, prefetch_write, store_i32, store_i64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formats.memory import Bytes

HEADER = struct.Struct(">qqqqii")
HEADER_SIZE = HEADER.size
SLOT_SIZE = 4
ITEM = np.dtype(
    [
        ("key_hash", ">i4"),
        ("physical_offset", ">i8"),
        ("time_diff", ">i4"),
        ("previous", ">i4"),
    ]
)
ITEM_SIZE = ITEM.itemsize
SLOTS = 5_000_000
ITEMS = 20_000_000
FIRST_ITEM = 1
NO_ITEM = 0
MAX_TIME_DIFF = 0x7FFFFFFF

_KEY_HASH, _PHYSICAL_OFFSET, _TIME_DIFF, _PREVIOUS = field_offsets(ITEM)
# Far enough ahead that a slot's cache line is there when its item comes (measured: 12 to 24).
_PREFETCH_ITEMS = 16
_AHEAD_MASK = _PREFETCH_ITEMS - 1


class Header(NamedTuple):
    """The 40 bytes before the slots; see the table above."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    index_count: int = 0

    def pack(self) -> bytes:
        """Return its 40 bytes."""
        return HEADER.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """Return the header that `data` begins with."""
        return cls(*HEADER.unpack_from(data))

    @property
    def next_item(self) -> int:
        """Return the number of the next item; a new file states 0 for 1 (`IndexHeader#load`)."""
        return max(self.index_count, FIRST_ITEM)


def seeded(previous: Header | None) -> Header:
    """Return the header of a new file: it carries on from the one before it.

    The first item's time difference counts from that end
    (`IndexService#getAndCreateLastIndexFile`).
    """
    if previous is None:
        return Header()
    return Header(
        begin_timestamp=max(previous.end_timestamp, 0),
        end_timestamp=max(previous.end_timestamp, 0),
        begin_offset=max(previous.end_offset, 0),
        end_offset=max(previous.end_offset, 0),
    )


def file_size(slots: int = SLOTS, items: int = ITEMS) -> int:
    """Return the bytes of an index file; item 0 has its place and is never used."""
    return HEADER_SIZE + slots * SLOT_SIZE + items * ITEM_SIZE


def item_position(number: int, slots: int = SLOTS) -> int:
    """Return the byte where item `number` begins."""
    return HEADER_SIZE + slots * SLOT_SIZE + number * ITEM_SIZE


def key_hash(key: str) -> int:
    """Return the hash of "topic#key" as an item holds it (`IndexFile#indexKeyHashMethod`)."""
    value = abs(java.hash_code(key))
    return 0 if value > java.INT_MAX else value


def time_difference(store_timestamp: int, begin_timestamp: int) -> int:
    """Return whole seconds since the file's begin, clipped as `IndexFile#putKey` does."""
    if begin_timestamp <= 0:
        return 0
    difference = store_timestamp - begin_timestamp
    return min(max(difference, 0) // 1000, MAX_TIME_DIFF)


def index_keys(topic: str, properties: dict[str, str], *, tag_entries: bool) -> list[str]:
    """Return the keys that a record is indexed by, in the broker's order.

    Args:
        topic: the record's topic.
        properties: its properties.
        tag_entries: the broker also indexes tags (5.4.0+).
    """
    keys = []
    if properties.get("UNIQ_KEY") is not None:
        keys.append(f"{topic}#{properties['UNIQ_KEY']}")
    keys += [f"{topic}#{key}" for key in properties.get("KEYS", "").split(" ") if key]
    if tag_entries and properties.get("TAGS"):
        keys.append(f"{topic}#T#{properties['TAGS']}")
    return keys


class State:
    """Places of the header's fields in the int64 array that `insert` keeps up to date."""

    BEGIN_TIMESTAMP = 0
    END_TIMESTAMP = 1
    BEGIN_OFFSET = 2
    END_OFFSET = 3
    SLOTS_USED = 4
    COUNT = 5
    FIELDS = 6


_BEGIN_TIMESTAMP = State.BEGIN_TIMESTAMP
_END_TIMESTAMP = State.END_TIMESTAMP
_BEGIN_OFFSET = State.BEGIN_OFFSET
_END_OFFSET = State.END_OFFSET
_SLOTS_USED = State.SLOTS_USED
_COUNT = State.COUNT


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", inline="always")
def _look_ahead(
    key: int,
    keys: int,
    key_hash: NDArray[np.int32],
    divisor: np.uint32,
    ahead: NDArray[np.int64],
    file: Bytes,
) -> None:
    """Put the slot of a key some places further on in the place of this one's, and fetch it."""
    following = key + _PREFETCH_ITEMS
    if following < keys:
        slot_at = HEADER_SIZE + np.int64(np.uint32(key_hash[following]) % divisor) * SLOT_SIZE
        ahead[key & _AHEAD_MASK] = slot_at
        prefetch_write(file, slot_at)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def insert(
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
    # Of 32 bits, for that division is several times as fast.
    divisor = np.uint32(slots)
    number = state[_COUNT]
    key = first_key
    keys = key_end[count - 1] if count > 0 else 0
    # Slots of the next keys, each worked out once: to be fetched, then to be written.
    ahead = np.empty(_PREFETCH_ITEMS, np.int64)
    for k in range(key, min(key + _PREFETCH_ITEMS, keys)):
        ahead[k & _AHEAD_MASK] = HEADER_SIZE + np.int64(np.uint32(key_hash[k]) % divisor) * SLOT_SIZE
    for i in range(first, count):
        # The broker asks for room before it looks at the record, be it without any key.
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


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def restore_slots(file: Bytes, count: int, slots: int, heads: NDArray[np.int32]) -> None:
    """Have each slot hold the newest of its items: what the slots were when there were so many.

    Args:
        file: the whole index file, writable.
        count: number behind the last item that counts.
        slots: slots in it.
        heads: zeros, shape (slots,); written.
    """
    items_at = HEADER_SIZE + slots * SLOT_SIZE
    for number in range(FIRST_ITEM, count):
        heads[load_i32(file, items_at + number * ITEM_SIZE + _KEY_HASH) % slots] = number
    for slot in range(slots):
        # Only what differs: a page that is left alone need not go to disk.
        slot_at = HEADER_SIZE + slot * SLOT_SIZE
        if load_i32(file, slot_at) != heads[slot]:
            store_i32(file, slot_at, heads[slot])
