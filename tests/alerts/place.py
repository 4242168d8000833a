"""A store, its output and the job between them, for causes of alerts (`causes`, `live`)."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from reput.streaming.demo.writer import Writer
from tests.cluster.rig import LOCALHOST, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.alerts.server import Server

SMALL_LOG_FILE = 1 << 18
_PATIENCE = 240.0
_END_SECONDS = 120.0
_RATE = 1000
_REPUT = (sys.executable, "-m", "reput")
_SETTINGS = {"maxHashSlotNum": 5000, "maxIndexNum": 20000}


@dataclass
class Place:
    """A store, its output, and the job between them.

    Attributes:
        directory: of all of it.
        name: of the store, and what Prometheus calls the pod.
        port: of the job's metrics.
        server: the Prometheus that scrapes this job and no other.
        log_file: size of the log's files.
        since: when what an alert is for began, in the server's seconds.
        beside: what runs beside the job, and ends after it.
    """

    directory: Path
    name: str
    port: int
    server: Server
    log_file: int = SMALL_LOG_FILE
    job: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    beside: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)
    _held: Any = field(default=None, repr=False)

    @property
    def store(self) -> Path:
        """Return the store."""
        return self.directory / self.name

    @property
    def output(self) -> Path:
        """Return where its dispatch goes."""
        return self.directory / f"{self.name}-output"

    def arguments(self) -> list[str]:
        """Return what tells a command which store it is."""
        return [
            *("--store", str(self.store), "--output", str(self.output)),
            *("--broker-conf", str(self._write_conf())),
        ]

    def _write_conf(self) -> Path:
        """Write the broker's settings."""
        conf = self.directory / f"{self.name}.conf"
        values = {**_SETTINGS, "mappedFileSizeCommitLog": self.log_file}
        conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), "utf-8")
        return conf

    def neighbour(self) -> Place:
        """Return a place for a second store of the same job."""
        return replace(self, name=f"{self.name}-2", job=None)

    def _arguments_of_both(self, other: Place) -> list[str]:
        """Return what tells a job of its two stores."""
        keys = ("name", "path", "output", "broker_conf")
        tables = []
        for each in (self, other):
            values = (each.name, each.store, each.output, each._write_conf())
            lines = [f'{key} = "{value}"' for key, value in zip(keys, values, strict=True)]
            tables.append("\n".join(["[[store]]", *lines, ""]))
        path = self.directory / f"{self.name}.toml"
        path.write_text("\n".join(tables), "utf-8")
        return ["--config", str(path)]

    def write(self, records: int) -> Writer:
        """Make a log of this many records, and return what appends more."""
        writer = Writer(self.store / names.COMMITLOG, self.log_file)
        for _ in range(records):
            writer.append(writer.next_message())
        return writer

    def start(
        self,
        *more: str,
        file_system: int | None = None,
        submit: str = "",
        other: Place | None = None,
    ) -> None:
        """Start the job.

        Args:
            *more: options of `reput run`.
            file_system: bytes of a file system of its own for the output. It is in memory, is
                seen by the job alone, and ends with it.
            submit: options of spark-submit.
            other: a second store of the job.
        """
        stores = self.arguments() if other is None else self._arguments_of_both(other)
        command = [*_REPUT, "run", *stores, "--metrics-port", str(self.port), *more]
        if file_system is not None:
            self.output.mkdir(exist_ok=True)
            mount = f'mount -t tmpfs -o size={file_system} reput "$0" && exec "$@"'
            # A user that is not root becomes root in a user namespace.
            own = ("--mount",) if os.geteuid() == 0 else ("--mount", "--user", "--map-root-user")
            command = ["unshare", *own, "sh", "-c", mount, str(self.output), *command]
        environment = dict(os.environ)
        if submit:
            environment["PYSPARK_SUBMIT_ARGS"] = f"{submit} pyspark-shell"
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.job = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def stop(self) -> float:
        """End the job in order, if it runs; return how long that took."""
        began = time.monotonic()
        if self.job is not None and self.job.poll() is None:
            self.job.send_signal(signal.SIGTERM)
            try:
                self.job.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.job.kill()
                raise
        return time.monotonic() - began

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run another command on store and output."""
        words = [*_REPUT, command, *self.arguments(), "--json"]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def dispatch(self) -> None:
        """Dispatch all that there is, and end.

        Raises:
            CheckError: it failed.
        """
        done = self.run("rebuild")
        expect(done.returncode == 0, f"{self.name}: {done.stderr}")

    def hold_lock(self) -> None:
        """Hold the broker's lock, as a broker that runs does."""
        path = self.store / names.LOCK
        path.touch()
        self._held = path.open("r+b")
        fcntl.lockf(self._held, fcntl.LOCK_EX, 1, 0)

    def get(self, path: str) -> str | None:
        """Return what the job answers, None without an answer or at an error."""
        return answer_of(self.port, path)

    def value(self, name: str) -> float | None:
        """Return the value of a series of the store or the process, None without one."""
        for line in (self.get("/metrics") or "").splitlines():
            if line.startswith((f"{name}{{", f"{name} ")):
                return float(line.split()[-1])
        return None

    def begin(self) -> None:
        """Say that what the alerts are for begins now: none of them may have fired before."""
        self.since = self.server.seconds

    def wait_until_ready(self) -> None:
        """Wait until the job says that it is ready."""
        until(lambda: self.get("/readyz"), f"{self.name}: a job that is ready")

    @contextlib.contextmanager
    def writing(self, seconds: float = 3600.0) -> Iterator[subprocess.Popen[bytes]]:
        """Run a writer that appends to the log at a rate."""
        shutil.rmtree(self.store, ignore_errors=True)
        log = str(self.store / names.COMMITLOG)
        words = (log, str(_RATE), str(seconds), str(self.log_file))
        command = [sys.executable, "-m", "reput.streaming.demo.writer", *words]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            until(lambda: self.store.is_dir() and any(self.store.rglob("0*")), "a log")
            yield writer
        finally:
            writer.kill()
            writer.wait()


def answer_of(port: int, path: str) -> str | None:
    """Return what a job answers at its port for metrics, None without an answer or at an error."""
    try:
        with urllib.request.urlopen(f"http://{LOCALHOST}:{port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def until(holds: Callable[[], object], what: str, seconds: float = _PATIENCE) -> None:
    """Wait until something holds.

    Raises:
        CheckError: it does not within this time.
    """
    end = time.monotonic() + seconds
    while not holds():
        expect(time.monotonic() < end, f"{what}: not within {seconds:g} s")
        time.sleep(0.2)
