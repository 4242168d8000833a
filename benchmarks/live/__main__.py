"""`reput run` beside logs that grow: from append to entry, idle CPU, and from command to entry.

    python -m benchmarks.live --rates 1000,20000 --seconds 30 --starts 5 [--json FILE]
    python -m benchmarks.live --stores 20 --rates 500 --seconds 30 --starts 0
    python -m benchmarks.live --placement executors --rates 1000 --starts 0

A record is appended with one write, as a broker does it, and its time is kept; another thread looks
at the mapped consume queue files each half millisecond. A latency is the time from before the write
to the look that found the entry. A rate is that of each store. Idle CPU is that of all processes of
the job while nothing comes. A start is the time from the command to the first entry of a small
store, warm: after `reput prepare`; and fresh: with neither compiled kernels nor archived classes.
With `--placement executors` the job runs on a Spark cluster of one worker.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.latencies import FIGURES, figures_of
from benchmarks.live.jobs import ROOT, WARM_SECONDS, cpu_seconds, job_of, stop
from benchmarks.live.store import LiveStore, look_at_all, wait_for_entry


def append_to_all(stores: list[LiveStore], rate: int, seconds: float) -> None:
    """Append to each store at a rate, a millisecond's records at once."""
    began, count = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        while count < passed * rate:
            for store in stores:
                store.append()
            count += 1
        time.sleep(0.001)


class Watcher:
    """Notes when the entries of some stores could be seen."""

    def __init__(self, stores: list[LiveStore]) -> None:
        self._stores = stores
        self._seen: list[list[float]] = [[] for _ in stores]
        self._ended = threading.Event()
        arguments = ([store.queue_file for store in stores], self._seen, self._ended)
        self._thread = threading.Thread(target=look_at_all, args=arguments, daemon=True)
        self._thread.start()

    def latencies(self, rate: int, seconds: float) -> np.ndarray:
        """Append at a rate; return the ms from append to entry, once all were seen."""
        firsts = [len(store.times) for store in self._stores]
        append_to_all(self._stores, rate, seconds)
        pairs = list(zip(self._seen, self._stores, strict=True))
        while any(len(seen) < len(store.times) for seen, store in pairs):
            time.sleep(0.05)
        late = [
            np.array(seen[first:]) - np.array(store.times[first:])
            for (seen, store), first in zip(pairs, firsts, strict=True)
        ]
        return np.concatenate(late) * 1000

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()


def measure_latency(directory: Path, rates: list[int], arguments: argparse.Namespace) -> list[dict]:
    """Run the job once; return the latencies of each rate, and idle CPU."""
    stores = []
    for number in range(arguments.stores):
        (directory / f"s{number}").mkdir()
        stores.append(LiveStore(directory / f"s{number}"))
        stores[-1].append()
    found: list[dict] = []
    with job_of(directory, stores, arguments.placement) as process:
        for store in stores:
            wait_for_entry(store.queue_file, process)
        watcher = Watcher(stores)
        # The first batches are slow: Java's classes are loaded, its code is compiled.
        append_to_all(stores, rates[0], arguments.warm)
        for rate in rates:
            late = watcher.latencies(rate, arguments.seconds)
            found.append({"rate": rate, "messages": len(late), **figures_of(late)})
        watcher.end()
        time.sleep(3)
        job = psutil.Process(process.pid)
        before, began = cpu_seconds(job), time.monotonic()
        time.sleep(arguments.idle)
        share = (cpu_seconds(job) - before) / (time.monotonic() - began)
        found.append({"idle_cpu_percent": share * 100})
    return found


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1000,20000", help="messages a second of each store")
    parser.add_argument("--seconds", type=float, default=30, help="of each rate")
    parser.add_argument("--warm", type=float, default=WARM_SECONDS, help="seconds not counted")
    parser.add_argument("--idle", type=float, default=20, help="seconds of nothing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--stores", type=int, default=1)
    parser.add_argument("--placement", choices=("driver", "executors"), default="driver")
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
            runs.append(measure_latency(work, rates, arguments))
            print(runs[-1], file=sys.stderr, flush=True)
            shutil.rmtree(work)
        for number in range(arguments.starts):
            for kind, seconds in starts.items():
                work = Path(name, f"{kind}-{number}")
                work.mkdir()
                seconds.append(measure_start(work, fresh=kind == "fresh"))
                print(kind, seconds[-1], file=sys.stderr, flush=True)
                shutil.rmtree(work)
    report(rates, runs, starts)
    if arguments.json:
        arguments.json.write_text(json.dumps({"latency": runs, "starts": starts}))


def report(rates: list[int], runs: list[list[dict]], starts: dict[str, list[float]]) -> None:
    """Print medians, and the least and the most."""
    print(f"load average {os.getloadavg()[0]:.2f}, {len(runs)} runs, medians")
    for place, rate in enumerate(rates if runs else ()):
        rows = [run[place] for run in runs]
        figures = ", ".join(
            f"{name} {statistics.median(row[name] for row in rows):,.1f} ms "
            f"({min(row[name] for row in rows):,.1f} to {max(row[name] for row in rows):,.1f})"
            for name in FIGURES
        )
        print(f"{rate:,} messages/s: {figures}")
    if runs:
        idle = [run[-1]["idle_cpu_percent"] for run in runs]
        print(
            f"idle: {statistics.median(idle):.1f} % of a core ({min(idle):.1f} to {max(idle):.1f})"
        )
    for kind, seconds in starts.items():
        if seconds:
            print(f"{kind} start to first entry: {statistics.median(seconds):.1f} s "
                  f"({min(seconds):.1f} to {max(seconds):.1f})")  # fmt: skip


if __name__ == "__main__":
    main()
