"""Logs that sending to Kafka is held back: when it happens, and again while it lasts."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reput.streaming.events import KAFKA

if TYPE_CHECKING:
    from reput.streaming.kafka.state import KafkaState

LOG = logging.getLogger("reput")
_AGAIN_SECONDS = 600.0


class KafkaNews:
    """What was logged of each store's way to Kafka, and when."""

    def __init__(self) -> None:
        """Begin with nothing logged."""
        self._said: dict[str, tuple[str, float]] = {}

    def say(self, store: str, state: KafkaState | None) -> None:
        """Log that a store's way to Kafka is held back, unless that was logged lately."""
        if state is None or not state.stopped:
            return
        text, at = self._said.get(store, ("", 0.0))
        now = time.monotonic()
        if text == state.stopped and now - at < _AGAIN_SECONDS:
            return
        self._said[store] = state.stopped, now
        where = f", which resumes at physical offset {state.end}" if state.end >= 0 else ""
        LOG.error(
            "%s: Kafka is held back until the next start%s; consume queues and index continue: %s",
            store,
            where,
            state.stopped,
            extra={"store": store, "event": KAFKA},
        )
