"""`reput serve` as a process of its own, as the rigs start, watch and end it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.builders.servers import LOOPBACK, free_port
from tests.builders.stores import SMALL

if TYPE_CHECKING:
    from collections.abc import Mapping

_START_SECONDS = 60.0
_SETTLED = "answered by compiled code"


class ServedProcess:
    """A server of the store in `directory`, on ports that stay the same.

    Attributes:
        names: port of the name server.
        broker: port of the broker.
        log: where its lines go.
    """

    def __init__(
        self, directory: Path, *words: object, settings: Mapping[str, str] = SMALL
    ) -> None:
        """Do not start yet.

        Args:
            directory: has `store` and its queues, `out`; gets what else there is.
            words: further options.
            settings: of the broker.
        """
        self.names, self.broker = free_port(), free_port()
        self.log = directory / "serve.log"
        conf = directory / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        said = {
            "--store": directory / "store",
            "--output": directory / "out",
            "--broker-conf": conf,
            "--offsets": directory / "offsets",
            "--listen": f"{LOOPBACK}:{self.broker}",
            "--namesrv-listen": f"{LOOPBACK}:{self.names}",
        }
        pairs = [str(word) for pair in said.items() for word in pair]
        self._command = [sys.executable, "-m", "reput", "serve", *pairs]
        self._command += map(str, words)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return once both ports are open."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stderr=log)
        until = time.monotonic() + _START_SECONDS
        for port in (self.names, self.broker):
            while not _is_open(port):
                if not self.is_alive or time.monotonic() > until:
                    raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
                time.sleep(0.05)

    def settle(self) -> None:
        """Wait until what is compiled has been loaded: it takes memory, seconds after the start."""
        until = time.monotonic() + _START_SECONDS
        while _SETTLED not in self.log.read_text("utf-8"):
            if not self.is_alive or time.monotonic() > until:
                raise RuntimeError(f"nothing is compiled: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def rss(self) -> int:
        """Return bytes of memory that it has."""
        return self._status("VmRSS")

    def own_memory(self) -> int:
        """Return bytes of memory that it has, those of files left out."""
        return self._status("RssAnon")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) << 10

    def files(self) -> int:
        """Return how many files and sockets it has open."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        self._process.kill()
        self._process.wait(20)

    def end(self) -> int:
        """End it in order; return its exit code."""
        if self.is_alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(20)


def _is_open(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except ConnectionError:
        return False
    return True
