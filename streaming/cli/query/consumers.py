"""`reput query consumers`: how far consumer groups lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.stores.query import consumers as consumer_lags
from reput.streaming.cli.asked import finish_rows, now_ms, open_store
from reput.streaming.settings.model.queries import ConsumerOptions
from reput.streaming.source.no_such import no_such

if TYPE_CHECKING:
    from reput.stores.query.message_store import MessageStore


def consumers(options: ConsumerOptions) -> None:
    """Show how far consumer groups are behind, by the broker's consumerOffset.json.

    Example: `reput query consumers --group billing --store /data/rocketmq/store`
    """
    now = now_ms()
    with open_store(options) as asked:
        rows = [
            {
                "group": each.group,
                "topic": each.topic,
                "queue": each.queue_id,
                "offset": each.offset,
                "min_offset": each.min_offset,
                "max_offset": each.max_offset,
                "lag": each.lag,
                "behind_s": (now - each.waiting_since) // 1000
                if each.waiting_since is not None
                else None,
            }
            for each in consumer_lags.lags(asked, group=options.group, topic=options.topic)
        ]
        missing = None if rows else _no_such_consumer(asked, options.group, options.topic)
        finish_rows(asked, "consumers", rows, as_json=options.as_json, missing=missing)


def _no_such_consumer(asked: MessageStore, group: str | None, topic: str | None) -> str | None:
    """Return which of group and topic has no offsets, and which have."""
    pairs = list(asked.consumer_offsets())
    none = "config/consumerOffset.json has none"
    groups, topics = {each for each, _ in pairs}, {each for _, each in pairs}
    if group is not None and group not in groups:
        return no_such("group", group, groups, none)
    if topic is not None and topic not in topics:
        return no_such("topic", topic, topics, none)
    return None
