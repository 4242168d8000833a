"""`reput rebuild` beside the broker's own dispatch, on the same commitlog, in turn.

    python benchmarks/rebuild.py --messages 2000000 --runs 3 [--store DIR] [--json]

The store is written by the real RocketMQ 5.5.0 (tests/oracle: ~285 bytes a record, three index
entries each) into --store, once. A run of the broker is its ReputMessageService over the log with
mapped consume queues, the fastest of its settings, from the first to the last dispatch. A run of
ours is the command, through Spark; its rate is without Spark's start, its total from command to
exit. The log is read once before each run, so that no run pays for the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.oracle import oracle  # noqa: E402

VERSION = "5.5.0"
PEER = ("--mode=reput", "putConsumeQueueDataByFileChannel=false")


def warm(store: Path) -> None:
    """Bring the log into the page cache."""
    for path in sorted((store / "commitlog").iterdir()):
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def run_broker(store: Path, work: Path) -> dict[str, float]:
    """Time the broker on hard links of the log."""
    (work / "commitlog").mkdir(parents=True)
    for path in (store / "commitlog").iterdir():
        os.link(path, work / "commitlog" / path.name)
    warm(store)
    began = time.monotonic()
    shown = json.loads(oracle.run(VERSION, "Replay", work, *PEER, timeout=900, heap="3g"))
    return {
        "messages": shown["messages"],
        "rate": shown["msg_per_s"],
        "total_seconds": shown["total_s"],
        "process_seconds": time.monotonic() - began,
        "cpu_seconds": shown["cpu_s"],
    }


def run_ours(store: Path, work: Path) -> dict[str, float]:
    """Time the command."""
    warm(store)
    before = os.times()
    began = time.monotonic()
    command = [sys.executable, "-m", "streaming", "rebuild", "--store", store, "--output", work]
    done = subprocess.run(
        [*map(str, command), "--json"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    seconds = time.monotonic() - began
    after = os.times()
    shown = json.loads(done.stdout)
    return {
        "messages": shown["messages"],
        "rate": shown["messages_per_second"],
        "total_seconds": seconds,
        "process_seconds": seconds,
        "cpu_seconds": after.children_user
        + after.children_system
        - before.children_user
        - before.children_system,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", type=Path, default=ROOT / "work" / "bench" / "store")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    oracle.build(VERSION)
    if not (arguments.store / "commitlog").is_dir():
        arguments.store.parent.mkdir(parents=True, exist_ok=True)
        count = f"--n={arguments.messages}"
        oracle.run(VERSION, "Generate", "big-small", arguments.store, count, timeout=900, heap="3g")
    runs: dict[str, list[dict[str, float]]] = {"broker": [], "reput": []}
    for _ in range(arguments.runs):
        for name, run in (("broker", run_broker), ("reput", run_ours)):
            with tempfile.TemporaryDirectory(dir=arguments.store.parent) as work:
                runs[name].append(run(arguments.store, Path(work) / "run"))
    report(runs, as_json=arguments.json)


def report(runs: dict[str, list[dict[str, float]]], *, as_json: bool) -> None:
    def median(name: str, figure: str) -> float:
        return statistics.median(run[figure] for run in runs[name])

    ratio = median("reput", "rate") / median("broker", "rate")
    values = {"load": os.getloadavg()[0], "peer": [VERSION, *PEER], "ratio": ratio, "runs": runs}
    if as_json:
        print(json.dumps(values))
        return
    print(f"load average {values['load']:.2f}; peer: RocketMQ {' '.join(values['peer'])}")
    print(f"{'':8} {'msg/s median':>14} {'min':>12} {'max':>12} {'total s':>9} {'cpu s':>7}")
    for name, figures in runs.items():
        rates = sorted(run["rate"] for run in figures)
        total, cpu = median(name, "total_seconds"), median(name, "cpu_seconds")
        columns = (statistics.median(rates), rates[0], rates[-1])
        shown = " ".join(f"{rate:{w},.0f}" for rate, w in zip(columns, (14, 12, 12), strict=True))
        print(f"{name:8} {shown} {total:9.1f} {cpu:7.1f}")
    print(f"rate of reput / rate of the broker: {ratio:.2f}")


if __name__ == "__main__":
    main()
