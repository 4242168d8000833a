"""A partition of a Kafka topic, for parts that need no client."""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    """A partition; kafka-python has one with the same fields, which it is handed.

    Attributes:
        topic: its topic's name.
        partition: its number.
    """

    topic: str
    partition: int
