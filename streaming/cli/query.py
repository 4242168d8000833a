"""`reput query …`: messages of a store by key, id, offset and time, from its files alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from reput.formats.errors import UsageError
from reput.stores.inspect.printable import printable
from reput.stores.query.by_key import MAX_HITS, MAX_UNIQUE_HITS, KeyKind, KeyStatus
from reput.stores.query.index_search import ALWAYS, Window
from reput.stores.queues.by_time import Boundary
from reput.streaming.cli import help_pages, waiting
from reput.streaming.cli.help_pages import App
from reput.streaming.cli.query_options import (
    BODY_BYTES,
    NO_INDEX,
    Begin,
    Bodies,
    BodyBytes,
    Conf,
    End,
    Json,
    Limit,
    OptionalTopic,
    Output,
    QueueId,
    Sql,
    Tag,
    Topic,
    Version,
    filter_of,
    finish,
    first,
    open_store,
)
from reput.streaming.cli.store_choice import Config, LogPlaces, Store, StoreName
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.settings.option_values import milliseconds
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import Moment
from reput.streaming.show.query_output import BodyMode
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.query.by_key import KeyAnswer
    from reput.stores.query.message_store import MessageStore

# The first of these that a key has is what the command ends with.
_KEY_CODES = {
    KeyStatus.NO_INDEX: NO_INDEX,
    KeyStatus.NOT_FOUND: NOTHING,
    KeyStatus.FOUND: OK,
}

app = App(
    help="""
Ask a store, from its files alone: ours, a broker's own, or a backup; live or not.

Exit codes: 0 found, 1 nothing found, 2 wrong usage, 3 failed, 4 no answer: there is no index to
look in, or it was interrupted.
""",
)


def _window(begin: str | None, end: str | None) -> Window:
    return Window(
        ALWAYS.begin if begin is None else milliseconds("--begin", begin, is_local=True),
        ALWAYS.end if end is None else milliseconds("--end", end, is_local=True),
    )


@app.command()
def key(
    key: Annotated[
        list[str],
        typer.Argument(
            help="One word of KEYS, a UNIQ_KEY, or with --tag a tag. Several are looked up in turn."
        ),
    ],
    topic: Topic,
    store: Store = None,
    output: Output = None,
    unique: Annotated[bool, typer.Option("--unique", help="Only as a UNIQ_KEY.")] = False,
    tag: Annotated[bool, typer.Option("--tag", help="As a tag (brokers 5.4 and later).")] = False,
    begin: Begin = None,
    end: End = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            rich_help_panel=help_pages.SHOWING,
            help="Hits to take from the index, newest first. [default: 64; 32 with --unique]",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            rich_help_panel=help_pages.SHOWING,
            help="Also messages whose key only has the same hash.",
        ),
    ] = False,
    body: Bodies = BodyMode.AUTO,
    body_bytes: BodyBytes = BODY_BYTES,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Find messages by key, through the index, as a broker finds them.

    Exit code 0 says that every key was found.

    Example: `reput query key order-17 --store /data/rocketmq/store --topic TopicTest`
    """
    if unique and tag:
        raise UsageError("--unique and --tag are two kinds of key: give one of them")
    kind = KeyKind.UNIQUE if unique else KeyKind.TAG if tag else KeyKind.ANY
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        window = _window(begin, end)
        answers = asked.by_keys(topic, key, kind=kind, window=window, limit=limit, is_raw=raw)
        statuses = {answer.status for answer in answers}
        worst = next(status for status in _KEY_CODES if status in statuses)
        documents = [_key_document(answer, body, body_bytes) for answer in answers]
        most = limit or (MAX_UNIQUE_HITS if kind == KeyKind.UNIQUE else MAX_HITS)
        for each, document in zip(key, documents, strict=True):
            # One hit more tells whether these are all.
            document["truncated"] = len(document["index_offsets"]) == most and (
                len(asked.by_key(topic, each, kind=kind, window=window, limit=most + 1).offsets)
                > most
            )
        if not as_json:
            if worst == KeyStatus.NO_INDEX:
                print(f"no index file is in {asked.index.directory}: nothing to look in")
            elif len(key) > 1:
                _print_keys(key, documents)
            else:
                _print_key(documents[0])
            if any(each["truncated"] for each in documents):
                print(f"the index has more than {most} hits; --limit takes more of them")
        document = documents[0]
        if len(key) > 1:
            named = zip(key, documents, strict=True)
            document = {"keys": [{"key": each, **answer} for each, answer in named]}
        was_found = KeyStatus.FOUND in statuses or worst == KeyStatus.NO_INDEX
        missing = None if was_found else no_such_topic(asked, topic)
        finish(asked, document, _KEY_CODES[worst], as_json=as_json, missing=missing)


