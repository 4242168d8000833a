"""`reput export`: messages of a store as Parquet or JSON lines."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.stores.query.message_store import MessageStore
from reput.streaming.cli import completions, help_pages
from reput.streaming.cli.query_options import (
    Begin,
    Conf,
    End,
    Json,
    OptionalTopic,
    Output,
    QueueId,
    require_output,
)
from reput.streaming.cli.store_choice import Config, LogPlaces, Store, StoreName, of_file, required
from reput.streaming.dispatch import output_record
from reput.streaming.dispatch.other_store import refuse_other_store
from reput.streaming.endings.exit_codes import INCOMPLETE, NOTHING, OK
from reput.streaming.endings.failures import FAILURES
from reput.streaming.endings.interruptions import elsewhere
from reput.streaming.export import target
from reput.streaming.settings import option_values
from reput.streaming.settings.config import read_broker_conf
from reput.streaming.settings.option_values import CorruptMode
from reput.streaming.settings.separate import read_places
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.formats.rocketmq.broker import BrokerSettings


class FileFormat(StrEnum):
    """What files are written."""

    PARQUET = "parquet"
    JSON = "json"


class FilterMode(StrEnum):
    """How expressions are taken."""

    BROKER = "broker"
    STRICT = "strict"


def export(
    to: Annotated[
        Path,
        typer.Option("--to", rich_help_panel=help_pages.WRITING, help="The directory to make."),
    ],
    store: Store = None,
    output: Output = None,
    file_format: Annotated[
        FileFormat,
        typer.Option(
            "--format",
            rich_help_panel=help_pages.WRITING,
            help="parquet, or json: a message a line.",
        ),
    ] = FileFormat.PARQUET,
    topic: OptionalTopic = None,
    queue: QueueId = None,
    begin: Begin = None,
    end: End = None,
    tag: Annotated[str | None, typer.Option("--tag", help='Only these: "TagA || TagB".')] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", help="Only those for which this SQL92 filter is TRUE.")
    ] = None,
    filter_mode: Annotated[
        FilterMode,
        typer.Option(
            "--filter-mode",
            help="broker: filters mean what they mean to a broker. strict: those that a broker "
            "silently takes for something else are refused.",
        ),
    ] = FilterMode.BROKER,
    by_day: Annotated[
        bool,
        typer.Option(
            "--by-day",
            rich_help_panel=help_pages.WRITING,
            help="A directory for each day (UTC): day=2026-11-21.",
        ),
    ] = False,
    stored_bodies: Annotated[
        bool,
        typer.Option(
            "--stored-bodies",
            rich_help_panel=help_pages.WRITING,
            help="Leave bodies compressed as they are stored. Else they are decompressed, up to "
            "64 MiB each, and the column bodyProblem says why a body is not what its sender had: "
            'null where it is, "not decompressed: …" where the body is as stored, "cut: …" where '
            "it is only a beginning.",
        ),
    ] = False,
    ascending_store_time: Annotated[
        bool,
        typer.Option(
            "--ascending-store-time",
            help="No clock of the broker ever went back: --begin and --end leave out parts of the "
            "log unread.",
        ),
    ] = False,
    on_corrupt: Annotated[
        CorruptMode,
        typer.Option(
            "--on-corrupt",
            rich_help_panel=help_pages.ENDING,
            help="At what is corrupt or missing in the log: stop with exit code 3, or skip: export "
            "what is there, name each place that was passed over, and end with exit code 4.",
        ),
    ] = CorruptMode.STOP,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            rich_help_panel=help_pages.WRITING,
            help="Replace an earlier export in the directory.",
        ),
    ] = False,
    broker_version: Annotated[
        str | None,
        typer.Option(
            "--broker-version",
            autocompletion=completions.versions,
            rich_help_panel=help_pages.READING,
            help=f"The broker whose rules count. [default: {broker.NEWEST}]",
        ),
    ] = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    store_name: StoreName = None,
    as_json: Json = False,
) -> None:
    """Copy messages to Parquet or JSON lines, through Spark.

    `--topic`, `--queue`, `--begin` and `--end` are handed to the source, which reads no more of the
    log than they need where consume queues can say so. Exit codes: 0 written, 1 no message passed,
    2 wrong usage, 3 failed, 4 a place of the log was passed over, or interrupted.

    Example: `reput export --to /data/orders --topic orders --store /data/rocketmq/store`
    """
    if tag is not None and sql is not None:
        raise UsageError("--tag and --sql are two kinds of one filter: give one of them")
    chosen = of_file(config, store_name, store, output, broker_version, broker_conf, commitlog)
    if chosen is None:
        store = required(store)
        if output is not None:
            require_output(output)
        name, properties = (
            store.resolve().name,
            read_broker_conf(broker_conf) if broker_conf else {},
        )
        told = [str(each) for each in commitlog or ()]
    else:
        name, properties = chosen.name, dict(chosen.properties)
        told = list(chosen.settings.commitlog_told)
        # Without queues the log alone is read.
        store, output = chosen.path, chosen.output if chosen.output.is_dir() else None
        broker_version = chosen.settings.version.family
    broker_version = broker.NEWEST if broker_version is None else broker_version
    version = broker.version_of(broker_version)
    read = read_places(store, broker.settings_of(broker_version, properties, told))
    sources = [*(place for _, place in read), *([] if output is None else [output])]
    target.check(to, overwrite=overwrite, sources=sources)
    # Spark and the compiler take seconds to import: what is wrong is said before.
    from py4j.protocol import Py4JError  # noqa: PLC0415

    from reput.streaming.export.write import (  # noqa: PLC0415
        HEAP_A_TASK,
        MOST_AT_A_TIME,
        FilterText,
        Selection,
        write,
    )
    from reput.streaming.source.datasource import NAME, RocketMQDataSource, register  # noqa: PLC0415
    from reput.streaming.spark.session import QUIET, build_session, memory_for_tasks  # noqa: PLC0415

    expression = tag if tag is not None else sql
    selection = Selection(
        topic,
        queue,
        option_values.milliseconds("--begin", begin, is_local=True) if begin is not None else None,
        option_values.milliseconds("--end", end, is_local=True) if end is not None else None,
        None
        if expression is None
        else FilterText(
            expression,
            "TAG" if tag is not None else "SQL92",
            filter_mode.value,
            version.has_string_operators,
        ),
        decompresses=not stored_bodies,
    )
    if selection.filter_text is not None:
        selection.filter_text.compile()
    # As JSON: a path may hold a comma.
    table = {"path": str(store), "output": str(output or ""), "commitlog": told}
    options = {
        "stores": json.dumps({name: {**table, "broker": properties}}),
        "brokerVersion": broker_version,
        "ascendingStoreTime": str(ascending_store_time).lower(),
        "onCorrupt": on_corrupt.value,
    }
    # What is wrong with the store is said here, and not in Spark's words.
    source = RocketMQDataSource(options)
    source.schema()
    of_broker = broker.settings_of(broker_version, properties, told)
    _refuse_other_store(store, output, of_broker)
    began = time.monotonic()
    missing = _missing(store, output, of_broker, topic, queue)
    if missing is not None:
        from reput.streaming.source.unknown_topic import queues_have_all  # noqa: PLC0415 - brings the compiler

        # What is passed over is looked for in all of the log.
        if on_corrupt == CorruptMode.STOP and queues_have_all(source.parsed):
            _conclude(_Done(to, 0, began, missing=missing, is_written=False), as_json=as_json)
        print(
            f"reput: {missing}. The queues may not have all of the log: reading it", file=sys.stderr
        )
    # Sorting by day holds the rows a second time.
    heap = HEAP_A_TASK * (2 if by_day else 1)
    with target.held(to, overwrite=overwrite):
        settings = {**memory_for_tasks(heap), **MOST_AT_A_TIME, **QUIET}
        spark = elsewhere(lambda: build_session("reput export", **settings))
        try:
            register(spark)
            messages = spark.read.format(NAME).options(**options).load()
            count = write(selection.of(messages), to, file_format.value, by_day=by_day)
        finally:
            # If the JVM has ended, its error has been reported already.
            with contextlib.suppress(ConnectionError, Py4JError):
                spark.stop()
    gaps = []
    if on_corrupt == CorruptMode.SKIP:
        from reput.streaming.dispatch.damage import gaps_of  # noqa: PLC0415 - brings the compiler

        gaps = list(gaps_of(store, of_broker))
    was_said = missing is not None
    missing = None if count else _missing(store, output, of_broker, topic, queue)
    done = _Done(to, count, began, gaps, missing, was_said=was_said)
    _conclude(done, as_json=as_json)


@dataclass(frozen=True)
class _Done:
    """What an export did.

    Attributes:
        to: its directory.
        count: messages.
        began: when, by the monotonic clock, seconds.
        gaps: what was passed over: file, byte, and physical offsets.
        missing: that topic or queue is not there, and what is.
        was_said: that was said before.
        is_written: there is an export, if only an empty one.
    """

    to: Path
    count: int
    began: float
    gaps: Sequence[tuple[str, int, int, int]] = ()
    missing: str | None = None
    was_said: bool = False
    is_written: bool = True


def _conclude(done: _Done, *, as_json: bool) -> NoReturn:
    """Print what an export did, and exit."""
    seconds = time.monotonic() - done.began
    code = FAILURES.answered(INCOMPLETE if done.gaps else OK if done.count else NOTHING)
    if done.missing is not None and not done.was_said:
        print(f"reput: {done.missing}", file=sys.stderr)
    if as_json:
        names = ("path", "byte", "start", "end")
        document = {
            "messages": done.count,
            "to": str(done.to),
            "seconds": round(seconds, 3),
            "complete": not done.gaps,
            "passed_over": [dict(zip(names, gap, strict=True)) for gap in done.gaps],
            "missing": done.missing,
        }
        print(json.dumps(document))
    elif not done.is_written:
        print(f"0 messages; nothing is written to {done.to}")
    else:
        print(f"{done.count:,} messages to {done.to} in {seconds:.1f} s")
        for path, byte, first, after in done.gaps:
            print(
                f"incomplete: physical offsets {first} to {after}, {path} from byte {byte} on, "
                "hold no records and were passed over"
            )
    raise typer.Exit(code)


def _refuse_other_store(store: Path, output: Path | None, settings: BrokerSettings) -> None:
    """Refuse an output of another store; see `streaming.dispatch.other_store`."""
    if output is None:
        return
    from reput.stores.log.commitlog import CommitLog, commitlog_directories  # noqa: PLC0415 - brings numpy

    log = CommitLog(commitlog_directories(store, settings), settings, store)
    try:
        refuse_other_store(log, store, output, output_record.read(output))
    finally:
        log.close()


def _missing(
    store: Path,
    output: Path | None,
    settings: BrokerSettings,
    topic: str | None,
    queue: int | None,
) -> str | None:
    """Return that a topic, or a queue of it, is not there, and what is; None if it is there."""
    with MessageStore.open(store, output, settings) as asked:
        if not asked.topics():
            # A log alone is exported as well.
            return None
        return no_such_topic(asked, topic, [] if queue is None else [queue])
