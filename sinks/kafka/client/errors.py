"""What can go wrong with Kafka, by what helps, and which of kafka-python's errors mean it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import errors

from reput.formats.errors import KafkaError

if TYPE_CHECKING:
    from reput.sinks.kafka.client.batch import Batch


class FencedError(KafkaError):
    """Another process has begun to write under the same transactional id."""


class AccessError(KafkaError):
    """Kafka does not let us in, or does not let us write transactions."""


class RefusedError(KafkaError):
    """Kafka takes everything but this: a batch or a topic.

    Attributes:
        topics: that are refused as a whole.
        batch: that is refused.
        cause: what Kafka said.
    """

    def __init__(
        self, cause: BaseException, topics: frozenset[str] = frozenset(), batch: Batch | None = None
    ) -> None:
        super().__init__(describe(cause))
        self.cause = cause
        self.topics = topics
        self.batch = batch

    @property
    def is_missing(self) -> bool:
        """Tell whether there is no such topic."""
        return isinstance(self.cause, errors.UnknownTopicOrPartitionError)

    @property
    def is_too_large(self) -> bool:
        """Tell whether the batch has too many bytes."""
        return isinstance(self.cause, errors.MessageSizeTooLargeError)


class AwayError(KafkaError):
    """Kafka cannot be reached, or not in time: worth another try."""


class EndedError(AwayError):
    """Kafka has ended what we had open: another process has begun, or it was open for too long.

    Which of the two it was only the position tells.
    """


class TopicError(KafkaError):
    """A topic is missing or not allowed: worth another try, once somebody has mended that."""


FENCED = (
    "another process writes with this store's transactional id, and has begun later. Only one job "
    "may send a store: stop one of them"
)
# Something is wrong with a record or a batch: Kafka will refuse it again.
RECORD_ERRORS = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.PolicyViolationError,
    errors.CorruptRecordError,
)
FENCED_ERRORS = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
ACCESS_ERRORS = (
    errors.SaslAuthenticationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.UnsupportedForMessageFormatError,
)
TOPIC_ERRORS = (
    errors.TopicAuthorizationFailedError,
    errors.UnknownTopicOrPartitionError,
    errors.InvalidTopicError,
)


# What kafka-python raises at its start where it does not take a setting.
SETTINGS_ERRORS = (ValueError, TypeError, AssertionError, errors.KafkaConfigurationError)


def describe(error: BaseException) -> str:
    """Return what Kafka said in one line: the error's name, and its text if it has one."""
    kind = type(error).__name__
    text = " ".join(str(error).split()).removeprefix(f"[Error {getattr(error, 'errno', '')}] ")
    text = text.removeprefix(kind).removeprefix(": ")
    name = kind.removesuffix("Error")
    return name if text in {"", "None"} else f"{name}: {text[:300]}"
