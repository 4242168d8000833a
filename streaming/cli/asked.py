"""What the commands that ask a store have in common: how they open it, and how they end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from reput.checkpoints import output_record
from reput.formats.errors import StoreError, UsageError
from reput.formats.rocketmq import broker
from reput.stores.following.other_store import refuse_other_store
from reput.stores.query.message_store import MessageStore
from reput.streaming.cli.store_choice import named_in_file, refuse_file, required, tell
from reput.streaming.endings.exit_codes import INCOMPLETE, NOTHING, OK
from reput.streaming.endings.failures import FAILURES
from reput.streaming.settings.config import read_broker_conf
from reput.streaming.show import query_output as out
from reput.streaming.source.read_settings import refuse_other_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from reput.stores.config.message_filter import MessageFilter
    from reput.streaming.settings.model.stores import StoreOptions

# Without an index the question cannot be answered.
NO_INDEX = INCOMPLETE


def open_store(options: StoreOptions) -> MessageStore:
    """Return a reader of the store that the options name.

    Raises:
        UsageError: none, several, or something wrong with them.
        StoreError: it is not there.
    """
    chosen = named_in_file(options)
    if chosen is not None:
        is_own = chosen.output == chosen.path
        if not is_own and not chosen.output.is_dir():
            raise UsageError(
                f"{options.config}, store {chosen.name}: output {chosen.output}: no such directory"
            )
        tell(chosen.name, chosen.path, chosen.output, chosen.settings)
        return open_reader(chosen.path, None if is_own else chosen.output, chosen.settings)
    store, output = required(options.store), options.output
    if "\0" in f"{store}{output or ''}":
        raise UsageError("a path holds a NUL, which no path can have")
    if output is not None:
        require_output(output)
    settings = broker.settings_of(
        broker.NEWEST if options.broker_version is None else options.broker_version,
        read_broker_conf(options.broker_conf) if options.broker_conf else {},
        [str(each) for each in options.commitlog or ()],
    )
    tell(store.resolve().name, store, output or store, settings)
    return open_reader(store, output, settings)


def open_reader(store: Path, output: Path | None, settings: broker.BrokerSettings) -> MessageStore:
    """Return a reader of a store; an output of another one would answer for that."""
    record = output_record.read(output or store)
    refuse_other_sizes(output or store, settings, record)
    asked = MessageStore.open(store, output, settings)
    try:
        refuse_other_store(asked.log, store, output, record)
    except BaseException:
        asked.close()
        raise
    return asked


def require_output(output: Path) -> None:
    """Refuse an output that is not there.

    Raises:
        UsageError: it is a file.
        StoreError: there is nothing.
    """
    refuse_file("--output", output)
    if not output.is_dir():
        raise StoreError(output, "no such directory", "Point --output at what reput wrote")


def filter_of(
    tag: str | None, sql: str | None, version: broker.BrokerVersion
) -> MessageFilter | None:
    """Return the filter that the options give, None for none.

    Raises:
        UsageError: both, or an expression that the broker refuses.
    """
    if tag is not None and sql is not None:
        raise UsageError("--tag and --sql are two kinds of one filter: give one of them")
    if tag is None and sql is None:
        return None
    from reput.stores.config.message_filter import compile_filter

    if tag is not None:
        return compile_filter(tag)
    return compile_filter(sql, "SQL92", string_operators=version.has_string_operators)


def finish(
    store: MessageStore,
    document: dict[str, Any],
    code: int,
    *,
    as_json: bool,
    missing: str | None = None,
) -> NoReturn:
    """Print what is left to print, and exit.

    Args:
        store: that was asked.
        document: the answer.
        code: what to exit with.
        as_json: the answer is printed here.
        missing: what was asked for and is not there, see `streaming.source.no_such`.

    Raises:
        typer.Exit: with the code.
    """
    FAILURES.answered(code)
    if missing is not None:
        print(f"reput: {missing}", file=sys.stderr)
        document = {**document, "missing": missing}
    if as_json:
        notes = out.notes(store.report)
        out.print_json({**document, "notes": notes, "notes_total": store.report.found})
    else:
        out.print_notes(store.report)
    raise typer.Exit(code)


def finish_rows(
    asked: MessageStore,
    name: str,
    rows: list[dict[str, Any]],
    *,
    as_json: bool,
    total: int | None = None,
    missing: str | None = None,
) -> NoReturn:
    """Print rows as a table, or as a document with that name, and exit.

    Args:
        asked: the store.
        name: of the rows, a plural.
        rows: that are shown.
        as_json: as a document.
        total: how many rows there are, if these are not all.
        missing: what was asked for and is not there.

    Raises:
        typer.Exit: 0, or 1 without rows.
    """
    if not as_json:
        out.print_table(rows)
        if not rows:
            print(f"no {name}")
        elif total is not None and total > len(rows):
            print(f"{len(rows)} of {total} {name} shown; --limit 0 shows all")
    code = OK if rows else NOTHING
    count = len(rows) if total is None else total
    document = {name: rows, "total": count, "truncated": count > len(rows)}
    finish(asked, document, code, as_json=as_json, missing=None if rows else missing)


def first(count: int, values: Iterable[Any]) -> Iterator[Any]:
    """Yield the first `count` of some values."""
    for number, value in enumerate(values, 1):
        yield value
        if number == count:
            return


def now_ms() -> int:
    """Return the time, ms."""
    return time.time_ns() // 1_000_000
