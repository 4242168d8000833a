"""`reput serve`: cached pulls beside a real 5.5.0 broker, held pulls at rest, and the start.

    python -m benchmarks.serve --pairs 5 --seconds 5

The broker has a copy of the log and dispatches it itself. Both serve one after the other, whichever
was last goes first in the next pair, and each answers for a while before it is measured. The load
client is load.c, compiled for the run; it runs on the same machine. A start is from the command to
the first answer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.latencies import spread
from benchmarks.logs import QUEUES_A_TOPIC, topic_name
from benchmarks.serve import servers
from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.fields import write
from reput.remoting.wire.pull_headers import PullMessageRequestHeader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.serve.servers import Made, Serving

CONNECTIONS = 32
_SUSPEND_AND_SUBSCRIPTION = 6
_LOADED_SECONDS = 5.0


def compiled(directory: Path) -> Path:
    """Compile the load client."""
    program = directory / "load"
    source = Path(__file__).with_name("load.c")
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return program


def pulls(load: Sequence[str], port: int, seconds: float, made: Made) -> dict[str, float]:
    """Pull with the load client, first for a third of the time unmeasured."""
    for length in (seconds / 3, seconds):
        words = (port, CONNECTIONS, length, topic_name(0), len(made.ends), min(made.ends))
        done = subprocess.run(
            [*load, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True
        )
    count, size, took = map(float, done.stdout.split())
    return {"pulls_per_second": count / took, "bytes_a_pull": size / count}


def compare(work: Path, made: Made, pairs: int, seconds: float) -> dict[str, list]:
    """Return the figures of both sides, pair by pair."""
    load = str(compiled(work))
    runs: dict[str, list] = {"rocketmq": [], "reput": []}
    with (
        servers.broker(work, made) as (cluster, prefix),
        servers.served(made, work / "offsets") as (ours, *_),
    ):
        theirs = int(cluster.broker_address.rpartition(":")[2])
        sides = {"rocketmq": ([*prefix, load], theirs), "reput": ([load], ours)}
        for side in sides.values():
            # A JVM compiles what it runs often: not in the first pair.
            pulls(*side, 2 * seconds, made)
        for number in range(pairs):
            for side in sorted(sides, reverse=number % 2 == 0):
                runs[side].append(pulls(*sides[side], seconds, made))
    return runs


def alone(work: Path, made: Made, runs: int, seconds: float) -> list[dict[str, float]]:
    """Return the figures of ours without a broker."""
    load = str(compiled(work))
    with servers.served(made, work / "offsets") as (port, *_):
        return [pulls([load], port, seconds, made) for _ in range(runs)]


def idle(work: Path, made: Made, connections: int, seconds: float) -> dict[str, float]:
    """Hold a pull for each connection, and look at the server meanwhile."""
    with servers.served(made, work / "idle") as serving:
        return held(serving, [serving.port], made, connections, seconds)


def held(
    serving: Serving, ports: Sequence[int], made: Made, connections: int, seconds: float
) -> dict[str, float]:
    """Hold pulls at ports of a server by turns, all of stores like one; see what it takes."""
    server = psutil.Process(serving.process)
    # By then it has loaded what is compiled.
    time.sleep(_LOADED_SECONDS)
    before = server.memory_full_info().uss
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", ports[number % len(ports)]), 30)
            )
            for number in range(connections)
        ]
        for number, client in enumerate(clients):
            queue = number // len(ports) % len(made.ends)
            client.sendall(frames.encode(_held(number, queue, made.ends[queue])))
        # Requests are taken and garbage is gone before it is at rest.
        time.sleep(2)
        memory = server.memory_full_info().uss - before
        used, began = sum(server.cpu_times()[:2]), time.monotonic()
        time.sleep(seconds)
        share = (sum(server.cpu_times()[:2]) - used) / (time.monotonic() - began)
        poll = select.poll()
        for client in clients:
            poll.register(client, select.POLLIN)
        if answered := poll.poll(0):
            raise RuntimeError(f"{len(answered)} pulls were answered, and should have been held")
    return {"core": share, "bytes_a_connection": memory / connections}


def _held(number: int, queue: int, end: int) -> Command:
    header = PullMessageRequestHeader(
        "idle", topic_name(0), queue, end, 32, _SUSPEND_AND_SUBSCRIPTION, 0, 600_000, 1, "*", "TAG"
    )
    return Command(RequestCode.PULL_MESSAGE, number, fields=write(header))


def starts(work: Path, made: Made, runs: int) -> list[float]:
    """Return the seconds from command to first answer, after one start that is not counted."""
    seconds = []
    for _ in range(runs + 1):
        with servers.served(made, work / "starts") as serving:
            seconds.append(serving.seconds)
    return seconds[1:]


def report(found: dict) -> None:
    """Print the tables."""
    rates = {
        side: [run["pulls_per_second"] for run in runs] for side, runs in found["pulls"].items()
    }
    for side, values in rates.items():
        size = statistics.median(run["bytes_a_pull"] for run in found["pulls"][side])
        print(f"cached pulls/s, {side}: {spread(values, ',.0f')}, {size:,.0f} bytes each")
    if found["ratios"]:
        print(f"ratio of the pairs: {spread(found['ratios'], '.2f')}")
    at_rest = found["idle"]
    print(
        f"{found['connections']:,} held pulls: {at_rest['core']:.1%} of a core, "
        f"{at_rest['bytes_a_connection'] / 1024:.1f} KiB a connection"
    )
    print(f"start with {found['queues']:,} queues: {spread(found['starts'], '.2f')} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--gib", type=float, default=0.1, help="of each log")
    parser.add_argument("--connections", type=int, default=1000, help="with held pulls")
    parser.add_argument("--queues", type=int, default=10_000, help="of the store that is started")
    parser.add_argument("--without-broker", action="store_true", help="measure ours alone")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        made = servers.make(work / "few", options.gib, QUEUES_A_TOPIC)
        if options.without_broker:
            runs = {"reput": alone(work, made, options.pairs, options.seconds)}
        else:
            runs = compare(work, made, options.pairs, options.seconds)
        pairs = zip(runs["reput"], runs.get("rocketmq", ()), strict=False)
        many = servers.make(work / "many", options.gib, options.queues)
        found = {
            "pulls": runs,
            "ratios": [a["pulls_per_second"] / b["pulls_per_second"] for a, b in pairs],
            "connections": options.connections,
            "idle": idle(work, made, options.connections, options.seconds),
            "queues": many.queues,
            "starts": starts(work, many, options.pairs),
        }
    report(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
