"""From a record in the log to a client whose pull waits for it: `reput run` beside `reput serve`.

    python -m benchmarks.serve.latency --rate 1000 --seconds 30 --runs 3

One process appends, one looks at the queue that `reput run` writes, one has a pull waiting at
`reput serve`. Each writes its times into memory that they share, and does nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.latencies import figures_of, spread_of
from benchmarks.live.jobs import job_of
from benchmarks.live.store import CONF, LiveStore, wait_for_entry
from benchmarks.serve.peers import Puller
from benchmarks.serve.servers import Made, served
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event

    from numpy.typing import NDArray

    Times = NDArray[np.float64]

TOPIC = "latency"
_APPENDED, _DISPATCHED, _DELIVERED = range(3)
_LOOK_SECONDS = 0.0003
_PATIENCE_SECONDS = 120.0
_SPAWN = multiprocessing.get_context("spawn")


def _shared(path: str, count: int) -> Times:
    return np.memmap(path, np.float64, "r+", shape=(3, count))


def append(directory: Path, path: str, count: int, rate: int, begin: Event) -> None:
    """Append a record, and the others at a rate once all others have begun."""
    store, times = LiveStore(directory), _shared(path, count)
    began = time.monotonic()
    for number in range(count):
        if number == 1:
            begin.wait()
            began = time.monotonic()
        while (left := began + number / rate - time.monotonic()) > 0:
            time.sleep(left)
        # Before it stands in the log.
        times[_APPENDED, number] = time.monotonic()
        store.append()


def look(queue: Path, path: str, count: int) -> None:
    """Note when each entry could be seen."""
    times = _shared(path, count)
    with queue.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    number = 0
    while number < count:
        now = time.monotonic()
        at = number * ENTRY_SIZE
        while number < count and data[at + 8 : at + 12] != b"\0\0\0\0":
            times[_DISPATCHED, number] = now
            number, at = number + 1, at + ENTRY_SIZE
        time.sleep(_LOOK_SECONDS)


def consume(port: int, path: str, count: int) -> None:
    """Note when each message came; a pull waits all the time."""
    times = _shared(path, count)
    puller = Puller(port, TOPIC, 0, waits=True)
    offset = 0
    while offset < count:
        got = puller.pull(offset)
        times[_DELIVERED, offset : got.next_offset] = got.at
        offset = got.next_offset


@contextlib.contextmanager
def _process(target: object, *words: object) -> Iterator[multiprocessing.process.BaseProcess]:
    process = _SPAWN.Process(target=target, args=words, daemon=True)  # type: ignore[arg-type]
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def measure(work: Path, rate: int, warm: float, seconds: float) -> dict[str, dict[str, float]]:
    """Return the ms of each way, of the messages after the first `warm` seconds."""
    count, first = round(rate * (warm + seconds)), round(rate * warm)
    live = _named(work)
    with contextlib.ExitStack() as stack:
        shared = stack.enter_context(tempfile.NamedTemporaryFile(dir=_memory()))
        shared.truncate(3 * 8 * count)
        path = shared.name
        begin = _SPAWN.Event()
        stack.enter_context(_process(append, live.store.parent, path, count, rate, begin))
        times = _shared(path, count)
        _wait_for(times[_APPENDED], 0)
        job = stack.enter_context(job_of(work, [live], "driver"))
        wait_for_entry(live.queue_file, job)
        made = Made(live.store, live.output, 1, [])
        serving = stack.enter_context(
            served(made, work / "offsets", "--broker-conf", str(live.conf))
        )
        stack.enter_context(_process(look, live.queue_file, path, count))
        stack.enter_context(_process(consume, serving.port, path, count))
        # A pull waits after the first message.
        _wait_for(times[_DELIVERED], 0)
        _wait_for(times[_DISPATCHED], 0)
        begin.set()
        time.sleep(warm + seconds)
        _wait_for(times[_DELIVERED], -1)
        _wait_for(times[_DISPATCHED], -1)
        taken = np.array(times[:, first:]) * 1000
    ways = {
        "appended to delivered": taken[_DELIVERED] - taken[_APPENDED],
        "appended to dispatched": taken[_DISPATCHED] - taken[_APPENDED],
        "dispatched to delivered": taken[_DELIVERED] - taken[_DISPATCHED],
    }
    return {name: _figures(np.maximum(way, 0)) for name, way in ways.items()}


def _named(work: Path) -> LiveStore:
    """Return the names of the places that the appender makes."""
    (work / "named").mkdir()
    named, live = LiveStore(work / "named"), work / "live"
    live.mkdir()
    for each in ("store", "output", "conf"):
        setattr(named, each, live / getattr(named, each).relative_to(work / "named"))
    return named


def _wait_for(times: Times, number: int) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not times[number]:
        if time.monotonic() > until:
            missing = int((times == 0).sum())
            raise RuntimeError(f"{missing} of {len(times)} messages have not come")
        time.sleep(0.02)


def _memory() -> str | None:
    """Return a directory in memory, None where there is none."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


def _figures(late: Times) -> dict[str, float]:
    return {"messages": len(late), **figures_of(late)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="that are measured")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds before them")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    runs = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as temporary:
            work = Path(temporary)
            runs.append(measure(work, options.rate, options.warm, options.seconds))
    print(f"{options.rate:,} messages/s with {CONF.strip()}, ms:")
    for way in runs[0]:
        print(f"{way}: {spread_of([run[way] for run in runs])}")
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
