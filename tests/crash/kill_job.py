"""Kills a whole job again and again while a log grows, and compares what it leaves with a rebuild.

    python -m tests.crash.kill_job --kills 100 --seed 1

The job is `reput run` in a process of its own. At random times, its start included, one of its
processes gets SIGKILL: the Python driver, Spark's JVM, Python's daemon under it or one of the
workers. Without its driver the rest has to end. Without another process the job has to end with an
exit code and a message, or to continue by itself, in either case before long.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reput.checkpoints import progress
from reput.streaming.dispatch.dispatcher import rebuild
from tests.builders.stores import name_batch_topics
from tests.crash.appender import Producer
from tests.crash.kill_stores import HarnessError
from tests.oracle import compare

ROOT = Path(__file__).resolve().parents[2]
DRIVER, JVM, DAEMON, WORKER = "driver", "jvm", "daemon", "worker"
_WEIGHTS = {DRIVER: 4, JVM: 3, DAEMON: 2, WORKER: 2}
_VERSION = "5.5"
_FILE_SIZE = 4 << 20
_CONF = {
    "mappedFileSizeCommitLog": str(_FILE_SIZE),
    "mappedFileSizeConsumeQueue": str(2000 * 20),
    "mapperFileSizeBatchConsumeQueue": str(1000 * 46),
    "mappedFileSizeConsumeQueueExt": str(256 << 10),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "enableMultiDispatch": "true",
    "enableLmq": "true",
}
_PATIENCE_SECONDS = 120.0
# A machine with much other work takes minutes to start Spark.
_START_SECONDS = 400.0
_POLL_SECONDS = 0.05
# Batches after which Spark has noticed that a process of its own is gone.
_NOTICED_BATCHES = 4


class Process(NamedTuple):
    """A process; with its start time, since numbers are given again."""

    number: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        found = _stat(self.number)
        return found is not None and found[2] == self.started and found[1] != "Z"


def _stat(number: int) -> tuple[int, str, int] | None:
    """Return parent, state and start time of a process, None if there is none."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), fields[0], int(fields[19])


