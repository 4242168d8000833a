"""When an output's file of Kafka's position is written, and what is said if it cannot be."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reput.sinks.kafka.position.memory import remembered

if TYPE_CHECKING:
    from pathlib import Path

    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.position.memory import Memory
    from reput.sinks.kafka.sink import KafkaSink

LOG = logging.getLogger("reput")
MEMORY = "kafka.json"
# The file is what a next process says until it has asked Kafka.
_WRITE_SECONDS = 10.0


class PositionFile:
    """The file, written at intervals; a disk that does not take it keeps nothing from being sent.

    Attributes:
        is_unwritten: the last attempt to write it has failed.
    """

    def __init__(self, sink: KafkaSink, path: Path, store: str) -> None:
        """Keep what is written from.

        Args:
            sink: knows the position.
            path: of the file.
            store: its name.
        """
        self.is_unwritten = False
        self._sink = sink
        self._path = path
        self._store = store
        self._written_at = 0.0
        self._is_given_up = False

    def read(self) -> Memory | None:
        """Return what the file says, None if there is none.

        Raises:
            KafkaError: it cannot be read.
        """
        return remembered(self._path)

    def decide(self, extent: Extent) -> None:
        """Decide that sending begins at the latest record, and write that down.

        Raises:
            KafkaError: see `KafkaSink.decide_latest`.
        """
        try:
            self._sink.decide_latest(extent)
        except OSError as error:
            self._say_unwritten(error)

    def give_up(self) -> None:
        """Write no more: the output may be another process's by now."""
        self._is_given_up = True

    def write_if_due(self) -> None:
        """Write how far Kafka is, or where it is to begin, if that was not done lately."""
        if time.monotonic() - self._written_at >= _WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write how far Kafka is, or where it is to begin."""
        if self._is_given_up:
            return
        self._written_at = time.monotonic()
        try:
            self._sink.write_place()
            self._sink.remember()
        except OSError as error:
            self._say_unwritten(error)
        else:
            self.is_unwritten = False

    def _say_unwritten(self, error: OSError) -> None:
        """Say once that what Kafka has, or is to have, is not written down."""
        if not self.is_unwritten:
            LOG.warning(
                "%s: %s cannot be written: %s; it is tried again. A start before that knows only "
                'what Kafka tells it: where that has no position of the store, start = "latest" '
                "begins with what is dispatched after that start",
                self._store, self._path, error,
            )  # fmt: skip
        self.is_unwritten = True
