"""`reput run` and `reput rebuild` through a backlog: rate and memory, by two states in turn.

    git worktree add ../before COMMIT
    python -m benchmarks.live.catch_up --gib 2 --pairs 5 --other ../before [--json FILE]

A log of one queue is at rest. A rate is that from the first entry to the last that can be seen, the
whole is from the command to the last entry, and memory is what all processes of the job have at
most that is not page cache. `run` begins while Spark still starts, so its rate alone says less than
the whole does. Every second pair begins with the other state. The ratio is the median of the pairs'
own ratios, this state to the other one. Without `--other`, this state is compared with itself: what
is noise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.live.jobs import ROOT, stop
from benchmarks.live.store import LiveStore, wait_for_all, wait_for_entry
from benchmarks.processes import MIB, Watch

THIS, OTHER = "this", "other"
COMMANDS = ("run", "rebuild")
# Unit and format of each.
FIGURES = {"rate": ("messages/s", ",.0f"), "whole": ("s", ".1f"), "anonymous_mib": ("MiB", ",.0f")}
_GIB = 1 << 30
_LEAST_RECORD = 200


def measure(store: LiveStore, root: Path, command: str, output: Path) -> dict[str, float]:
    """Have a state dispatch all of the log; return how fast and with what memory."""
    store.output = output
    words = store.command()
    words[words.index("run")] = command
    with output.with_suffix(".log").open("wb") as log:
        started = time.monotonic()
        process = subprocess.Popen(words, cwd=root, stdout=log, stderr=log)
        watch = Watch(process.pid)
        try:
            wait_for_entry(store.queue_file, process)
            began = time.monotonic()
            wait_for_all(store, process)
            ended = time.monotonic()
        finally:
            watch.end()
            if process.poll() is None and command == "run":
                stop(process)
            elif process.wait() != 0:
                raise RuntimeError(f"{command} ended with {process.returncode}")
    return {
        "rate": len(store.times) / (ended - began),
        "whole": ended - started,
        "anonymous_mib": max(watch.memory) / MIB,
    }


def take_turns(
    store: LiveStore, roots: dict[str, Path], pairs: int, directory: Path
) -> dict[str, list[dict[str, dict[str, float]]]]:
    """Run both states as often as asked; return the figures of each pair, by command."""
    found: dict[str, list[dict[str, dict[str, float]]]] = {command: [] for command in COMMANDS}
    for number, command in itertools.product(range(pairs), COMMANDS):
        sides = list(roots.items())
        pair = {}
        for side, root in sides[:: -1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory(dir=directory) as work:
                pair[side] = measure(store, root, command, Path(work, "output"))
            print(command, side, pair[side], file=sys.stderr, flush=True)
        found[command].append(pair)
    return found


def report(found: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """Print medians of both states, and of the pairs' ratios."""
    print(f"load average {os.getloadavg()[0]:.2f}, medians")
    for command, pairs in found.items():
        for figure, (unit, form) in FIGURES.items():
            this, other = (
                statistics.median(pair[side][figure] for pair in pairs) for side in (THIS, OTHER)
            )
            ratios = [pair[THIS][figure] / pair[OTHER][figure] for pair in pairs]
            print(
                f"{command}, {figure}: {this:{form}} {unit}, other {other:{form}}, "
                f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=2, help="of log")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--other", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    roots = {THIS: ROOT, OTHER: arguments.other.resolve()}
    for root in roots.values():
        prepare = [sys.executable, "-m", "reput", "prepare"]
        subprocess.run(prepare, cwd=root, check=True, stdout=subprocess.DEVNULL)
    size = int(arguments.gib * _GIB)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        store = LiveStore(Path(name), entries=size // _LEAST_RECORD)
        store.append_bytes(size)
        found = take_turns(store, roots, arguments.pairs, Path(name))
    report(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
