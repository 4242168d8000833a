"""`reput tail`: messages of a topic as they come."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import typer

from reput.formats.errors import FormatError
from reput.stores.inspect.printable import printable
from reput.stores.query.tail import QueueTail
from reput.streaming.cli.asked import filter_of, open_store
from reput.streaming.endings.exit_codes import NOTHING, OK
from reput.streaming.settings.model.queries import TailOptions
from reput.streaming.show import query_output as out
from reput.streaming.show.moments import local_time
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.query.message_store import MessageStore

_LOOK_SECONDS = 0.1
# A filter that no message passes gets one remark: after this time and this many messages.
_REMARK_SECONDS = 10.0
_REMARK_MESSAGES = 100


def tail(options: TailOptions) -> None:
    """Show messages of a topic as they come, until Ctrl-C; the store may be live.

    A topic that has no queues yet is waited for, and standard error says so, with the names that
    there are. It also says so once if messages come, and none of them passes --tag or --sql.

    Example: `reput tail --topic TopicTest --tag "TagA || TagB" --store /data/rocketmq/store`
    """
    with open_store(options) as asked:
        _Tail(asked, options).follow()


class _Tail:
    """A topic that is followed, and what has been said of it so far."""

    def __init__(self, asked: MessageStore, options: TailOptions) -> None:
        self._options = options
        wanted = filter_of(options.tag, options.sql, asked.settings.version)
        self._queues = QueueTail(
            asked,
            options.topic,
            wanted,
            frozenset(options.queue or ()),
            from_start=options.from_start,
            left_out=lambda: _left_out(asked.output),
        )
        self._awaits_topic = False
        missing = no_such_topic(asked, options.topic, options.queue or ())
        if missing is not None:
            self._awaits_topic = True
            _remark(f"{missing}. Waiting for it to appear")
        self._is_remarked = wanted is None
        self._shown = 0
        now = time.monotonic()
        self._remark_at = now + _REMARK_SECONDS
        self._ends_at = None if options.seconds is None else now + options.seconds

    def follow(self) -> None:
        """Show what comes.

        Raises:
            typer.Exit: with the code, once the time or the messages that were asked for are over.
        """
        while True:
            self._show_arrivals()
            _print_notes(self._queues)
            is_over = self._ends_at is not None and time.monotonic() >= self._ends_at
            self._remark_on_topic()
            self._remark_on_filter(is_over=is_over)
            if is_over:
                raise typer.Exit(OK if self._shown else NOTHING)
            time.sleep(_LOOK_SECONDS)

    def _show_arrivals(self) -> None:
        options = self._options
        for arrival in self._queues.look():
            _print_notes(self._queues)
            fields = out.message_fields(arrival.record, options.body, options.body_bytes)
            fields = {"in_queue_at": arrival.queue_offset, **fields}
            _print_arrival(arrival.queue_id, fields, as_json=options.as_json)
            self._shown += 1
            if self._shown == options.limit:
                raise typer.Exit(OK)

    def _remark_on_topic(self) -> None:
        if self._awaits_topic and self._queues.has_queues:
            self._awaits_topic = False
            _remark(f"topic {printable(self._options.topic)} is there now")

    def _remark_on_filter(self, *, is_over: bool) -> None:
        looked_at = self._queues.looked_at
        is_due = time.monotonic() >= self._remark_at and looked_at >= _REMARK_MESSAGES
        if not self._is_remarked and not self._shown and looked_at and (is_due or is_over):
            self._is_remarked = True
            _remark(_none_passed(looked_at, self._options.tag, self._options.sql))


def _remark(text: str) -> None:
    print(f"reput: {text}", file=sys.stderr, flush=True)


def _none_passed(count: int, tag: str | None, sql: str | None) -> str:
    """Return that messages came, and that none of them passed a filter."""
    option = f"--tag {tag!r}" if tag is not None else f"--sql {sql!r}"
    return f"{count:,} message{'s' if count != 1 else ''} came, and none passed {option}"


def _left_out(output: Path) -> tuple[tuple[int, int], ...]:
    """Return physical offsets [start, end) that an output's job passed over, as far as it says."""
    # Few queues have such places; the module takes a while to import.
    from reput.checkpoints import progress

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
