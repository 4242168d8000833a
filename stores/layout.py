"""What a store directory says of itself: its topics' types, its consumers' filters, its lock."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from formats import names
from formats.batchconsumequeue import QUEUE_TYPE
from formats.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_QUEUE_TYPE_ATTRIBUTES = ("queue.type", "+queue.type")


def read_config(store: Path, name: str) -> str | None:
    """Return the text of `config/NAME`, None when the store has none.

    A broker writes these in place and keeps the previous text beside it as `.bak`: an empty or
    half-written file is one that it is writing.
    """
    for candidate in (name, f"{name}.bak"):
        path = store / names.CONFIG / candidate
        if path.is_file():
            text = path.read_text("utf-8")
            if text.strip().endswith("}"):
                return text
    return None


def batch_topics(store: Path) -> frozenset[str]:
    """Return the topics of type BatchCQ that `config/topics.json` names.

    Raises:
        StoreError: the file is no JSON.
    """
    text = read_config(store, "topics.json")
    if text is None:
        return frozenset()
    try:
        table: dict[str, Any] = json.loads(text).get("topicConfigTable", {})
    except ValueError as error:
        raise StoreError(
            store / names.CONFIG / "topics.json",
            f"not readable as JSON ({error})",
            "Restore it from the broker, or from topics.json.bak",
        ) from error
    return frozenset(topic for topic, config in table.items() if _is_batch(config))


def _is_batch(config: dict[str, Any]) -> bool:
    attributes = config.get("attributes") or {}
    return any(attributes.get(name) == QUEUE_TYPE for name in _QUEUE_TYPE_ATTRIBUTES)
