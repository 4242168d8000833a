"""The demonstration: a live commitlog, the real job beside it, proof at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table

import reput
from reput.formats.errors import ReputError
from reput.formats.rocketmq import names
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.stores.query.message_store import MessageStore
from reput.streaming.demo.consumer import Consumed, consume
from reput.streaming.endings.beside import elsewhere
from reput.streaming.endings.verdict import Verdict, verdict_of
from reput.streaming.job.job import Job
from reput.streaming.settings.config import StoreConfig, store_config
from reput.streaming.show.console import ERR, OUT
from reput.streaming.show.inspections import text_of
from reput.streaming.show.reports import print_report, report_as_dict
from reput.streaming.source.datasource import register
from reput.streaming.spark.session import QUICK_START, build_session
from reput.streaming.verify.output import Report, verify
from reput.streaming.writers.job_options import JobOptions

if TYPE_CHECKING:
    from reput.formats.rocketmq.commitlog import Record

# Small enough that all kinds of files roll within a few seconds.
BROKER_CONF = {
    "mappedFileSizeCommitLog": str(4 << 20),
    "mappedFileSizeConsumeQueue": str(2000 * 20),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}
_REFRESH_SECONDS = 0.25
_PATIENCE_SECONDS = 60.0


@dataclass
class Demo:
    """What the demonstration showed."""

    seconds: float
    written: int
    dispatched: int
    report: Report
    topic: str
    key: str
    found: list[Record]
    consumed: Consumed

    @property
    def is_sound(self) -> bool:
        """Tell whether the output holds what its log gives, all of it."""
        return verdict_of(self.report) == Verdict.SOUND

    @property
    def ok(self) -> bool:
        """Tell whether everything that was written is there, right, found, and consumed."""
        is_there = self.written == self.dispatched == self.consumed.messages
        return is_there and self.is_sound and bool(self.found) and self.consumed.ok


def run_demo(seconds: float, rate: int, directory: Path | None) -> Demo:
    """Run it.

    Args:
        seconds: how long the writer writes.
        rate: records a second.
        directory: where to leave the store and the output; a temporary one by default.

    Raises:
        ReputError: the job failed, or did not catch up.
    """
    if directory is not None:
        # The writer runs in another directory than this process.
        return _run(seconds, rate, directory.absolute())
    with tempfile.TemporaryDirectory(prefix="reput-demo-") as temporary:
        return _run(seconds, rate, Path(temporary))


def _run(seconds: float, rate: int, directory: Path) -> Demo:
    store, output = directory / "store", directory / "output"
    log_directory = store / names.COMMITLOG
    if log_directory.exists():
        raise ReputError(f"{log_directory} is there already: give an empty --directory")
    log_directory.mkdir(parents=True)
    # Spark takes seconds to start: the writer begins when the job can follow.
    spark = elsewhere(lambda: build_session("reput-demo", **QUICK_START))
    register(spark)
    began = time.monotonic()
    writer = _start_writer(log_directory, rate, seconds)
    _wait_for_log(log_directory, writer)
    config = store_config(store, output, name="demo", broker_conf=BROKER_CONF)
    job = Job([config], JobOptions(flush_seconds=1.0))
    failures: list[BaseException] = []
    thread = threading.Thread(target=_run_job, args=(job, spark, failures), name="job")
    thread.start()
    try:
        written = _watch(job, config, writer, failures)
    finally:
        job.stop()
        thread.join()
        writer.kill()
        writer.wait()
        spark.stop()
    if failures:
        raise failures[0]
    return _shown(config, written, job.summary.stores[0].messages, began, directory)


def _shown(
    config: StoreConfig, written: dict[str, Any], dispatched: int, began: float, directory: Path
) -> Demo:
    """Ask the output in all ways."""
    report = verify(config)
    conf = directory / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in BROKER_CONF.items()))
    with MessageStore.open(config.path, config.output, config.settings) as asked:
        found = list(asked.by_key(written["topic"], written["key"]).messages)
        consumed = consume(asked, conf, directory / "offsets")
    return Demo(
        seconds=time.monotonic() - began,
        written=written["records"],
        dispatched=dispatched,
        report=report,
        topic=written["topic"],
        key=written["key"],
        found=found,
        consumed=consumed,
    )


def _start_writer(directory: Path, rate: int, seconds: float) -> subprocess.Popen[str]:
    size = BROKER_CONF["mappedFileSizeCommitLog"]
    command = [sys.executable, "-m", "reput.streaming.demo.writer", str(directory)]
    return subprocess.Popen(
        [*command, str(rate), str(seconds), size],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(reput.__file__).resolve().parent.parent,
        # Ctrl-C is for the demonstration, which ends its writer.
        process_group=0,
    )


def _wait_for_log(directory: Path, writer: subprocess.Popen[str]) -> None:
    """Wait for the writer's first file; end the writer if none comes.

    Raises:
        ReputError: none came.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while not any(directory.iterdir()):
        if writer.poll() is not None or time.monotonic() > end:
            writer.kill()
            writer.wait()
            raise ReputError(f"{directory}: the demonstration's writer did not begin a log there")
        time.sleep(0.01)
    # Its first file gets its size a moment after its name.
    time.sleep(0.1)


