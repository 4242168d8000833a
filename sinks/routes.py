"""Which small number has a (topic, queue id)? The table of routes, filled as queues turn up.

Parsing threads look routes up while one thread, under the caller's lock, adds new ones: a route
becomes visible by its slot, which is written last.
"""

from __future__ import annotations

import numpy as np

from reput.formats.java import strings
from reput.formats.kernels.routes import READABLE_BEFORE, UNKNOWN, RouteArrays, lookup, slot_of


class RouteTable:
    """The table; it replaces `arrays` when it grows, so a reader asks for them at each block."""

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
        padded = np.frombuffer(
            bytes(READABLE_BEFORE) + topic + bytes(READABLE_BEFORE), np.uint8
        ).copy()
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
