"""Which queues there are: (topic, queue id) by small number, known to parsers and writers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import ReputError
from reput.formats.java import strings
from reput.formats.kernels.routes import SCHEDULE, SPECIAL
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import SCHEDULE_TOPIC
from reput.formats.rocketmq.names import QueueName
from reput.sinks.routes import RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Far above any broker's queue numbers; a directory each would drown a file system first.
MAX_QUEUE_ID = 1 << 20


class QueueDirectory:
    """Numbers queues as they turn up; any thread may add, numbers never change."""

    def __init__(self, is_special: Callable[[str], bool]) -> None:
        """Begin without queues.

        Args:
            is_special: tells whether records of a topic need the slow path.
        """
        self.routes = RouteTable()
        self.names: list[QueueName] = []
        self._numbers: dict[QueueName, int] = {}
        self.is_special = is_special
        # Goes up whenever more topics may have become special.
        self.generation = 0
        self._new_topics: set[str] = set()
        self._lock = threading.Lock()

    def number(self, topic: str, queue_id: int, *, nested: bool = False) -> int:
        """Return the number of a queue, a new one if it is new.

        Args:
            topic: the topic, or the name of a further queue.
            queue_id: the queue's id.
            nested: see `names.topic_problem`.

        Raises:
            ReputError: it cannot have a directory.
        """
        with self._lock:
            return self._number(QueueName(topic, queue_id), nested=nested)

    def add_route(self, raw_topic: bytes, queue_id: int) -> None:
        """Make records of a topic, as its bytes stand in them, find their queue.

        Raises:
            ReputError: the queue cannot have a directory.
        """
        topic = strings.decode(raw_topic)
        with self._lock:
            number = self._number(QueueName(topic, queue_id))
            self._new_topics.add(topic)
            kind = SCHEDULE if topic == SCHEDULE_TOPIC else 0
            kind |= SPECIAL if self.is_special(topic) else 0
            self.routes.add(raw_topic, queue_id, number, kind)

    def take_new_topics(self) -> set[str]:
        """Return the topics of the routes that were added since this was last called."""
        with self._lock:
            found, self._new_topics = self._new_topics, set()
        return found

    def reconsider(self) -> None:
        """Ask again which topics are special: more of them may be."""
        with self._lock:
            table = self.routes.arrays
            for route in range(self.routes.count):
                if self.is_special(self.names[int(table.queue[route])].topic):
                    table.kind[route] |= SPECIAL
            self.generation += 1

    def mark_special(self, queue: NDArray[np.int32], special: NDArray[np.uint8]) -> None:
        """Mark the rows of special topics, in a block that was parsed before `reconsider`.

        Args:
            queue: queue number by row.
            special: by row; written.
        """
        with self._lock:
            kinds = [self.is_special(name.topic) for name in self.names]
        special |= np.array(kinds, np.uint8)[queue]

    def _number(self, name: QueueName, *, nested: bool = False) -> int:
        known = self._numbers.get(name)
        if known is not None:
            return known
        problem = names.topic_problem(name.topic, nested=nested)
        if problem:
            raise ReputError(
                f"topic {name.topic[:300]!r} cannot have a directory: {problem}. "
                "No broker accepts such a topic; the record was not written by one"
            )
        if not 0 <= name.queue_id <= MAX_QUEUE_ID:
            raise ReputError(
                f"queue id {name.queue_id} of topic {name.topic!r} is not between 0 and "
                f"{MAX_QUEUE_ID}. No broker gives such a number; the record was not written by one"
            )
        self.names.append(name)
        self._numbers[name] = len(self.names) - 1
        return len(self.names) - 1
