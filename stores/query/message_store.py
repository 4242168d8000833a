"""Reads a store as its broker would answer, from files alone: ours, a broker's own, or a backup.

    with MessageStore.open("/data/rocketmq/store") as store:
        answer = store.by_key("TopicTest", "order-17")
        for message in answer.messages:
            print(message.queue_id, message.queue_offset, store.body(message).data)

It writes nothing and locks nothing, so you can ask a live store. `report` keeps what is not as a
broker leaves it; the answers leave that out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from reput.formats.errors import UsageError
from reput.formats.rocketmq import bodies, names
from reput.formats.rocketmq.broker import BrokerSettings
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.stores.config.topics import batch_topics_for
from reput.stores.findings import Kind, Report
from reput.stores.following.log_end import EndedLog
from reput.stores.log.places import commitlog_directories
from reput.stores.log.records import (
    is_in_queue,
    look_at,
    read_record,
    record_at,
    stored_at,
)
from reput.stores.query import by_time
from reput.stores.query.by_id import IdAnswer, find_by_id
from reput.stores.query.by_key import KeyAnswer, KeyKind, KeyLookup
from reput.stores.query.consumers import Offsets, read_offsets
from reput.stores.query.index_search import ALWAYS, IndexSearch, Window
from reput.stores.query.presence import Presence
from reput.stores.queues import by_time as queue_time
from reput.stores.queues.by_time import Boundary
from reput.stores.queues.open_queues import OpenQueues
from reput.stores.queues.pull import IN_MEMORY, Pulled, PullLimits, pull

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from reput.formats.rocketmq.bodies import Body
    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.config.message_filter import MessageFilter
    from reput.stores.queues.open_queues import AnyQueue
    from reput.stores.queues.reader import QueueEntry

_ANY, _TAG = KeyKind.ANY, KeyKind.TAG
# Files of the log, and of the index.
_LEAST_OPEN = 8


class MessageStore:
    """One store, and the output beside it if its queues and index are elsewhere.

    Attributes:
        root: the broker's storePathRootDir: commitlog and config.
        output: where queues and index are; the root itself for a broker's own.
        settings: the broker's.
        log: the commitlog's files, up to the log's end.
        index: the index files.
        report: what was not as it should be; grows with each question.
        presence: whether the files are still there; a server asks it each second.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        output: str | PathLike[str] | None = None,
        settings: BrokerSettings | None = None,
        *,
        is_compiled: bool = False,
    ) -> None:
        """Look at the files; see `open`."""
        self.root = Path(root)
        self.output = Path(output or root)
        self.settings = settings or BrokerSettings()
        self.report = Report()
        directories = commitlog_directories(self.root, self.settings)
        self.log: EndedLog
        place = self.output / names.INDEX
        self.index: IndexSearch
        self._lookup: KeyLookup
        if is_compiled:
            from reput.stores.following.log_end_compiled import CompiledLog  # noqa: PLC0415
            from reput.stores.query.compiled.by_key import CompiledLookup  # noqa: PLC0415 - numba
            from reput.stores.query.compiled.index import CompiledSearch  # noqa: PLC0415

            self.log = CompiledLog(directories, self.settings, self.report, self.root, self.output)
            self.index = compiled = CompiledSearch(place, self.settings, self.report)
            self._lookup = CompiledLookup(compiled, self.log)
        else:
            self.log = EndedLog(directories, self.settings, self.report, self.root, self.output)
            self.index = IndexSearch(place, self.settings, self.report)
            self._lookup = KeyLookup(self.index, self.log)
        for damage in (*self.log.damages, self.log.unfinished):
            if damage is not None:
                self.report.add(Kind.MISSING, damage.path, damage.byte, damage.found)
        batch_topics = batch_topics_for(self.root, self.settings)
        self._queues = OpenQueues(self.output, self.log, self.settings, self.report, batch_topics)
        self.presence = Presence(self.log, self._queues)

    @classmethod
    def open(
        cls,
        root: str | PathLike[str],
        output: str | PathLike[str] | None = None,
        settings: BrokerSettings | None = None,
        *,
        is_compiled: bool = False,
    ) -> Self:
        """Return a reader of a store.

        Args:
            root: a broker's storePathRootDir.
            output: where `reput` has written queues and index, if not there.
            settings: the broker's (`reput.settings_of`); RocketMQ's own by
                default.
            is_compiled: look keys up with a kernel, for programs that ask thousands of times; it
                takes half a second to import.

        Raises:
            StoreError: no store is there, or one of another kind.
            FormatError: a commitlog file of a wrong size.
        """
        return cls(root, output, settings, is_compiled=is_compiled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._queues.close()
        self._lookup.close()
        self.index.close()
        self.log.close()

    def refresh(self) -> None:
        """Look at the files again: a live store has grown. The index looks by itself."""
        self.log.refresh()
        self._lookup.refresh()
        self._queues.close()

    def by_key(
        self,
        topic: str,
        key: str,
        *,
        kind: KeyKind = KeyKind.ANY,
        window: Window = ALWAYS,
        limit: int | None = None,
        is_raw: bool = False,
    ) -> KeyAnswer:
        """Return the messages of a topic with a key; see `stores.query.by_key.KeyLookup`.

        Raises:
            UsageError: no topic, no key, a window that ends before it begins; tags of a version
                that has none.
        """
        if kind is not _ANY and kind == _TAG:
            self._check_tags()
        return self._lookup.of_key(topic, key, kind, window, limit, is_raw=is_raw)

    def by_keys(
        self,
        topic: str,
        keys: Sequence[str],
        *,
        kind: KeyKind = KeyKind.ANY,
        window: Window = ALWAYS,
        limit: int | None = None,
        is_raw: bool = False,
    ) -> list[KeyAnswer]:
        """Return the messages of a topic with each of several keys, in their order.

        The answers are those of `by_key`. With `is_compiled` all keys are looked up together,
        which takes a fraction of the time of one call a key.

        Raises:
            UsageError: as of `by_key`, for any of the keys.
        """
        if kind == _TAG:
            self._check_tags()
        return self._lookup.of_keys(topic, keys, kind, window, limit, is_raw=is_raw)

    def _check_tags(self) -> None:
        if not self.settings.version.indexes_tags:
            raise UsageError(
                f"brokers {self.settings.version.family} do not index tags, 5.4 and later do; "
                "filter a queue by tag instead"
            )

    def by_id(self, message_id: str, topic: str | None = None) -> IdAnswer:
        """Return the message with an id: first as a broker's, then as a producer's.

        An id does not say which of the two it is. As RocketMQ's tools do, it is read as an offset
        id first; a record has to begin at that offset, and name the host in the id as its broker.

        Args:
            message_id: an offset id, or a unique id.
            topic: where to look for a unique id; without it only the offset is tried.

        Raises:
            UsageError: it is not an offset id, and no topic is given.
        """
        return find_by_id(self, message_id, topic)

    def at(self, physical_offset: int) -> Record:
        """Return the record at a physical offset.

        Raises:
            NoRecordError: none begins there.
        """
        return record_at(self.log, physical_offset)

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        message_filter: MessageFilter | None = None,
        limits: PullLimits = IN_MEMORY,
    ) -> Pulled:
        """Return messages of a queue from an offset on, with status and next offset.

        RocketMQ `DefaultMessageStore#getMessage`; see `stores.queues.pull`.
        """
        queue = self.queue(topic, queue_id)
        size = queue.files.unit if queue is not None else ENTRY_SIZE
        return pull(
            queue,
            self.settings,
            offset,
            max_messages,
            message_filter,
            limits,
            name=(topic, queue_id),
            unit_size=size,
        )

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary | None = None
    ) -> int | None:
        """Return the queue offset that stands at a store time; see `stores.queues.by_time`.

        Args:
            topic: the topic.
            queue_id: the queue.
            timestamp: ms.
            boundary: which of several entries; by default what the broker's version does without.

        Returns:
            None if the queue does not exist; a broker says 0.
        """
        queue = self.queue_now(topic, queue_id)
        if queue is None:
            return None
        if queue.is_batch:
            return queue.offset_by_time(timestamp, boundary or Boundary.LOWER)
        if boundary is None and not self.settings.version.has_time_boundaries:
            return queue_time.nearest_offset(queue, timestamp)
        return queue_time.offset_by_time(queue, timestamp, boundary or Boundary.LOWER)

    def first_since(self, timestamp: int, *, ascending: bool = False) -> int | None:
        """Return the physical offset of the first record stored at a time or later, None for none.

        Args:
            timestamp: ms.
            ascending: no clock of the broker ever went back: the file is found by bisection, and
                those before it are not read.
        """
        return by_time.first_since(self.log, timestamp, self.report, ascending=ascending)

    def records_from(self, physical_offset: int) -> Iterator[Record]:
        """Yield the records of all topics from one on, to the log's end."""
        return by_time.records_from(self.log, physical_offset, self.report)

    def queue(self, topic: str, queue_id: int, *, is_quick: bool = False) -> AnyQueue | None:
        """Return a queue, None if there is none; for `is_quick` see `UnitFiles.end`."""
        return self._queues.get(topic, queue_id, is_quick=is_quick)

    def keep_open(self, queues: int) -> None:
        """Keep as many queues open as a server needs; few files of log and index if few queues."""
        self._queues.most_open = queues
        # What is read by another thread has to be open until then.
        for files in (self.index.opened, self.log):
            files.most_open = min(files.most_open, max(queues, _LEAST_OPEN))

    def queue_now(self, topic: str, queue_id: int) -> AnyQueue | None:
        """Return a queue with what was written to it since, None if there is none."""
        return self._queues.now(topic, queue_id)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues, in order; none for a topic without."""
        return self._queues.ids(topic)

    def topics(self) -> list[str]:
        """Return the topics that have queues, by name."""
        return self._queues.topics()

    def is_batch(self, topic: str) -> bool:
        """Tell whether a topic is of type BatchCQ."""
        return self._queues.is_batch(topic)

    def entries_with_messages(
        self, topic: str, queue_id: int, offset: int
    ) -> Iterator[tuple[QueueEntry, Record]]:
        """Yield entries and records of a queue from an offset on, without those that are gone."""
        queue = self.queue(topic, queue_id)
        if queue is None:
            return
        for entry in queue.all_entries(offset):
            record = read_record(self.log, entry.physical_offset)
            if record is not None and is_in_queue(record, topic, queue_id):
                yield entry, record

    def messages(self, topic: str, queue_id: int, offset: int) -> Iterator[tuple[int, Record]]:
        """Yield queue offsets and records of a queue from an offset on."""
        for entry, record in self.entries_with_messages(topic, queue_id, offset):
            yield entry.queue_offset, record

    def stored_at(self, entry: QueueEntry) -> int | None:
        """Return when the message of an entry was stored, None if it is gone, ms."""
        found = stored_at(self.log, entry.physical_offset, entry.size)
        return found if found >= 0 else None

    def consumer_offsets(self) -> Offsets:
        """Return how far groups have come, by group and topic, by queue.

        Raises:
            StoreError: `consumerOffset.json` cannot be read.
        """
        return read_offsets(self.root)

    def body(self, record: Record, limit: int = bodies.MAX_BODY) -> Body:
        """Return a message's body as its sender had it; see `formats.rocketmq.bodies`."""
        return bodies.decompressed(record.body, record.sys_flag, limit)

    def is_record(self, physical_offset: int) -> bool:
        """Tell whether a whole record begins at a physical offset."""
        return not isinstance(look_at(self.log, physical_offset)[1], int)
