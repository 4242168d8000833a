"""What the command shows: tables and progress bars for people, JSON for programs, log lines."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
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

from formats.errors import UsageError
from stores.tail import find_tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.job import Job, Summary
    from streaming.pipeline import Block

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str) -> int:
    """Return the bytes that "64m", "1g" or "4096" stand for.

    Raises:
        UsageError: none of these.
    """
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if not match or not int(match[1]):
        raise UsageError(f"{text!r} is no number of bytes such as 4096, 64m or 1g")
    return int(match[1]) * _UNITS[match[2]]


def log_to_stderr() -> None:
    """Send our log lines to standard error, one a batch."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("reput")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def report_openings(job: Job) -> None:
    """Say where each output goes on, and what was taken back of it."""
    for name, dispatcher in job.dispatchers.items():
        recovery = dispatcher.recovery
        for reason in recovery.reasons:
            ERR.print(
                f"{name}: {reason}; {recovery.entries} entries and {recovery.items} index items "
                "beyond its progress were taken back",
                markup=False,
            )
        for warning in dispatcher.warnings:
            ERR.print(f"{name}: {warning}", markup=False)


@contextlib.contextmanager
def progress(job: Job) -> Iterator[None]:
    """Show a bar a store, with rate and time left, while the job runs; on a terminal only."""
    if not ERR.is_terminal:
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
        began = time.monotonic()
        for name, dispatcher in job.dispatchers.items():
            done = max(dispatcher.progress.end, dispatcher.log.min_offset)
            total = find_tail(dispatcher.log).end
            tasks[name] = bars.add_task(name, total=max(total - done, 0), rate="")
            messages[name] = 0

        def advance(name: str, block: Block) -> None:
            messages[name] += block.count
            rate = messages[name] / max(time.monotonic() - began, 1e-3)
            bars.update(tasks[name], advance=block.reached - block.first, rate=f"{rate:,.0f} msg/s")

        job.on_block = advance
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Show nothing."""
    yield


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Print what a job did."""
    values = summary.as_dict()
    if as_json:
        print(json.dumps(values))
        return
    table = Table(title="Dispatched", title_justify="left")
    for header in ("store", "messages", "bytes", "messages/s", "files", "next offset"):
        table.add_column(header, justify="left" if header == "store" else "right")
    for store in summary.stores:
        rate = store.messages / summary.seconds if summary.seconds else 0
        table.add_row(
            store.name,
            f"{store.messages:,}",
            f"{store.bytes:,}",
            f"{rate:,.0f}",
            f"{len(store.files):,}",
            str(store.end),
        )
    OUT.print(table)
    OUT.print(f"in {summary.seconds:.2f} s, without the start of Spark")