def _key_document(answer: KeyAnswer, body: BodyMode, body_bytes: int) -> dict[str, Any]:
    """Return what is shown of one key's answer."""
    return {
        "status": answer.status,
        "messages": [out.message_fields(m, body, body_bytes) for m in answer.messages],
        "index_offsets": list(answer.offsets),
        "index_last_stored": Moment(answer.last_timestamp or None),
        "index_last_offset": answer.last_offset,
    }


def _print_key(answer: dict[str, Any]) -> None:
    messages = answer["messages"]
    other = len(answer["index_offsets"]) - len(messages)
    shared = f"; {other} hits are of other keys or gone" if other else ""
    print(f"{len(messages)} messages{shared}")
    out.print_messages(messages)


def _print_keys(keys: Sequence[str], answers: Sequence[dict[str, Any]]) -> None:
    """Print a row for each key, then the messages, each with its key."""
    rows = []
    for each, answer in zip(keys, answers, strict=True):
        messages = len(answer["messages"])
        other = len(answer["index_offsets"]) - messages
        rows.append(
            {"key": each, "status": answer["status"], "messages": messages, "other_hits": other}
        )
    out.print_table(rows)
    for each, answer in zip(keys, answers, strict=True):
        out.print_messages([{"key": each, **message} for message in answer["messages"]])


