"""`reput topics`: which topics a store has, and how much is in their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.streaming.cli.asked import finish_rows, open_store
from reput.streaming.settings.model.queries import TopicsOptions
from reput.streaming.show.moments import Moment
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from reput.stores.query.message_store import MessageStore


def topics(options: TopicsOptions) -> None:
    """List the topics that have queues, with how much is in them; with --topic each queue.

    Example: `reput topics --store /data/rocketmq/store`
    """
    with open_store(options) as asked:
        if options.topic is None:
            name, rows = "topics", [_topic_row(asked, each) for each in asked.topics()]
        else:
            name, rows = "queues", _queue_rows(asked, options.topic)
        missing = no_such_topic(asked, options.topic)
        finish_rows(asked, name, rows, as_json=options.as_json, missing=missing)


def _queues(asked: MessageStore, topic: str) -> list[tuple[int, Any]]:
    return [
        (queue_id, queue)
        for queue_id in asked.queue_ids(topic)
        if (queue := asked.queue(topic, queue_id, is_quick=True)) is not None
    ]


def _topic_row(asked: MessageStore, topic: str) -> dict[str, Any]:
    queues = _queues(asked, topic)
    kind = "batch" if asked.is_batch(topic) else "simple"
    count = sum(queue.max_offset - max(queue.min_offset, 0) for _, queue in queues)
    return {"topic": topic, "kind": kind, "queues": len(queues), "messages": count}


def _queue_rows(asked: MessageStore, topic: str) -> list[dict[str, Any]]:
    rows = []
    for queue_id, queue in _queues(asked, topic):
        last = queue.last_entry()
        stored = asked.stored_at(last) if last is not None else None
        rows.append(
            {
                "queue": queue_id,
                "min_offset": queue.min_offset,
                "max_offset": queue.max_offset,
                "last_stored": Moment(stored),
            }
        )
    return rows
