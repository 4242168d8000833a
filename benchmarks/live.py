"""`reput run` beside a log that grows: from append to entry, idle CPU, and from command to entry.

    python -m benchmarks.live --rates 1000,20000 --seconds 30 --starts 5 [--json FILE]

A record is appended with one write, as a broker does it, and its time is kept; another thread looks
at the mapped consume queue file each half millisecond. A latency is the time from before the write
to the look that found the entry. Idle CPU is that of all processes of the job while nothing comes.
A start is the time from the command to the first entry of a small store, warm: after `reput
prepare`; and fresh: with neither compiled kernels nor archived classes. What a batch is made of is
what Spark says of its steps, of another job at the first rate.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from reput.formats.rocketmq import names  # noqa: E402
from reput.formats.rocketmq.commitlog import BORN_HOST, HOST_V4, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT  # noqa: E402
from reput.formats.rocketmq.encode import Message, encode  # noqa: E402

FILE_SIZE = 1 << 30
ENTRY_SIZE = 20
# One file of the queue has to do: two million entries.
CONF = "mappedFileSizeConsumeQueue=40000000\n"
_STORE_TIMESTAMP_AT = BORN_HOST + HOST_V4
WARM_SECONDS = 15
_LOOK_SECONDS = 0.0005
_PROPERTIES = {
    "KEYS": "order-0123456789abcdef",
    "UNIQ_KEY": "7F000001AC1018B4000000000000ABCD",
    "TAGS": "paid",
}


class LiveStore:
    """A log of one queue that grows, and a look at the queue that is made of it."""

    def __init__(self, directory: Path) -> None:
        self.store = directory / "store"
        self.output = directory / "output"
        self.conf = directory / "broker.conf"
        self.conf.write_text(CONF)
        log = self.store / "commitlog"
        log.mkdir(parents=True)
        self._file = os.open(log / names.offset_file(0), os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, FILE_SIZE)
        self._record = bytearray(encode(Message("latency", os.urandom(100), _PROPERTIES), 0))
        self.end = 0
        self.times: list[float] = []

    def append(self) -> None:
        """Append a record."""
        now = time.time()
        struct.pack_into(">q", self._record, QUEUE_OFFSET_AT, len(self.times))
        struct.pack_into(">q", self._record, PHYSICAL_OFFSET_AT, self.end)
        struct.pack_into(">q", self._record, _STORE_TIMESTAMP_AT, int(now * 1000))
        self.times.append(time.monotonic())
        os.pwrite(self._file, self._record, self.end)
        self.end += len(self._record)

    def append_at(self, rate: int, seconds: float) -> None:
        """Append at a rate, a millisecond's records at once."""
        began = time.monotonic()
        count = 0
        while (passed := time.monotonic() - began) < seconds:
            while count < passed * rate:
                self.append()
                count += 1
            time.sleep(0.001)

    @property
    def queue_file(self) -> Path:
        return self.output / "consumequeue" / "latency" / "0" / names.offset_file(0)

    def command(self, *options: str) -> list[str]:
        own = ["--store", self.store, "--output", self.output, "--broker-conf", self.conf]
        return [sys.executable, "-m", "reput", "run", *map(str, own), *options]


