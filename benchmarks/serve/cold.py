"""Cached pulls while another client drains what is not in memory, beside a real 5.5.0 broker.

    python -m benchmarks.serve.cold --gib 2 --seconds 8 --runs 3

One client pulls the end of a store's queues, which stays in memory, at a fixed rate. The other one
drains them from their beginning, once: all pages before the end are given back to the kernel first.
Both are processes of their own. A run whose server did not read from the disk what was drained is
refused. The broker has a copy of the log; both serve by turns.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from benchmarks.latencies import figures_of, spread, spread_of
from benchmarks.logs import QUEUES_A_TOPIC
from benchmarks.serve import servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Bytes before the log's end that stay in memory.
_KEPT = 64 << 20
# Of what is drained, the share that the server has to read from the disk.
_FROM_DISK = 0.9
_WARM_SECONDS = 4.0
# `process_madvise` and `MADV_PAGEOUT`.
_MADVISE_CALL, _PAGE_OUT = 440, 21
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MAPPED = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) .*/commitlog/(\d{20})$")
_libc = ctypes.CDLL(None, use_errno=True)


class Side(NamedTuple):
    """A server of the store.

    Attributes:
        port: of the broker.
        process: its id.
        log: directory of the commitlog.
        ends: messages of the first topic's queues.
        prefix: of a client's command.
    """

    port: int
    process: int
    log: Path
    ends: list[int]
    prefix: Sequence[str] = ()

    def command(self, name: str, *words: object) -> list[str]:
        """Return the command of a client."""
        module = [sys.executable, "-m", "benchmarks.serve.cold_peers", name, self.port]
        return list(map(str, [*self.prefix, *module, *words, *self.ends]))


class _Bytes(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def page_out(side: Side, end: int) -> None:
    """Give back the pages of a log up to a physical offset.

    Those that its server has mapped and used need the right to advise another process; without it
    they stay, which `draining` finds.
    """
    handle = os.pidfd_open(side.process)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, handle)
        stack.enter_context(contextlib.suppress(PermissionError))
        for line in Path(f"/proc/{side.process}/maps").read_text().splitlines():
            if (mapped := _MAPPED.match(line)) is None:
                continue
            begin, stop, position = (int(mapped[group], 16) for group in (1, 2, 3))
            length = min(stop - begin, end - int(mapped[4]) - position) // _PAGE * _PAGE
            if length > 0:
                _advise(handle, _Bytes(begin, length))
    for path in side.log.iterdir():
        if (base := int(path.name)) < end:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, end - base, os.POSIX_FADV_DONTNEED)


def _advise(handle: int, mapped: _Bytes) -> None:
    """Page out what another process has mapped."""
    while mapped.length:
        done = _libc.syscall(_MADVISE_CALL, handle, ctypes.byref(mapped), 1, _PAGE_OUT, 0)
        if done < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        mapped.base, mapped.length = mapped.base + done, mapped.length - done


@contextlib.contextmanager
def draining(side: Side, end: int, found: list[dict[str, float]]) -> Iterator[None]:
    """Have a client that drains cold data, and say how much it got.

    Raises:
        RuntimeError: it was not cold.
    """
    page_out(side, end)
    before = _read_bytes(side.process)
    with subprocess.Popen(
        side.command("cold"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=servers.ROOT
    ) as client:
        try:
            assert client.stdout is not None
            client.stdout.readline()
            yield
            said, _ = client.communicate(b"\n", timeout=60)
        finally:
            client.kill()
    if client.returncode:
        raise RuntimeError("the client that drains cold data has failed")
    got = json.loads(said)
    got["from_disk"] = (_read_bytes(side.process) - before) / got["bytes"]
    if got["from_disk"] < _FROM_DISK:
        raise RuntimeError(
            f"only {got['from_disk']:.0%} of what was drained came from the disk: "
            "try on a disk, and as root"
        )
    found.append(got)


def _read_bytes(process: int) -> int:
    """Return how many bytes a process has read from disks."""
    return int(psutil.Process(process).io_counters().read_bytes)


def pulls(side: Side, seconds: float, rate: float) -> dict[str, float]:
    """Return the latencies of cached pulls."""
    command = side.command("hot", seconds, rate)
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=servers.ROOT).stdout
    taken = json.loads(said)
    return {"pulls": len(taken), **figures_of(taken)}


def both(side: Side, end: int, seconds: float, rate: float) -> dict[str, object]:
    """Return the figures of cached pulls alone, and beside the client that drains."""
    alone = pulls(side, seconds, rate)
    found: list[dict[str, float]] = []
    with draining(side, end, found):
        beside = pulls(side, seconds, rate)
    return {"alone": alone, "beside": beside, "drained": found[0]}


@contextlib.contextmanager
def sides(work: Path, made: servers.Made, *, has_broker: bool) -> Iterator[dict[str, Side]]:
    """Serve the store by ours, and by a broker on a copy of it."""
    with contextlib.ExitStack() as stack:
        serving = stack.enter_context(servers.served(made, work / "offsets"))
        log = made.store / "commitlog"
        found = {"reput": Side(serving.port, serving.process, log, made.ends)}
        if has_broker:
            cluster, prefix = stack.enter_context(servers.broker(work, made))
            port = int(cluster.broker_address.rpartition(":")[2])
            assert cluster.broker is not None
            log = cluster.store / "commitlog"
            found["rocketmq"] = Side(port, cluster.broker.pid, log, made.ends, prefix)
        yield found


def measure(options: argparse.Namespace, work: Path) -> dict[str, list[dict]]:
    """Return the figures of each side's runs."""
    made = servers.make(work / "one", options.gib, QUEUES_A_TOPIC)
    end = _written(made.store / "commitlog") - _KEPT
    if end <= 0:
        raise SystemExit("the log is smaller than what stays in memory: give more --gib")
    with sides(work, made, has_broker=not options.without_broker) as servers_:
        found: dict[str, list[dict]] = {name: [] for name in servers_}
        for side in servers_.values():
            pulls(side, min(options.seconds, _WARM_SECONDS), options.rate)
        for _ in range(options.runs):
            for name, side in servers_.items():
                found[name].append(both(side, end, options.seconds, options.rate))
    return found


def _written(log: Path) -> int:
    """Return the bytes of a log that have been written."""
    return sum(path.stat().st_blocks * 512 for path in log.iterdir())


def report(name: str, runs: list[dict]) -> None:
    """Print the figures of a side."""
    for when in ("alone", "beside"):
        print(f"{name}, cached pulls, {when}: {spread_of([run[when] for run in runs], ' ms')}")
    ratios = [run["beside"]["p99_ms"] / run["alone"]["p99_ms"] for run in runs]
    print(f"{name}, ratio of p99: {spread(ratios, '.2f')}")
    rates = [run["drained"]["bytes"] / run["drained"]["seconds"] / 1e6 for run in runs]
    shares = [run["drained"]["from_disk"] for run in runs]
    print(f"{name}, drained: {spread(rates, '.1f')} MB/s, {min(shares):.0%} from the disk or more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=2.0, help="of the log")
    parser.add_argument("--rate", type=float, default=200.0, help="cached pulls a second")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--without-broker", action="store_true", help="measure ours alone")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(options, Path(temporary))
    for name, runs in found.items():
        report(name, runs)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
