"""How `reput rebuild` keeps its rate and its memory over larger backlogs and more queues.

    python -m benchmarks.growth --gib 1,4,16 --queues 128,600 --runs 3 [--json FILE]

Each size and each number of queues is one log of benchmarks/logs.py; they are taken in turn, so
that a machine that gets slower meanwhile slows all of them. Ten thousand queues have a benchmark of
their own, benchmarks/queues.py, without Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.logs import write_log  # noqa: E402
from benchmarks.rebuild import median, run_ours  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", default="1,4,16", help="sizes of logs of 128 queues")
    parser.add_argument("--queues", default="1,128,600", help="of logs of 2 GiB")
    parser.add_argument("--body", type=int, default=90)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=ROOT / "work" / "bench")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    shapes = [(float(gib), 128) for gib in arguments.gib.split(",") if gib]
    shapes += [(2.0, int(queues)) for queues in arguments.queues.split(",") if queues]
    runs: dict[str, list[dict[str, float]]] = {}
    stores = []
    for gib, queues in dict.fromkeys(shapes):
        store = arguments.directory / f"{gib:g}gib-{arguments.body}b-{queues}q"
        if not store.is_dir():
            write_log(store / "commitlog", int(gib * (1 << 30)), arguments.body, queues)
        stores.append((f"{gib:g} GiB, {queues} queues", store))
    for _ in range(arguments.runs):
        for name, store in stores:
            with tempfile.TemporaryDirectory(dir=arguments.directory) as work:
                runs.setdefault(name, []).append(run_ours(store, Path(work) / "run"))
            print(name, f"{runs[name][-1]['rate']:,.0f}", file=sys.stderr, flush=True)
    print(f"load average {os.getloadavg()[0]:.2f}, medians of {arguments.runs}")
    print(f"{'':24} {'msg/s':>11} {'anon MiB':>9} {'first half':>11} {'second half':>12}")
    for name, rows in runs.items():
        print(f"{name:24} {median(rows, 'rate'):11,.0f} {median(rows, 'anonymous_mib'):9,.0f} "
              f"{median(rows, 'anonymous_mib_first_half'):11,.0f} "
              f"{median(rows, 'anonymous_mib_second_half'):12,.0f}")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(runs))


if __name__ == "__main__":
    main()
