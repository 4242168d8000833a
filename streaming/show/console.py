"""What the command shows: tables and progress bars for people, JSON for programs, log lines."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from typing import TYPE_CHECKING

from pythonjsonlogger.json import JsonFormatter
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from reput.stores.inspect.printable import printable
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.events import STARTED, STORE, kind_of_event
from reput.streaming.settings.option_values import number_of_bytes
from reput.streaming.settings.secret_words import looks_secret
from reput.streaming.show.moments import Moment, for_json, local_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Finding, Report
    from reput.stores.inspect.queues import Inspection
    from reput.streaming.dispatch.pipeline import Block
    from reput.streaming.job.job import Job
    from reput.streaming.job.summary import Summary
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.verify.handover import Handover
    from reput.streaming.verify.repair import Repair

# Into a pipe or a file, lines may be long: a table that is cut off is of no use there.
_PIPE_WIDTH = 200


class _Remarks(Console):
    """Standard error: nothing depends on it."""

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        self.quiet = True


OUT = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
ERR = _Remarks(stderr=True, highlight=False)
_LOG = logging.getLogger("reput")
_HANDLER: logging.Handler | None = None
_SHOWN = 40


def parse_bytes(text: str) -> int:
    """Return the bytes that "64m", "1g" or "4096" stand for.

    Raises:
        UsageError: none of these.
    """
    return number_of_bytes(text)


def _local_time(record: logging.LogRecord) -> str:
    return local_time(int(record.created * 1000), " ") or str(record.created)


class _Zoned(logging.Formatter):
    """Log lines whose times name their zone."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return _local_time(record)