def wait_for_entry(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the first entry is there."""
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the job ended with {process.returncode}")
        if path.exists() and path.stat().st_size:
            with path.open("rb") as file:
                if any(file.read(ENTRY_SIZE)[8:12]):
                    return
        time.sleep(0.005)


def look(path: Path, seen: list[float], wanted: threading.Event) -> None:
    """Note when each entry could be seen; ends when all that are wanted were."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        at = len(seen) * ENTRY_SIZE
        while not wanted.is_set():
            now = time.monotonic()
            # The size is stored last.
            while data[at + 8 : at + 12] != b"\0\0\0\0":
                seen.append(now)
                at += ENTRY_SIZE
            time.sleep(_LOOK_SECONDS)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and all below it."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(p.cpu_times()[:2]) for p in family)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    if process.wait(120) != 0:
        raise RuntimeError(f"the job ended with {process.returncode}")


def measure_latency(directory: Path, rates: list[int], seconds: float, idle: float) -> list[dict]:
    """Run the job once; return the latencies of each rate, and idle CPU."""
    store = LiveStore(directory)
    store.append()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(store.command(), cwd=ROOT, **quiet)
    found: list[dict] = []
    try:
        wait_for_entry(store.queue_file, process)
        seen: list[float] = []
        ended = threading.Event()
        watcher = threading.Thread(target=look, args=(store.queue_file, seen, ended), daemon=True)
        watcher.start()
        # Spark's first batches are slow: its classes are loaded, its code is compiled.
        store.append_at(rates[0], WARM_SECONDS)
        for rate in rates:
            first = len(store.times)
            store.append_at(rate, seconds)
            while len(seen) < len(store.times):
                time.sleep(0.05)
            latencies = (np.array(seen[first:]) - np.array(store.times[first:])) * 1000
            p50, p99, most = np.percentile(latencies, [50, 99, 100]).tolist()
            found.append({"rate": rate, "messages": len(latencies), "p50_ms": p50, "p99_ms": p99,
                          "max_ms": most})  # fmt: skip
        ended.set()
        watcher.join()
        time.sleep(3)
        job = psutil.Process(process.pid)
        before, began = cpu_seconds(job), time.monotonic()
        time.sleep(idle)
        share = (cpu_seconds(job) - before) / (time.monotonic() - began)
        found.append({"idle_cpu_percent": share * 100})
    finally:
        if process.poll() is None:
            stop(process)
    return found


def run_job(store: str, output: str, conf: str) -> None:
    """Be a job like the command's until standard input ends; print how long its steps took."""
    from reput.streaming.job.job import Job  # noqa: PLC0415
    from reput.streaming.settings.config import store_config  # noqa: PLC0415 - numba
    from reput.streaming.source.datasource import register  # noqa: PLC0415
    from reput.streaming.spark.session import QUICK_START, build_session, end_session  # noqa: PLC0415
    from reput.streaming.writers.job_options import JobOptions  # noqa: PLC0415

    kept = {**QUICK_START, "spark.sql.streaming.numRecentProgressUpdates": "1000"}
    spark = build_session("steps", "local[2]", **kept)
    register(spark)
    config = store_config(Path(store), Path(output), broker_conf=Path(conf))
    job = Job([config], JobOptions())
    running = threading.Thread(target=job.run, args=(spark,))
    running.start()
    sys.stdin.read()
    (query,) = spark.streams.active
    steps = [dict(p.durationMs) for p in query.recentProgress if "addBatch" in p.durationMs]
    job.stop()
    running.join()
    end_session(spark)
    print(json.dumps(steps))


def measure_steps(directory: Path, rate: int, seconds: float) -> dict[str, float]:
    """Return the median ms of each of Spark's steps of a batch, and how many batches there were."""
    store = LiveStore(directory)
    store.append()
    command = [
        sys.executable,
        __file__,
        "--job",
        *map(str, (store.store, store.output, store.conf)),
    ]
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    ) as process:
        wait_for_entry(store.queue_file, process)
        store.append_at(rate, WARM_SECONDS + seconds)
        said, _ = process.communicate()
    steps = json.loads(said)
    # The first ones are slow: Java compiles what they run.
    steps = steps[len(steps) // 2 :]
    names = sorted({name for step in steps for name in step})
    medians = {name: statistics.median(step.get(name, 0) for step in steps) for name in names}
    return {"batches": len(steps), **medians}


def measure_start(directory: Path, *, fresh: bool) -> float:
    """Return the seconds from the command to the first entry."""
    store = LiveStore(directory)
    for _ in range(1000):
        store.append()
    environment = dict(os.environ)
    if fresh:
        # No archive of classes is there, and no kernel is compiled.
        environment |= {"HOME": str(directory), "NUMBA_CACHE_DIR": str(directory / "kernels")}
    began = time.monotonic()
    process = subprocess.Popen(
        store.command(),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_entry(store.queue_file, process)
        return time.monotonic() - began
    finally:
        if process.poll() is None:
            stop(process)


def main() -> None:
    if sys.argv[1:2] == ["--job"]:
        run_job(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1000,20000", help="messages a second")
    parser.add_argument("--seconds", type=float, default=30, help="of each rate")
    parser.add_argument("--idle", type=float, default=20, help="seconds of nothing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    rates = [int(rate) for rate in arguments.rates.split(",")]
    runs: list[list[dict]] = []
    starts: dict[str, list[float]] = {"warm": [], "fresh": []}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        for number in range(arguments.runs):
            work = Path(name, f"live-{number}")
            work.mkdir()
            runs.append(measure_latency(work, rates, arguments.seconds, arguments.idle))
            print(runs[-1], file=sys.stderr, flush=True)
            shutil.rmtree(work)
        work = Path(name, "steps")
        work.mkdir()
        steps = measure_steps(work, rates[0], arguments.seconds)
        for number in range(arguments.starts):
            for kind, seconds in starts.items():
                work = Path(name, f"{kind}-{number}")
                work.mkdir()
                seconds.append(measure_start(work, fresh=kind == "fresh"))
                print(kind, seconds[-1], file=sys.stderr, flush=True)
                shutil.rmtree(work)
    print(f"load average {os.getloadavg()[0]:.2f}, {arguments.runs} runs, medians")
    for place, rate in enumerate(rates if runs else ()):
        rows = [run[place] for run in runs]
        figures = ", ".join(
            f"{name} {statistics.median(row[name] for row in rows):,.0f} ms "
            f"({min(row[name] for row in rows):,.0f} to {max(row[name] for row in rows):,.0f})"
            for name in ("p50_ms", "p99_ms", "max_ms")
        )
        print(f"{rate:,} messages/s: {figures}")
    print(
        f"a batch, median ms of {steps['batches']}: "
        + ", ".join(f"{name} {ms:g}" for name, ms in steps.items() if name != "batches")
    )
    if runs:
        idle = [run[-1]["idle_cpu_percent"] for run in runs]
        print(
            f"idle: {statistics.median(idle):.1f} % of a core ({min(idle):.1f} to {max(idle):.1f})"
        )
    for kind, seconds in starts.items():
        if seconds:
            print(f"{kind} start to first entry: {statistics.median(seconds):.1f} s "
                  f"({min(seconds):.1f} to {max(seconds):.1f})")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps({"latency": runs, "steps": steps, "starts": starts}))


if __name__ == "__main__":
    main()
