"""Our job beside a real broker under load, through kills of the broker; then proof to the byte."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.checkpoints import progress
from tests.cluster import cluster, evidence, processes
from tests.cluster.cluster import Client, Cluster
from tests.cluster.processes import ClusterError, Memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The command as it was installed, beside the interpreter that runs this.
_REPUT = Path(sys.executable).with_name("reput")
_CATCH_UP_SECONDS = 120.0
_JOB_STOP_SECONDS = 60.0
_REBUILD_SECONDS = 1800.0
_FLAT_AFTER_SECONDS = 600.0
_FLAT_SHARE = 0.05
_FLAT_KIB = 16 << 10


@dataclass(frozen=True)
class Plan:
    """What to do.

    Attributes:
        seconds: of load.
        rate: messages a second that clients send; RocketMQ adds records of its own.
        batch: messages of a batch message.
        kills: the broker is killed after that many seconds, each, and started again.
        settle: seconds after the load in which what was delayed, repeated or checked comes.
        files: sizes of the broker's files.
        sample_seconds: between samples of memory.
    """

    seconds: int
    rate: int
    batch: int = 16
    kills: Sequence[int] = ()
    settle: int = 13
    files: Mapping[str, str] = field(default_factory=lambda: cluster.SMALL_FILES)
    sample_seconds: float = 1.0


@dataclass(frozen=True)
class Sample:
    """One look at everything."""

    seconds: float
    sent: int
    dispatched: int
    memory: Memory


@dataclass
class Result:
    """What came of it.

    Attributes:
        figures: by name, in the order in which they are shown.
        samples: in the order of time.
        faults: what is not as it should be; none means proven.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def expect(self, name: str, faults: Sequence[str]) -> None:
        """Notes a check, and what it found."""
        self.figures[name] = f"{len(faults)} found" if faults else "0"
        self.faults.extend(f"{name}: {fault}" for fault in faults)


class Job:
    """`reput run` as an operator has it: a process of its own."""

    def __init__(self, conf: Path, store: Path, output: Path, log: Path) -> None:
        self.output = output
        self.log = log
        self.arguments = ["--store", str(store), "--broker-conf", str(conf)]
        command = [str(_REPUT), "run", *self.arguments, "--output", str(output), "--json"]
        self.process = processes.spawn([*command, "--flush-seconds", "2"], log)

    def progress(self) -> progress.Progress | None:
        """What it has recorded; None before its first record."""
        if self.process.poll() is not None:
            raise ClusterError(f"the job ended with {self.process.returncode}: see {self.log}")
        return progress.load(self.output)

    def wait_for_first(self) -> None:
        """Waits until it has dispatched something."""
        processes.wait_until(
            lambda: (found := self.progress()) is not None and found.messages > 0,
            "the job dispatches its first message",
            self.process,
            _CATCH_UP_SECONDS,
        )

    def wait_for(self, end: int) -> None:
        """Waits until it has dispatched up to that physical offset."""

        def is_there() -> bool:
            found = self.progress()
            return found is not None and found.end == end

        processes.wait_until(is_there, f"the job comes to {end}", self.process, _CATCH_UP_SECONDS)

    def stop(self) -> None:
        """Ends it as an operator does."""
        code = processes.terminate(self.process, _JOB_STOP_SECONDS)
        if code != 0:
            raise ClusterError(f"the job ended with {code}: see {self.log}")


def run(plan: Plan, directory: Path) -> Result:
    """Carries a plan out below an empty directory.

    Raises:
        ClusterError: something ended that should not have, or took too long.
    """
    cluster.build()
    result = Result()
    with cluster.network() as prefix:
        rocketmq = Cluster(directory, plan.files, prefix)
        job: Job | None = None
        try:
            rocketmq.start_broker()
            load = _start_load(plan, rocketmq)
            job = Job(rocketmq.conf, rocketmq.store, directory / "output", directory / "job.out")
            job.wait_for_first()
            said = _under_load(plan, rocketmq, load, job, result)
            rocketmq.stop_broker()
            _prove(plan, rocketmq, job, said, result)
        finally:
            rocketmq.close()
            processes.kill(job.process if job else None)
    return result


