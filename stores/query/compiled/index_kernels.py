"""Walks chains of index files, compiled; rules and twin are in `stores.query.index_search`.

What is asked, what the kernels know of the files and what they find is one array, `search`: it
costs a call less than ten arguments do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.java.strings import INT_MAX
from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.java import hash_utf8
from reput.formats.kernels.memory import load_i32_at, load_i64_at, prefetch_at
from reput.formats.rocketmq.indexfile import FIRST_ITEM, HEADER_SIZE, ITEM_SIZE, NO_ITEM, SLOT_SIZE
from reput.stores.query.compiled.libc import monotonic_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

# Fields of `search`: store timestamps from and to, ms, both included; hits of a key at most; index
# of the first hit, a physical offset, all others after it; slots and items of a file; how many
# files; until when no others are looked for, ns of the monotonic clock; where each file is mapped,
# newest first.
BEGIN, END, LIMIT, HITS, SLOTS, ITEMS, FILES, KNOWN_UNTIL, FIRST_FILE = range(9)
DAMAGED, NO_FILE, OUTDATED = -1, -2, -3
# Chains that are brought in together, and items of each.
LANES = 256
_KEYS_TOGETHER = 32
_STEPS_AHEAD = 8
_END_TIMESTAMP, _END_OFFSET = 8, 24
_COUNT = 36
_OFFSET, _SECONDS, _PREVIOUS = 4, 12, 16
_SECOND_MS = 1000


@kernel
def _key_hash(state: np.uint32) -> np.int64:
    """Return what an item has of a String.hashCode (`IndexFile#indexKeyHashMethod`)."""
    value = np.int64(np.int32(state))
    hashed = -value if value < 0 else value
    return np.int64(0) if hashed > INT_MAX else hashed


@kernel
def _is_matched(file: int, begin: int, end: int) -> bool:
    begin_timestamp, end_timestamp = load_i64_at(file), load_i64_at(file + _END_TIMESTAMP)
    return (
        (begin < begin_timestamp and end > end_timestamp)
        or (begin_timestamp <= begin <= end_timestamp)
        or (begin_timestamp <= end <= end_timestamp)
    )


@kernel
def _first_item(file: int, slot: int, count: int, slots: int, items: int) -> int:
    """Return the first item of a chain; what is being inserted is passed over."""
    number = load_i32_at(file + HEADER_SIZE + slot * SLOT_SIZE)
    while count < number < items:
        at = file + HEADER_SIZE + slots * SLOT_SIZE + number * ITEM_SIZE
        previous = load_i32_at(at + _PREVIOUS)
        if load_i32_at(at) % slots != slot or previous >= number:
            return NO_ITEM
        number = previous
    return number


@kernel
def _walk(hashed: np.int64, search: NDArray[np.int64], first: int) -> int:  # noqa: C901 - kernel
    """Put the physical offsets of a hash into `search`, from `first` on; return how many."""
    begin, end, limit = search[BEGIN], search[END], search[LIMIT]
    slots, items = search[SLOTS], search[ITEMS]
    items_at = HEADER_SIZE + slots * SLOT_SIZE
    total = 0
    for i in range(FIRST_FILE, FIRST_FILE + search[FILES]):
        file = search[i]
        begin_timestamp = load_i64_at(file)
        if _is_matched(file, begin, end):
            count = max(load_i32_at(file + _COUNT), FIRST_ITEM)
            number = _first_item(file, hashed % slots, count, slots, items)
            if NO_ITEM < number <= count and count > FIRST_ITEM:
                # As the twin notices a circle: an item that comes again 2, 4, 8 … items later.
                remembered, steps, remember_at = NO_ITEM, 0, 2
                while total < limit:
                    if number >= items:
                        return DAMAGED
                    at = file + items_at + number * ITEM_SIZE
                    seconds = load_i32_at(at + _SECONDS)
                    if seconds < 0:
                        break
                    stored = begin_timestamp + seconds * _SECOND_MS
                    if load_i32_at(at) == hashed and begin <= stored <= end:
                        search[first + total] = load_i64_at(at + _OFFSET)
                        total += 1
                    previous = load_i32_at(at + _PREVIOUS)
                    if previous <= NO_ITEM or previous > count or previous == number:
                        break
                    if stored < begin:
                        break
                    steps += 1
                    if previous == remembered:
                        return DAMAGED
                    if steps == remember_at:
                        remembered, remember_at = previous, remember_at * 2
                    number = previous
        if begin_timestamp < begin or total >= limit:
            break
    return total


@kernel
def select(text: Bytes | bytes, search: NDArray[np.int64]) -> tuple[int, int, int, int]:
    """Find the physical offsets of a key, newest first.

    Args:
        text: "topic#key" in UTF-8.
        search: what is asked, and the files; see above. The offsets are written, `LIMIT` at most.

    Returns:
        How many there are; `DAMAGED` where a chain is none, for the readable twin to say which;
        `NO_FILE` without any; `OUTDATED` where it is time to look for files. The first of them;
        store timestamp and physical offset of the newest file's last item.
    """
    if monotonic_ns() >= search[KNOWN_UNTIL]:
        return OUTDATED, 0, 0, 0
    files = search[FILES]
    if files == 0:
        return NO_FILE, 0, 0, 0
    hashed = _key_hash(hash_utf8(np.uint32(0), text, 0, len(text)))
    items = search[ITEMS]
    slot_at = HEADER_SIZE + hashed % search[SLOTS] * SLOT_SIZE
    items_at = HEADER_SIZE + search[SLOTS] * SLOT_SIZE
    # Files do not depend on each other: their cache lines can all be on the way at once.
    if files > 1:
        for i in range(FIRST_FILE, FIRST_FILE + files):
            prefetch_at(search[i])
            prefetch_at(search[i] + slot_at)
        for i in range(FIRST_FILE, FIRST_FILE + files):
            head = load_i32_at(search[i] + slot_at)
            if NO_ITEM < head < items:
                prefetch_at(search[i] + items_at + head * ITEM_SIZE)
    newest = search[FIRST_FILE]
    count = _walk(hashed, search, search[HITS])
    # Without any it is an earlier value, which is never used: there is always room for one.
    first = search[search[HITS]]
    return count, first, load_i64_at(newest + _END_TIMESTAMP), load_i64_at(newest + _END_OFFSET)


@kernel
def _bring_in(
    hashes: NDArray[np.int64],
    first: int,
    stop: int,
    search: NDArray[np.int64],
    lanes: NDArray[np.int64],
) -> None:
    """Bring in the chains of several hashes, one step of all of them at a time.

    Each step of a chain waits for memory; those of different chains wait together. Nothing is
    decided here: what is there is read again by `_walk`.
    """
    slots, items = search[SLOTS], search[ITEMS]
    items_at = HEADER_SIZE + slots * SLOT_SIZE
    for i in range(FIRST_FILE, FIRST_FILE + search[FILES]):
        for key in range(first, stop):
            prefetch_at(search[i] + HEADER_SIZE + hashes[key] % slots * SLOT_SIZE)
    open_lanes = 0
    for i in range(FIRST_FILE, FIRST_FILE + search[FILES]):
        if not _is_matched(search[i], search[BEGIN], search[END]):
            continue
        for key in range(first, stop):
            number = load_i32_at(search[i] + HEADER_SIZE + hashes[key] % slots * SLOT_SIZE)
            if NO_ITEM < number < items and open_lanes < LANES:
                at = search[i] + items_at + number * ITEM_SIZE
                # An item may lie on two cache lines.
                prefetch_at(at)
                prefetch_at(at + _PREVIOUS)
                lanes[open_lanes], lanes[LANES + open_lanes] = search[i] + items_at, at
                open_lanes += 1
    for _ in range(_STEPS_AHEAD):
        left = 0
        for lane in range(open_lanes):
            number = load_i32_at(lanes[LANES + lane] + _PREVIOUS)
            if NO_ITEM < number < items:
                at = lanes[lane] + number * ITEM_SIZE
                prefetch_at(at)
                prefetch_at(at + _PREVIOUS)
                lanes[left], lanes[LANES + left] = lanes[lane], at
                left += 1
        open_lanes = left


@kernel
def select_many(
    text: Bytes | bytes,
    key_end: NDArray[np.int64],
    prefix: int,
    search: NDArray[np.int64],
    hashes: NDArray[np.int64],
    lanes: NDArray[np.int64],
    count: NDArray[np.int64],
) -> None:
    """Find the physical offsets of several keys of a topic, newest first; see `select`.

    Args:
        text: "topic#" in UTF-8 and the keys, one after the other.
        key_end: by key: index into `text` after it.
        prefix: bytes before the first key.
        search: what is asked, and the files, one at least; the offsets are written, one key's
            after the other's, with room for `LIMIT` of each.
        hashes: room for one a key; written.
        lanes: room for two values a lane; written.
        count: by key: its offsets, `DAMAGED` where a chain is none; written.
    """
    keys = len(key_end)
    topic = hash_utf8(np.uint32(0), text, 0, prefix)
    at = prefix
    for key in range(keys):
        hashes[key] = _key_hash(hash_utf8(topic, text, at, key_end[key] - at))
        at = key_end[key]
    together = max(1, min(_KEYS_TOGETHER, LANES // search[FILES]))
    hit = search[HITS]
    for first in range(0, keys, together):
        stop = min(first + together, keys)
        _bring_in(hashes, first, stop, search, lanes)
        for key in range(first, stop):
            count[key] = _walk(hashes[key], search, hit)
            hit += max(count[key], 0)
