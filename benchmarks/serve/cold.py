"""Cached pulls while another client drains what is not in memory.

    python -m benchmarks.serve.cold --gib 1 --seconds 10 --runs 3

One client pulls the end of a store's queues, which stays in memory, at a fixed rate. The other one
drains them from their beginning. The pages there are given back to the kernel again and again
(`POSIX_FADV_DONTNEED`), so that its messages come from the disk. Both are processes of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.latencies import figures_of, spread, spread_of
from benchmarks.logs import QUEUES_A_TOPIC, topic_name
from benchmarks.serve import servers
from benchmarks.serve.peers import Puller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

_MESSAGES = 32
# Entries before a queue's end that are pulled again and again.
_HOT = 1024
# Bytes before the log's end that stay in memory.
_KEPT = 64 << 20
_EVICT_SECONDS = 0.05
_SPAWN = multiprocessing.get_context("spawn")


def hot(port: int, ends: list[int], rate: float, seconds: float, told: Connection) -> None:
    """Pull what is in memory at a rate; tell the ms of each answer."""
    pullers = [Puller(port, topic_name(0), queue) for queue in range(len(ends))]
    taken = []
    began = time.monotonic()
    for number in range(round(rate * seconds)):
        while (left := began + number / rate - time.monotonic()) > 0:
            time.sleep(left)
        queue = number % len(ends)
        offset = ends[queue] - _HOT + number * _MESSAGES % (_HOT - _MESSAGES)
        asked = time.monotonic()
        answer = pullers[queue].pull(offset, _MESSAGES)
        if answer.code or not answer.body:
            raise RuntimeError(f"an answer with code {answer.code}")
        taken.append((answer.at - asked) * 1000)
    told.send(taken)


def cold(port: int, ends: list[int], over: Event, told: Connection) -> None:
    """Drain all queues from their beginnings, again where they end; tell how many bytes came."""
    pullers = [Puller(port, topic_name(0), queue) for queue in range(len(ends))]
    offsets, size = [0] * len(ends), 0
    while not over.is_set():
        for queue, puller in enumerate(pullers):
            answer = puller.pull(offsets[queue], _MESSAGES)
            size += answer.body
            is_over = answer.next_offset > ends[queue] - 16 * _HOT
            offsets[queue] = 0 if is_over else answer.next_offset
    told.send(size)


def evict(log: Path, end: int, over: Event) -> None:
    """Give back the pages of a log's files up to a physical offset, again and again."""
    files = [(int(path.name), os.open(path, os.O_RDONLY)) for path in log.iterdir()]
    for _, file in files:
        os.fsync(file)
    while not over.is_set():
        for base, file in files:
            if base < end:
                os.posix_fadvise(file, 0, end - base, os.POSIX_FADV_DONTNEED)
        time.sleep(_EVICT_SECONDS)


@contextlib.contextmanager
def draining(port: int, made: servers.Made, end: int, sizes: list[int]) -> Iterator[None]:
    """Have a client that drains cold data, and say how much it got."""
    over, (here, there) = _SPAWN.Event(), _SPAWN.Pipe()
    log = made.store / "commitlog"
    processes = [
        _SPAWN.Process(target=evict, args=(log, end, over), daemon=True),
        _SPAWN.Process(target=cold, args=(port, made.ends, over, there), daemon=True),
    ]
    for process in processes:
        process.start()
    # They have begun by then.
    time.sleep(1.5)
    try:
        yield
        over.set()
        if not here.poll(60):
            raise RuntimeError("the client that drains cold data has no answer")
        sizes.append(here.recv())
    finally:
        for process in processes:
            process.kill()
            process.join()


def pulls(port: int, made: servers.Made, rate: float, seconds: float) -> dict[str, float]:
    """Return the latencies of cached pulls."""
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=hot, args=(port, made.ends, rate, seconds, there), daemon=True)
    process.start()
    while not here.poll(0.1):
        if not process.is_alive():
            raise RuntimeError("the client of cached pulls has ended")
    taken = here.recv()
    process.join()
    return {"pulls": len(taken), **figures_of(taken)}


def measure(work: Path, gib: float, rate: float, seconds: float, runs: int) -> list[dict]:
    """Return the figures of each run, alone and beside the other client, by turns."""
    made = servers.make(work / "one", gib, QUEUES_A_TOPIC)
    end = max(_written(made.store / "commitlog") - _KEPT, 1 << 20)
    found = []
    with servers.served(made, work / "offsets") as serving:
        pulls(serving.port, made, rate, min(seconds, 2))
        for _ in range(runs):
            alone = pulls(serving.port, made, rate, seconds)
            sizes: list[int] = []
            began = time.monotonic()
            with draining(serving.port, made, end, sizes):
                beside = pulls(serving.port, made, rate, seconds)
            drained = sizes[0] / (time.monotonic() - began)
            found.append({"alone": alone, "beside": beside, "drained_bytes_per_second": drained})
    return found


def _written(log: Path) -> int:
    """Return the bytes of a log that have been written."""
    return sum(path.stat().st_blocks * 512 for path in log.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0, help="of the log")
    parser.add_argument("--rate", type=float, default=200.0, help="cached pulls a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(Path(temporary), options.gib, options.rate, options.seconds, options.runs)
    for side in ("alone", "beside"):
        print(f"cached pulls, {side}: {spread_of([run[side] for run in found], ' ms')}")
    ratios = [run["beside"]["p99_ms"] / run["alone"]["p99_ms"] for run in found]
    print(f"ratio of p99: {spread(ratios, '.2f')}")
    drained = [run["drained_bytes_per_second"] / 1e6 for run in found]
    print(f"drained meanwhile: {spread(drained, '.1f')} MB/s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
