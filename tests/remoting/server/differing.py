"""The same random requests at `reput serve` with compiled lanes and at one without: equal bytes.

    python -m tests.remoting.server.differing --seeds 4 --connections 14 --requests 350

Connections send at the same time: whole, piece by piece, or each request after the answer before
it; every fifth one reads slowly. Most requests are pulls like others, the rest is what else comes on
a connection: other pulls, other codecs, bodies, oneway requests, answers to nothing, topics that are
not there. The answers that a connection gets are compared in whole, and so are the offsets that were
committed. Their order is not: one that waits for a disk comes after others.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from reput.formats.rocketmq.encode import Message
from reput.remoting.wire import fields, frames
from reput.remoting.wire.codes import RequestCode, SerializeType
from reput.remoting.wire.command import ONEWAY, Command
from tests.builders.rigs import conclude
from tests.builders.served import NOW, dispatched, request
from tests.builders.servers import LOOPBACK
from tests.builders.stores import SMALL, Log
from tests.remoting.server.served_process import ServedProcess

QUEUES, _MESSAGES = 4, 6000
_SIZES = {"mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": str(20 * 1000)}
_SECONDS = 60.0
_NO_LANES = "NUMBA_DISABLE_JIT"
_ANSWER = 1
_KINDS = (
    {},
    {"limit": 7},
    {"expression": "T1"},
    {"expression": "T0 || T2", "limit": 5},
    {"flags": 5},
)
_WAYS = ("whole", "frames", "pieces", "turns")


class Asked(NamedTuple):
    """A request as it is sent, and whether it gets an answer."""

    data: bytes
    is_answered: bool


class Found(NamedTuple):
    """What came of a run."""

    connections: int
    answers: int
    faults: list[str]


def write(directory: Path) -> None:
    """Write and dispatch a log whose bodies differ in size."""
    pick, log = random.Random(1), Log(1 << 20)
    for i in range(_MESSAGES):
        number, queue = divmod(i, QUEUES)
        properties = {"TAGS": f"T{pick.randrange(3)}", "KEYS": f"k{i}", "UNIQ_KEY": f"U{i}"}
        body = pick.randbytes(pick.choice([0, 10, 300, 900]))
        log.append(Message("t", body, properties, queue, number, store_timestamp=NOW + i))
    dispatched(log, directory, **_SIZES).close()


def script(pick: random.Random, number: int, count: int) -> list[Asked]:
    """Return what one connection asks."""
    group, end = f"g{number}", _MESSAGES // QUEUES
    queue, at, kind = pick.randrange(QUEUES), 0, _KINDS[0]
    asked = []
    for opaque in range(count):
        if pick.random() < 0.03:
            queue, at, kind = pick.randrange(QUEUES), pick.randrange(end), pick.choice(_KINDS)
        at = (at + pick.choice([0, 1, 3, 32])) % (end - 100)
        asked.append(_asked(pick, opaque, group, queue, at, kind))
    said = {"consumerGroup": group, "topic": "t", "queueId": "0"}
    asked.append(_frame(RequestCode.QUERY_CONSUMER_OFFSET, count, said))
    return asked


def _asked(pick: random.Random, opaque: int, group: str, queue: int, at: int, kind: dict) -> Asked:
    said = fields.write(request(at, group=group, queue=queue, **kind))
    said |= {"commitOffset": str(pick.randrange(1000))}
    place = {"topic": "t", "queueId": str(queue)}
    rare = (
        lambda: _frame(RequestCode.GET_MAX_OFFSET, opaque, place),
        lambda: _frame(RequestCode.GET_MIN_OFFSET, opaque, place, codec=SerializeType.ROCKETMQ),
        lambda: _frame(RequestCode.PULL_MESSAGE, opaque, said, codec=SerializeType.ROCKETMQ),
        lambda: _frame(RequestCode.PULL_MESSAGE, opaque, said, body=pick.randbytes(5000)),
        lambda: _frame(RequestCode.PULL_MESSAGE, opaque, said, flag=ONEWAY),
        lambda: _frame(RequestCode.PULL_MESSAGE, opaque, said, flag=_ANSWER),
        lambda: _frame(RequestCode.LITE_PULL_MESSAGE, opaque, said),
        lambda: _frame(RequestCode.PULL_MESSAGE, opaque, said | {"topic": "nope"}),
        lambda: _frame(9999, opaque, {}),
    )
    if pick.random() < 0.86:
        return _frame(RequestCode.PULL_MESSAGE, opaque, said)
    return pick.choice(rare)()


def _frame(code: int, opaque: int, said: dict, body: bytes = b"", flag: int = 0, **more) -> Asked:
    command = Command(code, opaque, flag, fields=said, body=body, **more)
    return Asked(frames.encode(command) + body, is_answered=not flag)


class Peer(threading.Thread):
    """A connection that sends a script, and keeps what it gets.

    Attributes:
        came: all bytes.
        problem: what ended it before its end.
    """

    def __init__(self, port: int, asked: list[Asked], way: str, *, is_slow: bool) -> None:
        super().__init__(daemon=True)
        self._asked, self._way, self._is_slow = asked, way, is_slow
        self._socket = socket.create_connection((LOOPBACK, port), _SECONDS)
        self.came, self.problem = bytearray(), ""

    def run(self) -> None:
        try:
            self._talk()
        except OSError as error:
            self.problem = str(error)
        self._socket.close()

    def _talk(self) -> None:
        sender = None
        if self._way != "turns":
            sender = threading.Thread(target=self._send, daemon=True)
            sender.start()
        at = 0
        for each in self._asked:
            if sender is None:
                self._socket.sendall(each.data)
            if each.is_answered:
                at = self._read_to(at)
        if sender is not None:
            sender.join()
        self._socket.settimeout(0.2)
        try:
            self.came += self._socket.recv(1 << 16)
        except TimeoutError:
            return

    def _read_to(self, at: int) -> int:
        """Read until the answer that begins at a byte has come; return where it ends."""
        end = at + 4
        while len(self.came) < end or len(self.came) < (end := at + 4 + self._length(at)):
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server has closed it")
            self.came += data
            if self._is_slow:
                time.sleep(0.002)
        return end

    def answers(self) -> list[bytes]:
        """Return what came, cut into frames and sorted; what is left over last."""
        found, at = [], 0
        while at + 4 <= len(self.came):
            end = at + 4 + self._length(at)
            found.append(bytes(self.came[at:end]))
            at = end
        return [*sorted(found), bytes(self.came[at:])]

    def _length(self, at: int) -> int:
        return int.from_bytes(self.came[at : at + 4], "big")

    def _send(self) -> None:
        pick, data = random.Random(len(self._asked)), b"".join(each.data for each in self._asked)
        if self._way == "whole":
            self._socket.sendall(data)
        elif self._way == "frames":
            for each in self._asked:
                self._socket.sendall(each.data)
        while self._way == "pieces" and data:
            size = pick.choice([1, 5, 300, 3000, 20_000])
            self._socket.sendall(data[:size])
            data = data[size:]


def _served(directory: Path, name: str, *, has_lanes: bool) -> ServedProcess:
    place = directory / name
    place.mkdir()
    for each in ("store", "out"):
        (place / each).symlink_to(directory / each)
    before = os.environ.pop(_NO_LANES, None)
    try:
        if not has_lanes:
            os.environ[_NO_LANES] = "1"
        server = ServedProcess(place, settings=SMALL | _SIZES)
        server.start()
    finally:
        os.environ.pop(_NO_LANES, None)
        if before is not None:
            os.environ[_NO_LANES] = before
    if has_lanes:
        server.settle()
    return server


def run(seeds: range, connections: int, requests: int, directory: Path) -> Found:
    """Ask both servers the same, seed by seed."""
    write(directory)
    servers = [_served(directory, name, has_lanes=name == "lanes") for name in ("lanes", "python")]
    answers, faults = 0, []
    for seed in seeds:
        scripts = [
            script(random.Random(f"{seed}.{number}"), f"{seed}-{number}", requests)
            for number in range(connections)
        ]
        pick = random.Random(seed)
        ways = [pick.choice(_WAYS) for _ in scripts]
        sides = []
        for server in servers:
            peers = [
                Peer(server.broker, each, way, is_slow=number % 5 == 4)
                for number, (each, way) in enumerate(zip(scripts, ways, strict=True))
            ]
            for peer in peers:
                peer.start()
            for peer in peers:
                peer.join()
            sides.append(peers)
        answers += sum(each.is_answered for asked in scripts for each in asked)
        for number, (one, two) in enumerate(zip(*sides, strict=True)):
            if one.problem or two.problem or one.answers() != two.answers():
                faults.append(
                    f"seed {seed}, connection {number}, {ways[number]}: {len(one.came)} bytes "
                    f"{one.problem} and {len(two.came)} {two.problem}"
                )
    codes = [server.end() for server in servers]
    if codes != [0, 0]:
        faults.append(f"the exit codes are {codes}")
    return Found(len(seeds) * connections, answers, faults)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4, help="how many")
    parser.add_argument("--first", type=int, default=1, help="seed")
    parser.add_argument("--connections", type=int, default=14, help="at the same time")
    parser.add_argument("--requests", type=int, default=350, help="of each")
    parser.add_argument("--directory", type=Path, help="where the files are")
    said = parser.parse_args(words)
    work = Path(tempfile.mkdtemp(prefix="differing-", dir=said.directory))
    seeds = range(said.first, said.first + said.seeds)
    found = run(seeds, said.connections, said.requests, work)
    print(
        f"{found.answers} answers on {found.connections} connections, "
        f"{len(found.faults)} different, seeds {seeds.start} to {seeds.stop - 1}"
    )
    return conclude(work, found.faults)


if __name__ == "__main__":
    sys.exit(main())
