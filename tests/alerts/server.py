"""A real Prometheus with the alert rules at a higher speed, and what fires in it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
from typing import TYPE_CHECKING

import yaml

from helm.monitoring import panels
from helm.monitoring.alerts import placeholders
from helm.monitoring.alerts.rules import rule_file
from tests.alerts.place import answer_of, until
from tests.cluster.rig import LOCALHOST, TOOLS, CheckError, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SPEED = 30
# For logs of megabytes in place of terabytes.
THRESHOLDS = {
    **placeholders.THRESHOLDS,
    "behindBytes": 1 << 20,
    "behindBytesCritical": 4 << 20,
    "behindSeconds": 4,
    "behindSecondsCritical": 12,
    "kafkaBehindBytes": 1 << 20,
    # A hold that is a threshold besides.
    "stalledFor": f"{300 // SPEED}s",
}
# What a question to a Prometheus that starts, or loads its rules again, may end with.
_NO_ANSWER = (
    ValueError,
    http.client.HTTPException,
    urllib.error.URLError,
    ConnectionError,
    TimeoutError,
)
_RULES, _TARGETS = "reput.rules.yaml", "targets.json"
# It waits this long for the next change of a file with targets, besides being told by the kernel.
_REFRESH = "1s"


class Server:
    """A Prometheus that scrapes one job every second, from its first answer on.

    Attributes:
        is_due: tells whether Prometheus may scrape the job yet: once it answers, or later where a
            cause sets that, so that nothing of the start is seen.
    """

    def __init__(self, directory: Path, pod: str, port: int) -> None:
        """Write its configuration.

        Args:
            directory: for configuration and data.
            pod: what the job is called.
            port: of the job's metrics.
        """
        self.directory = directory
        self.directory.mkdir()
        self.port = free_port()
        self.url = f"http://{LOCALHOST}:{self.port}"
        self.is_due: Callable[[], object] = lambda: answer_of(port, "/metrics") is not None
        # alert: seconds since the start when it was first seen to fire.
        self.fired: dict[str, float] = {}
        self._pod = pod
        self._metrics_port = port
        self._began = time.monotonic()
        self._ending = threading.Event()
        # What ended the thread that notes what fires.
        self._failure: Exception | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # While a job starts, no dispatcher is expected yet: windows are short here.
        self._write_rules(0)
        (self.directory / _TARGETS).write_text("[]", "utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [_RULES],
            "scrape_configs": [
                {
                    "job_name": "reput",
                    "file_sd_configs": [{"files": [_TARGETS], "refresh_interval": _REFRESH}],
                }
            ],
        }
        (self.directory / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")

    def _write_rules(self, dispatchers: int) -> None:
        rules = yaml.safe_dump(rule_file(SPEED, has_links=False), sort_keys=False)
        scope = {**placeholders.SCOPE, "dispatchers": dispatchers}
        filled = placeholders.fill(rules, {**THRESHOLDS, **scope})
        (self.directory / _RULES).write_text(filled, "utf-8")

    def expect_dispatchers(self, number: int) -> None:
        """Load the rules again, with another number of dispatchers that there should be."""
        if self._process is None:
            raise CheckError("Prometheus does not run")
        self._write_rules(number)
        self._process.send_signal(signal.SIGHUP)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run it, and note which alerts fire."""
        program = shutil.which("prometheus", path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        if program is None:
            raise CheckError("prometheus is not here: run helm/tools.sh promtool")
        command = [
            program, f"--config.file={self.directory}/prometheus.yml",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address={LOCALHOST}:{self.port}",
        ]  # fmt: skip
        with (self.directory / "log").open("wb") as log:
            process = self._process = subprocess.Popen(command, stdout=log, stderr=log)
        watch = threading.Thread(target=self._watch, daemon=True)
        try:
            until(self._is_ready, "Prometheus", 60.0)
            watch.start()
            yield
            self._ending.set()
            watch.join(30)
        finally:
            self._ending.set()
            process.terminate()
            process.wait(30)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def has_fired(self, name: str) -> bool:
        """Tell whether an alert was seen to fire; its name is without the prefix.

        Raises:
            CheckError: the thread that looks has ended.
        """
        if self._failure is not None:
            raise CheckError(f"what fires is not noted: {self._failure!r}") from self._failure
        return f"Reput{name}" in self.fired

    def _is_ready(self) -> bool:
        try:
            return bool(panels.query(self.url, "vector(1)"))
        except _NO_ANSWER:
            return False

    def _watch(self) -> None:
        try:
            self._note_fired()
        except Exception as error:  # noqa: BLE001 - of a thread; said to those that ask
            self._failure = error

    def _note_fired(self) -> None:
        is_target = False
        while not self._ending.wait(0.5):
            # Kubernetes gives a pod an address once it answers. A target that is there before that
            # would be one that does not answer, which is an alert.
            if not is_target and self.is_due():
                is_target = True
                self._add_target()
            with contextlib.suppress(*_NO_ANSWER):
                for each in panels.query(self.url, 'ALERTS{alertstate="firing"}'):
                    self.fired.setdefault(each["metric"]["alertname"], self.seconds)

    def _add_target(self) -> None:
        target = {
            "targets": [f"{LOCALHOST}:{self._metrics_port}"],
            "labels": {"namespace": "rocketmq", "pod": self._pod},
        }
        new = self.directory / "new"
        new.write_text(json.dumps([target]), "utf-8")
        # It never sees half a file.
        new.rename(self.directory / _TARGETS)
        self.expect_dispatchers(1)
