"""`reput query time`: what was stored at a time, in a topic's queues or in the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError
from reput.streaming.cli.asked import finish, first, open_store
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.settings.model.queries import TimeOptions
from reput.streaming.settings.option_values import milliseconds
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import Moment
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.query.message_store import MessageStore


def by_time(options: TimeOptions) -> None:
    """Find what was stored at a time: in the queues of a topic, or in the whole commitlog.

    In a queue the answer is a broker's, which bisects; in the commitlog it is the first record that
    was stored then or later, even where clocks went back.

    Example: `reput query time 2026-11-21T09:30:00 --store /data/rocketmq/store --topic TopicTest`
    """
    timestamp = milliseconds("TIME", options.at, is_local=True)
    with open_store(options) as asked:
        if options.topic is None:
            if options.queue is not None or options.boundary is not None:
                raise UsageError("--queue and --boundary are for the queues of a --topic")
            start = asked.first_since(timestamp, ascending=options.ascending_store_time)
            _answer_by_log(asked, start, options)
        elif options.ascending_store_time:
            raise UsageError("--ascending-store-time is for the whole commitlog, without --topic")
        else:
            _answer_by_queues(asked, options.topic, timestamp, options)


def _answer_by_queues(
    asked: MessageStore, topic: str, timestamp: int, options: TimeOptions
) -> None:
    """Show where each queue has its first message of that time, and exit."""
    queue = options.queue
    rows = []
    for queue_id in asked.queue_ids(topic) if queue is None else [queue]:
        row = _row(asked, topic, queue_id, timestamp, options)
        if row is not None:
            rows.append(row)
    if not options.as_json:
        out.print_table(rows)
        if not rows:
            print("no queues")
    missing = None if rows else no_such_topic(asked, topic, [] if queue is None else [queue])
    code = OK if rows else NOTHING
    document = {"queues": rows, "total": len(rows), "truncated": False}
    finish(asked, document, code, as_json=options.as_json, missing=missing)


def _row(
    asked: MessageStore, topic: str, queue_id: int, timestamp: int, options: TimeOptions
) -> dict[str, Any] | None:
    found = asked.offset_by_time(topic, queue_id, timestamp, options.boundary)
    files = asked.queue(topic, queue_id)
    if found is None or files is None:
        return None
    entry = next(iter(files.entries(found) or ()), None)
    stored = asked.stored_at(entry) if entry is not None else None
    return {
        "queue": queue_id,
        "queue_offset": found,
        "stored": Moment(stored),
        "min_offset": files.min_offset,
        "max_offset": files.max_offset,
    }


def _answer_by_log(asked: MessageStore, start: int | None, options: TimeOptions) -> None:
    """Show records of the log from a physical offset on, and exit."""
    records: Iterable[Record] = asked.records_from(start) if start is not None else ()
    taken = list(first(options.limit + 1, records))
    messages = [
        out.message_fields(record, options.body, options.body_bytes)
        for record in taken[: options.limit]
    ]
    if not options.as_json:
        if start is None:
            print("nothing was stored at that time or later")
        else:
            print(f"physical offset {start}")
        out.print_messages(messages)
    document = {
        "physical_offset": start,
        "truncated": len(taken) > options.limit,
        "messages": messages,
    }
    code = NOTHING if start is None else OK
    finish(asked, document, code, as_json=options.as_json)
