"""Reads what is committed in the topic of the positions, without a consumer group."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition, errors

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.errors import AccessError, AwayError, describe
from reput.sinks.kafka.client.options import MILLISECONDS, connection_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.sinks.kafka.client.settings import KafkaSettings


def partitions_of_progress(settings: KafkaSettings, access: Mapping[str, Any]) -> int:
    """Return how many partitions the topic has, 0 where there is none.

    Raises:
        KafkaError: Kafka cannot be asked.
    """
    with _Reader(settings, access, "read_committed") as reader:
        return len(reader.partitions_for_topic(settings.progress_topic) or ())


class Committed:
    """What is committed in one partition, up to the end that it had at first."""

    def __init__(
        self, settings: KafkaSettings, partition: TopicPartition, reader: Any, begin: int, end: int
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._reader = reader
        self.begin, self.end = begin, end
        patience = settings.request_seconds + 2 * settings.transaction_timeout_seconds
        self._deadline = time.monotonic() + patience

    def records(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the records between two offsets.

        Raises:
            AwayError: a transaction stays open there.
        """
        partition = self._partition
        self._reader.seek(partition, start)
        while self._reader.position(partition) < stop:
            for record in _poll(self._reader, self._settings).get(partition, ()):
                if record.offset < stop:
                    yield record
            if time.monotonic() > self._deadline:
                raise AwayError(
                    f"{partition.topic}, partition {partition.partition}: a transaction in it "
                    "stays open, and what comes after it cannot be read. If it stays so, Kafka has "
                    "lost its end: docs/kafka.md says how to give it one"
                )


@contextlib.contextmanager
def committed(
    settings: KafkaSettings, access: Mapping[str, Any], number: int, *, waits: bool = True
) -> Iterator[Committed]:
    """Give what is committed in one partition, until the block ends.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        number: of the partition.
        waits: also for transactions that are open now.

    Raises:
        KafkaError: the topic cannot be read.
    """
    partition = TopicPartition(settings.progress_topic, number)
    # The end of the log, or of what is committed in it.
    level = "read_uncommitted" if waits else "read_committed"
    with _Reader(settings, access, level) as any_reader:
        begin, end = _bounds(any_reader, partition)
    with _Reader(settings, access, "read_committed") as reader:
        reader.assign([partition])
        yield Committed(settings, partition, reader, begin, end)


class _Reader:
    """A consumer without a group that is closed at the end, which raises our errors."""

    def __init__(self, settings: KafkaSettings, access: Mapping[str, Any], level: str) -> None:
        self._settings = settings
        self._options: dict[str, Any] = {
            **connection_options(settings),
            **access,
            "group_id": None,
            "enable_auto_commit": False,
            "isolation_level": level,
            "auto_offset_reset": "earliest",
            "metrics_enabled": False,
            "allow_auto_create_topics": False,
            # Less than a request may take, as kafka-python requires.
            "fetch_max_wait_ms": int(min(500, settings.request_seconds * MILLISECONDS / 2)),
        }
        self._consumer: Any = None

    def __enter__(self) -> Any:
        try:
            self._consumer = KafkaConsumer(**self._options)
        except (errors.KafkaError, OSError) as error:
            raise self._explained(error) from error
        return self._consumer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._consumer is not None:
            self._consumer.close()
        if isinstance(error, errors.KafkaError):
            raise self._explained(error) from error

    def _explained(self, error: BaseException) -> KafkaError:
        topic = self._settings.progress_topic
        if isinstance(error, errors.KafkaConfigurationError):
            return KafkaError(
                f"kafka-python does not take the settings of [kafka]: {describe(error)}"
            )
        if isinstance(error, (errors.TopicAuthorizationFailedError, errors.AuthorizationError)):
            return AccessError(
                f"we may not read {topic}, which holds the positions: {describe(error)}"
            )
        return AwayError(f"{topic}, which holds the positions, cannot be read: {describe(error)}")


def _bounds(consumer: Any, partition: TopicPartition) -> tuple[int, int]:
    begin = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    return int(begin), int(end)


def _poll(consumer: Any, settings: KafkaSettings) -> Any:
    return consumer.poll(timeout_ms=min(500, settings.request_seconds * MILLISECONDS))
