"""`reput query offset`: messages of a queue from an offset on, or the record at a log's offset."""

from __future__ import annotations

from reput.formats.errors import UsageError
from reput.streaming.cli.asked import filter_of, finish, open_store
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.settings.model.queries import OffsetOptions
from reput.streaming.show import query_output as out
from reput.streaming.source.no_such import no_such_topic


def offset(options: OffsetOptions) -> None:
    """Show messages of a queue from an offset on, with a broker's status and next offset.

    Example: `reput query offset 12 --store /data/rocketmq/store --topic TopicTest --queue 0`
    """
    topic, queue, as_json = options.topic, options.queue, options.as_json
    with open_store(options) as asked:
        if options.physical:
            record = asked.at(options.offset)
            fields = out.message_fields(record, options.body, options.body_bytes)
            if not as_json:
                out.print_fields(fields)
            finish(asked, {"message": fields}, OK, as_json=as_json)
        if topic is None or queue is None:
            raise UsageError("say which queue with --topic and --queue, or give --physical")
        wanted = filter_of(options.tag, options.sql, asked.settings.version)
        pulled = asked.pull(topic, queue, options.offset, options.limit, wanted)
        messages = [
            {"in_queue_at": at, **out.message_fields(record, options.body, options.body_bytes)}
            for at, record in pulled.messages
        ]
        facts = {
            "status": str(pulled.status),
            "next_offset": pulled.next_offset,
            "min_offset": pulled.min_offset,
            "max_offset": pulled.max_offset,
        }
        if not as_json:
            print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items()))
            out.print_messages(messages)
        is_more = bool(messages) and pulled.next_offset < pulled.max_offset
        document = {**facts, "truncated": is_more, "messages": messages}
        missing = None if messages else no_such_topic(asked, topic, [queue])
        code = OK if messages else NOTHING
        finish(asked, document, code, as_json=as_json, missing=missing)
