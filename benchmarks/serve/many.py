"""What a server of many stores takes while pulls are held at each.

    python -m benchmarks.serve.many --stores 20 --connections 200 --seconds 10 --runs 3

Each store is a broker of its own, and has a log of the same content. The pulls wait at all of them
by turns, and nothing is written meanwhile.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.latencies import spread
from benchmarks.logs import QUEUES_A_TOPIC
from benchmarks.serve import servers
from benchmarks.serve.__main__ import held

_GIB = 1 / 1024


def measure(work: Path, stores: int, connections: int, seconds: float) -> dict[str, float]:
    """Return the share of a core and the memory of a connection, by one server."""
    made = []
    for number in range(stores):
        (work / str(number)).mkdir()
        made.append(servers.make(work / str(number), _GIB, QUEUES_A_TOPIC))
    with servers.all_served(made, work) as (serving, ports):
        return held(serving, ports, made[0], connections, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--connections", type=int, default=200, help="with a held pull, of all")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    found = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as temporary:
            found.append(
                measure(Path(temporary), options.stores, options.connections, options.seconds)
            )
    shares = spread([run["core"] * 100 for run in found], ".1f")
    print(f"{options.stores} stores, {options.connections} held pulls: {shares} % of a core")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