class _ZonedJson(JsonFormatter):
    """Log lines as JSON whose times name their zone."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return _local_time(record)


def log_to_stderr(*, as_json: bool = False, usual: int = logging.INFO) -> None:
    """Send our log lines to standard error, in place of how they went there before.

    Args:
        as_json: one JSON object a line, for those who collect them; else text.
        usual: the command's level, if it is asked for neither more nor less.
    """
    global _HANDLER  # noqa: PLW0603 - the logger is one for the process, too
    if _HANDLER is not None:
        _LOG.removeHandler(_HANDLER)
    handler = logging.StreamHandler(sys.stderr)
    if as_json:
        handler.setFormatter(
            _ZonedJson(
                "%(asctime)s %(levelname)s %(message)s",
                rename_fields={"asctime": "time", "levelname": "level"},
            )
        )
    else:
        handler.setFormatter(_Zoned("%(asctime)s %(levelname)s %(message)s"))
    _LOG.addHandler(handler)
    _HANDLER = handler
    _LOG.setLevel(VERBOSITY.level(usual))


def logs_json() -> bool:
    """Tell whether log lines are JSON."""
    return any(isinstance(each.formatter, JsonFormatter) for each in _LOG.handlers)


def report_openings(job: Job) -> None:
    """Say where each output goes on, and what was taken back of it."""
    for name, dispatcher in job.dispatchers.items():
        recovery = dispatcher.recovery
        for reason in recovery.reasons:
            text = (
                f"{reason}; {recovery.entries} entries and {recovery.items} index items beyond "
                "its progress were taken back"
            )
            _report(name, text, kind_of_event(reason))
        for warning in dispatcher.warnings:
            _report(name, warning, kind_of_event(warning))


def _report(store: str, text: str, kind: str) -> None:
    """Say it in the log where there is one."""
    if _LOG.handlers:
        _LOG.warning("%s: %s", store, text, extra={"store": store, "event": kind})
    else:
        ERR.print(f"{store}: {text}", markup=False)


def report_settings(
    configs: Sequence[StoreConfig], options: object, more: Mapping[str, object]
) -> None:
    """Log what is in force: one line for the job, and one for each store.

    Of a broker.conf only what counts here is shown, and nothing that looks like a secret: the file
    may hold passwords.

    Args:
        configs: the stores.
        options: a dataclass, the job's.
        more: further settings by name.
    """
    settings = {**_shown(vars(options)), **_shown(more)}
    _LOG.info(
        "started with %s",
        ", ".join(f"{name}={value}" for name, value in settings.items()),
        extra={"event": STARTED, "settings": settings},
    )
    for config in configs:
        report_store(config.name, config.path, config.output, config.settings)


def report_store(name: str, path: Path, output: Path, settings: BrokerSettings) -> None:
    """Log where a store is, and which settings differ from a broker's own.

    Args:
        name: what logs call it.
        path: of the store.
        output: where its queues and index are.
        settings: in force.
    """
    default = type(settings)()
    values = {
        key: value
        for key, value in vars(settings).items()
        if key != "version" and value != getattr(default, key)
    }
    store = {
        "path": str(path),
        "output": str(output),
        "broker_version": settings.version.family,
        **_shown(values),
    }
    _LOG.info(
        "%s: %s",
        name,
        ", ".join(f"{key}={value}" for key, value in store.items()),
        extra={"event": STORE, "store": name, "settings": store},
    )


def _shown(values: Mapping[str, object]) -> dict[str, object]:
    """Return values fit to be logged: plain ones, and none of a secret."""
    return {
        name: "***"
        if looks_secret(name)
        else value
        if isinstance(value, bool | int | float | None)
        else printable(str(value))
        for name, value in values.items()
    }


@contextlib.contextmanager
def progress(job: Job) -> Iterator[None]:
    """Show a bar a store, with rate and time left, while the job runs; on a terminal only."""
    if not ERR.is_terminal or not VERBOSITY.shows_bars:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERR) as bars:
        tasks: dict[str, TaskID] = {}
        messages: dict[str, int] = {}
        for name, dispatcher in job.dispatchers.items():
            done = max(dispatcher.progress.end, dispatcher.log.min_offset)
            total = max(job.end_of_log(name) - done, 0)
            tasks[name] = bars.add_task(name, total=total, rate="")
            messages[name] = 0

        def advance(name: str, block: Block) -> None:
            messages[name] += block.count
            # Spark's start is before that.
            began = job.began if job.began is not None else time.monotonic()
            rate = messages[name] / max(time.monotonic() - began, 1e-3)
            bars.update(tasks[name], advance=block.reached - block.first, rate=f"{rate:,.0f} msg/s")

        job.on_block = advance
        yield


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only."""
    with ERR.status(what) if ERR.is_terminal and VERBOSITY.shows_bars else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Show nothing."""
    yield


def summary_document(
    summary: Summary, *, is_complete: bool, has_queues: bool = True
) -> dict[str, object]:
    """Return what `--json` prints of what a job did.

    Args:
        summary: of the job.
        is_complete: it did all that it was to do.
        has_queues: consume queues and index have all that they were to have.
    """
    return {**summary.as_dict(), "complete": is_complete, "queues_complete": has_queues}


def print_summary(
    summary: Summary,
    *,
    as_json: bool,
    left: Sequence[str] = (),
    is_complete: bool = True,
    has_queues: bool = True,
) -> None:
    """Print what a job did.

    Args:
        summary: of the job.
        as_json: as one document.
        left: what it was to do as well, and what to run next; only in the document.
        is_complete: see `summary_document`, so the next one.
        has_queues: consume queues and index.
    """
    values = {
        **summary_document(summary, is_complete=is_complete, has_queues=has_queues),
        **({"error": "; ".join(left)} if left else {}),
    }
    if as_json:
        print(json.dumps(values))
        return
    table = Table(title="Dispatched", title_justify="left")
    for header in ("store", "messages", "bytes", "messages/s", "files", "next offset"):
        table.add_column(header, justify="left" if header == "store" else "right")
    for store in summary.stores:
        table.add_row(
            store.name,
            f"{store.messages:,}",
            f"{store.bytes:,}",
            f"{summary.rate(store):,.0f}",
            f"{len(store.files):,}",
            str(store.end),
        )
    OUT.print(table)
    rates = f"{summary.busy_seconds:.2f} s of them in batches, which rates count"
    if not summary.is_live:
        rates = "the last flush to the disk included"
    OUT.print(f"in {summary.seconds:.2f} s, without the start of Spark; {rates}")


def print_report(report: Report, *, as_json: bool) -> None:
    """Print what `verify` found."""
    if as_json:
        print(json.dumps(report_as_dict(report)))
        return
    tables = (
        ("Findings", report.findings),
        ("Out of reach", report.lacks),
        ("Notes", report.notes),
    )
    counts = {"Out of reach": report.lacking, "Notes": report.noted}
    for title, findings in tables:
        if findings:
            table = Table(title=title, title_justify="left")
            for header in ("kind", "file", "byte", "what"):
                table.add_column(header, overflow="fold")
            for finding in findings[:_SHOWN]:
                cells = (finding.kind, finding.path, str(finding.position), finding.detail)
                table.add_row(*(escape(printable(cell)) for cell in cells))
            OUT.print(table)
            if len(findings) > _SHOWN and title in counts:
                OUT.print(f"{_SHOWN} of {counts[title]} shown; --json has more")
    shown = min(len(report.findings), _SHOWN)
    more = f" ({shown} of them shown)" if report.found > shown else ""
    verdict = verdict_of(report)
    noun = "finding" if report.found == 1 else "findings"
    said = f"{verdict}, {report.found} {noun}{more}" if verdict == Verdict.DAMAGED else verdict
    OUT.print(
        f"{said}: {report.messages:,} messages, {report.entries:,} queue entries, "
        f"{report.units:,} extension units, {report.items:,} index items in {report.files:,} files "
        f"in {report.seconds:.2f} s"
        + (
            f"; {report.unverifiable:,} of records that the log does not have"
            if report.unverifiable
            else ""
        )
    )


def print_handover(result: Handover, *, as_json: bool) -> None:
    """Print whether a broker may be started, and what to do."""
    if as_json:
        values = {
            "verdict": result.verdict,
            "safe": result.is_safe,
            "problems": result.problems,
            "places": result.places,
            "commands": result.commands,
            "end": result.end,
            "verify": report_as_dict(result.report) if result.report else None,
            "seconds": round(result.seconds, 3),
        }
        print(json.dumps(values))
        return
    for problem in result.problems:
        OUT.print(f"- {problem}", markup=False, soft_wrap=True)
    if not result.is_safe:
        OUT.print(f"not safe yet: {result.verdict}")
        return
    messages = result.report.messages if result.report else 0
    OUT.print(f"safe: {messages:,} messages up to physical offset {result.end:,}")
    if result.commands:
        OUT.print("With the broker stopped:")
        # One that fails ends all of them.
        for line in [f"{each} &&" for each in result.commands[:-1]] + result.commands[-1:]:
            OUT.print(f"    {line}", markup=False, soft_wrap=True)


def print_repairs(results: Sequence[tuple[StoreConfig, Repair]], *, as_json: bool) -> None:
    """Print what was done to outputs, file by file."""
    if as_json:
        stores = [_repair_as_dict(config, result) for config, result in results]
        print(json.dumps({"ok": all(result.ok for _, result in results), "stores": stores}))
        return
    for config, result in results:
        if result.record:
            OUT.print(f"progress record made again: {result.record}", markup=False, soft_wrap=True)
        if result.settings:
            OUT.print(
                f"record of topics' types and filters made again, by those of today: "
                f"{result.settings}",
                markup=False,
                soft_wrap=True,
            )
        for start, end in result.restored:
            OUT.print(
                f"physical offsets {start} to {end} had been passed over, and are dispatched now "
                "as far as they can be read",
                soft_wrap=True,
            )
        if result.changes:
            table = Table(title=config.name, title_justify="left")
            for header in ("what", "file", "why"):
                table.add_column(header, overflow="fold")
            for change in result.changes[:_SHOWN]:
                cells = (change.what, str(change.path), change.detail)
                table.add_row(*(escape(printable(cell)) for cell in cells))
            OUT.print(table)
        more = len(result.changes) - _SHOWN
        OUT.print(
            f"{len(result.changes)} change{'s' if len(result.changes) != 1 else ''}"
            f"{f', {_SHOWN} of them shown' if more > 0 else ''}; "
            f"{result.kept:,} files were right and stay; {result.messages:,} messages up to "
            f"physical offset {result.end:,}, in {result.seconds:.2f} s"
        )
        if result.report is not None:
            print_report(result.report, as_json=False)


def _repair_as_dict(config: StoreConfig, result: Repair) -> dict[str, object]:
    return {
        "name": config.name,
        "output": str(config.output),
        "verdict": result.verdict,
        "ok": result.ok,
        "changes": [
            {"what": change.what, "file": str(change.path), "detail": change.detail}
            for change in result.changes
        ],
        "kept": result.kept,
        "restored": [list(place) for place in result.restored],
        "progress": result.record or "read",
        "settings": result.settings or "read",
        "end": result.end,
        "messages": result.messages,
        "failure": str(result.failure) if result.failure is not None else None,
        "verify": report_as_dict(result.report) if result.report is not None else None,
        "seconds": round(result.seconds, 3),
    }


def report_as_dict(report: Report) -> dict[str, object]:
    """Return what `verify --json` prints."""

    def rows(findings: list[Finding]) -> list[dict[str, object]]:
        return [
            {"kind": f.kind, "file": f.path, "byte": f.position, "detail": f.detail}
            for f in findings
        ]

    return {
        "verdict": verdict_of(report),
        "ok": report.ok,
        "complete": report.is_complete,
        "lacks": rows(report.lacks),
        "found": report.found,
        "findings": rows(report.findings),
        "notes": rows(report.notes),
        "writer": report.writer or None,
        "lacking": report.lacking,
        "noted": report.noted,
        "truncated": report.found > len(report.findings)
        or report.lacking > len(report.lacks)
        or report.noted > len(report.notes),
        "messages": report.messages,
        "entries": report.entries,
        "units": report.units,
        "items": report.items,
        "unverifiable": report.unverifiable,
        "files": report.files,
        "bytes": report.bytes,
        "seconds": round(report.seconds, 3),
    }


# Fields of files whose names are others in what is shown: those that rows of queries have.
_SHOWN_AS = {"queue_id": "queue", "timestamp": "stored", "store_timestamp": "stored"}
_TIMESTAMP = "_timestamp"


def _shown_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return facts or a row of a file as they are shown: names as in queries, times as such."""
    shown: dict[str, object] = {}
    for name, value in row.items():
        title = _SHOWN_AS.get(name, name.removesuffix(_TIMESTAMP))
        is_time = isinstance(value, int) and name.endswith(("timestamp", _TIMESTAMP))
        shown[title] = Moment(value) if is_time and isinstance(value, int) else value
    if "field" in row and "value" in row:
        # Of a checkpoint: longs of two kinds in one column.
        value = row["value"]
        is_time = str(row["field"]).endswith(_TIMESTAMP) and isinstance(value, int)
        shown["time"] = local_time(value) if is_time and isinstance(value, int) else None
    return shown


