"""Damaged frames and peers that misbehave, at a server that a good client pulls from meanwhile.

    python -m tests.remoting.server.damage --frames 1000000 --seed 1 [--directory DIR]

Many connections send damaged frames to both ports (`damaged_frames`). Meanwhile others stay half
open, ask without reading, or connect by the thousand, and one good client pulls and compares each
answer with the log. The server has to live, answer each good pull, close each connection whose
client has said all, and have as much memory and as many files at the end as after the first tenth.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.fields import write
from tests.builders.rigs import conclude
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import LOOPBACK, Client
from tests.remoting.server.damaged_frames import Streams
from tests.remoting.server.served_process import ServedProcess

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

MOST_GROWTH = 64 << 20
"""Bytes of memory that the server may have more at the end."""
# A broker sends 8 messages at most of what it takes to be on disk.
_MESSAGES, _SIZE, _LIMIT = 512, 300, 8
_SENDERS, _HALF_OPEN, _SLOW = 8, 200, 20
_STORM_RATE = 1000
# A peer that has said all is closed within this; a good pull is answered within this.
_SECONDS = 30.0
# What a server that is done with its peers may still have open besides, such as a loop's own.
# Lanes open files of the log and of queues when the first pull needs them: at most 64, and 4 a queue.
_MORE_FILES = 64 + 8 * 4


class Found(NamedTuple):
    """What a run has seen.

    Attributes:
        damaged: frames that the server has read.
        streams: connections that sent them.
        storm: connections of the storm, and its seconds.
        pulls: of the good client, answered with what the log has.
        slowest: seconds of its slowest answer.
        growth: bytes of memory, from the first tenth to the end.
        faults: what should not be.
    """

    damaged: int
    streams: int
    storm: tuple[int, float]
    pulls: int
    slowest: float
    growth: int
    faults: list[str]


def _pull_on(port: int, expected: list[bytes], over: Event, told: Connection) -> None:
    """Pull until it is over; tell how many answers came, the slowest one, and what was wrong."""
    pulls, slowest, wrong = 0, 0.0, ""
    try:
        client = Client(port)
        while not over.is_set() and not wrong:
            at = pulls % len(expected)
            asked = write(request(at * _LIMIT, limit=_LIMIT))
            began = time.monotonic()
            client.send(RequestCode.PULL_MESSAGE, **asked)
            answer = client.answer(_SECONDS)
            slowest = max(slowest, time.monotonic() - began)
            pulls += 1
            if answer.code != ResponseCode.SUCCESS or answer.body != expected[at]:
                wrong = f"pull {pulls} of the good client: code {answer.code}, {answer.remark}"
    except (OSError, EOFError) as error:
        wrong = f"pull {pulls + 1} of the good client: {type(error).__name__} {error}"
    told.send((pulls, slowest, wrong))


class _Senders:
    """Threads that send streams until there were enough damaged frames."""

    def __init__(self, server: ServedProcess, seed: int) -> None:
        self._ports = (server.broker, server.names)
        self._draws = [Streams(f"{seed}.{number}") for number in range(_SENDERS)]
        self._lock = threading.Lock()
        self.damaged = self.streams = 0
        self.faults: list[str] = []

    def send(self, count: int) -> None:
        """Send until this many damaged frames were sent in all, or something is wrong."""
        threads = [
            threading.Thread(target=self._send, args=(draws, count), daemon=True)
            for draws in self._draws
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, draws: Streams, count: int) -> None:
        while self.damaged < count and not self.faults:
            stream, damaged = draws.draw()
            port = self._ports[self.streams % 4 == 0]
            fault = _say_all(port, stream)
            with self._lock:
                self.streams += 1
                self.damaged += damaged
                if fault:
                    self.faults.append(f"stream {self.streams}: {fault}")


def _say_all(port: int, stream: bytes) -> str | None:
    """Send a stream and say that this is all; return what is wrong if the server does not close."""
    try:
        peer = socket.create_connection((LOOPBACK, port), _SECONDS)
    except OSError as error:
        return f"no connection: {error}"
    with peer:
        try:
            peer.sendall(stream)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(1 << 20):
                pass
        except TimeoutError:
            return f"{len(stream)} bytes were sent, and the connection is still open"
        except ConnectionError:
            # The server has closed it before all was sent.
            return None
    return None


def _half_open(port: int) -> list[socket.socket]:
    """Return peers that have sent half of a frame, and say nothing further."""
    command = Command(RequestCode.PULL_MESSAGE, 1, fields=write(request(0)))
    peers = [socket.create_connection((LOOPBACK, port), _SECONDS) for _ in range(_HALF_OPEN)]
    for number, peer in enumerate(peers):
        peer.sendall(frames.encode(command)[: number % 60])
    return peers


def _slow(port: int) -> list[socket.socket]:
    """Return peers that ask for tens of megabytes and read none of it."""
    command = Command(RequestCode.PULL_MESSAGE, 1, fields=write(request(0, limit=_LIMIT)))
    peers = [socket.create_connection((LOOPBACK, port), _SECONDS) for _ in range(_SLOW)]
    for peer in peers:
        peer.settimeout(0.2)
        # The server no longer reads once its own answers wait.
        with contextlib.suppress(TimeoutError):
            peer.sendall(frames.encode(command) * 4000)
    return peers


def _storm(port: int, seconds: float) -> tuple[int, float]:
    """Connect and close at `_STORM_RATE`; return how often, and in how many seconds."""
    began, count = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        if count >= passed * _STORM_RATE:
            time.sleep(0.001)
            continue
        socket.create_connection((LOOPBACK, port), _SECONDS).close()
        count += 1
    return count, passed


def run(count: int, seed: int, directory: Path, storm_seconds: float = 5.0) -> Found:
    """Send this many damaged frames; stop at the first thing that should not be."""
    store = dispatched(messages(_MESSAGES, size=_SIZE), directory)
    records = [
        bytes(store.log.bytes_at(each.physical_offset, each.size))
        for _, each in store.messages("t", 0, 0)
    ]
    expected = [b"".join(records[at : at + _LIMIT]) for at in range(0, len(records), _LIMIT)]
    store.close()
    server = ServedProcess(directory)
    server.start()
    server.settle()
    try:
        return _try(server, expected, count, seed, storm_seconds)
    finally:
        server.end()


def _try(
    server: ServedProcess, expected: list[bytes], count: int, seed: int, storm_seconds: float
) -> Found:
    context = multiprocessing.get_context("spawn")
    over, (here, there) = context.Event(), context.Pipe()
    good = context.Process(target=_pull_on, args=(server.broker, expected, over, there))
    good.start()
    senders = _Senders(server, seed)
    senders.send(count // 10)
    memory, files = server.rss(), server.files()
    peers = _half_open(server.broker) + _slow(server.broker)
    storm = _storm(server.broker, storm_seconds)
    senders.send(count)
    for peer in peers:
        peer.close()
    over.set()
    pulls, slowest, wrong = here.recv() if here.poll(2 * _SECONDS) else (0, 0.0, "no good client")
    good.join(_SECONDS)
    faults = [*senders.faults, *([wrong] if wrong else []), *_after(server, memory, files)]
    growth = server.rss() - memory if server.is_alive else 0
    code = server.end()
    if code != 0:
        faults.append(f"the server's exit code is {code}")
    return Found(senders.damaged, senders.streams, storm, pulls, slowest, growth, faults)


def _after(server: ServedProcess, memory: int, files: int) -> list[str]:
    """Return what a server has kept, or has said, that it should not."""
    if not server.is_alive:
        return ["the server has ended"]
    until = time.monotonic() + _SECONDS
    while server.files() > files + _MORE_FILES and time.monotonic() < until:
        time.sleep(0.1)
    faults = []
    if server.files() > files + _MORE_FILES:
        faults.append(f"{server.files()} files are open, and {files} were")
    if server.rss() - memory > MOST_GROWTH:
        faults.append(f"{server.rss() >> 20} MiB of memory, and {memory >> 20} before")
    with server.log.open(encoding="utf-8", errors="replace") as lines:
        failed = [line.strip() for line in lines if line.startswith("Traceback") or "ERROR" in line]
    return faults + [f"the log says {len(failed)} times: {line}" for line in failed[:1]]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--storm-seconds", type=float, default=5.0)
    parser.add_argument("--directory", type=Path)
    said = parser.parse_args(words)
    work = Path(tempfile.mkdtemp(prefix="damage-", dir=said.directory))
    began = time.monotonic()
    found = run(said.frames, said.seed, work, said.storm_seconds)
    connects, seconds = found.storm
    print(f"{found.damaged} damaged frames on {found.streams} connections in "
          f"{time.monotonic() - began:.0f} s, {connects} connects in {seconds:.1f} s, "
          f"{found.pulls} good pulls, the slowest {found.slowest * 1000:.0f} ms, "
          f"memory {found.growth / 1048576:+.1f} MiB, {len(found.faults)} faults, "
          f"seed {said.seed}")  # fmt: skip
    return conclude(work, found.faults)


if __name__ == "__main__":
    sys.exit(main())
