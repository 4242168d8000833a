"""The broker's own dispatch, and `reput run` beside it: the same log while the broker writes it.

    python -m benchmarks.beside --rates 1000,20000 --seconds 60 --runs 3 --json FILE
    python -m benchmarks.beside --other CHECKOUT --json FILE

RocketMQ 5.5.0's store puts messages at a rate (`Live` of tests/oracle). It notes when each put
returned, and each 0.2 ms how far its own queue goes. `reput run` dispatches the same store
meanwhile, and a thread looks at the mapped queue of its output each half millisecond. A latency is
from the return of the put to the look that found the message, on both sides by the same clock.
What comes in the first `--warm` seconds is not counted. With `--other` every second run is that of
another checkout's job; the broker is beside each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.live import stop  # noqa: E402
from benchmarks.live_store import CONF, look, wait_for_entry  # noqa: E402
from reput.formats.rocketmq import names  # noqa: E402
from tests.oracle import oracle  # noqa: E402

VERSION = "5.5.0"
BROKER, OURS, OTHER = "broker", "reput", "other"
SLOWER_PERCENT = np.logspace(2, -3, 101)
"""The shares of messages, in percent, whose least latency the JSON has."""
FIGURES = ("p50_ms", "p99_ms", "max_ms")
_QUEUE_ENTRIES = 2_000_000
_LOOK_NS = 200_000


def figures(late: np.ndarray) -> dict:
    """Return what is told of some latencies in ms."""
    p50, p99, most = np.percentile(late, [50, 99, 100]).tolist()
    slower = np.percentile(late, 100 - SLOWER_PERCENT).tolist()
    return {"messages": len(late), "p50_ms": p50, "p99_ms": p99, "max_ms": most, "slower": slower}


def measure(directory: Path, root: Path, rate: int, warm: float, seconds: float) -> list[dict]:
    """Run the broker and a checkout's job once; return the figures of both."""
    store, output, times = directory / "store", directory / "output", directory / "times"
    conf = directory / "broker.conf"
    conf.write_text(CONF)
    count = round(rate * (warm + seconds))
    broker = subprocess.Popen(
        [
            oracle.HERE / "run.sh", VERSION, "Live", store, f"--rate={rate}",
            f"--seconds={count // rate}", f"--look={_LOOK_NS}", f"--times={times}", CONF.strip(),
        ],
        env={**os.environ, "HEAP": "1g", "LIMIT": str(round(warm + seconds) + 120)},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    while not (store / "commitlog").exists() and broker.poll() is None:
        time.sleep(0.05)
    command = [sys.executable, "-m", "reput", "run", "--store", store, "--output", output]
    log = (directory / "job.log").open("wb")
    job = subprocess.Popen(
        [*command, "--broker-conf", conf, "--broker-version", VERSION],
        cwd=root, stdout=log, stderr=log,
    )  # fmt: skip
    seen: list[float] = []
    ended = threading.Event()
    try:
        queue = output / "consumequeue" / "latency" / "0" / names.offset_file(0)
        wait_for_entry(queue, job)
        looker = threading.Thread(target=look, args=(queue, seen, ended), daemon=True)
        looker.start()
        if broker.wait() != 0:
            raise RuntimeError(f"the broker ended with {broker.returncode}")
        put, theirs = np.fromfile(times, ">i8").reshape(2, -1).astype(np.float64) / 1e6
        while len(seen) < len(put):
            if job.poll() is not None:
                raise RuntimeError(f"the job ended with {job.returncode}")
            time.sleep(0.05)
        ended.set()
        looker.join()
    finally:
        log.close()
        if broker.poll() is None:
            broker.terminate()
            broker.wait()
        if job.poll() is None:
            stop(job)
    first = round(rate * warm)
    sides = (theirs, np.array(seen[: len(put)]) * 1e3)
    return [figures(np.maximum(0, side - put)[first:]) for side in sides]


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
    if max(rates) * (arguments.warm + arguments.seconds) > _QUEUE_ENTRIES:
        parser.error(f"one queue file has room for {_QUEUE_ENTRIES:,} messages: ask for less")
    roots = {OURS: ROOT} | ({OTHER: arguments.other.resolve()} if arguments.other else {})
    oracle.build(VERSION)
    for root in roots.values():
        subprocess.run([sys.executable, "-m", "reput", "prepare"], cwd=root, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    found: dict[int, dict[str, list[dict]]] = {}
    for _ in range(arguments.runs):
        for rate in rates:
            sides = found.setdefault(rate, {BROKER: [], **{name: [] for name in roots}})
            for name, root in roots.items():
                with tempfile.TemporaryDirectory(dir=arguments.directory) as work:
                    broker, ours = measure(
                        Path(work), root, rate, arguments.warm, arguments.seconds
                    )
                sides[BROKER].append(broker)
                sides[name].append(ours)
                for side, each in ((BROKER, broker), (name, ours)):
                    shown = ", ".join(f"{figure} {each[figure]:.1f}" for figure in FIGURES)
                    print(f"{rate:,} messages/s, {side}: {shown}", file=sys.stderr, flush=True)
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
