"""`reput topics` and `reput tail`: which topics a store has, and messages as they come."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reput.formats.errors import FormatError
from reput.stores.inspect.printable import printable
from reput.stores.query.tail import QueueTail
from reput.streaming.cli import help_pages
from reput.streaming.cli.query_options import (
    Bodies,
    BodyBytes,
    Conf,
    Json,
    OptionalTopic,
    Output,
    Sql,
    Tag,
    Topic,
    Version,
    filter_of,
    finish_rows,
    open_store,
)
from reput.streaming.cli.store_choice import Config, LogPlaces, Store, StoreName
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import Moment, local_time
from reput.streaming.show.query_output import BodyMode
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_SECONDS = 0.1
# A filter that lets nothing pass is said to, once: after this time and this many messages.
_REMARK_SECONDS = 10.0
_REMARK_MESSAGES = 100


def topics(
    store: Store = None,
    topic: OptionalTopic = None,
    output: Output = None,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """List the topics that have queues, with how much is in them; with --topic each queue.

    Example: `reput topics --store /data/rocketmq/store`
    """
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        rows = []
        for name in asked.topics() if topic is None else [topic]:
            queues = [
                (queue_id, queue)
                for queue_id in asked.queue_ids(name)
                if (queue := asked.queue(name, queue_id, is_quick=True)) is not None
            ]
            kind = "batch" if asked.is_batch(name) else "simple"
            if topic is None:
                count = sum(queue.max_offset - max(queue.min_offset, 0) for _, queue in queues)
                rows.append({"topic": name, "kind": kind, "queues": len(queues), "messages": count})
                continue
            for queue_id, queue in queues:
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
        missing = no_such_topic(asked, topic)
        name = "topics" if topic is None else "queues"
        finish_rows(asked, name, rows, as_json=as_json, missing=missing)


def tail(
    topic: Topic,
    store: Store = None,
    queue: Annotated[
        list[int] | None, typer.Option("--queue", "-q", help="Only this queue; several times.")
    ] = None,
    tag: Tag = None,
    sql: Sql = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest message there is.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            rich_help_panel=help_pages.SHOWING,
            help="End after this many messages.",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.0, help="End after this many seconds.")
    ] = None,
    output: Output = None,
    body: Bodies = BodyMode.AUTO,
    body_bytes: BodyBytes = 200,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            rich_help_panel=help_pages.SHOWING,
            help="Print a JSON document for each message, one a line.",
        ),
    ] = False,
) -> None:
    """Show messages of a topic as they come, until Ctrl-C; the store may be live.

    A topic that has no queues yet is waited for, and standard error says so, with the names that
    there are. It also says so once if messages come, and none of them passes --tag or --sql.

    Example: `reput tail --topic TopicTest --tag "TagA || TagB" --store /data/rocketmq/store`
    """
    with open_store(
        store, output, broker_version, broker_conf, commitlog, config, store_name
    ) as asked:
        wanted = filter_of(tag, sql, asked.settings.version)
        following = QueueTail(
            asked,
            topic,
            wanted,
            frozenset(queue or ()),
            from_start=from_start,
            left_out=lambda: _left_out(asked.output),
        )
        missing = no_such_topic(asked, topic, queue or ())
        if missing is not None:
            _remark(f"{missing}. Waiting for it to appear")
        is_remarked = wanted is None
        remark_at = time.monotonic() + _REMARK_SECONDS
        ends_at = None if seconds is None else time.monotonic() + seconds
        shown = 0
        while True:
            for arrival in following.look():
                _print_notes(following)
                fields = out.message_fields(arrival.record, body, body_bytes)
                fields = {"in_queue_at": arrival.queue_offset, **fields}
                _print_arrival(arrival.queue_id, fields, as_json=as_json)
                shown += 1
                if shown == limit:
                    raise typer.Exit(OK)
            _print_notes(following)
            if missing is not None and following.has_queues:
                missing = None
                _remark(f"topic {printable(topic)} is there now")
            is_over = ends_at is not None and time.monotonic() >= ends_at
            is_due = time.monotonic() >= remark_at and following.looked_at >= _REMARK_MESSAGES
            if not is_remarked and not shown and following.looked_at and (is_due or is_over):
                is_remarked = True
                _remark(_none_passed(following.looked_at, tag, sql))
            if is_over:
                raise typer.Exit(OK if shown else NOTHING)
            time.sleep(_LOOK_SECONDS)


def _remark(text: str) -> None:
    print(f"reput: {text}", file=sys.stderr, flush=True)


def _none_passed(count: int, tag: str | None, sql: str | None) -> str:
    """Return that messages came, and that a filter let none of them pass."""
    option = f"--tag {tag!r}" if tag is not None else f"--sql {sql!r}"
    return f"{count:,} message{'s' if count != 1 else ''} came, and none passed {option}"


def _left_out(output: Path) -> tuple[tuple[int, int], ...]:
    """Return physical offsets [start, end) that an output's job passed over, as far as it says."""
    # Few queues have such places; the module takes a while to import.
    from reput.checkpoints import progress  # noqa: PLC0415

    try:
        found = progress.load(output)
    except FormatError:
        # What a damaged record of progress says is not needed to read queues.
        return ()
    return (*found.skipped, *found.lost) if found is not None else ()


def _print_notes(following: QueueTail) -> None:
    for note in following.notes:
        print(f"note: {note}", file=sys.stderr, flush=True)
    following.notes.clear()


def _print_arrival(queue_id: int, fields: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        out.print_json(fields)
        return
    properties = fields["properties"]
    body = fields.get("body", fields.get("body_hex", fields.get("body_json", "")))
    marks = " ".join(
        f"{name.lower()}={printable(properties[name])}"
        for name in ("TAGS", "KEYS")
        if name in properties
    )
    at = fields["stored"].milliseconds
    stored = local_time(at, " ") or at
    notes = []
    if "body_shown" in fields:
        notes.append(f"{fields['body_shown']} of {fields['body_size']} bytes shown")
    if "body_problem" in fields:
        notes.append(f"body {fields['body_problem']}")
    # What is shown is not all of the body, or not what its sender had.
    after = f" [{printable('; '.join(notes))}]" if notes else ""
    line = f"{stored} {queue_id}:{fields['in_queue_at']} {marks} {printable(str(body))}{after}"
    print(line, flush=True)
