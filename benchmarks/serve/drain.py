"""A stock Java push consumer drains a topic from `reput serve`, and from a real 5.5.0 broker.

    python -m benchmarks.serve.drain --messages 1000000 --pairs 3

Both have the same log and run all the time. They are drained one after the other; whichever was
last goes first in the next pair. Each drain is a consumer process of its own in a new group, with
RocketMQ's own settings. The time is that from its first message to its last one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.latencies import spread
from benchmarks.logs import QUEUES_A_TOPIC, topic_name
from benchmarks.serve import servers
from tests.builders.java_clients import java_command
from tests.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "5.5.0"
_MOST_SECONDS = 110
# Of a record in the logs, about.
_RECORD = 300


def drain(prefix: Sequence[str], names: str, group: str, count: int, home: Path) -> float:
    """Return the messages a second that one consumer takes."""
    words = (names, topic_name(0), group, str(count), str(_MOST_SECONDS))
    command = [*prefix, *java_command(VERSION, home, "oracle.Drain"), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    taken, seconds = done.stdout.split()[-2:]
    if int(taken) < count:
        raise RuntimeError(f"{taken} messages came in {_MOST_SECONDS} s, and {count} were wanted")
    return int(taken) / float(seconds)


def compare(work: Path, made: servers.Made, pairs: int) -> dict[str, list[float]]:
    """Return the rates of both sides, pair by pair."""
    oracle.build(VERSION)
    count = sum(made.ends)
    runs: dict[str, list[float]] = {"rocketmq": [], "reput": []}
    with (
        servers.broker(work, made) as (cluster, prefix),
        servers.served(made, work / "offsets") as ours,
    ):
        names = {
            "rocketmq": (prefix, cluster.name_server_address),
            "reput": ((), f"127.0.0.1:{ours.names}"),
        }
        for number in range(pairs + 1):
            for side in sorted(names, reverse=number % 2 == 0):
                rate = drain(*names[side], f"drain-{number}", count, work)
                # A JVM compiles what it runs often: the first pair is not counted.
                if number:
                    runs[side].append(rate)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="about")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        made = servers.make(work / "one", options.messages * _RECORD / (1 << 30), QUEUES_A_TOPIC)
        runs = compare(work, made, options.pairs)
        ratios = [a / b for a, b in zip(runs["reput"], runs["rocketmq"], strict=True)]
        found = {"messages": sum(made.ends), "rates": runs, "ratios": ratios}
    for side, rates in runs.items():
        print(f"messages/s, {side}: {spread(rates, ',.0f')}")
    print(f"ratio of the pairs: {spread(ratios, '.2f')}, {found['messages']:,} messages")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