def _run_job(job: Job, spark: object, failures: list[BaseException]) -> None:
    try:
        job.run(spark)  # type: ignore[arg-type]
    except BaseException as error:  # noqa: BLE001 - handed to the main thread
        failures.append(error)


def _watch(
    job: Job, config: StoreConfig, writer: subprocess.Popen[str], failures: list[BaseException]
) -> dict[str, Any]:
    """Show the job at work until the writer has ended and all is dispatched."""
    summary = job.summary.stores[0]
    # A log of our own: the job's is read by other threads.
    log = CommitLog(
        commitlog_directories(config.path, config.settings), config.settings, config.path
    )
    deadline = None
    before = (time.monotonic(), 0)
    rate = 0.0
    with Live(console=ERR, refresh_per_second=4) as live:
        while not failures:
            end = find_tail(log, max(summary.end, log.min_offset)).end
            now = time.monotonic()
            if now - before[0] >= 1.0:
                rate = (summary.messages - before[1]) / (now - before[0])
                before = (now, summary.messages)
            lag = end - max(summary.end, 0)
            live.update(
                _view(config, summary.messages, rate, lag, is_writing=writer.poll() is None)
            )
            if writer.poll() is not None:
                deadline = deadline or now + _PATIENCE_SECONDS
                if lag == 0:
                    break
                if now > deadline:
                    raise ReputError(f"the job still lags {lag} bytes behind its log")
            time.sleep(_REFRESH_SECONDS)
    if not ERR.is_terminal:
        # The last table is printed there without the end of its line.
        ERR.line()
    output, _ = writer.communicate()
    written: dict[str, Any] = json.loads(output) if output else {}
    return written


def _view(config: StoreConfig, messages: int, rate: float, lag: int, *, is_writing: bool) -> Table:
    table = Table(title="reput demo", title_justify="left")
    for header in ("writer", "dispatched", "rate", "lag", "queue files", "index files"):
        table.add_column(header, justify="right")
    queues = sum(1 for p in (config.output / names.CONSUMEQUEUE).rglob("*") if p.is_file())
    index = config.output / names.INDEX
    table.add_row(
        "running" if is_writing else "done",
        f"{messages:,}",
        f"{rate:,.0f} msg/s",
        f"{lag:,} bytes",
        str(queues),
        str(len(list(index.iterdir())) if index.is_dir() else 0),
    )
    return table


def print_demo(demo: Demo, *, as_json: bool) -> None:
    """Print what the demonstration showed."""
    if as_json:
        values = {
            "ok": demo.ok,
            "seconds": round(demo.seconds, 3),
            "written": demo.written,
            "dispatched": demo.dispatched,
            "verify": report_as_dict(demo.report),
            "topic": demo.topic,
            "key": demo.key,
            "found": [record.physical_offset for record in demo.found],
            "consumed": demo.consumed._asdict(),
        }
        print(json.dumps(values))
        return
    OUT.print(f"{demo.written:,} records written, {demo.dispatched:,} dispatched")
    print_report(demo.report, as_json=False)
    read = demo.consumed
    same = "all as in the log" if read.ok else f"{read.differing:,} not as in the log"
    OUT.print(
        f"{read.messages:,} messages of {read.queues} queues of {read.topics} topics consumed from "
        f"reput serve in {read.seconds:.1f} s, {same}"
    )
    if not demo.found:
        OUT.print(f"key {demo.key} of topic {demo.topic} was not found", markup=False)
        return
    record = demo.found[0]
    OUT.print(
        f"key {demo.key} is at queue offset {record.queue_offset} of {record.topic}, queue "
        f"{record.queue_id}, physical offset {record.physical_offset}:",
        markup=False,
    )
    for name, value in record.properties.items():
        OUT.print(f"  {text_of(name)}: {text_of(value)}", markup=False)
    OUT.print(f"  body: {text_of(record.body)}", markup=False)
