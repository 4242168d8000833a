"""One job that follows two stores, and what it has to have written of each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints import progress
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import TRUNCATION
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.verify.output import verify
from tests.cluster import broker_queues, processes
from tests.cluster.cluster import ROOT
from tests.cluster.processes import ClusterError
from tests.crash.kill_job import processes_of
from tests.oracle import compare, oracle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reput.streaming.settings.config import StoreConfig
    from tests.cluster.replicas import Ack

# A job that was just killed has to start first, on a machine that may have other work.
_CATCH_UP_SECONDS = 180.0
_STOP_SECONDS = 120.0
_POLL_SECONDS = 0.2
_VERSION = "5.5.0"


class Job:
    """A process that follows the stores of a reput.toml: the whole job, or the dispatcher alone."""

    def __init__(self, directory: Path, conf: Path, stores: Sequence[str], *, whole: bool) -> None:
        """Write its configuration.

        Args:
            directory: that has the stores; for outputs and logs.
            conf: the brokers' properties.
            stores: names of their directories.
            whole: `reput run`; else `tests.cluster.follow`.
        """
        self.conf = conf
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._directory = directory
        self._config = directory / "reput.toml"
        self._config.write_text(
            "".join(
                f'[[store]]\nname = "{name}"\npath = "{directory / name}"\n'
                f'output = "{directory / f"output-{name}"}"\nbroker_version = "{_VERSION}"\n'
                f'broker_conf = "{conf}"\n\n'
                for name in stores
            )
        )
        self.stores = {store.name: store for store in read_config(self._config)}
        self._command = [sys.executable, "-m", "tests.cluster.follow", str(self._config)]
        if whole:
            self._command = [sys.executable, "-m", "reput", "run", "--log-format", "json"]
            self._command += ["--config", str(self._config), "--flush-seconds", "1"]
        self._logs: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._before: list[int] = []

    @property
    def log(self) -> Path:
        """The log of its last start."""
        return self._logs[-1]

    @property
    def starts(self) -> int:
        """How often it was started."""
        return len(self._logs)

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def start(self) -> None:
        """Start it."""
        found = [progress.load(store.output) for store in self.stores.values()]
        self._before = [known.starts if known is not None else 0 for known in found]
        self._logs.append(self._directory / f"job-{self.starts + 1}.log")
        self._process = processes.spawn(self._command, self.log, env=self.environment)

    def kill(self) -> None:
        """Kill its driver; what else belongs to it ends by itself."""
        processes.kill(self._process)

    def stop(self) -> None:
        """End it as an operator does."""
        assert self._process is not None
        code = processes.terminate(self._process, _STOP_SECONDS)
        if code != 0:
            raise ClusterError(f"the job ended with {code}: see {self.log}")

    def close(self) -> None:
        """End all that still runs of it."""
        if self._process is None:
            return
        found = processes_of(self._process.pid)
        processes.kill(self._process)
        for process in (process for kind in found.values() for process in kind):
            if process.is_alive:
                os.kill(process.number, 9)

    @property
    def last(self) -> str:
        """What it said last."""
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:600] if lines else ""

    def follows(self) -> bool:
        """Tell whether it has opened all outputs since it was started, and dispatched from each."""
        found = [progress.load(store.output) for store in self.stores.values()]
        return all(
            known is not None and known.messages > 0 and known.starts > before
            for known, before in zip(found, self._before, strict=True)
        )

    def is_at(self, end: int) -> bool:
        """Tell whether it has recorded that all outputs are up to there."""
        found = [progress.load(store.output) for store in self.stores.values()]
        return all(known is not None and known.end == end for known in found)

    def told(self) -> list[Told]:
        """Return what it said of each store's batches and cuts, in order."""
        found = []
        for log in self._logs:
            since = float("inf")
            for line in log.read_text("utf-8", "replace").splitlines():
                said = json.loads(line) if line.startswith("{") else {}
                if "batch" in said:
                    since = min(since, _time(said))
                if "end" in said:
                    found.append(Told(said["store"], _time(said), since, said["end"]))
                if said.get("event") == TRUNCATION:
                    found.append(Told(said["store"], _time(said), since, None))
        return found


class Told(NamedTuple):
    """The job said that it had dispatched, or that a log had been cut; times in Unix seconds.

    Attributes:
        store: whose.
        at: when it said so.
        since: when that process had its first batch; infinite for one that had none before it said so.
        end: physical offset up to which it had dispatched; None for a cut.
    """

    store: str
    at: float
    since: float
    end: int | None


def _time(said: Mapping[str, str]) -> float:
    return datetime.fromisoformat(said["time"]).timestamp()


@dataclass
class Report:
    """What comparing found.

    Attributes:
        compared: outputs.
        entries: of consume queues, in all comparisons.
        same: queues that are the broker's, every entry.
        spoilt: queues of the broker's that its own log contradicts.
        gone: entries of the broker's of records that its log has no more.
        lacking: records of which the broker has no entry.
        elsewhere: messages whose entry is not at the queue offset that the producer was told.
        waited: comparisons before which the job had not dispatched the log's last records: it
            waited for the next message to come after them.
        faults: what differs, a line each.
    """

    compared: int = 0
    entries: int = 0
    same: int = 0
    spoilt: int = 0
    gone: int = 0
    lacking: int = 0
    elsewhere: int = 0
    waited: int = 0
    faults: list[str] = field(default_factory=list)