def _name(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def processes_of(driver: int) -> dict[str, list[Process]]:
    """Return the processes of a job by what they are."""
    children: dict[int, list[int]] = defaultdict(list)
    stats = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (found := _stat(int(path.name))) is not None:
            stats[int(path.name)] = found
            children[found[0]].append(int(path.name))
    result: dict[str, list[Process]] = {kind: [] for kind in _WEIGHTS}
    waiting = [(child, DRIVER) for child in children[driver]]
    if driver in stats:
        result[DRIVER].append(Process(driver, stats[driver][2]))
    while waiting:
        number, above = waiting.pop()
        is_java = _name(number) == "java"
        kind = JVM if is_java else DAEMON if above == JVM else WORKER if above == DAEMON else above
        if kind != DRIVER:
            result[kind].append(Process(number, stats[number][2]))
        waiting += [(child, kind) for child in children[number]]
    return result


class JobProcess:
    """`reput run` in a process of its own."""

    def __init__(self, directory: Path, number: int, flush: list[str]) -> None:
        """Start it.

        Args:
            directory: with store and broker.conf.
            number: of the start, for its log.
            flush: options.
        """
        self.log = directory / f"job-{number}.log"
        command = [sys.executable, "-m", "reput", "run", "--broker-version", _VERSION]
        command += ["--store", str(directory / "store"), "--output", str(directory / "output")]
        command += ["--broker-conf", str(directory / "broker.conf"), *flush]
        # A backlog in many batches: each is progress that the next start begins at.
        command += ["--max-batch-bytes", "4m"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )
        self.pid = self._process.pid

    @property
    def code(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self._process.poll()

    @property
    def text(self) -> str:
        """Return what it has said."""
        return self.log.read_text("utf-8", "replace")

    @property
    def batches(self) -> int:
        """Return how many batches it says that it has dispatched."""
        return self.text.count(" messages, ")

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, None if it has none after that many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """End it and all that belongs to it, whatever state it is in."""
        for processes in processes_of(self.pid).values():
            for process in processes:
                _kill(process)
        self.wait(_PATIENCE_SECONDS)


def _kill(process: Process) -> bool:
    """Kill a process if it is the one that is meant; tell whether it was there."""
    if not process.is_alive:
        return False
    try:
        os.kill(process.number, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@dataclass
class Result:
    """What a run did.

    Attributes:
        kills: by process and what became of the job.
        slowest: by process: seconds until the job had ended or continued, at most.
        messages: by process: last lines of jobs that ended, and how often.
        starts: of the job.
        records: in the log at the end.
        seconds: wall time.
        failure: what was wrong, "" for nothing.
        kept: store, output and logs of it.
    """

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    messages: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    starts: int = 0
    records: int = 0
    seconds: float = 0.0
    failure: str = ""
    kept: str = ""

    @property
    def killed(self) -> int:
        return self.kills.total()


class Loop:
    """Kills the job of one store until it has been killed this often."""

    def __init__(self, kills: int, seed: int, rate: int, directory: Path) -> None:
        self._wanted = kills
        self._pick = random.Random(seed)
        self._directory = directory
        self.result = Result()
        store = directory / "store"
        name_batch_topics(store, "batches")
        (directory / "broker.conf").write_text("".join(f"{k}={v}\n" for k, v in _CONF.items()))
        self._producer = Producer(store, _FILE_SIZE, rate, seed)
        self._job: JobProcess | None = None
        # What was killed last, and after how many batches, if the job continued.
        self._continued: tuple[str, int] | None = None

    def run(self) -> Result:
        """Kill, then stop in order, and compare."""
        began = time.monotonic()
        self._producer.start()
        try:
            while self.result.killed < self._wanted:
                self._cycle(self._running())
            self._finish()
        except HarnessError as error:
            self.result.failure = str(error)
            self.result.kept = str(self._directory)
        finally:
            if self._job is not None:
                self._job.end()
        self.result.seconds = time.monotonic() - began
        return self.result

    def _running(self) -> JobProcess:
        if self._job is None:
            self.result.starts += 1
            often = self._pick.choice(("0.1", "0.5", "2"))
            flush = [["--flush", "sync"], ["--flush-seconds", often]][self._pick.random() < 0.7]
            self._job = JobProcess(self._directory, self.result.starts, flush)
        return self._job

    def _cycle(self, job: JobProcess) -> None:
        """Let a job run for a while, then kill a part of it and see what becomes of the rest."""
        pick = self._pick
        if pick.random() < 0.7:
            self._wait_for_batch(job, job.batches)
            pause = pick.uniform(0, 2)
        else:
            pause = pick.uniform(0, 8)
        time.sleep(pause)
        code = job.code
        if code is not None:
            self._judge_late_end(job, code)
            return
        found = processes_of(job.pid)
        kinds = [kind for kind, processes in found.items() if processes]
        kind = pick.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
        batches = job.batches
        if not _kill(pick.choice(found[kind])):
            return
        began = time.monotonic()
        outcome = self._outcome(kind, job, batches, found)
        self.result.kills[kind, outcome] += 1
        slowest = self.result.slowest.get(kind, 0.0)
        self.result.slowest[kind] = max(slowest, time.monotonic() - began)
        self._continued = (kind, batches) if outcome == "continued" else None
        if outcome != "continued":
            self._job = None

    def _judge_late_end(self, job: JobProcess, code: int) -> None:
        """Take the end of a job that had continued for a moment without a process of Spark's.

        Spark may notice that only when it plans a later batch.

        Raises:
            HarnessError: nothing explains it.
        """
        kind, batches = self._continued or ("", 0)
        if not kind or code <= 0 or job.batches > batches + _NOTICED_BATCHES:
            raise HarnessError(f"the job ended by itself, exit {code}:\n{job.text[-3000:]}")
        self.result.kills[kind, "continued"] -= 1
        self.result.kills[kind, "ended"] += 1
        self._job = self._continued = None

    def _wait_for_batch(self, job: JobProcess, known: int) -> None:
        end = time.monotonic() + _START_SECONDS
        while job.code is None and job.batches <= known:
            if time.monotonic() > end:
                raise HarnessError(f"no batch in {_START_SECONDS} s:\n{job.text[-3000:]}")
            time.sleep(_POLL_SECONDS)

    def _outcome(
        self, kind: str, job: JobProcess, batches: int, found: dict[str, list[Process]]
    ) -> str:
        """Return what became of a job.

        Raises:
            HarnessError: it neither ended, with a code and a message, nor continued.
        """
        if kind == DRIVER:
            job.wait(_PATIENCE_SECONDS)
            rest = [process for processes in found.values() for process in processes]
            # The next start does not wait for that; nothing of it writes.
            self._expect_end(rest)
            return "killed"
        end = time.monotonic() + _PATIENCE_SECONDS
        while job.code is None and (kind == JVM or job.batches <= batches + 1):
            if time.monotonic() > end:
                raise HarnessError(
                    f"{_PATIENCE_SECONDS} s after the end of its {kind} the job still hangs:\n"
                    f"{job.text[-3000:]}"
                )
            time.sleep(_POLL_SECONDS)
        code = job.code
        if code is None:
            return "continued"
        lines = job.text.strip().splitlines()
        if code <= 0 or not lines:
            raise HarnessError(f"without its {kind} the job ended with {code}:\n{job.text[-3000:]}")
        said = f"exit {code}: {lines[-1][:160]}"
        if "Traceback" in job.text:
            said += " (and a traceback)"
        self.result.messages[kind][said] += 1
        return "ended"

    def _expect_end(self, processes: list[Process]) -> None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while any(process.is_alive for process in processes):
            if time.monotonic() > end:
                left = [(p.number, _name(p.number)) for p in processes if p.is_alive]
                raise HarnessError(f"after the end of its driver these still run: {left}")
            time.sleep(_POLL_SECONDS)

    def _finish(self) -> None:
        """Let the job catch up and stop it in order, then compare."""
        self._producer.stop()
        self.result.records = self._producer.records
        job = self._running()
        end = time.monotonic() + _START_SECONDS
        output = self._directory / "output"
        while (known := progress.load(output)) is None or known.end < self._producer.position:
            if job.code is not None or time.monotonic() > end:
                at = known.end if known is not None else None
                raise HarnessError(
                    f"the job is at {at}, the log at {self._producer.position}, exit code "
                    f"{job.code}:\n{job.text[-3000:]}"
                )
            time.sleep(_POLL_SECONDS)
        os.kill(job.pid, signal.SIGTERM)
        code = job.wait(_PATIENCE_SECONDS)
        if code != 0:
            raise HarnessError(f"stopped in order it ended with {code}:\n{job.text[-3000:]}")
        self._job = None
        anew = self._directory / "anew"
        rebuild(self._directory / "store", anew, broker_version=_VERSION, broker_conf=_CONF)
        found = compare.differences(output, anew)
        if found:
            lines = "\n    ".join(found[:12])
            raise HarnessError(f"{len(found)} differences from an uninterrupted run:\n    {lines}")
        messages = progress.load(output), progress.load(anew)
        counts = [known.messages if known is not None else -1 for known in messages]
        if set(counts) != {self.result.records}:
            raise HarnessError(f"{self.result.records} records, dispatched {counts}")


def run(kills: int, seed: int, directory: Path, rate: int = 2000) -> Result:
    """Run the loop in a directory."""
    return Loop(kills, seed, rate, directory).run()


def table(result: Result) -> str:
    """Return what was killed and what became of it, to be read."""
    outcomes = sorted({outcome for _, outcome in result.kills})
    header = f"{'process':10}" + "".join(f"{outcome:>10}" for outcome in outcomes)
    lines = [f"{header}{'slowest':>12}"]
    for kind in _WEIGHTS:
        counts = "".join(f"{result.kills[kind, outcome] or '':>10}" for outcome in outcomes)
        lines.append(f"{kind:10}{counts}{result.slowest.get(kind, 0.0):>10.1f} s")
    lines.append("")
    for kind, said in result.messages.items():
        lines += [f"{kind}: {count} x {text}" for text, count in said.most_common(6)]
    rate = f"{result.killed} kills, {result.starts} starts in {result.seconds:.0f} s"
    lines += ["", f"{rate}, {result.records} records"]
    failed = f"FAILED: {result.failure}\nkept: {result.kept}"
    lines.append(failed if result.failure else "no differences")
    return "\n".join(lines)


def main() -> int:
    """Run the loop; the exit code says whether anything was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2000, help="records a second")
    parser.add_argument("--directory", type=Path, help="for the store; a temporary one by default")
    parser.add_argument("--json", dest="as_json", action="store_true")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kill-job-", dir=args.directory))
    result = run(args.kills, args.seed, directory, args.rate)
    if args.as_json:
        kills = [[*kind, count] for kind, count in sorted(result.kills.items())]
        print(json.dumps({**vars(result), "killed": result.killed, "kills": kills}))
    else:
        print(table(result), flush=True)
    if not result.failure:
        shutil.rmtree(directory)
    return 1 if result.failure else 0


if __name__ == "__main__":
    sys.exit(main())
