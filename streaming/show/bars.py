"""Progress bars, for people who watch: on a terminal only."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.show.console import ERR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.job.job import Job


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
    """Show what the command is busy with, on a terminal only."""
    with ERR.status(what) if ERR.is_terminal and VERBOSITY.shows_bars else contextlib.nullcontext():
        yield
