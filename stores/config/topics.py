"""Reads the types of a broker's topics, config/topics.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.rocketmq import names
from reput.formats.rocketmq.batchconsumequeue import QUEUE_TYPE
from reput.stores.config.config_files import read_config, unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings

TOPICS = "topics.json"
# Without the sign of a change request (`+queue.type`): `AttributeUtil` strips it.
_QUEUE_TYPE_ATTRIBUTE = "queue.type"


class TopicTypes(NamedTuple):
    """What a topics.json says: all topics in it, and those of type BatchCQ."""

    known: frozenset[str]
    batch: frozenset[str]


def parse_topics(text: str) -> TopicTypes:
    """Return what the text of a topics.json says.

    Raises:
        ValueError: it is not JSON, or says something else.
    """
    try:
        table: Any = json.loads(text).get("topicConfigTable") or {}
    except (RecursionError, AttributeError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(table, dict):
        raise ValueError("topicConfigTable is not an object")  # noqa: TRY004 - the file's value
    return TopicTypes(
        frozenset(table), frozenset(topic for topic, config in table.items() if _is_batch(config))
    )


def batch_topics(store: Path) -> frozenset[str]:
    """Return the topics of type BatchCQ that `config/topics.json` names.

    Raises:
        StoreError: the file is not JSON, or says something else.
    """
    text = read_config(store, TOPICS)
    if text is None:
        return frozenset()
    try:
        return parse_topics(text).batch
    except ValueError as error:
        raise unreadable(store / names.CONFIG / TOPICS, str(error)) from error


def batch_topics_for(store: Path, settings: BrokerSettings) -> frozenset[str]:
    """Return the topics that a broker with these settings takes for BatchCQ.

    Raises:
        StoreError: see `batch_topics`.
    """
    # Older brokers neither know the type nor care what the file says of it.
    return batch_topics(store) if settings.version.has_batch_queues else frozenset()


def _is_batch(config: Any) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get(_QUEUE_TYPE_ATTRIBUTE) == QUEUE_TYPE
