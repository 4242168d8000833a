"""Topics as one store's way to Kafka finds them: how many partitions, missing, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client import topics
from reput.sinks.kafka.client.errors import RefusedError, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.sinks.kafka.client.producer import Client
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.messages.refusals import Refusals

_SHORT_PATIENCE = 1.0


class Topics:
    """The topics of one store."""

    def __init__(self, link: Link, refusals: Refusals, opened: Callable[[], Client]) -> None:
        """Begin without having asked.

        Args:
            link: the store and its Kafka.
            refusals: what Kafka has refused.
            opened: returns the client.
        """
        self._link = link
        self._refusals = refusals
        self._opened = opened
        # Topics that are there, or were made.
        self._made: set[str] = set()

    def forget(self) -> None:
        """Ask again which topics are there."""
        self._made.clear()

    def progress_partitions(self, client: Client) -> int:
        """Return how many partitions the progress topic has; it is made if it is missing.

        Raises:
            KafkaError: it is refused, or could not be made.
        """
        settings = self._link.settings
        topic = settings.progress_topic
        try:
            return client.partitions(topic, _SHORT_PATIENCE)
        except RefusedError as error:
            if not error.is_missing:
                raise KafkaError(
                    f"topic {topic}, which holds the positions: {describe(error.cause)}. Allow "
                    "us to describe, read and write it"
                ) from error
        topics.make_topic(settings, self._link.access)
        return client.partitions(topic, settings.request_seconds)

    def partitions(self, topic: str) -> int:
        """Return a topic's partitions; 0 for one whose messages go to the dead-letter topic.

        Raises:
            KafkaError: it is refused.
        """
        if self._refusals.has_topic(topic):
            return 0
        self._make_missing(topic)
        try:
            return self._opened().partitions(topic, self._refusals.patience(topic))
        except RefusedError as error:
            self._refusals.add_topic(topic, describe(error.cause))
            return 0

    def dead_letter_partitions(self) -> int:
        """Return how many partitions the dead-letter topic has.

        Raises:
            KafkaError: it is refused.
        """
        settings = self._link.settings
        topic = settings.dead_letter_topic
        self._make_missing(topic)
        try:
            return self._opened().partitions(topic, settings.refusal_seconds)
        except RefusedError as error:
            self._refusals.add_topic(topic, describe(error.cause))
            raise

    def _make_missing(self, topic: str) -> None:
        """Make a topic that is missing, where that is asked for.

        Raises:
            KafkaError: it is missing and could not be made.
        """
        settings = self._link.settings
        if not settings.create_topics or topic in self._made:
            return
        try:
            self._opened().partitions(topic, _SHORT_PATIENCE)
        except RefusedError as error:
            if not error.is_missing:
                # The next caller reports it.
                return
            topics.make_wanted_topic(settings, self._link.access, topic)
        self._made.add(topic)
