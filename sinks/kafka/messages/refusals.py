"""What Kafka has refused: topics for a while, messages until their transaction is committed.

With `on_refusal = "stop"` the first one is an error. With `"dead-letter"` it is noted here, and the
next attempt of the same range goes around it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.errors import TopicError, describe
from reput.sinks.kafka.client.settings import DEAD_LETTER, DEAD_LETTERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.sinks.kafka.client.errors import RefusedError
    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.stores.log.commitlog import CommitLog

_REFUSED_SECONDS = 60.0
_SHORT_PATIENCE = 1.0
_MOST_RECORDS = 1 << 30
# What of a message is in its dead letter: all of it; all but its body; only where it stood and why.
WHOLE, WITHOUT_BODY, BARE = 0, 1, 2
# What an operator can do about a refusal, by the name of Kafka's error.
_REMEDIES = {
    "MessageSizeTooLarge": "Raise max.message.bytes of the topic and max_message_bytes",
    "RecordListTooLarge": "Raise segment.bytes of the topic",
    "InvalidTimestamp": (
        "Its store timestamp is farther from Kafka's clock than message.timestamp.after.max.ms or "
        "message.timestamp.before.max.ms of the topic allow: set the clocks right, or raise these"
    ),
    "InvalidRecord": (
        "A compacted topic takes no message without a key: have producers set KEYS, choose another "
        'key (key = "uniq_key"), or give the topic cleanup.policy=delete'
    ),
    "PolicyViolation": "A policy of the Kafka brokers forbids it: ask their operator",
}


def _remedy(why: str) -> str:
    found = _REMEDIES.get(why.partition(":")[0])
    return found or "Look at the settings of the topic, and at the Kafka brokers' logs"


class Note(NamedTuple):
    """Whose records are in a batch.

    Attributes:
        product: messages, arrival notices, or `DEAD_LETTERS`.
        physical_offsets: of the records of the log, by record.
        queue_offsets: likewise.
    """

    product: str
    physical_offsets: NDArray[np.int64]
    queue_offsets: NDArray[np.int64]

    def place(self, number: int) -> tuple[int, int]:
        """Return physical and queue offset of a record."""
        return int(self.physical_offsets[number]), int(self.queue_offsets[number])


class Refusals:
    """What one store's messages have to go around."""

    def __init__(self, settings: KafkaSettings, log: CommitLog) -> None:
        """Begin with nothing.

        Args:
            settings: the operator's.
            log: the store's, for messages.
        """
        self._settings = settings
        self._log = log
        # Why, and when to ask for it again.
        self._topics: dict[str, tuple[str, float]] = {}
        self._topics_before: set[str] = set()
        # By physical offset, queue offset and product.
        self._messages: dict[tuple[int, int, str], str] = {}
        # Of dead letters that were refused themselves, how much of the message remains.
        self._lesser: dict[tuple[int, int], int] = {}
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
                f"{path} at byte {byte}: Kafka refuses this record for topic {topic}: {why}. "
                f"{_remedy(why)}; or exclude such messages, or have them go elsewhere: "
                'on_refusal = "dead-letter"'
            )
        self._messages[physical_offset, queue_offset, product] = why

    def learn(self, error: RefusedError) -> None:
        """Note what was refused.

        That a batch is too large does not mean that a message is: batches get smaller until a
        message is alone. Where a batch is wrong for another reason, its messages are sent one by
        one to see which it is, unless Kafka names them. A dead letter that is refused is sent with
        less in it.

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
        if note.product == DEAD_LETTERS:
            self._lessen(note.place(0), topic, why)
        elif batch.refused:
            for number, cause in batch.refused.items():
                self.add_message(*note.place(number), note.product, topic, describe(cause))
        elif len(note.physical_offsets) == 1:
            self.add_message(*note.place(0), note.product, topic, why)
        elif error.is_too_large:
            self._batch_limits[topic] = max(batch.size // 2, 1)
        else:
            self._one_by_one.add(topic)

    def _lessen(self, place: tuple[int, int], topic: str, why: str) -> None:
        """Send a dead letter that was refused with less of its message from now on.

        Raises:
            KafkaError: it has nothing left to leave out.
        """
        level = self._lesser.get(place, WHOLE)
        if level == BARE:
            path, byte = self._log.file_of(place[0])
            raise KafkaError(
                f"{path} at byte {byte}: Kafka refuses even a dead letter without body and "
                f"properties for this record, in topic {topic}: {why}. {_remedy(why)}; or give "
                "another dead_letter_topic"
            )
        self._lesser[place] = level + 1

    def content_of(self, physical_offset: int, queue_offset: int) -> int:
        """Return how much of a message its dead letter has: `WHOLE` or one of the others."""
        return self._lesser.get((physical_offset, queue_offset), WHOLE)

    def forget_messages(self) -> None:
        """Forget what belonged to a transaction that is committed."""
        self._messages.clear()
        self._lesser.clear()
        self._one_by_one.clear()

    def forget_old_topics(self) -> bool:
        """Forget which topics were refused a while ago, and tell whether there were any."""
        now = time.monotonic()
        over = [topic for topic, (_, until) in self._topics.items() if until <= now]
        for topic in over:
            del self._topics[topic]
        return bool(over)
