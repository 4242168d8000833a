"""Compares what an output remembers of Kafka with what Kafka has, so a lost position is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.settings import BEGIN
from reput.sinks.kafka.position import progress
from reput.sinks.kafka.position.memory import Memory, remember, remembered
from reput.sinks.kafka.position.start import Start

if TYPE_CHECKING:
    from pathlib import Path

    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.position.position import Position


class OutputMemory:
    """The memory of one output.

    Attributes:
        path: its file; None for an output that keeps none.
        cluster: the name by which the connected Kafka tells itself from others.
        knows_position: the file says that this Kafka has a position of this store.
    """

    def __init__(self, link: Link, path: Path | None) -> None:
        """Begin without having looked."""
        self._link = link
        self.path = path
        self.cluster = ""
        self.knows_position = False

    def known(self) -> Memory | None:
        """Return what is remembered, None if there is nothing.

        Raises:
            KafkaError: the file is damaged, or cannot be read.
        """
        return remembered(self.path) if self.path is not None else None

    def has_sent_to(self, cluster: str, position: Position) -> bool:
        """Tell whether the output remembers a position, or the place that it began as."""
        known = self.known()
        if known is None:
            return False
        if known.cluster == cluster and known.transactional_id == self._link.transactional_id:
            return True
        return known.latest is not None and known.latest.end == position.since

    def compare(self, cluster: str, partitions: int, *, is_there: bool, moved: str) -> None:
        """Compare with what Kafka has, and note whether the file is right.

        The output may have been sent under another id. Where that id's position is there, and is
        not of this log or has moved, nothing is lost.

        Args:
            cluster: the name by which Kafka tells itself from others.
            partitions: how many the progress topic has.
            is_there: the position to resume from was found.
            moved: id to which our own one has moved, "" if it has not.

        Raises:
            KafkaError: Kafka has lost the position that it had: all would be sent again.
        """
        known = self.known()
        begins = self._link.settings.on_rename == BEGIN
        if self.path is None:
            knows = True
        elif known is None or known.cluster != cluster:
            knows = False
        elif known.transactional_id != self._link.transactional_id:
            knows = False
            if not is_there and not begins:
                self._require_position_of(known.transactional_id, partitions)
        else:
            knows = is_there
            if not is_there and not (moved and begins):
                raise self._moved(moved) if moved else self._gone()
        self.knows_position = knows

    def _require_position_of(self, former: str, partitions: int) -> None:
        """Require that the id under which the output was sent still has a position.

        Raises:
            KafkaError: it has none, or the topic cannot be read.
        """
        link, settings = self._link, self._link.settings
        if progress.read(settings, link.access, former, partitions) is None:
            raise KafkaError(
                f"Kafka at {settings.bootstrap} no longer has a position of {former}, though "
                f"{link.name} was sent there under that id, which is id_prefix and the "
                f"store's name, and has none of {link.transactional_id}: topic "
                f"{settings.progress_topic} is another one or was made again, or its records "
                "have expired (its cleanup.policy has to be compact). Restore the topic. "
                'Without it: set on_rename = "begin" for one start; with start = "latest" that '
                'sends only what is dispatched after that, with "earliest" everything a second '
                "time"
            )

    def _moved(self, moved: str) -> KafkaError:
        link = self._link
        return KafkaError(
            f"{link.name}: what was sent under {link.transactional_id} has moved to {moved} "
            f"({link.settings.progress_topic}), and nothing under that id is of this log. If it is "
            "to continue there, give the store the name and id_prefix that make up that id; for a "
            'way of its own under this one, set on_rename = "begin" for one start: it sends '
            "from where start says"
        )

    def _gone(self) -> KafkaError:
        settings = self._link.settings
        return KafkaError(
            f"Kafka at {settings.bootstrap} no longer has a position of {self._link.name}, "
            f"though it was sent there: topic {settings.progress_topic} was made again, "
            "or its records have expired (its cleanup.policy has to be compact). Restore the "
            'topic. Without it: set start = "latest" and remove '
            f"{self.path}, which sends only what is dispatched after that; with "
            'start = "earliest" everything is sent a second time'
        )

    def remember(self, known: Position | None) -> bool:
        """Write down that Kafka has a position, and which; tell whether it was written.

        Raises:
            OSError: the file cannot be written.
        """
        if self.path is None or known is None or not self.knows_position:
            return False
        transactional_id = self._link.transactional_id
        memory = Memory(
            self.cluster,
            transactional_id,
            known.end,
            known.store_timestamp,
            self._link.settings.bootstrap,
            sent=Start(transactional_id, known.end, known.cut, known.points),
        )
        remember(self.path, memory)
        return True
