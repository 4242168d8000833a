"""Finds the queues of a store, and keeps those open that were asked for last."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.following.log_end import EndedLog
    from reput.stores.queues.batches import BatchReader
    from reput.stores.queues.reader import QueueReader

    AnyQueue = QueueReader | BatchReader

# Queues that are kept open; a store may have tens of thousands.
_OPEN_QUEUES = 64


class OpenQueues:
    """The queues of one output root.

    Attributes:
        most_open: how many are kept open.
        dropped: how often a queue was closed because its files are no longer what they were.
        away: why no queue can be asked for; None if any can.
    """

    def __init__(
        self,
        output: Path,
        log: EndedLog,
        settings: BrokerSettings,
        report: Report,
        batch_topics: Collection[str],
    ) -> None:
        """Open nothing yet.

        Args:
            output: where the queues are.
            log: what their entries point into.
            settings: the broker's.
            report: gets what is damaged.
            batch_topics: topics of type BatchCQ.
        """
        self._output = output
        self._log = log
        self._settings = settings
        self._report = report
        self._batch_topics = batch_topics
        self.most_open = _OPEN_QUEUES
        self.dropped = 0
        self.away: StoreError | None = None
        self._has_files = self._is_there()
        self._open: dict[tuple[str, int, bool], AnyQueue] = {}

    def get(self, topic: str, queue_id: int, *, is_quick: bool = False) -> AnyQueue | None:
        """Return a queue, None if there is none; see `MessageStore.queue`.

        Raises:
            StoreError: the log or the queues are away.
        """
        if self.away is not None:
            raise self.away
        key = topic, queue_id, is_quick
        known = self._open.get(key)
        if known is not None:
            if known.floor != self._log.min_offset:
                known.settle()
            return known
        queue = self._made(topic, queue_id, is_quick=is_quick)
        if queue is not None:
            while len(self._open) >= self.most_open:
                self._open.pop(next(iter(self._open))).close()
            self._open[key] = queue
        return queue

    def _made(self, topic: str, queue_id: int, *, is_quick: bool) -> AnyQueue | None:
        # A name that cannot be a directory has no queue, and leads nowhere else.
        nested = self._settings.version.nests_queues
        if names.topic_problem(topic, nested=nested) is not None:
            return None
        is_batch = topic in self._batch_topics
        kind = names.BATCH_CONSUMEQUEUE if is_batch else names.CONSUMEQUEUE
        place = os.path.join(topic, str(queue_id))  # noqa: PTH118 - a name, not a path yet
        directory = self._output / kind / place
        if not directory.is_dir():
            return None
        # Queues are read with numpy, which a look-up by key or id has no use for.
        from reput.stores.queues.batches import BatchReader  # noqa: PLC0415
        from reput.stores.queues.reader import QueueReader  # noqa: PLC0415

        known = self._log, self._settings, self._report
        if is_batch:
            return BatchReader(directory, *known, is_quick=is_quick)
        ext = self._output / names.CONSUMEQUEUE_EXT / place
        return QueueReader(directory, ext, *known, is_quick=is_quick)

    def now(self, topic: str, queue_id: int) -> AnyQueue | None:
        """Return a queue with what was written to it since it was opened, None if there is none."""
        queue = self.get(topic, queue_id)
        if queue is None or _grow(queue):
            return queue
        if queue.is_replaced:
            self.drop_all()
        else:
            self._open.pop((topic, queue_id, False)).close()
            self.dropped += 1
        return self.get(topic, queue_id)

    def close_gone(self) -> None:
        """Close the queues whose files went, or are others now.

        Raises:
            StoreError: all queues went, or the log has messages and there are no queues yet.
        """
        for key, queue in list(self._open.items()):
            if not queue.is_there():
                self._open.pop(key).close()
                self.dropped += 1
        is_there = self._is_there()
        if self._has_files and not is_there:
            self.drop_all()
            raise StoreError(
                self._output / names.CONSUMEQUEUE,
                "it is no longer there",
                "Put the queues back, or rebuild them",
            )
        # A group would be told that its offset is beyond an empty queue, and begin again.
        if not is_there and not self._has_batches() and self._log.end() > self._log.min_offset:
            raise StoreError(
                self._output / names.CONSUMEQUEUE,
                "the log has messages, and there are no queues here",
                "Rebuild them (`reput rebuild`), or say with --output where they are",
            )
        self._has_files = is_there

    def _is_there(self) -> bool:
        return (self._output / names.CONSUMEQUEUE).is_dir()

    def _has_batches(self) -> bool:
        return (self._output / names.BATCH_CONSUMEQUEUE).is_dir()

    def drop_all(self) -> None:
        """Close all queues: what they were opened with no longer holds."""
        self.close()
        self.dropped += 1

    def ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues, in order; none for a topic without."""
        if names.topic_problem(topic, nested=self._settings.version.nests_queues):
            return []
        found: set[int] = set()
        for kind in (names.CONSUMEQUEUE, names.BATCH_CONSUMEQUEUE):
            try:
                entries = [entry.name for entry in os.scandir(self._output / kind / topic)]
            except (FileNotFoundError, NotADirectoryError):
                continue
            found |= {int(name) for name in entries if _is_queue_id(name)}
        return sorted(found)

    def topics(self) -> list[str]:
        """Return the topics that have queues, by name."""
        found: set[str] = set()
        for kind in (names.CONSUMEQUEUE, names.BATCH_CONSUMEQUEUE):
            base = self._output / kind
            try:
                entries = [entry.name for entry in os.scandir(base) if entry.is_dir()]
            except (FileNotFoundError, NotADirectoryError):
                continue
            found |= set(entries)
        return sorted(found)

    def is_batch(self, topic: str) -> bool:
        """Tell whether a topic is of type BatchCQ."""
        return topic in self._batch_topics

    def close(self) -> None:
        """Close the files; a queue that is asked for again is opened again."""
        for queue in self._open.values():
            queue.close()
        self._open = {}


def _grow(queue: AnyQueue) -> bool:
    """Take in all that was written to a queue; False if it has to be opened again.

    Long after the last look there may be more than one look takes in, which is a part of one file.
    A client that is past that part would be sent back, and get messages again.
    """
    end = -1
    while end != queue.end:
        end = queue.end
        if not queue.grow():
            return False
    return True


def _is_queue_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 10
