"""The broker's own dispatch, and `reput run` beside it: the same log while the broker writes it.

    python -m benchmarks.live.beside --rates 1000,20000 --seconds 60 --runs 3 --json FILE
    python -m benchmarks.live.beside --other CHECKOUT --json FILE

RocketMQ 5.5.0's store puts messages at a rate (`Live` of tests/oracle). It notes when each put
returned, and each 0.2 ms how far its own queue goes. `reput run` dispatches the same store
meanwhile, and a thread looks at the mapped queue of its output each half millisecond. A latency is
from the return of the put to the look that found the message, on both sides by the same clock.
What comes in the first `--warm` seconds is not counted. With `--other` every second run is that of
another checkout's job; the broker is beside each.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.latencies import FIGURES, figures_of
from benchmarks.live.jobs import ROOT, stop
from benchmarks.live.store import CONF, ENTRIES, look, wait_for_entry
from reput.formats.rocketmq import names
from tests.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "5.5.0"
BROKER, OURS, OTHER = "broker", "reput", "other"
SLOWER_PERCENT = np.logspace(2, -3, 101)
"""The shares of messages, in percent, whose least latency the JSON has."""
_LOOK_NS = 200_000


def figures(late: np.ndarray) -> dict:
    """Return what is told of some latencies in ms."""
    slower = np.percentile(late, 100 - SLOWER_PERCENT).tolist()
    return {"messages": len(late), **figures_of(late), "slower": slower}


class Broker:
    """The real store, which puts messages of one queue at a rate and dispatches them."""

    def __init__(self, directory: Path, rate: int, seconds: float) -> None:
        self.store, self._times = directory / "store", directory / "times"
        self._process = subprocess.Popen(
            [
                oracle.HERE / "run.sh", VERSION, "Live", self.store, f"--rate={rate}",
                f"--seconds={round(seconds)}", f"--look={_LOOK_NS}", f"--times={self._times}",
                CONF.strip(),
            ],
            env={**os.environ, "HEAP": "1g", "LIMIT": str(round(seconds) + 120)},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        while not (self.store / "commitlog").exists() and self._process.poll() is None:
            time.sleep(0.05)

    def times(self) -> tuple[np.ndarray, np.ndarray]:
        """Wait for its end; return when each put returned and each entry was seen, in ms."""
        if self._process.wait() != 0:
            raise RuntimeError(f"the broker ended with {self._process.returncode}")
        put, entry = np.fromfile(self._times, ">i8").reshape(2, -1).astype(np.float64) / 1e6
        return put, entry

    def end(self) -> None:
        """End it, unless it has ended."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


@contextlib.contextmanager
def job_beside(directory: Path, store: Path, root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a checkout's job, and end it in order."""
    conf = directory / "broker.conf"
    conf.write_text(CONF)
    command = [
        sys.executable,
        "-m",
        "reput",
        "run",
        "--store",
        store,
        "--output",
        directory / "output",
    ]
    with (directory / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [*command, "--broker-conf", conf, "--broker-version", VERSION],
            cwd=root, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield job
        finally:
            if job.poll() is None:
                stop(job)


def measure(directory: Path, root: Path, rate: int, warm: float, seconds: float) -> list[dict]:
    """Run the broker and a checkout's job once; return the figures of both."""
    broker = Broker(directory, rate, warm + seconds)
    seen: list[float] = []
    ended = threading.Event()
    queue = directory / "output" / "consumequeue" / "latency" / "0" / names.offset_file(0)
    try:
        with job_beside(directory, broker.store, root) as job:
            wait_for_entry(queue, job)
            looker = threading.Thread(target=look, args=(queue, seen, ended), daemon=True)
            looker.start()
            put, theirs = broker.times()
            while len(seen) < len(put):
                if job.poll() is not None:
                    raise RuntimeError(f"the job ended with {job.returncode}")
                time.sleep(0.05)
            ended.set()
            looker.join()
    finally:
        broker.end()
    sides = (theirs, np.array(seen[: len(put)]) * 1e3)
    return [figures(np.maximum(0, side - put)[round(rate * warm) :]) for side in sides]


def take_turns(arguments: argparse.Namespace, rates: list[int]) -> dict[int, dict[str, list[dict]]]:
    """Run each side at each rate as often as asked; return the figures by rate and side."""
    roots = {OURS: ROOT} | ({OTHER: arguments.other.resolve()} if arguments.other else {})
    for root in roots.values():
        prepare = [sys.executable, "-m", "reput", "prepare"]
        subprocess.run(prepare, cwd=root, check=True, stdout=subprocess.DEVNULL)
    sides = (BROKER, *roots)
    found: dict[int, dict[str, list[dict]]] = {rate: {side: [] for side in sides} for rate in rates}
    for _ in range(arguments.runs):
        for rate, (name, root) in itertools.product(rates, roots.items()):
            with tempfile.TemporaryDirectory(dir=arguments.directory) as work:
                both = measure(Path(work), root, rate, arguments.warm, arguments.seconds)
            for side, each in zip((BROKER, name), both, strict=True):
                found[rate][side].append(each)
                shown = ", ".join(f"{figure} {each[figure]:.1f}" for figure in FIGURES)
                print(f"{rate:,} messages/s, {side}: {shown}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1000,20000", help="messages a second")
    parser.add_argument("--seconds", type=float, default=60, help="of each rate")
    parser.add_argument("--warm", type=float, default=30, help="seconds that are not counted")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--other", type=Path, help="another checkout, for every second run")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    rates = [int(rate) for rate in arguments.rates.split(",")]
    if max(rates) * (arguments.warm + arguments.seconds) > ENTRIES:
        parser.error(f"one queue file has room for {ENTRIES:,} messages: ask for less")
    oracle.build(VERSION)
    found = take_turns(arguments, rates)
    report(found)
    if arguments.json:
        shares = SLOWER_PERCENT.tolist()
        arguments.json.write_text(json.dumps({"slower_percent": shares, "rates": found}))


def report(found: dict[int, dict[str, list[dict]]]) -> None:
    """Print medians, and the least and the most."""
    print(f"load average {os.getloadavg()[0]:.2f}, medians")
    for rate, sides in found.items():
        for side, runs in sides.items():
            shown = ", ".join(
                f"{name} {statistics.median(run[name] for run in runs):,.1f} ms "
                f"({min(run[name] for run in runs):,.1f} to {max(run[name] for run in runs):,.1f})"
                for name in FIGURES
            )
            print(f"{rate:,} messages/s, {side}, {len(runs)} runs: {shown}")


if __name__ == "__main__":
    main()
