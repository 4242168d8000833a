"""What the driver knows of a store's writer on an executor, by its answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.streaming.kafka.state import KafkaState
from reput.streaming.writers.counted import Mark

if TYPE_CHECKING:
    from reput.streaming.writers.executors.protocol import Answer, Spec

# Less than a task waits.
_HEARD_PATIENCE = 5.0


@dataclass
class KnownWriter:
    """What the driver knows of a store's writer."""

    spec: Spec
    host: str = ""
    wanted: int = -1
    answer: Answer | None = None
    counted: Mark = field(default_factory=Mark)
    heard_at: float = field(default_factory=time.monotonic)
    is_busy: bool = False
    answered_at: float = field(default_factory=time.monotonic)
    # The last order was not answered.
    is_silent: bool = False
    failure: BaseException | None = None
    is_closed: bool = False
    # To Kafka: as last heard, and by writers before the present one.
    sent: KafkaState | None = None
    sent_before: KafkaState | None = None
    # Kafka was not waited for to the end: the job says how far it is.
    is_undrained: bool = False

    def patience(self, seconds: float) -> float:
        """Return for how long an order is to wait for another writer's lock.

        A live writer that has kept an order waiting is asked what it waits for: an answer that
        comes after the task has gone is not heard.
        """
        is_known = self.is_silent or self.failure is not None
        return min(seconds, _HEARD_PATIENCE) if self.spec.follows and is_known else seconds

    @property
    def hangs(self) -> bool:
        """Tell whether it has not answered last, and others wait for their turn meanwhile."""
        return self.is_silent and self.spec.follows

    @property
    def is_sending(self) -> bool:
        """Tell whether it may be sending to Kafka, as far as was heard."""
        is_heard = self.answer is not None and not self.is_silent and not self.is_closed
        return self.spec.kafka is not None and is_heard

    @property
    def lacks_kafka(self) -> bool:
        """Tell whether to wait for Kafka still, after the last answer."""
        return self.failure is None and not (self.answer is not None and self.answer.is_drained)

    @property
    def kafka(self) -> KafkaState | None:
        """Return how far its messages were sent, if the job is to say so."""
        if not self.is_undrained:
            return None
        state = self.answer.state if self.answer is not None else None
        return (state.kafka if state is not None else None) or KafkaState()
