"""Which topics a broker has deleted: their queues are gone, their records are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reput.formats.errors import StoreError
from reput.stores.config.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Light queues are not topics: no list of topics names them.
_LMQ_PREFIX = "%LMQ%"


def deleted_topics(store: Path) -> Callable[[str], bool]:
    """Return what tells of a topic whether `config/topics.json` has it no more.

    Without that file, or with one that cannot be read, nothing counts as deleted.
    """
    try:
        text = read_config(store, "topics.json")
        known = json.loads(text)["topicConfigTable"] if text is not None else None
    except (StoreError, ValueError, KeyError, TypeError, RecursionError):
        known = None
    if not isinstance(known, dict):
        return lambda _topic: False
    return lambda topic: topic not in known and not topic.startswith(_LMQ_PREFIX)
