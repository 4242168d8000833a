"""Which queue a record belongs to: kernels that look up the bytes of (topic, queue id).

`sinks.routes` makes and fills the table that they read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import load_u64_le

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

UNKNOWN = -1
SCHEDULE = 1
SPECIAL = 2
_MIX = np.uint64(0x9E3779B97F4A7C15)
_QUEUE_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_WORD = 8
# The topic's last eight bytes are read as one word: as many must be readable before it.
READABLE_BEFORE = _WORD


class RouteArrays(NamedTuple):
    """What kernels see of the table; `slots` are route numbers + 1, 0 for none."""

    slots: NDArray[np.int32]
    topic_at: NDArray[np.int64]
    topic_length: NDArray[np.int32]
    topics: Bytes
    queue_id: NDArray[np.int32]
    queue: NDArray[np.int32]
    key_prefix: NDArray[np.uint32]
    tag_prefix: NDArray[np.uint32]
    kind: NDArray[np.uint8]


@kernel
def lookup(
    data: Bytes,
    at: int,
    length: int,
    queue_id: int,
    slots: NDArray[np.int32],
    topic_at: NDArray[np.int64],
    topic_length: NDArray[np.int32],
    topics: Bytes,
    queue_ids: NDArray[np.int32],
) -> int:
    """Return the number of a route, `UNKNOWN` if there is none.

    Args:
        data: bytes, with `READABLE_BEFORE` ones before the topic.
        at: the topic's first byte.
        length: its bytes.
        queue_id: the queue's id.
        slots: see `RouteArrays`.
        topic_at: by route, byte in `topics`.
        topic_length: by route.
        topics: the topics' bytes.
        queue_ids: by route.
    """
    mask = len(slots) - 1
    slot = slot_of(data, at, length, queue_id) & mask
    while True:
        route = int(slots[slot]) - 1
        if route < 0:
            return UNKNOWN
        if topic_length[route] == length and queue_ids[route] == queue_id:
            known = topic_at[route]
            # The last word first: it overlaps the one before it, or reaches before the topic.
            different = load_u64_le(data, at + length - _WORD) ^ load_u64_le(
                topics, known + length - _WORD
            )
            if length < _WORD:
                different = (
                    different >> np.uint64(8 * (_WORD - length)) if length > 0 else np.uint64(0)
                )
            i = 0
            while i + _WORD < length:
                different |= load_u64_le(data, at + i) ^ load_u64_le(topics, known + i)
                i += _WORD
            if different == np.uint64(0):
                return route
        slot = (slot + 1) & mask


@kernel
def slot_of(data: Bytes, at: int, length: int, queue_id: int) -> int:
    """Return a hash of a topic's length, its last eight bytes and a queue id, 31 bits."""
    word = load_u64_le(data, at + length - _WORD)
    if length < _WORD:
        word = word >> np.uint64(8 * (_WORD - length)) if length > 0 else np.uint64(0)
    mixed = (word ^ np.uint64(length)) * _MIX
    mixed ^= np.uint64(queue_id & 0xFFFFFFFF) * _QUEUE_MIX
    mixed ^= mixed >> np.uint64(29)
    return int((mixed * _MIX) >> np.uint64(33))


@kernel
def lookup_rows(
    data: Bytes,
    topic_at: NDArray[np.int64],
    topic_length: NDArray[np.int32],
    queue_id: NDArray[np.int32],
    first: int,
    table: RouteArrays,
    routes: NDArray[np.int32],
) -> int:
    """Write the route of each row from `first` on; return the first row that has none, else all.

    Args:
        data: bytes, with `READABLE_BEFORE` ones before each topic.
        topic_at: by row.
        topic_length: by row, bytes.
        queue_id: by row.
        first: row.
        table: routes.
        routes: written.
    """
    for row in range(first, len(queue_id)):
        route = lookup(
            data,
            topic_at[row],
            topic_length[row],
            queue_id[row],
            table.slots,
            table.topic_at,
            table.topic_length,
            table.topics,
            table.queue_id,
        )
        if route == UNKNOWN:
            return row
        routes[row] = route
    return len(queue_id)