def _start_load(plan: Plan, rocketmq: Cluster) -> Client:
    """Starts the clients and has them send one message: a job needs a log to begin with."""
    load = rocketmq.client(
        "load",
        "Load",
        broker=rocketmq.broker_address,
        seconds=plan.seconds,
        rate=plan.rate,
        batch=plan.batch,
        settle=plan.settle,
        stdin=subprocess.PIPE,
    )
    processes.wait_until(
        lambda: load.last().get("acknowledged", 0) > 0, "the load begins", load.process, 120
    )
    return load


def _under_load(
    plan: Plan, rocketmq: Cluster, load: Client, job: Job, result: Result
) -> Mapping[str, Mapping[str, int]]:
    """Samples and kills until the load is over; what the broker then says of its queues."""
    load.go()
    began = time.monotonic()
    kills = sorted(plan.kills)
    loaded = float(plan.seconds)
    if not kills:
        load.release()
    while load.process.poll() is None:
        seconds = time.monotonic() - began
        if kills and seconds >= kills[0]:
            kills.pop(0)
            rocketmq.kill_broker()
            rocketmq.start_broker()
            if not kills:
                loaded = max(loaded, time.monotonic() - began)
                load.release()
        found = job.progress()
        sample = Sample(
            seconds=seconds,
            sent=load.last()["acknowledged"],
            dispatched=found.messages if found else 0,
            memory=processes.memory_of_tree(job.process.pid),
        )
        result.samples.append(sample)
        time.sleep(plan.sample_seconds)
    told = load.finish(1)
    sent = told["acknowledged"]
    result.figures.update(
        {
            "seconds of load": round(loaded),
            "broker killed": len(plan.kills),
            "messages acknowledged": sent,
            "messages a second": round(sent / loaded),
            "messages failed": told["failed"],
            "transactions checked back": told["checked_back"],
            "deliveries repeated": told["repeated"],
        }
    )
    said: Mapping[str, Mapping[str, int]] = told["queues"]
    missing = sent - sum(sum(queues.values()) for queues in said.values())
    if plan.kills:
        # Its recovery ends at the first torn record, and acknowledged ones may stand after that.
        result.figures["messages that the broker lost when it was killed"] = max(missing, 0)
    elif missing > 0:
        result.faults.append("the broker has fewer messages than it acknowledged")
    return said


def _prove(
    plan: Plan,
    rocketmq: Cluster,
    job: Job,
    said: Mapping[str, Mapping[str, int]],
    result: Result,
) -> None:
    rebuilt = rocketmq.directory / "rebuilt"
    done = _reput("rebuild", [*job.arguments, "--output", str(rebuilt)], _REBUILD_SECONDS)
    summary = json.loads(done.stdout)
    if done.returncode != 0:
        raise ClusterError(f"reput rebuild: {summary}")
    end = summary["stores"][0]["end"]
    job.wait_for(end)
    job.stop()
    result.figures["records dispatched"] = summary["messages"]
    result.figures["bytes of log"] = end
    queues = evidence.compare_queues(rocketmq.store, job.output, said)
    result.figures["consume queue files"] = queues.files
    result.figures["consume queue entries"] = queues.entries
    result.figures["stale bytes past the broker's ends"] = queues.stale
    result.expect("queues unlike the broker's", queues.differences)
    if queues.stale and not plan.kills:
        result.faults.append("the broker has entries past the end of ours")
    again = evidence.compare_queues(rebuilt, job.output, said)
    result.expect(
        "queues unlike a rebuild's",
        [*again.differences, *(["entries past the end of ours"] if again.stale else [])],
    )
    result.expect("index files unlike a rebuild's", evidence.compare_index(rebuilt, job.output))
    if not plan.kills:
        # Recovery after a crash puts keys into an index twice; otherwise it has to be ours as well.
        found = evidence.compare_index(rocketmq.store, job.output)
        result.expect("index files unlike the broker's", found)
    verified = _reput("verify", [*job.arguments, "--output", str(job.output)], _REBUILD_SECONDS)
    result.expect("findings of reput verify", [verified.stdout] if verified.returncode else [])
    _judge_memory(plan, result)


