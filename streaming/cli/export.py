"""`reput export`: messages of a store as Parquet or JSON lines."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from reput.checkpoints import output_record
from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.stores.following.other_store import refuse_other_store
from reput.stores.query.message_store import MessageStore
from reput.streaming.cli.asked import require_output
from reput.streaming.cli.store_choice import named_in_file, required
from reput.streaming.endings.beside import elsewhere
from reput.streaming.endings.exit_codes import INCOMPLETE, NOTHING, OK
from reput.streaming.endings.failures import FAILURES
from reput.streaming.export import target
from reput.streaming.settings import option_values
from reput.streaming.settings.config import read_broker_conf
from reput.streaming.settings.model.choices import CorruptMode
from reput.streaming.settings.model.exports import ExportOptions
from reput.streaming.settings.separate import read_places
from reput.streaming.source.no_such import no_such_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.streaming.export.write import Selection


def export(options: ExportOptions) -> None:
    """Copy messages to Parquet or JSON lines, through Spark.

    `--topic`, `--queue`, `--begin` and `--end` are handed to the source, which reads no more of the
    log than they need where consume queues can say so. Exit codes: 0 written, 1 no message passed,
    2 wrong usage, 3 failed, 4 a place of the log was passed over, or interrupted.

    Example: `reput export --to /data/orders --topic orders --store /data/rocketmq/store`
    """
    if options.tag is not None and options.sql is not None:
        raise UsageError("--tag and --sql are two kinds of one filter: give one of them")
    origin = _origin_of(options)
    outputs = [] if origin.output is None else [origin.output]
    read = [*(place for _, place in read_places(origin.store, origin.settings)), *outputs]
    target.check(options.to, overwrite=options.overwrite, sources=read)
    # Spark and the compiler take seconds to import: what is wrong is said before.
    from reput.streaming.source.datasource import RocketMQDataSource

    selection = _selection_of(options, origin)
    # What is wrong with the store is said here, and not in Spark's words.
    given = _source_options(options, origin)
    source = RocketMQDataSource(given)
    source.schema()
    _refuse_other_store(origin)
    began = time.monotonic()
    missing = missing_in(origin, options.topic, options.queue)
    if missing is not None:
        _say_missing(missing, source, options, began)
    count = _write(options, given, selection)
    gaps: Sequence[tuple[str, int, int, int]] = ()
    if options.on_corrupt == CorruptMode.SKIP:
        from reput.streaming.dispatch.log.damage import gaps_of

        gaps = list(gaps_of(origin.store, origin.settings))
    was_said = missing is not None
    missing = None if count else missing_in(origin, options.topic, options.queue)
    done = _Done(options.to, count, began, gaps, missing, was_said=was_said)
    _conclude(done, as_json=options.as_json)


@dataclass(frozen=True)
class Origin:
    """Where messages come from.

    Attributes:
        name: what errors call the store.
        store: its directory.
        output: where its queues are, None for the log alone or the store itself.
        properties: its broker.conf.
        version: its broker's, as it is given.
        settings: its broker's.
    """

    name: str
    store: Path
    output: Path | None
    properties: Mapping[str, str]
    version: str
    settings: BrokerSettings


def _origin_of(options: ExportOptions) -> Origin:
    """Return the store that the options name.

    Raises:
        UsageError: none, several, or something wrong with them.
        StoreError: the output is not there.
    """
    chosen = named_in_file(options)
    if chosen is not None:
        # Without queues the log alone is read.
        output = chosen.output if chosen.output.is_dir() else None
        name, store, properties = chosen.name, chosen.path, dict(chosen.properties)
        version, told = chosen.settings.version.family, list(chosen.settings.commitlog_told)
    else:
        store, output = required(options.store), options.output
        if output is not None:
            require_output(output)
        conf = options.broker_conf
        name, properties = store.resolve().name, read_broker_conf(conf) if conf else {}
        version = broker.NEWEST if options.broker_version is None else options.broker_version
        told = [str(each) for each in options.commitlog or ()]
    settings = broker.settings_of(version, properties, told)
    return Origin(name, store, output, properties, version, settings)


def _selection_of(options: ExportOptions, origin: Origin) -> Selection:
    """Return which messages are copied.

    Raises:
        UsageError: a time that is not one.
        FilterError: the expression is refused.
    """
    from reput.streaming.export.write import FilterText, Selection

    expression = options.tag if options.tag is not None else options.sql
    begin, end = options.begin, options.end
    selection = Selection(
        options.topic,
        options.queue,
        option_values.milliseconds("--begin", begin, is_local=True) if begin is not None else None,
        option_values.milliseconds("--end", end, is_local=True) if end is not None else None,
        None
        if expression is None
        else FilterText(
            expression,
            "TAG" if options.tag is not None else "SQL92",
            options.filter_mode.value,
            origin.settings.version.has_string_operators,
        ),
        decompresses=not options.stored_bodies,
    )
    if selection.filter_text is not None:
        selection.filter_text.compile()
    return selection


def _source_options(options: ExportOptions, origin: Origin) -> dict[str, str]:
    """Return the options of the Spark source."""
    # As JSON: a path may hold a comma.
    table = {
        "path": str(origin.store),
        "output": str(origin.output or ""),
        "commitlog": list(origin.settings.commitlog_told),
        "broker": origin.properties,
    }
    return {
        "stores": json.dumps({origin.name: table}),
        "brokerVersion": origin.version,
        "ascendingStoreTime": str(options.ascending_store_time).lower(),
        "onCorrupt": options.on_corrupt.value,
    }


def _say_missing(missing: str, source: Any, options: ExportOptions, began: float) -> None:
    """Say that what was asked for is not there; end here where queues are sure of it.

    Raises:
        typer.Exit: the queues have all of the log.
    """
    from reput.streaming.source.pushdown.unknown_topic import queues_have_all

    # What is passed over is looked for in all of the log.
    if options.on_corrupt == CorruptMode.STOP and queues_have_all(source.parsed):
        done = _Done(options.to, 0, began, missing=missing, is_written=False)
        _conclude(done, as_json=options.as_json)
    print(f"reput: {missing}. The queues may not have all of the log: reading it", file=sys.stderr)


def _write(options: ExportOptions, given: Mapping[str, str], selection: Selection) -> int:
    """Write the messages, and return how many there were.

    Raises:
        ReputError: the log cannot be read, or the files cannot be written.
    """
    from py4j.protocol import Py4JError

    from reput.streaming.export.write import HEAP_A_TASK, MOST_AT_A_TIME, write
    from reput.streaming.source.datasource import NAME, register
    from reput.streaming.spark.session import QUIET, build_session, memory_for_tasks

    # Sorting by day holds the rows a second time.
    heap = HEAP_A_TASK * (2 if options.by_day else 1)
    with target.held(options.to, overwrite=options.overwrite):
        settings = {**memory_for_tasks(heap), **MOST_AT_A_TIME, **QUIET}
        spark = elsewhere(lambda: build_session("reput export", **settings))
        try:
            register(spark)
            messages = spark.read.format(NAME).options(**given).load()
            chosen = selection.of(messages)
            return write(chosen, options.to, options.file_format.value, by_day=options.by_day)
        finally:
            # If the JVM has ended, its error has been reported already.
            with contextlib.suppress(ConnectionError, Py4JError):
                spark.stop()


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


def _refuse_other_store(origin: Origin) -> None:
    """Refuse an output of another store; see `stores.following.other_store`."""
    output, store, settings = origin.output, origin.store, origin.settings
    if output is None:
        return
    from reput.stores.log.commitlog import CommitLog, commitlog_directories

    log = CommitLog(commitlog_directories(store, settings), settings, store)
    try:
        refuse_other_store(log, store, output, output_record.read(output))
    finally:
        log.close()


def missing_in(origin: Origin, topic: str | None, queue: int | None) -> str | None:
    """Return that a topic, or a queue of it, is not there, and what is; None if it is there."""
    with MessageStore.open(origin.store, origin.output, origin.settings) as asked:
        if not asked.topics():
            # A log alone is exported as well.
            return None
        return no_such_topic(asked, topic, [] if queue is None else [queue])