def print_inspection(
    shown: Inspection, limit: int, *, as_json: bool, as_blocks: bool = False
) -> None:
    """Print what stands in a file.

    Args:
        shown: facts and rows, one more than `limit` if there are.
        limit: rows to show; 0 for all.
        as_json: as one document.
        as_blocks: rows have too many fields for a table.
    """
    rows = [_shown_row(row) for row in shown.rows]
    facts = _shown_row(shown.facts)
    is_more = bool(limit) and len(rows) > limit
    rows = rows[:limit] if is_more else rows
    if as_json:
        document = {"file": facts, "rows": rows, "truncated": is_more}
        print(json.dumps(for_json(document), default=_json_value))
        return
    OUT.print(", ".join(f"{k} {text_of(v)}" for k, v in facts.items()), markup=False)
    _print_rows(rows, as_blocks=as_blocks)
    if is_more:
        OUT.print(f"{limit} rows shown, there are more; --limit 0 shows all")


def _print_rows(rows: Sequence[Mapping[str, object]], *, as_blocks: bool) -> None:
    if as_blocks:
        for row in rows:
            OUT.print()
            for name, value in row.items():
                OUT.print(f"{name:>28}  {text_of(value)}", markup=False, soft_wrap=True)
        return
    if not rows:
        OUT.print("no rows")
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(escape(text_of(row.get(name, ""))) for name in rows[0]))
    OUT.print(table)


def text_of(value: object) -> str:
    """Return a value as text that is safe to print, whatever a message's sender put into it."""
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "backslashreplace"))
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{text_of(k)}={text_of(v)}" for k, v in value.items())
    return printable(str(value))


def _json_value(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)
