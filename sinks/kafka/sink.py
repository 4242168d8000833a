"""Sends a store's messages to Kafka, a transaction at a time, each with the position after it.

`KafkaSink.send` reads like what it does: read a range of the log from the last committed position
on → choose and encode messages → hand batches to the client → add the position → look whether the
log is still the one that dispatch went over → commit. Whatever goes wrong before the commit leaves
nothing that readers would see; the next attempt reads the same range again. Whether a commit
that was not answered has happened is what the opening of the next client finds out.

Knows one store and no thread; `streaming.kafka.feed` calls it beside dispatch.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.formats.errors import FormatError, KafkaError
from reput.sinks.kafka.client import topics
from reput.sinks.kafka.client.batch import BATCH_HEADER
from reput.sinks.kafka.client.errors import (
    FENCED,
    AwayError,
    EndedError,
    FencedError,
    RefusedError,
    describe,
)
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.client.producer import Client
from reput.sinks.kafka.client.settings import (
    ARRIVALS,
    BEGIN,
    CONTINUE,
    DEAD_LETTERS,
    DECOMPRESSED,
    LATEST,
    MESSAGES,
    TRANSACTIONS,
)
from reput.sinks.kafka.messages.blocks import RowReader
from reput.sinks.kafka.messages.encoder import Encoder
from reput.sinks.kafka.messages.plain import PlainMessage, dead_letter
from reput.sinks.kafka.messages.refusals import Note, Refusals
from reput.sinks.kafka.messages.routes import DEAD, Routes
from reput.sinks.kafka.position import progress, rename
from reput.sinks.kafka.position.memory import Memory, remember, remembered
from reput.sinks.kafka.position.position import Position, partition_of
from reput.sinks.kafka.position.start import Start, points_before, same_until
from reput.sinks.kafka.position.trail import (
    Chunk,
    Trail,
    first_digest,
    first_newer,
    last_newer,
    parting,
    sent_until,
)
from reput.stores.log import trail
from reput.stores.log.commitlog import CommitLog, LogChangedError, commitlog_directories
from reput.stores.log.holes import HoleWatch, find_hole
from reput.stores.log.tail import find_tail
from reput.stores.log.trail import Point

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.messages.blocks import RowBlock
    from reput.sinks.kafka.messages.routes import Rows
    from reput.sinks.kafka.position.position import Found
    from reput.sinks.kafka.position.trail import Parting, SentRecords
    from reput.stores.log.trail import Fingerprint

# Records that are kept to find again, and how far from one to the next at least.
_POINTS = 16
_NEWEST_POINTS = 4
# A log in which nothing is wanted still moves the position now and then, to be read only once.
_IDLE_BYTES = 64 << 20
# How far before a place that nothing was sent before the store times are looked at.
_NEAR_BYTES = 4 << 20
_SHORT_PATIENCE = 1.0
# Longer than a job needs from its beginning to its claim.
_DOUBT_SECONDS = 5.0
_MILLISECONDS = 1000


class Extent(NamedTuple):
    """How far dispatch has gone, and what the log there was.

    Attributes:
        end: physical offset.
        mark: the last record that was dispatched, None if there is none.
        gaps: places that dispatch has passed over: begin and end.
        cuts: times that dispatch has found the log cut, see `checkpoints.progress.Progress`.
    """

    end: int
    mark: Fingerprint | None
    gaps: tuple[tuple[int, int], ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()

    @property
    def last_cut(self) -> int:
        """Return the number of the last cut, 0 for none."""
        return self.cuts[-1][0] if self.cuts else 0

    def has_cut(self, number: int) -> bool:
        """Tell whether the output has a cut of a number."""
        return any(each == number for each, _ in self.cuts)

    def cut_since(self, number: int) -> list[int]:
        """Return where the log was cut since the cut of a number.

        Numbers are times, and those of another output may be another host's: if this one has no
        cut of that number, it says nothing of which came first, and all count. To look at a cut
        again changes nothing where the log is as it was sent.
        """
        numbers = [each for each, _ in self.cuts]
        first = numbers.index(number) + 1 if number in numbers else 0
        return [place for _, place in self.cuts[first:]]


@dataclass
class Sent:
    """What one transaction has done.

    Attributes:
        start: physical offset.
        end: physical offset.
        messages: sent.
        notices: sent.
        dead_letters: messages and notices that went to the dead-letter topic instead.
        bytes: of records.
        seconds: from its beginning to the end of its commit.
        store_timestamp: of the last record, ms; 0 for none.
        events: what an operator should know of.
    """

    start: int
    end: int
    messages: int = 0
    notices: int = 0
    dead_letters: int = 0
    bytes: int = 0
    seconds: float = 0.0
    store_timestamp: int = 0
    events: list[str] = field(default_factory=list)


class _Connected(NamedTuple):
    """A client, the position that it found, and how many partitions the progress topic has."""

    client: Client
    found: Found | None
    partitions: int


class KafkaSink:
    """One store's way to Kafka.

    Attributes:
        position: last committed, as far as is known; None before `open`.
        access: kafka-python's settings of security, for the next `open`.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        access: Mapping[str, Any],
        name: str,
        path: Path,
        broker: BrokerSettings,
        *,
        fail_on_data_loss: bool = True,
        memory: Path | None = None,
    ) -> None:
        """Look at the log; Kafka is not spoken to yet.

        Args:
            settings: the operator's.
            access: kafka-python's settings of security.
            name: the store's.
            path: a broker's storePathRootDir.
            broker: its settings.
            fail_on_data_loss: stop where records expired before they were sent; else go on.
            memory: a file that remembers that there is a position in Kafka.

        Raises:
            StoreError: the log cannot be read.
        """
        self._settings = settings
        self.access = access
        self._name = name
        self._fail_on_data_loss = fail_on_data_loss
        self._memory = memory
        self.log = CommitLog(commitlog_directories(path, broker), broker)
        self._reader = RowReader(
            self.log,
            decompresses=settings.body == DECOMPRESSED,
            block_bytes=settings.transaction_bytes,
        )
        self._encoder = Encoder(settings)
        self._refusals = Refusals(settings, self.log)
        self._client: Client | None = None
        self._routes = Routes(settings, name, self._partitions)
        self._progress_partition: Partition | None = None
        self._path = path.resolve()
        self._writer = uuid.uuid4().hex
        # When this writer first wanted to connect, see `Position.began`; and by the clock that does
        # not go back. 0 before that.
        self._began, self._first_tried = 0, 0.0
        # The position in Kafka as this process has last found or written it, packed; None where
        # there was none. What differs from that is from another process, and came after it.
        self._stored: bytes | None = None
        self._has_read = self._is_in_doubt = False
        # Topics that are there, or were made.
        self._made: set[str] = set()
        self._trail = Trail(self.transactional_id, settings.max_message_bytes - BATCH_HEADER)
        # What is known of a log that was cut: the records that were sent, where it parts from them;
        # each with what it was computed for, as both change with every transaction and every cut.
        self._sent_before: tuple[tuple[int, int], SentRecords] | None = None
        self._compared: tuple[tuple[int, ...], Parting] | None = None
        # Where the log's records ended when dispatch had come that far.
        self._log_end: tuple[Extent, int] | None = None
        # The first record of the log: where it begins, and its hash.
        self._first: tuple[int, int] | None = None
        self.position: Position | None = None
        # See `decide_latest`.
        self._decided: Start | None = None
        self._is_unwritten = False
        # Of what it was last looked whether the log still reaches that far.
        self._reached: tuple[tuple[int, int, int], int | None] | None = None
        # See `_old_until`.
        self._old: tuple[tuple[int, int, int], int] | None = None
        # To be told with the next transaction that is committed.
        self._events: list[str] = []
        self._losses = 0
        self._cluster = ""
        self._remembered = False

    @property
    def transactional_id(self) -> str:
        """Return under which id, and key of positions, this store is sent."""
        return f"{self._settings.id_prefix}{self._name}"

    @property
    def in_flight(self) -> int:
        """Return the bytes that are sent and not acknowledged yet."""
        return self._client.in_flight if self._client is not None else 0

    @property
    def is_open(self) -> bool:
        """Tell whether there is a client."""
        return self._client is not None

    def open(self, extent: Extent) -> None:
        """Connect, end what an earlier writer left undone, and find out how far it came.

        Args:
            extent: of dispatch; where a store begins that has no position yet.

        Raises:
            KafkaError: what is in the way.
        """
        self._begin(extent, self._connect())

    def _connect(self) -> _Connected:
        """Connect, and read the position, once no later process has gone on.

        Raises:
            FencedError: one has.
            KafkaError: what else is in the way.
        """
        settings = self._settings
        is_transactional = settings.mode == TRANSACTIONS
        if not self._began:
            self._began, self._first_tried = int(time.time() * _MILLISECONDS), time.monotonic()
        client = Client(
            settings,
            self.access,
            self.transactional_id if is_transactional else None,
            self._look_for_heir if is_transactional else None,
        )
        try:
            partitions = self._progress_partitions(client)
            found = progress.read(settings, self.access, self.transactional_id, partitions)
            if is_transactional and self._has_read and self._is_heir(found):
                # It has gone on between the look and our connection.
                raise FencedError(f"Kafka at {settings.bootstrap}: {FENCED}")
            moved = found.position.moved if found is not None else ""
            if found is None or moved:
                found = self._found_by_log(client.cluster, partitions)
            if found is not None:
                self._check_identity(found.position, client.cluster)
            self._remembered = self._compare_memory(
                client.cluster, partitions, is_there=found is not None, moved=moved
            )
        except BaseException:
            client.close()
            raise
        return _Connected(client, found, partitions)

    def _begin(self, extent: Extent, connected: _Connected) -> None:
        """Go on from the position that was found, and claim it.

        Raises:
            KafkaError: it could not be claimed.
        """
        settings = self._settings
        client, found, partitions = connected
        self._client = client
        self._cluster = client.cluster
        self._made.clear()
        self._routes.forget()
        # What was noticed and not committed is noticed again.
        self._events, self._losses = [], 0
        if found is None:
            position = self._first_position(extent)
            self._note_other_cluster(position)
            number = partition_of(self.transactional_id, partitions)
        else:
            position, number = found
            self._note_without_record(position)
        self._stored, self._has_read = _packed(found), True
        self._progress_partition = Partition(settings.progress_topic, number)
        self._sent_before = self._compared = self._log_end = None
        end = position.end
        self._trail.begin(Chunk(position.chunk + 1, end, end, np.zeros(0, np.uint32)))
        self.position = position
        if settings.mode == TRANSACTIONS:
            self._claim(position)

    def _found_by_log(self, cluster: str, partitions: int) -> Found | None:
        """Return the position of this log where it was sent under another id; None if it was not.

        Raises:
            KafkaError: it was, and the operator wants to know; or it cannot be read or written.
        """
        settings = self._settings
        if settings.on_rename == BEGIN:
            return None
        self.log.refresh()
        memory = remembered(self._memory) if self._memory is not None else None
        is_known = memory is not None and memory.cluster == cluster
        known = memory.transactional_id if memory is not None and is_known else ""
        me = rename.Me(self.transactional_id, str(self._path), known, self._leaves_out)
        others = rename.find(settings, self.access, me, partitions, self.log)
        # Another job of this name may have taken it over since ours was looked for. That is a
        # transaction of the other id, which our producer does not fence.
        found = progress.read(settings, self.access, self.transactional_id, partitions)
        if found is not None and not found.position.moved:
            return found
        if not others:
            return None
        without_record = [each for each in others if each.found.position.has_no_record]
        if without_record:
            begin = self._remembered_place(BEGIN)
            raise AwayError(rename.without_record(settings, me, without_record, begin))
        if len(others) > 1:
            raise KafkaError(rename.several(settings, self._name, others))
        other = others[0]
        if not other.is_certain:
            raise KafkaError(rename.alike(settings, self._name, other))
        if settings.on_rename != CONTINUE:
            raise KafkaError(rename.refusal(settings, self._name, me, other))
        writer = rename.Writer(self._writer, self._began, self._is_late)
        rename.take_over(settings, self.access, me, other, partitions, writer)
        return progress.read(settings, self.access, self.transactional_id, partitions)

    def decide_latest(self, extent: Extent) -> None:
        """Decide where a store begins of which only what comes from now on is wanted, for good.

        Not when Kafka first answers: what is dispatched until then is wanted.

        Args:
            extent: of dispatch at the start of the job; with a new output, the log's end counts,
                also where there is damage before it.

        Raises:
            OSError: it is decided, and cannot be written down; `write_place` tries again.
            KafkaError: what is written down cannot be read.
        """
        self._decided = self._remembered_place()
        if self._decided is not None:
            return
        end = extent.end
        if end < 0 and extent.cuts:
            # An output that has gone back to the log's beginning is not a new one.
            end = max(self.log.min_offset, 0)
        elif end < 0:
            # Past damage: whether dispatch gets past that is not decided here.
            end = self._end_past_damage()
        mine = self.transactional_id
        self._decided = Start(mine, end, extent.last_cut, points_before(self.log, end))
        self._is_unwritten = self._memory is not None
        self.write_place()

    def write_place(self) -> None:
        """Write down where sending begins, if that is decided and not written down yet.

        Raises:
            OSError: it cannot be written down.
            KafkaError: what is there cannot be read.
        """
        if not self._is_unwritten or self._memory is None:
            return
        known = remembered(self._memory) or Memory("", "")
        remember(self._memory, known._replace(latest=self._decided))
        self._is_unwritten = False

    def _remembered_place(self, on_rename: str | None = None) -> Start | None:
        """Return where the output remembers that sending goes on where Kafka has no position of it.

        That is where it ended in the Kafka of this address: if another one answers there, that has
        nothing from there on. Where nothing was sent, it is what was decided. Both are the
        output's, under any name, unless the operator asks for a way beside the former one.

        Args:
            on_rename: in place of the operator's setting.
        """
        known = remembered(self._memory) if self._memory is not None else None
        if known is None:
            return None
        settings = self._settings
        begins = (on_rename or settings.on_rename) == BEGIN
        is_beside = begins and known.transactional_id != self.transactional_id
        if known.sent is not None and known.bootstrap == settings.bootstrap and not is_beside:
            return known.sent
        return known.latest

    @property
    def _leaves_out(self) -> int:
        """Return before which physical offset a store without a position leaves out everything."""
        return self._decided.end if self._decided is not None else 0

    @property
    def _own_begin(self) -> int:
        """Return where sending would begin if Kafka had no position."""
        return max(self._leaves_out, self.log.min_offset, 0)

    def _end_past_damage(self) -> int:
        return find_tail(self.log, skips_corrupt=True, holes=HoleWatch(self.log)).end

    def _first_position(self, extent: Extent) -> Position:
        """Return where a store begins that has no position yet."""
        if self._settings.start != LATEST:
            begin = max(self.log.min_offset, 0)
            first = self._first_record()
            return Position(begin, cut=extent.last_cut, first=first, since=begin)
        # What was sent since the start of the job counts too.
        start = self._remembered_place() or self._decided
        if start is None:
            end = extent.end
            start = Start(self.transactional_id, end, extent.last_cut, points_before(self.log, end))
        end = min([start.end, *extent.cut_since(start.cut)])
        points = tuple(p for p in start.points if p.end <= end)
        oldest = points[0].record if points else None
        first = (oldest.physical_offset, oldest.hash) if oldest else self._first_record()
        begin = max(end, 0)
        return Position(begin, points, cut=extent.last_cut, first=first, since=begin)

    def _note_other_cluster(self, position: Position) -> None:
        """Have it said where sending begins in a Kafka that has taken another one's place."""
        known = remembered(self._memory) if self._memory is not None else None
        if known is None or known.cluster in {"", self._cluster}:
            return
        self._events.append(
            f"{self._name}: Kafka at {self._settings.bootstrap} is another cluster than the one "
            f"that was sent this store up to physical offset {known.end}: sending begins at "
            f"{position.end} there"
        )

    def _note_without_record(self, position: Position) -> None:
        """Have it said that only its path, or the operator, says that a position is this log's."""
        if position.has_no_record and not self._is_where_it_begins(position):
            self._events.append(
                f"{self._name}: the position of this name in {self._settings.progress_topic} was "
                f"written for {position.origin} while the log there had no record, so nothing in "
                f"the log says that it is this one's: sending begins there, at {position.end}, "
                f"and not at {self._own_begin}"
            )

    def _claim(self, position: Position) -> None:
        """Write the position again as ours.

        A process whose transaction Kafka has ended sees by it whether another one has gone on, and
        does not take that for the end of its own patience; see `_look_for_heir`.

        Raises:
            KafkaError: it could not be written, or another process has begun since.
        """
        began = self._began
        if not self._is_late and position.writer != self._writer:
            # One whose clock is ahead of ours is before us all the same: it was there first.
            began = max(began, position.began + 1)
        claimed = replace(position, writer=self._writer, began=began, origin=str(self._path))
        try:
            self._opened.begin()
            self._add_position(claimed, [])
            self._opened.commit()
        except EndedError:
            # Somebody else may have written that position after we had connected.
            self._is_in_doubt, self._stored = True, None
            raise
        except BaseException:
            # It may have been written for all that.
            self._began = began
            raise
        self._began = began
        self.position, self._stored = claimed, claimed.pack()

    @property
    def _is_late(self) -> bool:
        """Tell whether a process that has begun after this one may have claimed by now."""
        return time.monotonic() - self._first_tried >= _DOUBT_SECONDS

    def _look_for_heir(self) -> None:
        """Look whether a later process has gone on since this one began.

        Kafka lets in the process that connects last. Where one slept, or waited for Kafka, that is
        not the process that began last. So each process writes into the position when it began. A
        process that finds an earlier time there connects again; one that finds a later time ends.

        At the first look the position counts as the predecessor's, whatever its clock says, unless
        it moves on. It may be a later process's that has nothing to send just now. Then we go on,
        and our claim keeps our own, earlier time: when the later process has a message to send, it
        finds that time, and takes the position back.

        Raises:
            FencedError: one has; opening would end its transaction.
            KafkaError: the position cannot be read.
        """
        is_first = not self._has_read
        if is_first and not self._is_late:
            return
        if self._is_in_doubt:
            # One that has just begun may not have written its claim.
            time.sleep(_DOUBT_SECONDS)
        found = self._read_if_there()
        self._is_in_doubt = False
        if is_first:
            is_open = self._is_heir(found)
            self._stored, self._has_read = _packed(found), True
            if not is_open:
                return
            time.sleep(_DOUBT_SECONDS)
            found = self._read_if_there()
        if self._is_heir(found):
            raise FencedError(f"Kafka at {self._settings.bootstrap}: {FENCED}")

    def _read_if_there(self) -> Found | None:
        return progress.read_if_there(self._settings, self.access, self.transactional_id)

    def _is_heir(self, found: Found | None) -> bool:
        """Tell whether a position was written by a later process since it was last read."""
        if found is None or found.position.writer in {"", self._writer}:
            return False
        last = found.position
        is_later = (last.began, last.writer) > (self._began, self._writer)
        return is_later and last.pack() != self._stored

    def _first_record(self) -> tuple[int, int] | None:
        """Return where the log's first record begins and its hash; None if there is none to read.

        It stays the first one until its file expires.
        """
        begin = self.log.min_offset
        if self._first is None or self._first[0] != begin:
            found = trail.hash_at(self.log, begin)
            self._first = (begin, found) if found is not None else None
        return self._first

    def _check_identity(self, position: Position, cluster: str) -> None:
        """Look whether a position is of this store, and not of another one of the same name.

        Args:
            position: of this name.
            cluster: by what name Kafka tells itself from others.

        Raises:
            KafkaError: it is of another one.
        """
        self.log.refresh()
        known = position.first
        remedy = (
            'Give this one a name of its own (name = "…" in its [[store]] of reput.toml), or an '
            "id_prefix"
        )
        if self.log.end_of_files <= self.log.min_offset:
            # No file is there: nothing is sent from it either.
            return
        if known is not None and known[0] >= self.log.min_offset:
            if self.log.damage_at(known[0]) is not None:
                return
            is_there = trail.hash_at(self.log, known[0]) == known[1]
            self.log.refresh()
            if is_there or known[0] < self.log.min_offset:
                return
            raise KafkaError(
                f"{self._name}: the position of this name in {self._settings.progress_topic} is of "
                f"another store, {position.origin}: at physical offset {known[0]} that one has "
                f"another record than {self._path}. {remedy}. That is right as well for a broker "
                "that has begun its log again"
            )
        left = [
            p.record for p in position.points if p.record.physical_offset >= self.log.min_offset
        ]
        # What is in no file of a damaged log says nothing.
        readable = [record for record in left if self.log.damage_at(record.end - 1) is None]
        if position.origin == "" or any(trail.is_there(self.log, record) for record in readable):
            return
        is_here = position.origin == str(self._path)
        # The log of one that had no record has none before it either, nor can it get any.
        is_possible = not position.has_no_record or position.end <= self._own_begin
        if is_here and is_possible and not readable:
            return
        if not left and self._is_where_it_begins(position):
            return
        # Hosts and pods of one layout have one path, so where records differ it says nothing.
        if is_here and self._has_sent_to(cluster, position):
            return
        if self._settings.on_truncation != CONTINUE:
            why = f"nothing of what was sent from there is in {self._path}"
            if position.has_no_record:
                why = f"had no record then, so nothing tells whether {self._path} is its log"
                if not is_possible:
                    why = f"{why}, which begins before the place of that, {position.end}"
            elif is_here:
                why = (
                    "none of the records that are known of what was sent from there is in the log "
                    "here; this output does not remember that it was sent"
                )
            raise KafkaError(
                f"{self._name}: the position of this name in {self._settings.progress_topic} was "
                f"written for the store {position.origin}, and {why}. If it is another store: "
                f"{remedy}. If it is the same one, at a new place or with other records since: "
                'set on_truncation = "continue" for one start'
            )

    def _is_where_it_begins(self, position: Position) -> bool:
        """Tell whether it makes no difference for this log that no record vouches for a position.

        All that was sent has expired; or nothing was, and this store begins there as well.
        """
        if position.has_no_record:
            return self._leaves_out <= position.end <= self._own_begin
        return position.end >= self.log.min_offset

    def _has_sent_to(self, cluster: str, position: Position) -> bool:
        """Tell whether the output remembers a position, or the place that it began as."""
        known = remembered(self._memory) if self._memory is not None else None
        if known is None:
            return False
        if known.cluster == cluster and known.transactional_id == self.transactional_id:
            return True
        return known.latest is not None and known.latest.end == position.since

    def _compare_memory(self, cluster: str, partitions: int, *, is_there: bool, moved: str) -> bool:
        """Compare with what is remembered; tell whether that is right.

        The output may have been sent under another id. Where that one's position is there, and is
        not of this log or has moved, nothing is lost.

        Args:
            cluster: by what name Kafka tells itself from others.
            partitions: how many the progress topic has.
            is_there: the position to go on from was found.
            moved: id to which our own one has moved, "" if it has not.

        Raises:
            KafkaError: Kafka had a position, and has it no longer: all would be sent again.
        """
        if self._memory is None:
            return True
        known = remembered(self._memory)
        if known is None or known.cluster != cluster:
            return False
        settings, former = self._settings, known.transactional_id
        if former != self.transactional_id:
            if is_there or settings.on_rename == BEGIN:
                return False
            if progress.read(settings, self.access, former, partitions) is None:
                raise KafkaError(
                    f"Kafka at {settings.bootstrap} no longer has a position of {former}, though "
                    f"{self._name} was sent there under that id, which is id_prefix and the "
                    f"store's name, and has none of {self.transactional_id}: topic "
                    f"{settings.progress_topic} is another one or was made again, or its records "
                    "have expired (its cleanup.policy has to be compact). Restore the topic. "
                    'Without it: set on_rename = "begin" for one start; with start = "latest" that '
                    'sends only what is dispatched after that, with "earliest" everything a second '
                    "time"
                )
            return False
        if not is_there and moved:
            if settings.on_rename == BEGIN:
                return False
            raise KafkaError(
                f"{self._name}: what was sent under {former} has moved to {moved} "
                f"({settings.progress_topic}), and nothing under that id is of this log. If it is "
                "to go on there, give the store the name and id_prefix that make up that id; for a "
                'way of its own under this one, set on_rename = "begin" for one start: it sends '
                "from where start says"
            )
        if not is_there:
            raise KafkaError(
                f"Kafka at {self._settings.bootstrap} no longer has a position of {self._name}, "
                f"though it was sent there: topic {self._settings.progress_topic} was made again, "
                "or its records have expired (its cleanup.policy has to be compact). Restore the "
                'topic. Without it: set start = "latest" and remove '
                f"{self._memory}, which sends only what is dispatched after that; with "
                'start = "earliest" everything is sent a second time'
            )
        return True

    def remember(self) -> None:
        """Write down that Kafka has a position, and which, for a process that cannot ask it.

        Raises:
            OSError: the file cannot be written.
        """
        known = self.position
        if self._memory is None or known is None or not self._remembered:
            return
        memory = Memory(
            self._cluster,
            self.transactional_id,
            known.end,
            known.store_timestamp,
            self._settings.bootstrap,
            sent=Start(self.transactional_id, known.end, known.cut, known.points),
        )
        remember(self._memory, memory)
        # Of what Kafka has, the place is known.
        self._is_unwritten = False

    def take_losses(self) -> int:
        """Return how often since the last call the log had lost what Kafka was to have."""
        losses, self._losses = self._losses, 0
        return losses

    def _progress_partitions(self, client: Client) -> int:
        topic = self._settings.progress_topic
        try:
            return client.partitions(topic, _SHORT_PATIENCE)
        except RefusedError as error:
            if not error.is_missing:
                raise KafkaError(
                    f"topic {topic}, which holds the positions: {describe(error.cause)}. Allow "
                    "us to describe, read and write it"
                ) from error
        topics.make_topic(self._settings, self.access)
        return client.partitions(topic, self._settings.request_seconds)

    def _partitions(self, topic: str) -> int:
        """Return a topic's partitions; 0 for one whose messages go to the dead-letter topic.

        Raises:
            KafkaError: it is refused.
        """
        if self._refusals.has_topic(topic):
            return 0
        self._make_missing(topic)
        try:
            return self._opened.partitions(topic, self._refusals.patience(topic))
        except RefusedError as error:
            self._refusals.add_topic(topic, describe(error.cause))
            return 0

    def _make_missing(self, topic: str) -> None:
        """Make a topic that is missing, where that is asked for.

        Raises:
            KafkaError: it is missing and could not be made.
        """
        settings = self._settings
        if not settings.create_topics or topic in self._made:
            return
        try:
            self._opened.partitions(topic, _SHORT_PATIENCE)
        except RefusedError as error:
            if not error.is_missing:
                # The next caller says it.
                return
            topics.make_wanted_topic(settings, self.access, topic)
        self._made.add(topic)

    @property
    def _opened(self) -> Client:
        if self._client is None:
            raise RuntimeError("the sink is not open")
        return self._client

    @property
    def _known(self) -> Position:
        if self.position is None:
            raise RuntimeError("the sink is not open")
        return self.position

    def send(self, extent: Extent) -> Sent | None:
        """Send one transaction's worth of what is dispatched and not sent yet.

        Returns:
            What it did; None if the log was not the one that dispatch saw: there is more to come
            of it, or dispatch has not seen the new one yet.

        Raises:
            KafkaError: it is not sent, or records expired before they were, or the log has been
                cut; `close`, and `open` again to go on.
            FormatError: the log has something in the range that is not a record.
        """
        try:
            return self._send(extent)
        except EndedError:
            self._is_in_doubt = True
            raise

    def _send(self, extent: Extent) -> Sent | None:
        began = time.monotonic()
        self.log.refresh()
        sent = self._prepared(extent)
        if sent is not None and self._refusals.forget_old_topics():
            self._routes.forget()
        is_sent = False
        while sent is not None:
            try:
                is_sent = self._attempt(extent, sent)
                break
            except RefusedError as error:
                self._refusals.learn(error)
                if error.topics:
                    self._routes.forget()
            if self._take_back(extent):
                sent = replace(sent, end=sent.start, messages=0, notices=0, dead_letters=0, bytes=0)
            else:
                sent = self._prepared(extent)
        if sent is None or not is_sent:
            return None
        sent.seconds = time.monotonic() - began
        sent.events, self._events = self._events, []
        self._refusals.forget_messages()
        return sent

    def _prepared(self, extent: Extent) -> Sent | None:
        """Return where the next transaction begins; None if there is nothing to send.

        Raises:
            KafkaError: see `send`.
        """
        sent = Sent(self._known.end, self._known.end)
        self._follow_log(extent, sent)
        self._skip_expired(sent)
        return None if sent.start >= extent.end and not self._events else sent

    def _take_back(self, extent: Extent) -> bool:
        """Begin again with a new producer; what was sent in a transaction is taken back by that.

        kafka-python goes on after the sequence numbers of a batch that was refused, and Kafka
        refuses everything after such a gap: it would be tried until the delivery timeout, and an
        abort waits for that. Without transactions what has arrived stays, and comes again.

        It is an opening like any other: a later process may have gone on meanwhile.

        Returns:
            Whether the position is the one that this process knows. If not, sending goes on from
            the one that was found.

        Raises:
            FencedError: a later process has gone on.
            KafkaError: there is no new one.
        """
        client, self._client = self._opened, None
        client.close(aborts=False)
        connected = self._connect()
        if _packed(connected.found) == self._stored:
            # What is known and was not worth a commit stays known: a range without messages.
            self._client = connected.client
            return True
        self._begin(extent, connected)
        return False

    def _follow_log(self, extent: Extent, sent: Sent) -> None:
        """Go back to where the log parts from what was sent of it, if it does.

        Three things tell of a cut: a point of the position that is no longer in the log, a cut that
        dispatch has found, and a log that ends before the position. Points alone are not enough:
        where fewer bytes were written than were cut, they still stand there. The digests then tell
        the record from which on the log is another one; see `_new_before` for what is before them.

        Raises:
            KafkaError: it has been cut, and the operator wants to know.
        """
        known = self._known
        if known.is_unsent:
            self._follow_start(extent, sent)
            return
        places = extent.cut_since(known.cut)
        found = trail.check(self.log, known.points)
        if not found.is_same:
            places.append(found.common.end if found.common is not None else self.log.min_offset)
        if extent.end < known.end and (tail := self._tail_before(known, extent)) is not None:
            places.append(tail)
        # What has expired cannot be sent again.
        common = max(min(places, default=known.end), self.log.min_offset)
        followed = replace(known, cut=extent.last_cut or known.cut)
        if common >= known.end and known.accepted < 0:
            self.position = followed
            return
        parted = self._parting(extent)
        new = self._new_before(parted, common, extent) if parted is not None else None
        if parted is not None and parted.same and parted.end >= known.end and new is None:
            # It was cut and written again with the same records, or another output has told before.
            self.position = replace(followed, accepted=-1)
            return
        # A log is cut in one place: what is the same vouches for what is before it.
        is_exact = parted is not None and (parted.same > 0 or parted.start <= common)
        if new is not None:
            is_exact, common = False, new
        if parted is not None and is_exact:
            common = parted.end
            kept = min(parted.kept, common)
        else:
            kept = common
        if known.accepted < 0 or kept < known.accepted:
            # Not one that was accepted before, which is not told twice.
            self._accept(common, is_exact=is_exact)
        if parted is not None and is_exact and not parted.differs:
            # What was cut may come back as it was, and was sent: it goes on where that ends.
            self.position = replace(followed, accepted=kept)
            return
        number = known.chunk + 1
        last = Chunk(number, common, common, np.zeros(0, np.uint32))
        self._trail.begin(parted.last if parted is not None and is_exact else last)
        points = tuple(p for p in known.points if p.end <= common)
        self.position = replace(
            followed,
            end=common,
            points=points,
            chunk=number,
            accepted=-1,
            since=min(known.since, common),
        )
        sent.start = sent.end = common

    def _new_before(self, parted: Parting, common: int, extent: Extent) -> int | None:
        """Return from where on new records may stand before those of which digests are known.

        Bytes of the old ones may follow them, so that all that was sent seems to be the same.

        A point tells for certain. Without one, where the digests find a new record: what is new
        stands together, so all before that is old. Only where they find none, the clocks tell.

        Args:
            parted: what the digests say.
            common: physical offset up to which the log is the same.
            extent: of dispatch.

        Returns:
            Physical offset; None if none are there.
        """
        if not parted.same or common >= parted.start:
            return None
        before = [p for p in self._known.points if p.record.physical_offset < parted.start]
        if not trail.check(self.log, before).is_same:
            return common
        if parted.differs:
            return None
        gaps = dict(extent.gaps)
        new = first_newer(self.log, common, parted.start, parted.newest, gaps)
        if new is None:
            return None
        # The first new ones may not show it, as one that was born long before.
        return max([common, *(p.end for p in before if common < p.end <= new)])

    def _follow_start(self, extent: Extent, sent: Sent) -> None:
        """Take in cuts before a place from which on nothing was sent yet.

        What the log has instead has come since, so sending begins where it was cut.

        Raises:
            KafkaError: nothing tells where that is, and the operator wants to know.
        """
        known = self._known
        cuts = extent.cut_since(known.cut)
        if (
            known.cut
            and not extent.has_cut(known.cut)
            and trail.check(self.log, known.points).is_same
        ):
            # The log may have been cut before the place was decided, and not since.
            cuts = []
        tail = self._tail_before(known, extent) if extent.end < known.end else None
        begin = same_until(self.log, min([known.end, *cuts]), known.points, tail)
        followed = replace(known, cut=extent.last_cut or known.cut)
        if begin is not None and extent.end >= begin:
            # What is new may begin before a later record that shows it.
            begin = self._old_until(replace(known, end=begin), extent)
        if begin == known.end:
            self.position = followed
            return
        what = f"{self._name}: the log was cut before physical offset {known.end}, where sending"
        if begin is None:
            what = (
                f"{what} to Kafka was to begin; nothing was sent yet. It ends at {tail} now, and "
                "how much before that is new is not known, as an earlier version wrote that "
                "place down"
            )
            self._losses += 1
            if self._settings.on_truncation != CONTINUE:
                raise KafkaError(
                    f'{what}. To begin at {tail}, set on_truncation = "continue" for one start: '
                    "what is new before that is left out"
                )
            begin = tail if tail is not None else known.end
            self._events.append(f"{what}: it begins at {begin}")
        else:
            self._events.append(f"{what} to Kafka was to begin: it begins at {begin}")
        number = known.chunk + 1
        self._trail.begin(Chunk(number, begin, begin, np.zeros(0, np.uint32)))
        points = tuple(p for p in known.points if p.end <= begin)
        self.position = replace(followed, end=begin, points=points, chunk=number, since=begin)
        sent.start = sent.end = begin

    def _old_until(self, known: Position, extent: Extent) -> int:
        """Return up to where all is old before a place, by the store times shortly before it.

        New records may stand there between the points, and left-over ones after them.
        """
        key = known.end, extent.end, extent.last_cut
        if self._old is None or self._old[0] != key:
            near = [p for p in known.points if known.end - p.end <= _NEAR_BYTES]
            near = [p for p in near if p.record.physical_offset >= self.log.min_offset]
            new = None
            if near:
                start = near[0].record.physical_offset
                new = last_newer(self.log, start, known.end, dict(extent.gaps))
            ends = [p.end for p in near if new is not None and p.end <= new]
            self._old = key, max(ends, default=known.end)
        return self._old[1]

    def _tail_before(self, known: Position, extent: Extent) -> int | None:
        """Return where the log ends if it no longer reaches the position, None if it does.

        Where the bytes of the records that were cut still stand after the log's end, no other look
        finds that until it has grown past them.
        """
        key = known.end, extent.end, extent.last_cut
        if self._reached is None or self._reached[0] != key:
            try:
                tail = find_tail(self.log).end
                is_end = find_hole(self.log, tail) is None
            except FormatError:
                tail, is_end = known.end, False
            if not is_end:
                # There may be more after damage, or a hole; dispatch tells once it is past that.
                tail = self._end_past_damage()
                is_end = extent.end >= tail
            self._reached = key, tail if is_end and tail < known.end else None
        return self._reached[1]

    def _accept(self, common: int, *, is_exact: bool) -> None:
        """Take down that the log was cut, where the operator accepts that.

        Raises:
            KafkaError: the operator wants to know first.
        """
        what = (
            f"{self._name}: the log has other records than those that Kafka was sent. What was "
            f"sent of physical offsets {max(common, self._known.since)} to {self._known.end} is "
            "no longer in the log, and stays in Kafka"
        )
        if not is_exact:
            what = (
                f"{what}; or some of it is: of what was sent there, single records are not known "
                "(docs/kafka.md says for how many they are), so all from there on is sent again"
            )
        self._losses += 1
        if self._settings.on_truncation != CONTINUE:
            raise KafkaError(
                f"{what}. To go on with the log's new records, which may have the queue offsets "
                'of those, set on_truncation = "continue" for one start'
            )
        self._events.append(what)

    def _parting(self, extent: Extent) -> Parting | None:
        """Return where the log parts from what was sent; None if no record of that is known.

        Raises:
            KafkaError: what is known cannot be read.
        """
        known, partition = self._known, self._progress_partition
        if partition is None:
            raise RuntimeError("the sink is not open")
        sent_key = known.end, known.chunk
        if self._sent_before is None or self._sent_before[0] != sent_key:
            chunks = progress.read_chunks(
                self._settings, self.access, self.transactional_id, partition.partition
            )
            self._sent_before = (sent_key, sent_until([*chunks, *self._trail.held], known.end))
        begin = self.log.min_offset
        before = self._sent_before[1]
        sent = before.after(begin, first_digest(self.log) if before.start < begin else None)
        if not len(sent.values):
            return None
        key = (*sent_key, self._limit(extent), sent.start, extent.last_cut)
        if self._compared is None or self._compared[0] != key:
            gaps = dict(extent.gaps)
            found = parting(self.log, sent, known.end, key[2], gaps, known.chunk)
            self._compared = key, found
        return self._compared[1]

    def _limit(self, extent: Extent) -> int:
        """Return the physical offset where the log's records end.

        Dispatch tells of growth and cuts; while it does not, the log is not read again.
        """
        if self._log_end is None or self._log_end[0] != extent:
            try:
                end = max(find_tail(self.log).end, extent.end)
            except FormatError:
                end = extent.end
            self._log_end = extent, end
        return self._log_end[1]

    def _skip_expired(self, sent: Sent) -> None:
        begin, end = self._known.end, self.log.min_offset
        if begin >= end:
            return
        lost = f"{self._name}: physical offsets {begin} to {end} expired before they were sent"
        self._losses += 1
        if self._fail_on_data_loss:
            raise KafkaError(
                f"{lost} to Kafka. Restore the files, or go on after the gap with "
                "--no-fail-on-data-loss"
            )
        since = end if self._known.is_unsent else self._known.since
        self.position = replace(self._known, end=end, since=since)
        sent.start = sent.end = end
        self._events.append(f"{lost} to Kafka, and are missing there")

    def _attempt(self, extent: Extent, sent: Sent) -> bool:
        """Send a range; False if the log is not the one that dispatch saw."""
        settings, client = self._settings, self._opened
        client.begin()
        self._trail.forget()
        deadline = time.monotonic() + settings.transaction_seconds
        place = (0, 0)
        try:
            for block in self._reader.blocks(sent.start, extent.end, dict(extent.gaps)):
                count = len(block.columns.size)
                if settings.mode != TRANSACTIONS and not self._is_settled(extent):
                    # What is sent cannot be taken back.
                    return False
                if count:
                    self._trail.add(block.columns)
                    self._send_block(block, sent)
                    columns = block.columns
                    place = int(columns.physical_offset[count - 1]), int(columns.size[count - 1])
                    sent.store_timestamp = int(columns.store_timestamp[count - 1])
                sent.end = block.reached
                if sent.end - sent.start >= settings.transaction_bytes:
                    break
                if time.monotonic() >= deadline:
                    break
        except (LogChangedError, FormatError) as error:
            if isinstance(error, FormatError) and self._is_settled(extent):
                raise
            client.abort()
            return False
        chunks = self._trail.chunks(sent.start, sent.end)
        position = self._following(sent, trail.fingerprint(self.log, *place) if place[1] else None)
        is_idle = not (sent.messages or sent.notices or sent.dead_letters or self._events)
        # A position that has no record of the log yet gets one, to be known by.
        is_idle = is_idle and not self._known.has_no_record
        is_idle = is_idle and sent.end - sent.start < _IDLE_BYTES
        if is_idle:
            client.abort()
        elif settings.mode == TRANSACTIONS:
            self._add_position(position, chunks)
            client.flush()
            if not self._is_settled(extent):
                client.abort()
                return False
            client.commit()
        else:
            # Without a transaction the position is never ahead of what has arrived.
            client.flush()
            self._add_position(position, chunks)
            client.flush()
        if not is_idle:
            self._stored = position.pack()
        self._trail.commit(is_written=not is_idle)
        self.position = position
        if not is_idle and not self._remembered:
            # Before anything else is sent: from now on a position that is gone is a loss.
            self._remembered = True
            # Kafka has what was committed all the same. The next `remember` tells why.
            with contextlib.suppress(OSError):
                self.remember()
        return True

    def _is_settled(self, extent: Extent) -> bool:
        """Tell whether the log up to the extent's mark is still the one that was dispatched."""
        mark = extent.mark
        if mark is None:
            return True
        self.log.refresh()
        return mark.physical_offset < self.log.min_offset or trail.is_there(self.log, mark)

    def _following(self, sent: Sent, last: Fingerprint | None) -> Position:
        known = self._known
        points = known.points
        if last is not None:
            points = trail.extended(points, Point(last, sent.end), _POINTS, _NEWEST_POINTS)
        return Position(
            end=sent.end,
            points=points,
            messages=known.messages + sent.messages,
            dead_letters=known.dead_letters + sent.dead_letters,
            cut=known.cut,
            store_timestamp=sent.store_timestamp or known.store_timestamp,
            first=self._first_record() or known.first,
            origin=str(self._path),
            writer=self._writer,
            began=self._began,
            chunk=self._trail.number,
            accepted=known.accepted,
            since=known.since,
        )

    def _add_position(self, position: Position, chunks: Sequence[tuple[bytes, bytes]]) -> None:
        """Send a position, and before it the chunks of its trail, in batches that Kafka takes."""
        if self._progress_partition is None:
            raise RuntimeError("the sink is not open")
        last = (self.transactional_id.encode(), position.pack())
        progress.put_records(
            self._settings, self._opened, self._progress_partition, [*chunks, last]
        )

    def _send_block(self, block: RowBlock, sent: Sent) -> None:
        rows = self._routes.of_rows(block.data, block.columns)
        for product, targets in ((MESSAGES, rows.messages), (ARRIVALS, rows.notices)):
            wanted = np.flatnonzero(targets >= 0)
            order = wanted[np.argsort(targets[wanted], kind="stable")]
            places = targets[order]
            cuts = np.flatnonzero(np.diff(places)) + 1
            for chosen in np.split(order, cuts) if len(order) else ():
                partition = self._routes.targets[int(targets[chosen[0]])]
                count = self._send_rows(block, rows, product, partition, chosen, sent)
                if product == MESSAGES:
                    sent.messages += count
                else:
                    sent.notices += count
            for row in np.flatnonzero(targets == DEAD).tolist():
                self._send_dead(block, row, product, "", sent)

    def _send_rows(
        self,
        block: RowBlock,
        rows: Rows,
        product: str,
        partition: Partition,
        chosen: np.ndarray[Any, np.dtype[np.int64]],
        sent: Sent,
    ) -> int:
        """Encode and send rows that go into one partition; return how many did."""
        topic, most_bytes = partition.topic, self._settings.max_message_bytes
        limit = min(self._refusals.batch_bytes(topic), most_bytes - BATCH_HEADER)
        most = self._refusals.batch_records(topic)
        chosen = self._without_refused(block, product, chosen, sent)
        following, count = 0, 0
        while following < len(chosen):
            row = int(chosen[following])
            records, encoded = self._encoder.encode(
                block, rows, self._routes.pieces, product, chosen, following, most, limit
            )
            size = encoded.length + BATCH_HEADER
            if encoded.records == 1 and size > most_bytes:
                why = f"MessageSizeTooLarge: {size} bytes, max_message_bytes is {most_bytes}"
                self._refusals.add_message(*_place(block, row), product, topic, why)
                self._send_dead(block, row, product, why, sent)
                following += 1
                continue
            inside = chosen[following : following + encoded.records]
            note = Note(
                product, block.columns.physical_offset[inside], block.columns.queue_offset[inside]
            )
            self._opened.add(
                partition,
                records,
                encoded.records,
                encoded.first_timestamp,
                encoded.max_timestamp,
                note,
            )
            sent.bytes += encoded.length
            count += encoded.records
            following = encoded.following
        return count

    def _without_refused(
        self,
        block: RowBlock,
        product: str,
        chosen: np.ndarray[Any, np.dtype[np.int64]],
        sent: Sent,
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Send the rows that Kafka has refused before to the dead letters; return the others."""
        if not self._refusals.has_messages:
            return chosen
        refused = [
            (row, why)
            for row in chosen.tolist()
            if (why := self._refusals.why_message(*_place(block, row), product)) is not None
        ]
        for row, why in refused:
            self._send_dead(block, row, product, why, sent)
        return np.setdiff1d(chosen, [row for row, _ in refused]).astype(np.int64)

    def _send_dead(self, block: RowBlock, row: int, product: str, why: str, sent: Sent) -> None:
        """Send a message or notice to the dead-letter topic, with where it stood and the error."""
        record = PlainMessage.of(block, row)
        wanted = self._routes.topic_of(record.topic, product)
        room = self._settings.max_message_bytes - BATCH_HEADER
        records, timestamp = dead_letter(
            record,
            error=why or self._refusals.why_topic(wanted),
            topic=wanted,
            product=product,
            store=self._name,
            room=room,
            content=self._refusals.content_of(*_place(block, row)),
        )
        number = record.queue_id % self._dead_letter_partitions()
        partition = Partition(self._settings.dead_letter_topic, number)
        one = slice(row, row + 1)
        note = Note(
            DEAD_LETTERS,
            block.columns.physical_offset[one].copy(),
            block.columns.queue_offset[one].copy(),
        )
        self._opened.add(partition, records, 1, timestamp, timestamp, note)
        sent.dead_letters += 1
        sent.bytes += len(records)

    def _dead_letter_partitions(self) -> int:
        topic = self._settings.dead_letter_topic
        self._make_missing(topic)
        try:
            return self._opened.partitions(topic, self._settings.refusal_seconds)
        except RefusedError as error:
            self._refusals.add_topic(topic, describe(error.cause))
            raise

    def close(self) -> None:
        """Give the client back; what is not committed is taken back by Kafka."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def close_log(self) -> None:
        """Give the log's files back."""
        self.log.close()


def _place(block: RowBlock, row: int) -> tuple[int, int]:
    """Return physical and queue offset of a row: together they name a message."""
    return int(block.columns.physical_offset[row]), int(block.columns.queue_offset[row])


def _packed(found: Found | None) -> bytes | None:
    return found.position.pack() if found is not None else None
