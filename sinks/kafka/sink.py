"""Sends a store's messages to Kafka, a transaction at a time, each with the position after it.

One `KafkaSink.send` is: follow the log → read a range of it from the last committed position on →
choose, encode and send messages → add the position → look whether the log is still the one that
dispatch went over → commit → advance. With transactions, a failure before the commit leaves nothing
that readers would see; without them, what has arrived stays and comes again. The opening of the
next client finds out whether a commit that was not answered has happened.

It knows one store and no thread; `streaming.kafka.feed` calls it beside dispatch.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from reput.formats.errors import FormatError
from reput.sinks.kafka.client.batch import BATCH_HEADER
from reput.sinks.kafka.client.errors import EndedError, RefusedError
from reput.sinks.kafka.client.partition import Partition
from reput.sinks.kafka.following.follower import Follower
from reput.sinks.kafka.link import Link
from reput.sinks.kafka.messages.blocks import RowReader
from reput.sinks.kafka.messages.sender import Sender
from reput.sinks.kafka.opening.opening import Opening
from reput.sinks.kafka.position.trail import Trail
from reput.sinks.kafka.position.writer import PositionWriter, is_due
from reput.sinks.kafka.reports import Reports
from reput.sinks.kafka.sent import Sent
from reput.stores.log.commitlog import CommitLog, LogChangedError, commitlog_directories

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.kafka.client.producer import Client
    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.opening.opening import Connected
    from reput.sinks.kafka.position.position import Position


class KafkaSink:
    """One store's way to Kafka.

    Attributes:
        position: after what was sent and committed, or needed no commit; None before `open`.
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
        """Look at the log; `open` connects to Kafka.

        Args:
            settings: the operator's.
            access: kafka-python's settings of security.
            name: the store's.
            path: a broker's storePathRootDir.
            broker: its settings.
            fail_on_data_loss: stop where records expired before they were sent; else continue.
            memory: a file that remembers that there is a position in Kafka.

        Raises:
            StoreError: the log cannot be read.
        """
        log = CommitLog(commitlog_directories(path, broker), broker)
        link = self._link = Link(settings, access, name, path.resolve(), log)
        self._client: Client | None = None
        self._reader = RowReader.of_messages(log, settings)
        self._trail = Trail(link.transactional_id, settings.max_message_bytes - BATCH_HEADER)
        self._reports = Reports()
        self._sender = Sender(link, self._opened)
        self._opening = Opening(link, self._sender.topics, self._reports, memory)
        self._positions = PositionWriter(link, self._trail, self._opening.first_record)
        self._follower = Follower(
            link, self._reports, self._trail, fail_on_data_loss=fail_on_data_loss
        )
        self.position: Position | None = None

    @property
    def log(self) -> CommitLog:
        """Return the store's log."""
        return self._link.log

    @property
    def transactional_id(self) -> str:
        """Return the id of the store's transactions, which is the key of its positions too."""
        return self._link.transactional_id

    @property
    def in_flight(self) -> int:
        """Return the bytes that are sent and not acknowledged yet."""
        return self._client.in_flight if self._client is not None else 0

    @property
    def is_open(self) -> bool:
        """Tell whether there is a client."""
        return self._client is not None

    def decide_latest(self, extent: Extent) -> None:
        """Decide where a store begins, see `Beginning.decide_latest`."""
        self._opening.beginning.decide_latest(extent)

    def write_place(self) -> None:
        """Write down where a store begins, see `Beginning.write_place`."""
        self._opening.beginning.write_place()

    def remember(self) -> None:
        """Write down that Kafka has a position, and which, for a process that cannot ask it.

        Raises:
            OSError: the file cannot be written.
        """
        self._opening.remember(self.position)

    def take_losses(self) -> int:
        """Return how many times since the last call the log had lost what Kafka was to have."""
        return self._reports.take_losses()

    def give_access(self, access: Mapping[str, Any]) -> None:
        """Take kafka-python's settings of security for the next `open`."""
        self._link.access = access

    def open(self, extent: Extent) -> None:
        """Connect, end what an earlier writer left undone, and find out how far it came.

        Args:
            extent: of dispatch; where a store begins that has no position yet.

        Raises:
            KafkaError: what is in the way.
        """
        self._begin(extent, self._opening.connect())

    def _begin(self, extent: Extent, connected: Connected) -> None:
        """Resume from the position that was found, and claim it.

        Raises:
            KafkaError: it could not be claimed.
        """
        self._client = connected.client
        self._sender.begin()
        position, number = self._opening.resume(connected, extent)
        self._positions.partition = Partition(self._link.settings.progress_topic, number)
        self._follower.begin(position, number)
        self.position = position
        if self._link.is_transactional:
            self._claim(position)

    def _claim(self, position: Position) -> None:
        """Write the position again as this process's, see `Ownership.claim`."""
        commit = partial(self._positions.commit, self._opened())
        self.position = self._opening.ownership.claim(position, commit)

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
                cut; `close`, and `open` again to resume.
            FormatError: the log has something in the range that is not a record.
        """
        began = time.monotonic()
        try:
            sent = self._send(extent)
        except EndedError:
            self._opening.ownership.doubt()
            raise
        if sent is not None:
            sent.seconds = time.monotonic() - began
            sent.events = self._reports.take_events()
            self._sender.refusals.forget_messages()
        return sent

    def _send(self, extent: Extent) -> Sent | None:
        """Send a range, again without what Kafka refuses of it; None if it is not committed."""
        self.log.refresh()
        sent = self._prepared(extent)
        if sent is not None and self._sender.refusals.forget_old_topics():
            self._sender.routes.forget()
        while sent is not None:
            try:
                return sent if self._attempt(extent, sent) else None
            except RefusedError as error:
                self._sender.refusals.learn(error)
                if error.topics:
                    self._sender.routes.forget()
            if self._begin_again(extent):
                sent.begin_again()
            else:
                sent = self._prepared(extent)
        return None

    def _prepared(self, extent: Extent) -> Sent | None:
        """Return where the next transaction begins; None if there is nothing to send.

        Raises:
            KafkaError: see `send`.
        """
        self.position = self._follower.follow(self._known, extent)
        self.position = self._follower.past_expired(self.position)
        end = self.position.end
        return None if end >= extent.end and not self._reports.events else Sent(end, end)

    def _begin_again(self, extent: Extent) -> bool:
        """Begin again with a new producer, which aborts what was sent in a transaction.

        kafka-python continues after the sequence numbers of a batch that was refused, and Kafka
        refuses everything after such a gap: it would be tried until the delivery timeout, and an
        abort waits for that. Without transactions what has arrived stays, and comes again.

        It is an opening like any other: a later process may have taken over meanwhile.

        Returns:
            Whether the position is the one that this process knows. If not, sending resumes from
            the one that was found.

        Raises:
            FencedError: a later process has taken over.
            KafkaError: the new one could not be opened.
        """
        client, self._client = self._opened(), None
        client.close(aborts=False)
        connected = self._opening.connect()
        if self._opening.is_as_noted(connected.found):
            # Keep what was not worth a commit: a range without messages.
            self._client = connected.client
            return True
        self._begin(extent, connected)
        return False

    def _attempt(self, extent: Extent, sent: Sent) -> bool:
        """Send a range and commit it; False if the log is not the one that dispatch saw."""
        client = self._opened()
        client.begin()
        self._trail.forget()
        try:
            last = self._send_range(extent, sent)
        except (LogChangedError, FormatError) as error:
            if isinstance(error, FormatError) and extent.is_in(self.log):
                raise
            client.abort()
            return False
        if last is None:
            return False
        chunks = self._trail.chunks(sent.start, sent.end)
        position = self._opening.ownership.sign(self._positions.after(self._known, sent, last))
        is_written = bool(self._reports.events) or is_due(self._known, sent)
        if not is_written:
            client.abort()
        elif not self._commit(extent, position, chunks):
            return False
        self._advance(position, is_written=is_written)
        return True

    def _send_range(self, extent: Extent, sent: Sent) -> tuple[int, int] | None:
        """Send blocks until the transaction is full.

        Returns:
            Physical offset and size of the last record, size 0 if there was none. None if the log
            is not the one that dispatch saw, and what is sent cannot be undone.
        """
        link, place = self._link, (0, 0)
        deadline = time.monotonic() + link.settings.transaction_seconds
        for block in self._reader.blocks(sent.start, extent.end, dict(extent.gaps)):
            if not link.is_transactional and not extent.is_in(self.log):
                return None
            columns = block.columns
            count = len(columns.size)
            if count:
                self._trail.add(columns)
                self._sender.send(block, sent)
                place = int(columns.physical_offset[count - 1]), int(columns.size[count - 1])
                sent.store_timestamp = int(columns.store_timestamp[count - 1])
            sent.end = block.reached
            is_full = sent.end - sent.start >= link.settings.transaction_bytes
            if is_full or time.monotonic() >= deadline:
                break
        return place

    def _commit(
        self, extent: Extent, position: Position, chunks: Sequence[tuple[bytes, bytes]]
    ) -> bool:
        """Commit what was sent, with the position; False if the log is not what dispatch saw."""
        client = self._opened()
        if not self._link.is_transactional:
            # Without a transaction the position is never ahead of what has arrived.
            client.flush()
            self._positions.add(client, position, chunks)
            client.flush()
            return True
        self._positions.add(client, position, chunks)
        client.flush()
        if not extent.is_in(self.log):
            client.abort()
            return False
        client.commit()
        return True

    def _advance(self, position: Position, *, is_written: bool) -> None:
        """Advance to a position.

        Args:
            position: after what was sent.
            is_written: Kafka has it.
        """
        if is_written:
            self._opening.ownership.note(position)
        self._trail.commit(is_written=is_written)
        self.position = position
        if is_written:
            self._opening.remember_first(position)

    def close(self) -> None:
        """Disconnect; Kafka aborts what is not committed."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def close_log(self) -> None:
        """Close the log's files."""
        self.log.close()
