"""What a store directory says of itself: its topics' types, its consumers' filters, its lock."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import StoreError
from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.batchconsumequeue import QUEUE_TYPE

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings

TOPICS = "topics.json"
# Without the sign of a change request (`+queue.type`): `AttributeUtil` strips it.
_QUEUE_TYPE_ATTRIBUTE = "queue.type"


def read_config(store: Path, name: str) -> str | None:
    """Return the text of `config/NAME`, None when the store has none.

    A broker writes these in place and keeps the previous text beside it as `.bak`: an empty or
    half-written file is one that it is writing.

    Raises:
        StoreError: the file is no text.
    """
    for candidate in (name, f"{name}.bak"):
        path = store / names.CONFIG / candidate
        if path.is_file():
            raw = path.read_bytes()
            if raw.strip().endswith(b"}"):
                try:
                    return raw.decode()
                except UnicodeDecodeError as error:
                    raise _unreadable(path, str(error)) from error
    return None


def _unreadable(path: Path, why: str) -> StoreError:
    found = f"not readable as JSON ({why})"
    return StoreError(path, found, "Restore it from the broker, or from its .bak")


class TopicTypes(NamedTuple):
    """What a topics.json says: all topics in it, and those of type BatchCQ."""

    known: frozenset[str]
    batch: frozenset[str]


def parse_topics(text: str) -> TopicTypes:
    """Return what the text of a topics.json says.

    Raises:
        ValueError: it is no JSON, or says something else.
    """
    try:
        table: Any = json.loads(text).get("topicConfigTable") or {}
    except (RecursionError, AttributeError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(table, dict):
        raise ValueError("topicConfigTable is no object")  # noqa: TRY004 - the file's value
    return TopicTypes(
        frozenset(table), frozenset(topic for topic, config in table.items() if _is_batch(config))
    )


def batch_topics(store: Path) -> frozenset[str]:
    """Return the topics of type BatchCQ that `config/topics.json` names.

    Raises:
        StoreError: the file is no JSON, or says something else.
    """
    text = read_config(store, TOPICS)
    if text is None:
        return frozenset()
    try:
        return parse_topics(text).batch
    except ValueError as error:
        raise _unreadable(store / names.CONFIG / TOPICS, str(error)) from error


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


def file_sizes(settings: BrokerSettings) -> tuple[tuple[str, int, str], ...]:
    """Return of each kind of file beside the log: directory, bytes of a file, their setting."""
    index_size = indexfile.file_size(settings.index_slots, settings.index_items)
    return (
        (names.CONSUMEQUEUE, settings.consumequeue_file_size, "mappedFileSizeConsumeQueue"),
        (names.CONSUMEQUEUE_EXT, settings.ext_file_size, "mappedFileSizeConsumeQueueExt"),
        (names.BATCH_CONSUMEQUEUE, settings.batch_file_size, "mapperFileSizeBatchConsumeQueue"),
        (names.INDEX, index_size, "maxHashSlotNum and maxIndexNum"),
    )


def contradictions(store: Path, settings: BrokerSettings) -> list[str]:
    """Return what the store's own files say against the settings, for the user to look at.

    The commitlog's file size is not among it: reading stops on a wrong one.
    """
    found = []
    for kind, expected, setting in file_sizes(settings):
        example = _first_file(store / kind)
        if example is not None and example.stat().st_size != expected:
            found.append(
                f"the broker's {example} has {example.stat().st_size} bytes, by {setting} it "
                f"would have {expected}: give the broker's own settings with --broker-conf"
            )
    if not settings.writes_ext and _first_file(store / names.CONSUMEQUEUE_EXT) is not None:
        found.append(
            f"the broker has {store / names.CONSUMEQUEUE_EXT}, but enableConsumeQueueExt is not "
            "set in --broker-conf: entries will hold plain tag codes"
        )
    config = store / names.CONFIG
    if _has_rocksdb(config) and not (config / "topics.json").is_file():
        found.append(
            f"{config} keeps topics and filters in RocksDB, which is not read: topics of type "
            "BatchCQ are taken for ordinary ones, and bit maps are not made"
        )
    if settings.calculates_bitmaps and not settings.writes_ext:
        found.append("enableCalcFilterBitMap does nothing without enableConsumeQueueExt")
    return found


def _has_rocksdb(config: Path) -> bool:
    """Tell whether a broker keeps its configuration in RocksDB (`configManagerVersion`)."""
    return config.is_dir() and any(config.glob("*/CURRENT"))


def _first_file(directory: Path) -> Path | None:
    """Return some file below a directory, None if there is none."""
    if not directory.is_dir():
        return None
    return next((path for path in sorted(directory.rglob("*")) if path.is_file()), None)
