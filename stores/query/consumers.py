"""How far consumer groups have come, by `config/consumerOffset.json`, and what they still get."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import StoreError
from reput.formats.java import fastjson, strings
from reput.formats.rocketmq import names
from reput.stores.config.config_files import read_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.stores.query.message_store import MessageStore

_FILE = "consumerOffset.json"
_SEPARATOR = "@"

Offsets = dict[tuple[str, str], dict[int, int]]


class ConsumerLag(NamedTuple):
    """One group in one queue.

    Attributes:
        group: the consumer group.
        topic: what it consumes.
        queue_id: the queue.
        offset: queue offset of the message that it gets next.
        min_offset: of the queue.
        max_offset: of the queue, exclusive.
        waiting_since: when the message that it gets next was stored, ms; None if it has them all.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    waiting_since: int | None

    @property
    def lag(self) -> int:
        """Return how many messages it has not had; below 0 for an offset beyond the queue."""
        return self.max_offset - self.offset


def read_offsets(store: Path) -> Offsets:
    """Return offsets by queue, by group and topic; none where the broker has written none.

    Raises:
        StoreError: the file says something else.
    """
    text = read_config(store, _FILE)
    if text is None:
        return {}
    try:
        table = fastjson.loads(text).get("offsetTable") or {}
        return {
            _group_and_topic(key): {
                strings.parse_int(q): int(offset) for q, offset in queues.items()
            }
            for key, queues in table.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        path = store / names.CONFIG / _FILE
        raise StoreError(path, f"not readable: {error}", "Restore it, or its .bak") from error


def _group_and_topic(key: str) -> tuple[str, str]:
    topic, _, group = key.partition(_SEPARATOR)
    return group, topic


def lags(
    store: MessageStore, *, group: str | None = None, topic: str | None = None
) -> Iterator[ConsumerLag]:
    """Yield the lag of groups, in the order of groups, topics and queues.

    Args:
        store: the store.
        group: only this one.
        topic: only this one.

    Raises:
        StoreError: `consumerOffset.json` cannot be read.
    """
    for (each_group, each_topic), queues in sorted(store.consumer_offsets().items()):
        if group not in {None, each_group} or topic not in {None, each_topic}:
            continue
        # A queue without an offset counts from 0, as
        # `AdminBrokerProcessor#getConsumeStats` does, expired messages included.
        for queue_id in sorted({*queues, *store.queue_ids(each_topic)}):
            queue = store.queue(each_topic, queue_id, is_quick=True)
            low, high = (queue.min_offset, queue.max_offset) if queue else (0, 0)
            offset = queues.get(queue_id, 0)
            entry = (
                next(queue.all_entries(max(offset, low)), None) if queue and offset < high else None
            )
            since = store.stored_at(entry) if entry else None
            yield ConsumerLag(each_group, each_topic, queue_id, offset, low, high, since)
