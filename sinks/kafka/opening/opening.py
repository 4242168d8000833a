"""Connects to Kafka and finds the position from which a store resumes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from reput.sinks.kafka.client.producer import Client
from reput.sinks.kafka.opening.beginning import Beginning
from reput.sinks.kafka.opening.former import FormerPosition
from reput.sinks.kafka.opening.identity import FirstRecord, Identity
from reput.sinks.kafka.opening.output_memory import OutputMemory
from reput.sinks.kafka.opening.ownership import Ownership
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position.position import partition_of

if TYPE_CHECKING:
    from pathlib import Path

    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.messages.topics import Topics
    from reput.sinks.kafka.position.position import Found, Position
    from reput.sinks.kafka.reports import Reports


class Connected(NamedTuple):
    """A client, the position that it found, and how many partitions the progress topic has."""

    client: Client
    found: Found | None
    partitions: int


class Opening:
    """What one store knows when it connects, and asks then.

    Attributes:
        first_record: of the log.
        memory: what the output remembers of Kafka.
        beginning: where the store begins without a position.
        identity: tells this store's position from that of another one.
        ownership: this process's claim to the store.
        former: the position that the log has under another id.
    """

    def __init__(self, link: Link, topics: Topics, reports: Reports, memory: Path | None) -> None:
        """Begin without a connection.

        Args:
            link: the store and its Kafka.
            topics: of that Kafka.
            reports: to the operator.
            memory: a file that remembers that there is a position in Kafka.
        """
        self._link = link
        self._topics = topics
        self._reports = reports
        self.first_record = FirstRecord(link.log)
        self.memory = OutputMemory(link, memory)
        self.beginning = Beginning(link, self.memory, self.first_record)
        self.identity = Identity(link, self.memory, self.beginning)
        self.ownership = Ownership(link)
        self.former = FormerPosition(link, self.memory, self.beginning, self.ownership)

    def connect(self) -> Connected:
        """Connect, and read the position, once no later process has taken over.

        Raises:
            FencedError: one has.
            KafkaError: what else is in the way.
        """
        link, ownership = self._link, self.ownership
        ownership.begin()
        client = Client(
            link.settings,
            link.access,
            link.transactional_id if link.is_transactional else None,
            ownership.look_for_heir if link.is_transactional else None,
        )
        try:
            partitions = self._topics.progress_partitions(client)
            found = self._position(client.cluster, partitions)
        except BaseException:
            client.close()
            raise
        return Connected(client, found, partitions)

    def _position(self, cluster: str, partitions: int) -> Found | None:
        """Return the store's position, or the one of its former id; None if there is none.

        Raises:
            KafkaError: it is another store's or process's, or is gone.
        """
        link = self._link
        found = progress.read(link.settings, link.access, link.transactional_id, partitions)
        if link.is_transactional:
            self.ownership.check_connected(found)
        moved = found.position.moved if found is not None else ""
        if found is None or moved:
            found = self.former.find(cluster, partitions)
        if found is not None:
            self.identity.check(found.position, cluster)
        self.memory.compare(cluster, partitions, is_there=found is not None, moved=moved)
        return found

    def resume(self, connected: Connected, extent: Extent) -> tuple[Position, int]:
        """Return the position from which the store resumes, and its partition.

        Args:
            connected: what `connect` has found.
            extent: of dispatch; where a store begins that has no position yet.
        """
        self.memory.cluster = connected.client.cluster
        # What was not committed is noticed again.
        self._reports.forget()
        found = connected.found
        if found is None:
            position = self.beginning.first_position(extent)
            self._report_other_cluster(position)
            self.ownership.note(None)
            return position, partition_of(self._link.transactional_id, connected.partitions)
        self._report_without_record(found.position)
        self.ownership.note(found.position)
        return found.position, found.partition

    def is_as_noted(self, found: Found | None) -> bool:
        """Tell whether a position that was found is the one that this process knows."""
        return self.ownership.is_as_noted(found.position if found is not None else None)

    def remember(self, position: Position | None) -> None:
        """Write down that Kafka has a position, and which.

        Raises:
            OSError: the file cannot be written.
        """
        if self.memory.remember(position):
            self.beginning.note_position()

    def remember_first(self, position: Position) -> None:
        """Write down the first position that Kafka has, before anything else is sent.

        From then on a position that is gone is a loss.
        """
        if self.memory.knows_position:
            return
        self.memory.knows_position = True
        # Kafka has what was committed all the same. The next `remember` raises it.
        with contextlib.suppress(OSError):
            self.remember(position)

    def _report_other_cluster(self, position: Position) -> None:
        """Report where sending begins in a Kafka that has taken another one's place."""
        link, known = self._link, self.memory.known()
        if known is None or known.cluster in {"", self.memory.cluster}:
            return
        self._reports.add(
            f"{link.name}: Kafka at {link.settings.bootstrap} is another cluster than the one "
            f"that was sent this store up to physical offset {known.end}: sending begins at "
            f"{position.end} there"
        )

    def _report_without_record(self, position: Position) -> None:
        """Report that only its path, or the operator, says that a position is this log's."""
        link = self._link
        if position.has_no_record and not self.identity.is_where_it_begins(position):
            self._reports.add(
                f"{link.name}: the position of this name in {link.settings.progress_topic} was "
                f"written for {position.origin} while the log there had no record, so nothing in "
                f"the log says that it is this one's: sending begins there, at {position.end}, "
                f"and not at {self.beginning.own_begin}"
            )
