"""Kafka beside the line: it is told how far dispatch has come, and may ask it not to run ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.formats.errors import KafkaError
    from reput.sinks.kafka.extent import Extent
    from reput.streaming.kafka.feed import KafkaFeed
    from reput.streaming.settings.config import StoreConfig


class Kafka(Protocol):
    """What the line asks of Kafka's side: `NoKafka`, or `Sending`.

    Attributes:
        feed: the thread that sends, None without one.
    """

    feed: KafkaFeed | None

    @property
    def is_done(self) -> bool:
        """Tell whether Kafka has all that is dispatched."""

    def room(self, end: int) -> int:
        """Return how far dispatch may go: less than `end` where Kafka is too far behind."""

    def advance(self, known: Progress) -> None:
        """Tell how far dispatch has come, forward or back."""

    def take_events(self) -> list[str]:
        """Return what an operator should know of since the last call."""

    def check(self) -> None:
        """Raise what has stopped it, where that ends the job.

        Raises:
            ReputError, OSError: see `KafkaFeed.check`.
        """

    def check_end(self) -> None:
        """Raise what keeps Kafka from having everything.

        Raises:
            ReputError, OSError: see `KafkaFeed.check_end`.
        """

    def lacks(self) -> KafkaError | None:
        """Return what to say of a job that ends now, None if Kafka has all that is dispatched."""

    def close(self) -> None:
        """End the thread."""


class NoKafka:
    """A store whose messages do not go to Kafka: dispatch runs as far as it can."""

    feed: KafkaFeed | None = None

    @property
    def is_done(self) -> bool:
        """Tell that nothing is waited for."""
        return True

    def room(self, end: int) -> int:
        """Return how far dispatch may go: to `end`."""
        return end

    def advance(self, known: Progress) -> None:
        """Tell nobody."""

    def take_events(self) -> list[str]:
        """Return nothing."""
        return []

    def check(self) -> None:
        """Raise nothing."""

    def check_end(self) -> None:
        """Raise nothing."""

    def lacks(self) -> KafkaError | None:
        """Return nothing."""
        return None

    def close(self) -> None:
        """End nothing."""


class Sending:
    """A store whose messages go to Kafka, over a thread of their own."""

    def __init__(self, feed: KafkaFeed) -> None:
        """Take over a thread that has begun."""
        self.feed: KafkaFeed | None = feed
        self._feed = feed

    @property
    def is_done(self) -> bool:
        """Tell whether Kafka has all that is dispatched."""
        return self._feed.is_done

    def room(self, end: int) -> int:
        """Return how far dispatch may go: less than `end` where Kafka is too far behind."""
        return self._feed.room(end)

    def advance(self, known: Progress) -> None:
        """Tell how far dispatch has come, forward or back."""
        self._feed.advance(_dispatched(known))

    def take_events(self) -> list[str]:
        """Return what an operator should know of since the last call."""
        return self._feed.take_events()

    def check(self) -> None:
        """Raise what has stopped it, where that ends the job.

        Raises:
            ReputError, OSError: see `KafkaFeed.check`.
        """
        self._feed.check()

    def check_end(self) -> None:
        """Raise what keeps Kafka from having everything.

        Raises:
            ReputError, OSError: see `KafkaFeed.check_end`.
        """
        self._feed.check_end()

    def lacks(self) -> KafkaError | None:
        """Return what to say of a job that ends now, None if Kafka has all that is dispatched."""
        return self._feed.lacks()

    def close(self) -> None:
        """End the thread."""
        self._feed.close()


def open_kafka(config: StoreConfig, known: Progress, *, fail_on_data_loss: bool) -> Kafka:
    """Begin to send a store's messages to Kafka, if it has Kafka settings.

    Args:
        config: the store.
        known: how far it is dispatched.
        fail_on_data_loss: stop where records expired before they were sent.

    Raises:
        UsageError: a secret that is not where it should be.
    """
    if config.kafka is None:
        return NoKafka()
    from reput.streaming.kafka.feed import KafkaFeed  # noqa: PLC0415 - a client few need

    return Sending(KafkaFeed(config, _dispatched(known), fail_on_data_loss=fail_on_data_loss))


def _dispatched(known: Progress) -> Extent:
    """Return how far Kafka may be sent messages."""
    from reput.sinks.kafka.extent import Extent  # noqa: PLC0415 - as above

    mark = known.trail[-1].record if known.trail else None
    return Extent(known.end, mark, known.skipped, known.cuts)
