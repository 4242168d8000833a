"""Which queue a record belongs to: a table from the bytes of (topic, queue id) to small numbers.

Parsing threads look routes up while one thread, under the caller's lock, adds new ones: a route
becomes visible by its slot, which is written last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.java import strings
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
# The topic's last eight bytes are read as one word: so many must be readable before it.
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
        slots: see `RouteArrays`, so the rest.
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
        topic_at: by row, so the next two.
        topic_length: bytes.
        queue_id: the queue's id.
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


class RouteTable:
    """The table; `arrays` is replaced when it grows, so a reader takes it anew for each block."""

    def __init__(self, capacity: int = 1 << 10) -> None:
        self.count = 0
        self._topic_bytes = 0
        self.arrays = self._empty(capacity, capacity * 64)

    @staticmethod
    def _empty(capacity: int, topic_bytes: int) -> RouteArrays:
        return RouteArrays(
            slots=np.zeros(capacity * 2, np.int32),
            topic_at=np.zeros(capacity, np.int64),
            topic_length=np.zeros(capacity, np.int32),
            topics=np.zeros(topic_bytes + READABLE_BEFORE, np.uint8),
            queue_id=np.zeros(capacity, np.int32),
            queue=np.zeros(capacity, np.int32),
            key_prefix=np.zeros(capacity, np.uint32),
            tag_prefix=np.zeros(capacity, np.uint32),
            kind=np.zeros(capacity, np.uint8),
        )

    def find(self, topic: bytes, queue_id: int) -> int:
        """Return the number of a route, `UNKNOWN` if there is none."""
        padded = np.frombuffer(bytes(READABLE_BEFORE) + topic + bytes(_WORD), np.uint8).copy()
        table = self.arrays
        return int(
            lookup(
                padded,
                READABLE_BEFORE,
                len(topic),
                queue_id,
                table.slots,
                table.topic_at,
                table.topic_length,
                table.topics,
                table.queue_id,
            )
        )

    def add(self, topic: bytes, queue_id: int, queue: int, kind: int) -> int:
        """Add a route and return its number; one that is known is returned as it is.

        Args:
            topic: the topic's bytes as records have them.
            queue_id: the queue's id.
            queue: dense number of the queue that such records go to.
            kind: `SCHEDULE`, `SPECIAL` or both, 0 for neither.
        """
        known = self.find(topic, queue_id)
        if known != UNKNOWN:
            return known
        capacity = len(self.arrays.topic_at)
        room = len(self.arrays.topics) - READABLE_BEFORE
        if self.count == capacity or self._topic_bytes + len(topic) > room:
            self._grow(capacity * 2, max(room * 2, self._topic_bytes + len(topic)))
        return self._append(topic, queue_id, queue, kind)

    def _append(self, topic: bytes, queue_id: int, queue: int, kind: int) -> int:
        table = self.arrays
        route = self.count
        start = self._topic_bytes + READABLE_BEFORE
        table.topics[start : start + len(topic)] = np.frombuffer(topic, np.uint8)
        table.topic_at[route] = start
        table.topic_length[route] = len(topic)
        table.queue_id[route] = queue_id
        table.queue[route] = queue
        text = strings.decode(topic)
        table.key_prefix[route] = strings.hash_code(f"{text}#") & 0xFFFFFFFF
        table.tag_prefix[route] = strings.hash_code(f"{text}#T#") & 0xFFFFFFFF
        table.kind[route] = kind
        self._topic_bytes += len(topic)
        self.count += 1
        self._publish(route)
        return route

    def _publish(self, route: int) -> None:
        table = self.arrays
        mask = len(table.slots) - 1
        at = int(table.topic_at[route])
        length = int(table.topic_length[route])
        slot = int(slot_of(table.topics, at, length, int(table.queue_id[route]))) & mask
        while table.slots[slot] != 0:
            slot = (slot + 1) & mask
        table.slots[slot] = route + 1

    def _grow(self, capacity: int, topic_bytes: int) -> None:
        old, self.arrays = self.arrays, self._empty(capacity, topic_bytes)
        for name in RouteArrays._fields[1:]:
            before = getattr(old, name)
            getattr(self.arrays, name)[: len(before)] = before
        for route in range(self.count):
            self._publish(route)
