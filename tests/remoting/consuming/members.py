"""Stock consumers as processes: they are started, closed in order, and killed."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from tests.builders.java_clients import _OPENED, _environment
from tests.builders.servers import LOOPBACK
from tests.oracle import oracle

CLIENTS = ("4.9.8", "5.5.0", "go")
GO = Path(__file__).resolve().parent / "go"
_CLOSE_SECONDS = 60


class StartError(RuntimeError):
    """A consumer has not begun to consume."""


class Asked(NamedTuple):
    """What consumers are told.

    Attributes:
        client: "5.5.0" and "4.9.8" of Java, or "go".
        way: how it consumes, as `python -m tests.remoting.consuming --help` names it.
        names: port of the name server.
        topic, group, wanted: its subscription.
        rate: messages a second of one member, 0 for as fast as it can.
        time: to which the ways that go back go by time.
        ends: of the queues.
    """

    client: str
    way: str
    names: int
    topic: str
    group: str
    wanted: str = "*"
    rate: float = 0.0
    time: int = 0
    ends: tuple[int, ...] = (0,)


def has_go() -> bool:
    """Tell whether the client in Go can be built."""
    return shutil.which("go") is not None


@functools.cache
def build_go() -> Path:
    """Build the client in Go; return it."""
    program = GO / "target" / "take"
    command = ["go", "build", "-mod=readonly", "-trimpath", "-o", program, "."]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(command, cwd=GO, env=environment, check=True, timeout=900)
    return program


def prepare(client: str) -> None:
    """Build what a client needs."""
    if client == "go":
        build_go()
    else:
        oracle.build(client)


def _command(asked: Asked, home: Path) -> list[str]:
    if asked.client == "go":
        return [str(build_go())]
    target = oracle.HERE / "target" / asked.client
    return [
        *("java", "-Xms192m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Duser.home={home}",
        *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPENED),
        *("-cp", f"{target}/classes:{target}/lib/*", "oracle.Take"),
    ]


class Member:
    """A consumer that runs.

    Attributes:
        name: of it in the group; the next one of that name has the same home.
        file: what it writes.
    """

    def __init__(self, asked: Asked, name: str, directory: Path) -> None:
        """Start it; `wait_started` returns when it has begun."""
        self.name = name
        home = directory / f"home-{name}"
        home.mkdir(exist_ok=True)
        self.file = directory / f"{name}.taken"
        self._said = directory / f"{name}.out"
        words = (
            *(f"{LOOPBACK}:{asked.names}", asked.way, asked.topic, asked.group, asked.wanted),
            *(self.file, name, asked.rate, asked.time, ",".join(map(str, asked.ends))),
        )
        with self._said.open("ab") as said, (directory / f"{name}.err").open("ab") as errors:
            self._at = said.tell()
            self.process = subprocess.Popen(
                [*_command(asked, home), *map(str, words)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=errors,
                env={**_environment(), "HOME": str(home)},
            )

    def wait_started(self, seconds: float = 90) -> None:
        """Return once it consumes."""
        until = time.monotonic() + seconds
        while b"started" not in self._said.read_bytes()[self._at :]:
            if self.process.poll() is not None or time.monotonic() > until:
                raise StartError(f"{self.name} did not start: see {self._said.parent}")
            time.sleep(0.05)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def order_close(self) -> None:
        """Tell it to close."""
        self.process.stdin.close()

    def wait_closed(self) -> int:
        """Return its exit code once it has ended."""
        try:
            return self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return -1

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