def _reput(
    command: str, arguments: Sequence[str], seconds: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_REPUT), command, *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _judge_memory(plan: Plan, result: Result) -> None:
    """Compares the second quarter of the load with the last: by then everything has started."""
    loaded = [s for s in result.samples if s.dispatched and s.seconds <= plan.seconds]
    if len(loaded) < 8:
        return
    quarter = len(loaded) // 4
    parts = loaded[quarter : 2 * quarter], loaded[-quarter:]
    early, late = (statistics.median(s.memory.anonymous for s in part) for part in parts)
    begin, end = (statistics.median(s.memory.resident for s in part) for part in parts)
    result.figures["anonymous memory, 2nd quarter (MiB)"] = round(early / 1024)
    result.figures["anonymous memory, 4th quarter (MiB)"] = round(late / 1024)
    result.figures["resident memory, 2nd quarter (MiB)"] = round(begin / 1024)
    result.figures["resident memory, 4th quarter (MiB)"] = round(end / 1024)
    grown = late - early
    if plan.seconds >= _FLAT_AFTER_SECONDS and grown > max(_FLAT_KIB, early * _FLAT_SHARE):
        result.faults.append(f"anonymous memory grew by {grown / 1024:.0f} MiB")


def show(result: Result, rows: int = 30) -> None:
    """Prints a few of the samples, the figures and the faults; memory in MiB."""
    heads = ("s", "acknowledged", "dispatched", "resident", "anonymous", "reput", "java", "workers")
    print(*(f"{head:>12}" for head in heads))
    for sample in result.samples[:: max(1, len(result.samples) // rows)]:
        memory = sample.memory
        kib = (memory.resident, memory.anonymous, memory.root, memory.java, memory.rest)
        row = (round(sample.seconds), sample.sent, sample.dispatched, *(n >> 10 for n in kib))
        print(*(f"{number:12d}" for number in row))
    print()
    for name, value in result.figures.items():
        print(f"{name:38} {value:>14}")
    for fault in result.faults:
        print(f"FAULT {fault}")
    print("proven" if not result.faults else "not proven")


def document(result: Result) -> str:
    """What `--json` prints."""
    return json.dumps(
        {
            "ok": not result.faults,
            **result.figures,
            "faults": result.faults,
            "samples": [
                {
                    "seconds": round(s.seconds, 1),
                    "acknowledged": s.sent,
                    "dispatched": s.dispatched,
                    "kib": {**asdict(s.memory), "anonymous": s.memory.anonymous},
                }
                for s in result.samples
            ],
        }
    )


def directory_of(parser: argparse.ArgumentParser, given: Path | None) -> Path:
    """The directory to work in: the given one, which has to be empty, or a temporary one."""
    if given is None:
        return Path(tempfile.mkdtemp(prefix="reput-cluster-"))
    given.mkdir(parents=True, exist_ok=True)
    if any(given.iterdir()):
        parser.error(f"{given} is not empty")
    return given.resolve()


def end(result: Result, directory: Path, *, keep: bool, as_json: bool) -> int:
    """Prints a result, tidies up unless there is something to look at, and gives the exit code."""
    if as_json:
        print(document(result))
    else:
        show(result)
    if result.faults:
        print(f"everything is left in {directory}", file=sys.stderr)
    elif not keep:
        shutil.rmtree(directory)
    return 1 if result.faults else 0


def main() -> int:
    """Reads the arguments, runs, and prints what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.soak", description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="of load (30)")
    parser.add_argument("--rate", type=int, default=2000, help="messages a second (2000)")
    parser.add_argument("--batch", type=int, default=16, help="messages of a batch message (16)")
    parser.add_argument(
        "--kill-broker-after",
        type=int,
        action="append",
        default=[],
        metavar="S",
        help="kill it S seconds into the load and start it again; may be given more than once",
    )
    parser.add_argument("--settle", type=int, default=13, help="seconds of quiet after it (13)")
    parser.add_argument(
        "--large-files", action="store_true", help="file sizes of real brokers, not small ones"
    )
    parser.add_argument("--directory", type=Path, help="work below it and leave everything there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    plan = Plan(
        seconds=arguments.seconds,
        rate=arguments.rate,
        batch=arguments.batch,
        kills=arguments.kill_broker_after,
        settle=arguments.settle,
        files=cluster.LARGE_FILES if arguments.large_files else cluster.SMALL_FILES,
        sample_seconds=max(1.0, arguments.seconds / 360),
    )
    directory = directory_of(parser, arguments.directory)
    try:
        result = run(plan, directory)
    except ClusterError as error:
        print(f"soak: {error}; everything is left in {directory}", file=sys.stderr)
        return 2
    return end(result, directory, keep=arguments.directory is not None, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
