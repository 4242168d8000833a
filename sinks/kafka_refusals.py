"""What Kafka has refused: topics for a while, messages until their transaction is committed.

With `on_refusal = "stop"` the first one is an error. With `"dead-letter"` it is taken down here,
and the next attempt of the same range goes around it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kafka import errors

from formats.errors import KafkaError
from sinks.kafka_client import TopicError, describe
from sinks.kafka_settings import DEAD_LETTER

if TYPE_CHECKING:
    from sinks.kafka_client import RefusedError
    from sinks.kafka_settings import KafkaSettings
    from stores.commitlog import CommitLog

_REFUSED_SECONDS = 60.0
_SHORT_PATIENCE = 1.0
_MOST_RECORDS = 1 << 30


class Note(NamedTuple):
    """Whose records are in a batch.

    Attributes:
        product: messages or arrival notices.
        physical_offset: of the first one's record.
        queue_offset: of the first one.
        records: how many.
    """

    product: str
    physical_offset: int
    queue_offset: int
    records: int


class Refusals:
    """What one store's way to Kafka has to go around."""

    def __init__(self, settings: KafkaSettings, log: CommitLog) -> None:
        """Begin with nothing.

        Args:
            settings: the operator's.
            log: the store's, for messages.
        """
        self._settings = settings
        self._log = log
        # Why, and until when it is not asked for again.
        self._topics: dict[str, tuple[str, float]] = {}
        self._topics_before: set[str] = set()
        # By physical offset, queue offset and product.
        self._messages: dict[tuple[int, int, str], str] = {}
        self._batch_limits: dict[str, int] = {}
        self._one_by_one: set[str] = set()

    @property
    def has_messages(self) -> bool:
        """Tell whether any message is refused."""
        return bool(self._messages)

    def has_topic(self, topic: str) -> bool:
        """Tell whether a topic is refused."""
        return topic in self._topics

    def patience(self, topic: str) -> float:
        """Return how long a topic that is missing may take to come, seconds."""
        seconds = self._settings.refusal_seconds
        return min(seconds, _SHORT_PATIENCE) if topic in self._topics_before else seconds

    def why_topic(self, topic: str) -> str:
        """Return why a topic is refused."""
        return self._topics.get(topic, ("refused", 0.0))[0]

    def why_message(self, physical_offset: int, queue_offset: int, product: str) -> str | None:
        """Return why a message is refused, None if it is not."""
        return self._messages.get((physical_offset, queue_offset, product))

    def batch_bytes(self, topic: str) -> int:
        """Return how large a batch for a topic may be, as far as is known."""
        return min(self._batch_limits.get(topic, _MOST_RECORDS), self._settings.batch_bytes)

    def batch_records(self, topic: str) -> int:
        """Return how many records a batch for a topic may have."""
        return 1 if topic in self._one_by_one else _MOST_RECORDS

    def add_topic(self, topic: str, why: str) -> None:
        """Remember a topic that is refused.

        Raises:
            TopicError: the operator does not want its messages to go elsewhere.
        """
        own = {self._settings.dead_letter_topic, self._settings.progress_topic}
        if self._settings.on_refusal != DEAD_LETTER or topic in own:
            raise TopicError(
                f"Kafka at {self._settings.bootstrap} refuses topic {topic}: {why}. Make it, or "
                "allow us to describe and write it (docs/kafka.md has the ACLs); or exclude its "
                'messages; or have them go elsewhere: on_refusal = "dead-letter"'
            )
        self._topics[topic] = why, time.monotonic() + _REFUSED_SECONDS
        self._topics_before.add(topic)

    def add_message(
        self, physical_offset: int, queue_offset: int, product: str, topic: str, why: str
    ) -> None:
        """Remember a message that is refused.

        Raises:
            KafkaError: the operator does not want it to go elsewhere.
        """
        if self._settings.on_refusal != DEAD_LETTER or topic == self._settings.dead_letter_topic:
            path, byte = self._log.file_of(physical_offset)
            raise KafkaError(
                f"{path} at byte {byte}: Kafka refuses this record for topic {topic}: {why}. Raise "
                "max.message.bytes of the topic and max_message_bytes, or exclude such messages, "
                'or have them go elsewhere: on_refusal = "dead-letter"'
            )
        self._messages[physical_offset, queue_offset, product] = why

    def learn(self, error: RefusedError) -> None:
        """Take down what was refused.

        A batch that is too large is no message that is: it is made smaller until one message is
        alone. One that is wrong for another reason is sent one by one, to see which message it is.

        Raises:
            KafkaError: the operator does not want to go around it.
        """
        why = describe(error.cause)
        for topic in error.topics:
            self.add_topic(topic, why)
        if error.topics:
            return
        batch = error.batch
        if batch is None or not isinstance(batch.note, Note):
            where = self._settings.bootstrap
            raise KafkaError(f"Kafka at {where} refuses a batch of ours: {why}") from error
        topic, note = batch.topic_partition.topic, batch.note
        if note.records == 1:
            self.add_message(note.physical_offset, note.queue_offset, note.product, topic, why)
        elif isinstance(error.cause, errors.MessageSizeTooLargeError):
            self._batch_limits[topic] = max(batch.size // 2, 1)
        else:
            self._one_by_one.add(topic)

    def forget_messages(self) -> None:
        """Forget what belonged to a transaction that is committed."""
        self._messages.clear()
        self._one_by_one.clear()

    def forget_old_topics(self) -> bool:
        """Forget which topics were refused a while ago, and tell whether there were any."""
        now = time.monotonic()
        over = [topic for topic, (_, until) in self._topics.items() if until <= now]
        for topic in over:
            del self._topics[topic]
        return bool(over)
