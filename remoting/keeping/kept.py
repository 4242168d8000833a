"""What is kept: which messages wait for their delay, which are delivered, and what may go.

All of it is in the log. Which messages still wait follows from it: a copy that waits is followed by
the one that was delivered. So a kill loses none, and delivers none twice.

A file of the log goes once nothing in it waits, and either all that was delivered from it has been
consumed and space is needed, or it is as old as a broker lets files become (`fileReservedTime`).
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints.disk import changes, locks
from reput.formats.errors import FormatError, ReputError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_STRUCT, SCHEDULE_TOPIC, tags_code
from reput.remoting.keeping import records
from reput.remoting.keeping.log import FILE_SIZE, KeptLog
from reput.remoting.keeping.queues import KeptQueues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.commitlog import Record
    from reput.formats.rocketmq.encode import Message
    from reput.remoting.keeping.log import Placed
    from reput.remoting.keeping.queues import Key

LOG = logging.getLogger("reput")
LEAST_BYTES = 4 * FILE_SIZE
# Delivered at once.
_AT_ONCE = 256
# What a copy has more than the message that it is of.
_GROWTH = 2048


class FullError(ReputError):
    """There is no room for a message."""


class Rules(NamedTuple):
    """How messages are kept.

    Attributes:
        most_bytes: of the log, at least `LEAST_BYTES`.
        delays: ms to wait by delay level, level 1 first.
        reserved_ms: age at which files go, consumed or not.
        file_size: bytes of a file of the log.
    """

    most_bytes: int
    delays: tuple[int, ...]
    reserved_ms: int
    file_size: int = FILE_SIZE


class Waiting(NamedTuple):
    """A message that waits; the one that is due first is the least."""

    due_ms: int
    position: int
    size: int
    identity: tuple[str, str, str, int]


@dataclass
class _File:
    """What stands in a file of the log.

    Attributes:
        newest_ms: store timestamp of its last record.
        waiting: how many of its messages wait.
        ends: queue offsets after its last message of each queue that consumers read.
    """

    newest_ms: int = 0
    waiting: int = 0
    ends: dict[Key, int] = field(default_factory=dict)


class Kept:
    """The messages of one store's consumers. All calls come from one thread at a time.

    Attributes:
        cut: bytes that a crash had left in part when it was opened.
        queues: how far its queues are; to be read only.
    """

    def __init__(
        self, directory: Path, rules: Rules, consumed: Callable[[str, int], int | None]
    ) -> None:
        """Read what is kept, or begin.

        Args:
            directory: of this store's; it is locked until `close`.
            rules: how messages are kept.
            consumed: returns where the group of a topic resumes in a queue, None if unknown.

        Raises:
            ReputError: another process has it, or it is damaged.
            OSError: it cannot be read or made.
        """
        self._rules = rules
        self._consumed = consumed
        self._lock = _locked(directory)
        self._files: dict[int, _File] = {}
        self._heap: list[Waiting] = []
        # By identity, the oldest first; only while the log is read.
        self._open: dict[tuple[str, str, str, int], deque[Waiting]] = {}
        self._done: set[int] = set()
        self._waiting_bytes = 0
        try:
            self.queues = KeptQueues(directory / names.CONSUMEQUEUE)
            self._log = KeptLog(directory / names.COMMITLOG, self._visit, rules.file_size)
            self.queues.recovered(self._log.end)
        except BaseException:
            self._lock.release()
            raise
        self._heap = [each for each in self._heap if each.position not in self._done]
        heapq.heapify(self._heap)
        self._waiting_bytes = sum(each.size for each in self._heap)
        self._open, self._done = {}, set()
        self.cut = self._log.cut

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._heap)

    @property
    def next_due_ms(self) -> int | None:
        """Return when the next message is due, None if none waits."""
        return self._heap[0].due_ms if self._heap else None

    @property
    def size(self) -> int:
        """Return the bytes of the log's files."""
        return len(self._log.bases) * self._rules.file_size

    @property
    def first(self) -> int:
        """Return the physical offset where the log begins."""
        return self._log.bases[0]

    @property
    def last_file(self) -> int:
        """Return where the log's last file begins."""
        return self._log.bases[-1]

    def put(self, messages: Sequence[Message], now_ms: int) -> list[Placed]:
        """Keep messages: they wait for their delay, or stand in their queues at once.

        Returns:
            Where each stands, or its copy that waits.

        Raises:
            FullError: there is no room for them.
            ValueError: one does not fit into a record, or its topic names no directory of ours.
            OSError: no space, or the disk failed.
        """
        for each in messages:
            problem = names.topic_problem(str(each.topic))
            if problem is not None:
                raise ValueError(f"a group whose name is not one: {problem}")
        asked = [records.waiting(each, len(self._rules.delays)) for each in messages]
        self._require_room(sum(2 * (len(each.body) + _GROWTH) for each in asked), now_ms)
        return self._append(asked, now_ms)

    def deliver(self, now_ms: int) -> int:
        """Put messages into their queues whose delay is over; return how many.

        Raises:
            FormatError: one cannot be read.
            OSError: no space, or the disk failed.
        """
        due: list[Waiting] = []
        while self._heap and self._heap[0].due_ms <= now_ms and len(due) < _AT_ONCE:
            due.append(heapq.heappop(self._heap))
        found = [record for each in due if (record := self._read(each)) is not None]
        try:
            self._append([records.delivered(each) for each in found], now_ms)
        except BaseException:
            for each in due:
                heapq.heappush(self._heap, each)
            raise
        self._waiting_bytes -= sum(each.size for each in due)
        for record in found:
            self._file_of(record.physical_offset).waiting -= 1
        return len(found)

    def _read(self, waits: Waiting) -> Record | None:
        """Return a message that waited, None if it is damaged since: the others are delivered."""
        try:
            return self._log.record_at(waits.position, waits.size)
        except FormatError as error:
            LOG.error("a message that was sent back is lost: %s", error)  # noqa: TRY400 - it says all
            return None

    def _append(self, messages: Sequence[Message], now_ms: int) -> list[Placed]:
        if not messages:
            return []
        ends: dict[Key, int] = {}
        numbered = []
        for message in messages:
            key = str(message.topic), message.queue_id
            offset = ends.get(key, self.queues.ends.get(key, 0))
            ends[key] = offset + 1
            numbered.append(message._replace(queue_offset=offset))
        begin, before = self._log.end, {key: self.queues.ends.get(key, 0) for key in ends}
        taken = []
        try:
            found = self._log.append(numbered, now_ms)
            for placed in found:
                record = self._log.record_at(placed.position, placed.size)
                key = record.topic, record.queue_id
                self.queues.put(key, record.queue_offset, self._entry(record))
                taken.append(record)
        except (OSError, FormatError):
            # They are refused. Left in the log, they would be there after the next start.
            try:
                self._log.take_back(begin)
            finally:
                self.queues.take_back(before)
            raise
        for record in taken:
            waits = self._note(record)
            if waits is not None:
                heapq.heappush(self._heap, waits)
                self._waiting_bytes += waits.size
        return found

    def _entry(self, record: Record) -> bytes:
        delays = self._rules.delays
        code = tags_code(record.topic, record.properties, record.store_timestamp, delays)
        return ENTRY_STRUCT.pack(record.physical_offset, record.size, code)

    def _visit(self, record: Record) -> None:
        """Take in a record that was there at the start."""
        self.queues.restore(
            (record.topic, record.queue_id), record.queue_offset, self._entry(record)
        )
        waits = self._note(record)
        if waits is not None:
            self._heap.append(waits)
            self._open.setdefault(waits.identity, deque()).append(waits)
            return
        same = self._open.get(records.identity(record))
        if same:
            delivered = same.popleft()
            self._done.add(delivered.position)
            self._file_of(delivered.position).waiting -= 1

    def _note(self, record: Record) -> Waiting | None:
        """Take down what stands in a file; return what waits."""
        file = self._file_of(record.physical_offset)
        file.newest_ms = record.store_timestamp
        if record.topic != SCHEDULE_TOPIC:
            file.ends[record.topic, record.queue_id] = record.queue_offset + 1
            return None
        file.waiting += 1
        due = tags_code(record.topic, record.properties, record.store_timestamp, self._rules.delays)
        return Waiting(due, record.physical_offset, record.size, records.identity(record))

    def _file_of(self, position: int) -> _File:
        base = position - position % self._rules.file_size
        return self._files.setdefault(base, _File())

    def expire(self, now_ms: int, *, needs_room: bool = False) -> bool:
        """Remove files that may go, the oldest first; tell whether one went.

        Args:
            now_ms: the time.
            needs_room: remove one that has been consumed, too.

        Raises:
            OSError: one cannot be removed.
        """
        has_removed = False
        while len(self._log.bases) > 1:
            base = self._log.bases[0]
            file = self._files.get(base, _File())
            is_old = now_ms - file.newest_ms > self._rules.reserved_ms
            if file.waiting or not (is_old or (needs_room and self._is_consumed(file))):
                break
            self.queues.sync()
            self._log.remove_first()
            self._files.pop(base, None)
            has_removed = True
            if needs_room:
                break
        if has_removed:
            self.queues.drop_before(self._log.bases[0])
        return has_removed

    def _is_consumed(self, file: _File) -> bool:
        return all(
            topic.startswith(names.RETRY) and (self._consumed(topic, queue_id) or 0) >= end
            for (topic, queue_id), end in file.ends.items()
        )

    def _require_room(self, wanted: int, now_ms: int) -> None:
        """Make room for messages, and for those that wait to be delivered.

        Raises:
            FullError: there is none.
        """
        rules = self._rules
        needed = wanted + self._waiting_bytes
        while True:
            spare = max(rules.most_bytes - self.size, 0) // rules.file_size * rules.file_size
            left = self.last_file + rules.file_size - self._log.end
            # A file's end stays empty where the next record is longer.
            room = (left + spare) * 3 // 4
            if needed <= room:
                return
            if not self.expire(now_ms, needs_room=True):
                raise FullError(
                    f"no room for messages that are sent back: their log may take "
                    f"{rules.most_bytes} bytes"
                )

    def close(self) -> None:
        """Let others have the directory."""
        self._lock.release()


def _locked(directory: Path) -> locks.FileLock:
    for above in changes.make_directories(directory):
        changes.sync_directory(above)
    lock = locks.FileLock(directory / names.LOCK)
    if not lock.acquire():
        found = "another process keeps messages that are sent back in it"
        raise StoreError(directory, found, "Stop it, or give each server another --offsets")
    return lock