class Rebuild:
    """A fresh output of a store, by a dispatcher of its own; `close` removes it."""

    def __init__(self, store: StoreConfig) -> None:
        """Dispatch what there is."""
        output = store.output.with_name(f"rebuilt-{store.name}")
        self.config = replace(store, output=output)
        self._dispatcher = StoreDispatcher(self.config, flush=FlushPolicy(is_sync=True))

    def go_on(self) -> None:
        """Dispatch what is new."""
        log = CommitLog(
            commitlog_directories(self.config.path, self.config.settings), self.config.settings
        )
        try:
            self._dispatcher.dispatch(find_tail(log).end)
        finally:
            log.close()
        self._dispatcher.flush()

    def close(self) -> None:
        """Give it back and remove it."""
        self._dispatcher.close()
        shutil.rmtree(self.config.output)


def compare_at_rest(
    job: Job,
    rebuild: Rebuild,
    said: Mapping[str, Mapping[str, int]],
    end: int,
    acks: Sequence[Ack],
    report: Report,
) -> bool:
    """Compare what the job has written of a store that is at rest; tell whether it is right.

    Args:
        job: that follows it.
        rebuild: of that store.
        said: by topic and queue: how many entries the broker says it has.
        end: physical offset where the broker says its log ends.
        acks: of messages that have to be there.
        report: gets what was found.
    """
    store = job.stores[rebuild.config.name]
    before = len(report.faults)
    found = broker_queues.compare(store.path, rebuild.config.output, said, end, acks)
    report.entries += found.entries
    report.same += found.same
    report.spoilt += found.spoilt
    report.gone += found.gone
    report.lacking += found.lacking
    report.elsewhere += found.elsewhere
    report.faults += [f"a rebuild: {line}" for line in found.differences]
    _expect_job(job, store, rebuild.config.output, report)
    if len(report.faults) == before:
        # What a job writes while it is verified may be ahead of the record that says how far it is.
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while _end(store) < end and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        verified = verify(store)
        if not verified.ok:
            report.faults.append(f"verify: {verified.findings[0]}")
    report.compared += 1
    return len(report.faults) == before


def _expect_job(job: Job, store: StoreConfig, rebuilt: Path, report: Report) -> None:
    """Give the job time to come to where the rebuild is."""
    # Where the rebuild is wrong too there is nothing to wait for.
    end = time.monotonic() + (2 if report.faults else _CATCH_UP_SECONDS)
    while True:
        try:
            found = compare.differences(store.output, rebuilt)
        except FileNotFoundError as moved:
            found = [f"{moved.filename}: gone while it was looked at"]
        if not found:
            return
        if job.code is not None:
            report.faults.append(f"the job ended with {job.code}: {job.last}")
            return
        if time.monotonic() > end:
            report.faults.append(f"the job, not a rebuild's, {len(found)} files: {found[0]}")
            return
        time.sleep(_POLL_SECONDS)


def compare_closed(job: Job, properties: Mapping[str, str], report: Report) -> None:
    """Compare, once the brokers have ended in order, with what RocketMQ makes of the same logs.

    The job takes what stands after a log's end then as well, as a broker that starts will; so does
    the broker that rebuilds a copy, and every byte of queues and index has to be the same.
    """
    ends = {}
    for store in job.stores.values():
        log = CommitLog(commitlog_directories(store.path, store.settings), store.settings)
        ends[store.name] = find_tail(log).end
        log.close()
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while not all(_end(job.stores[name]) == end for name, end in ends.items()):
        if job.code is not None or time.monotonic() > deadline:
            report.faults.append(f"the job does not come to {ends}, exit {job.code}: {job.last}")
            return
        time.sleep(_POLL_SECONDS)
    job.stop()
    oracle.build(_VERSION)
    for store in job.stores.values():
        copy = store.output.with_name(f"replayed-{store.name}")
        shutil.copytree(store.path / "commitlog", copy / "commitlog")
        values = [f"{name}={value}" for name, value in properties.items()]
        oracle.run(_VERSION, "Replay", copy, "--mode=reput", *values)
        found = compare.differences(store.output, copy)
        report.faults += [f"the end, not RocketMQ's rebuild: {line}" for line in found[:3]]
        command = [sys.executable, "-m", "reput", "verify", "--store", str(store.path)]
        command += ["--output", str(store.output), "--broker-conf", str(job.conf)]
        verified = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=job.environment,
            timeout=_STOP_SECONDS,
            check=False,
        )
        if verified.returncode != 0:
            report.faults.append(f"the end, reput verify: {verified.stdout[-600:]}")
        report.compared += 1


def _end(store: StoreConfig) -> int:
    known = progress.load(store.output)
    return known.end if known is not None else -1