@app.command("id")
def by_id(
    message_id: Annotated[str, typer.Argument(help="An offset id, or a UNIQ_KEY with --topic.")],
    store: Store = None,
    topic: OptionalTopic = None,
    output: Output = None,
    body: Bodies = BodyMode.AUTO,
    body_bytes: BodyBytes = BODY_BYTES,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Find the message with an id: by the offset in it, else as a UNIQ_KEY in the index.

    Example: `reput query id 0A00000100002A9F00000000000003E8 --store /data/rocketmq/store`
    """
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        answer = asked.by_id(message_id, topic)
        parts: dict[str, Any] = {}
        if answer.as_offset is not None:
            parts["as_offset_id"] = answer.as_offset._asdict()
        if answer.as_unique is not None and not answer.is_offset:
            parts["as_unique_id"] = answer.as_unique._asdict()
        found = answer.message
        fields = out.message_fields(found, body, body_bytes) if found is not None else None
        by = "offset" if answer.is_offset else "unique id"
        if not as_json:
            for name, values in parts.items():
                shown = ", ".join(f"{k} {v}" for k, v in values.items())
                print(f"{name.replace('_', ' ')}: {shown}")
            if answer.problem is not None:
                print(f"by its offset: {printable(answer.problem)}")
            if answer.status not in {None, KeyStatus.FOUND}:
                print(f"as a unique id: {answer.status}")
            if fields is not None:
                print(f"found by its {by}")
                out.print_messages([fields])
        code = OK if found else NO_INDEX if answer.status == KeyStatus.NO_INDEX else NOTHING
        document = {
            "found_by": by if found else None,
            **parts,
            "problem": answer.problem,
            "message": fields,
        }
        missing = no_such_topic(asked, topic) if code == NOTHING else None
        finish(asked, document, code, as_json=as_json, missing=missing)


@app.command(quiet_is_long=True)
def offset(
    offset: Annotated[int, typer.Argument(help="Queue offset; with --physical a log's.")],
    store: Store = None,
    topic: OptionalTopic = None,
    queue: QueueId = None,
    physical: Annotated[
        bool, typer.Option("--physical", help="A physical offset: the record that begins there.")
    ] = False,
    output: Output = None,
    tag: Tag = None,
    sql: Sql = None,
    limit: Limit = 1,
    body: Bodies = BodyMode.AUTO,
    body_bytes: BodyBytes = BODY_BYTES,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Show messages of a queue from an offset on, with a broker's status and next offset.

    Example: `reput query offset 12 --store /data/rocketmq/store --topic TopicTest --queue 0`
    """
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        if physical:
            fields = out.message_fields(asked.at(offset), body, body_bytes)
            if not as_json:
                out.print_fields(fields)
            finish(asked, {"message": fields}, OK, as_json=as_json)
        if topic is None or queue is None:
            raise UsageError("say which queue with --topic and --queue, or give --physical")
        wanted = filter_of(tag, sql, asked.settings.version)
        pulled = asked.pull(topic, queue, offset, limit, wanted)
        messages = [
            {"in_queue_at": at, **out.message_fields(record, body, body_bytes)}
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


@app.command("time", quiet_is_long=True)
def by_time(
    at: Annotated[
        str,
        typer.Argument(
            metavar="TIME", help="Store time: ms, or ISO 8601 (local if it names no zone)."
        ),
    ],
    store: Store = None,
    topic: OptionalTopic = None,
    queue: QueueId = None,
    boundary: Annotated[
        Boundary | None,
        typer.Option(
            "--boundary",
            help="Of several messages of that time the first or the last; if there is none, the "
            "next one or the one before. [default: lower; before 5.1.1 the nearest]",
        ),
    ] = None,
    ascending_store_time: Annotated[
        bool,
        typer.Option(
            "--ascending-store-time",
            help="No clock of the broker ever went back: without --topic, the file is found by "
            "bisection instead of a look at all records before that time.",
        ),
    ] = False,
    output: Output = None,
    limit: Limit = 1,
    body: Bodies = BodyMode.AUTO,
    body_bytes: BodyBytes = BODY_BYTES,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Find what was stored at a time: in the queues of a topic, or in the whole commitlog.

    In a queue the answer is a broker's, which bisects; in the commitlog it is the first record that
    was stored then or later, though clocks went back.

    Example: `reput query time 2026-11-21T09:30:00 --store /data/rocketmq/store --topic TopicTest`
    """
    timestamp = milliseconds("TIME", at, is_local=True)
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        if topic is None:
            if queue is not None or boundary is not None:
                raise UsageError("--queue and --boundary are for the queues of a --topic")
            start = asked.first_since(timestamp, ascending=ascending_store_time)
            _time_in_log(asked, start, limit, body, body_bytes, as_json=as_json)
        if ascending_store_time:
            raise UsageError("--ascending-store-time is for the whole commitlog, without --topic")
        queue_ids = asked.queue_ids(topic or "") if queue is None else [queue]
        rows = []
        for queue_id in queue_ids:
            found = asked.offset_by_time(topic or "", queue_id, timestamp, boundary)
            files = asked.queue(topic or "", queue_id)
            if found is None or files is None:
                continue
            entry = next(iter(files.entries(found) or ()), None)
            stored = asked.stored_at(entry) if entry is not None else None
            rows.append(
                {
                    "queue": queue_id,
                    "queue_offset": found,
                    "stored": Moment(stored),
                    "min_offset": files.min_offset,
                    "max_offset": files.max_offset,
                }
            )
        if not as_json:
            out.print_table(rows)
            if not rows:
                print("no queues")
        missing = None if rows else no_such_topic(asked, topic, [] if queue is None else [queue])
        code = OK if rows else NOTHING
        document = {"queues": rows, "total": len(rows), "truncated": False}
        finish(asked, document, code, as_json=as_json, missing=missing)


def _time_in_log(
    asked: MessageStore, start: int | None, limit: int, body: BodyMode, size: int, *, as_json: bool
) -> None:
    """Show records of the log from a physical offset on."""
    records: Iterable[Record] = asked.records_from(start) if start is not None else ()
    taken = list(first(limit + 1, records))
    messages = [out.message_fields(r, body, size) for r in taken[:limit]]
    if not as_json:
        if start is None:
            print("nothing was stored at that time or later")
        else:
            print(f"physical offset {start}")
        out.print_messages(messages)
    document = {
        "physical_offset": start,
        "truncated": len(taken) > limit,
        "messages": messages,
    }
    finish(asked, document, NOTHING if start is None else OK, as_json=as_json)


app.command()(waiting.transactions)
app.command()(waiting.delayed)
app.command()(waiting.timer)
app.command()(waiting.consumers)
