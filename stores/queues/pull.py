"""Messages of a queue from an offset on, with the status and next offset that a broker answers.

RocketMQ `DefaultMessageStore#getMessage` of a master: which messages, how many, and where the next
call resumes are the broker's own rules. They are those for messages that it takes to be in memory:
32 messages or 256 KiB, whatever was asked for, unless the caller says otherwise.
"""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.stores.log.records import is_in_queue, look_at
from reput.stores.reads import ColdError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.config.message_filter import MessageFilter
    from reput.stores.following.log_end import EndedLog
    from reput.stores.log.files import LogFiles
    from reput.stores.queues.reader import QueueEntry

# Bytes of entries that one call looks at, or more if more messages are asked for.
_FILTERED_BYTES = 16_000
# Entries that are looked at, with their records, before others have their turn.
_TURN = 64
_SIGN, _MASK = 1 << 31, (1 << 32) - 1


class PullStatus(StrEnum):
    """RocketMQ `GetMessageStatus`."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_RESET = "OFFSET_RESET"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class PullLimits(NamedTuple):
    """How much one call transfers (`maxTransferCountOnMessageInMemory` and its like).

    Attributes:
        messages: of those that a broker takes to be in memory.
        bytes: likewise.
        disk_messages: where the next one is not in memory.
        disk_bytes: likewise.
        memory_from: physical offset from which on a broker takes messages to be in memory: its
            log's end less 40 % of its RAM.
    """

    messages: int = 32
    bytes: int = 256 << 10
    disk_messages: int = 8
    disk_bytes: int = 64 << 10
    memory_from: int = 0

    def at(self, physical_offset: int) -> tuple[int, int]:
        """Return messages and bytes at most, if the next message stands at a physical offset."""
        if physical_offset >= self.memory_from:
            return self.messages, self.bytes
        return self.disk_messages, self.disk_bytes


IN_MEMORY = PullLimits()


class Pulled(NamedTuple):
    """What one call gives.

    Attributes:
        status: as a broker answers.
        messages: records with their queue offsets: those of the queue, which for a further queue
            of a message (multi dispatch) are not the record's own.
        next_offset: where the next call resumes.
        min_offset: of the queue.
        max_offset: of the queue, exclusive.
    """

    status: PullStatus
    messages: Sequence[tuple[int, Record]]
    next_offset: int
    min_offset: int = 0
    max_offset: int = 0


class Queue(Protocol):
    """What is read of a queue of either kind."""

    log: EndedLog
    min_offset: int
    max_offset: int

    def entries(self, queue_offset: int) -> Iterator[QueueEntry] | None:
        """Return the entries from an offset to the end of its file, None if it has no file."""

    def roll(self, queue_offset: int) -> int:
        """Return where to resume after an offset that is in no file."""


def pull(
    queue: Queue | None,
    settings: BrokerSettings,
    offset: int,
    max_messages: int,
    message_filter: MessageFilter | None = None,
    limits: PullLimits = IN_MEMORY,
    *,
    name: tuple[str, int],
    unit_size: int = ENTRY_SIZE,
) -> Pulled:
    """Return messages of a queue from an offset on.

    Args:
        queue: None if there is none.
        settings: the broker's.
        offset: queue offset.
        max_messages: at most.
        message_filter: None for all.
        limits: at most, whatever was asked for; but always one message.
        name: topic and queue id.
        unit_size: bytes of an entry.
    """
    scan = steps(
        queue,
        settings,
        offset,
        max_messages,
        message_filter,
        limits,
        name=name,
        unit_size=unit_size,
    )
    while True:
        try:
            next(scan)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what `steps` returns


def steps(
    queue: Queue | None,
    settings: BrokerSettings,
    offset: int,
    max_messages: int,
    message_filter: MessageFilter | None = None,
    limits: PullLimits = IN_MEMORY,
    *,
    name: tuple[str, int],
    unit_size: int = ENTRY_SIZE,
) -> Generator[ColdError | None, None, Pulled]:
    """Do what `pull` does, in turns.

    Yields:
        None where others may have their turn; a `ColdError` where something has to be read into
        memory before the next step.
    """
    if queue is None:
        return Pulled(PullStatus.NO_MATCHED_LOGIC_QUEUE, (), 0)
    low, high = queue.min_offset, queue.max_offset
    missed = outside(low, high, offset)
    if missed is not None:
        return Pulled(missed[0], (), missed[1], low, high)
    entries = yield from _entries_at(queue, offset)
    if entries is None:
        return Pulled(PullStatus.OFFSET_FOUND_NULL, (), queue.roll(offset), low, high)
    stop = offset + scanned_entries(max_messages, unit_size)
    counts_first = settings.version.pull_counts_removed
    request = _Request(offset, max_messages, message_filter, limits, name, counts_first)
    scan = _Scan(queue, stop, request)
    yield from _select(queue, entries, scan)
    return Pulled(scan.status, scan.messages, scan.following, low, high)


def _entries_at(
    queue: Queue, offset: int
) -> Generator[ColdError, None, Iterator[QueueEntry] | None]:
    while True:
        try:
            return queue.entries(offset)
        except ColdError as cold:
            yield cold


def scanned_entries(max_messages: int, unit_size: int = ENTRY_SIZE) -> int:
    """Return how many entries one call looks at; the product wraps around as Java's does."""
    wrapped = (max_messages * unit_size + _SIGN & _MASK) - _SIGN
    return -(-max(_FILTERED_BYTES, wrapped) // unit_size)


class _Request(NamedTuple):
    """What a call asks for; see `pull`."""

    offset: int
    max_messages: int
    message_filter: MessageFilter | None
    limits: PullLimits
    name: tuple[str, int]
    counts_first: bool


class _Scan:
    """How far one call has come.

    Attributes:
        status: what it answers.
        messages: what it gives.
        begin: where it resumed.
        following: where the next call resumes.
    """

    def __init__(self, queue: Queue, stop: int, request: _Request) -> None:
        """Begin; `stop` is the queue offset of the first entry that is not looked at."""
        self._queue = queue
        self._stop = stop
        self._request = request
        self._transferred = self._count = 0
        self._gone_until = -1
        self.status = PullStatus.NO_MATCHED_MESSAGE
        self.messages: list[tuple[int, Record]] = []
        self.begin = self.following = request.offset

    def is_done(self, entry: QueueEntry) -> bool:
        """Tell whether the call ends before an entry."""
        # Where the units of a batch queue leave gaps, the place of the next one does not count.
        if self.following >= self._queue.max_offset or entry.queue_offset >= self._stop:
            return True
        request, count = self._request, self._count
        if not count:
            return False
        # See `BrokerVersion.pull_counts_removed`.
        if not request.counts_first and entry.physical_offset < self._gone_until:
            return False
        most, most_bytes = request.limits.at(entry.physical_offset)
        return (
            count + entry.messages > request.max_messages
            or self._transferred + entry.size > most_bytes
            or count >= most
        )

    def take(self, entry: QueueEntry) -> None:
        """Look at an entry, and take its message if it passes.

        Raises:
            ColdError: nothing has changed; the entry may be given again.
        """
        log = self._queue.log
        if entry.physical_offset >= self._gone_until:
            found = _message(log, entry, self._request.name, self._request.message_filter)
            if isinstance(found, PullStatus):
                is_gone = found == PullStatus.MESSAGE_WAS_REMOVING
                if is_gone and not _has_bytes(log, entry):
                    self._gone_until = _file_end(log, entry.physical_offset)
                self.status = self.status if self.messages else found
            else:
                self.messages.append((entry.queue_offset, found))
                self._transferred += entry.size
                self._count += entry.messages
                self.status, self._gone_until = PullStatus.FOUND, -1
        self.following = entry.queue_offset + entry.messages


def _select(
    queue: Queue, entries: Iterator[QueueEntry], scan: _Scan
) -> Generator[ColdError | None, None, None]:
    """Look at a queue's next entries until the call is done."""
    resumed = -1
    for looked_at in itertools.count(1):
        try:
            entry = next(entries, None)
            # A unit of several messages may begin before the place that it is asked for by.
            while entry is not None and entry.queue_offset < resumed:
                entry = next(entries, None)
            if entry is None or scan.is_done(entry):
                return
            scan.take(entry)
        except ColdError as cold:
            yield cold
            if scan.following > scan.begin:
                resumed = scan.following
            entries = (yield from _entries_at(queue, scan.following)) or iter(())
        if not looked_at % _TURN:
            yield None


def outside(low: int, high: int, offset: int) -> tuple[PullStatus, int] | None:
    """Return status and next offset for an offset that is not in the queue."""
    if high == 0:
        return PullStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return PullStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return PullStatus.OFFSET_OVERFLOW_ONE, offset
    return (PullStatus.OFFSET_OVERFLOW_BADLY, high) if offset > high else None


def _message(
    log: LogFiles, entry: QueueEntry, name: tuple[str, int], message_filter: MessageFilter | None
) -> Record | PullStatus:
    """Return the message of an entry if it passes, or else the status that its absence gives."""
    if message_filter is not None and not may_match(message_filter, entry):
        return PullStatus.NO_MATCHED_MESSAGE
    record = _record(log, entry, name)
    if record is None:
        return PullStatus.MESSAGE_WAS_REMOVING
    if message_filter is not None and not message_filter.matches(record.properties):
        return PullStatus.NO_MATCHED_MESSAGE
    return record


def may_match(message_filter: MessageFilter, entry: QueueEntry) -> bool:
    """Tell whether an entry may be of a message that passes (`isMatchedByConsumeQueue`)."""
    code = message_filter.matches_code(entry.tags_code)
    return code and (entry.unit is None or message_filter.matches_unit(entry.unit))


def _file_end(log: LogFiles, physical_offset: int) -> int:
    return log.base_of(physical_offset) + log.file_size


def _has_bytes(log: LogFiles, entry: QueueEntry) -> bool:
    """Tell whether the log holds the bytes that an entry names (`CommitLog#getMessage`).

    If it does not, a broker leaves out the rest of their file. An entry of a record that was cut
    may name bytes of other records: those after it are still there.
    """
    offset, end = entry.physical_offset, entry.physical_offset + entry.size
    return end <= _file_end(log, offset) and log.holds(offset) and log.holds(end - 1)


def _record(log: LogFiles, entry: QueueEntry, name: tuple[str, int]) -> Record | None:
    """Return the record of an entry, None if it is not there, or another one stands there.

    Another queue's record may stand over one that was cut. A broker returns it, because it does
    not look into records (`CommitLog#getMessage`).
    """
    _, record = look_at(log, entry.physical_offset)
    if isinstance(record, int) or record.size != entry.size:
        return None
    return record if is_in_queue(record, *name) else None
