"""Walks chains of index files, compiled; rules and readable twin are in `stores.index_search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats.compiled import kernel
from formats.indexfile import FIRST_ITEM, HEADER_SIZE, ITEM_SIZE, NO_ITEM, SLOT_SIZE
from formats.java import INT_MAX
from formats.java_kernels import hash_utf8
from formats.memory import load_i32_at, load_i64_at, prefetch_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formats.memory import Bytes

DAMAGED = -1
_END_TIMESTAMP = 8
_COUNT = 36
_OFFSET, _SECONDS, _PREVIOUS = 4, 12, 16
_SECOND_MS = 1000


@kernel
def select(
    text: Bytes,
    addresses: NDArray[np.int64],
    begin: int,
    end: int,
    limit: int,
    slots: int,
    items: int,
    found: NDArray[np.int64],
) -> int:
    """Find the physical offsets of a key, newest first.

    Args:
        text: "topic#key" in UTF-8.
        addresses: where the files are mapped, newest first.
        begin: store timestamp, ms.
        end: store timestamp, ms; included, as `begin` is.
        limit: offsets at most.
        slots: slots of each file.
        items: items of each file.
        found: room for `limit` offsets; written.

    Returns:
        How many there are; `DAMAGED` where a chain is none, for the readable twin to say which.
    """
    value = np.int64(np.int32(hash_utf8(np.uint32(0), text, 0, len(text))))
    hashed = -value if value < 0 else value
    if hashed > INT_MAX:
        hashed = np.int64(0)
    slot_at = HEADER_SIZE + hashed % slots * SLOT_SIZE
    items_at = HEADER_SIZE + slots * SLOT_SIZE
    # Files do not depend on each other: their cache lines can all be on the way at once.
    for i in range(len(addresses)):
        prefetch_at(addresses[i])
        prefetch_at(addresses[i] + slot_at)
    for i in range(len(addresses)):
        head = load_i32_at(addresses[i] + slot_at)
        if NO_ITEM < head < items:
            prefetch_at(addresses[i] + items_at + head * ITEM_SIZE)
    total = 0
    for i in range(len(addresses)):
        file = addresses[i]
        begin_timestamp = load_i64_at(file)
        end_timestamp = load_i64_at(file + _END_TIMESTAMP)
        is_matched = (
            (begin < begin_timestamp and end > end_timestamp)
            or (begin_timestamp <= begin <= end_timestamp)
            or (begin_timestamp <= end <= end_timestamp)
        )
        if is_matched:
            count = max(load_i32_at(file + _COUNT), FIRST_ITEM)
            number = load_i32_at(file + slot_at)
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
                        found[total] = load_i64_at(at + _OFFSET)
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
