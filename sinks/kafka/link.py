"""One store and the Kafka that it is sent to: what all parts of its way there have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reput.sinks.kafka.client.settings import TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.stores.log.commitlog import CommitLog


@dataclass
class Link:
    """A store and its Kafka.

    Attributes:
        settings: the operator's.
        access: kafka-python's settings of security, for the next connection.
        name: the store's.
        path: of the store, resolved.
        log: the store's.
    """

    settings: KafkaSettings
    access: Mapping[str, Any]
    name: str
    path: Path
    log: CommitLog

    @property
    def transactional_id(self) -> str:
        """Return the id of the store's transactions, which is the key of its positions too."""
        return f"{self.settings.id_prefix}{self.name}"

    @property
    def is_transactional(self) -> bool:
        """Tell whether messages are sent in transactions."""
        return self.settings.mode == TRANSACTIONS
