"""Every alert, made to fire by its real cause: `python -m helm.monitoring.live [--seconds 300]`.

A real Prometheus scrapes real jobs. One of them runs beside a live writer all the time, is stopped
and started again, and is compared with the log in the end; the others each get something that
goes wrong in production. Windows and holds of the alerts are those of the rule file divided by
`SPEED`; the expressions are the same. `--directory` keeps everything; `--markdown` and `--picture`
write what docs/monitoring.md shows. `helm/tools.sh promtool` gets Prometheus.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import filecmp
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from formats import names
from helm.cluster import TOOLS, CheckError, expect, free_port
from helm.monitoring import alerts, panels
from helm.monitoring import series as s
from streaming.demo_writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SPEED = 30
# For logs of megabytes in place of terabytes.
THRESHOLDS = {
    **alerts.THRESHOLDS,
    "behindBytes": 1 << 20,
    "behindBytesCritical": 4 << 20,
    "behindSeconds": 4,
    "behindSecondsCritical": 12,
    # A hold that is a threshold besides.
    "stalledFor": f"{300 // SPEED}s",
}
LIVE = "live"
_LOCALHOST = "127.0.0.1"
_LOG_FILE = 16 << 20
_SMALL_LOG_FILE = 1 << 18
_PATIENCE = 240.0
_END_SECONDS = 120.0
_RATE = 1000
_HANGS_SECONDS = 45.0
# Jobs that run at once beside the live one: Spark takes its time to start.
_SIDE_BY_SIDE = 2
_REPUT = (sys.executable, "-m", "streaming")
_SETTINGS = {"maxHashSlotNum": 5000, "maxIndexNum": 20000}


@dataclass
class Place:
    """A store, its output, and the job between them.

    Attributes:
        directory: of all of it.
        name: of the store, and what Prometheus calls the pod.
        port: of the job's metrics.
        log_file: size of the log's files.
    """

    directory: Path
    name: str
    port: int
    log_file: int = _SMALL_LOG_FILE
    job: subprocess.Popen[bytes] | None = None
    _held: Any = field(default=None, repr=False)

    @property
    def store(self) -> Path:
        """Return the store."""
        return self.directory / self.name

    @property
    def output(self) -> Path:
        """Return where its dispatch goes."""
        return self.directory / f"{self.name}-output"

    def arguments(self, **settings: int) -> list[str]:
        """Return what tells a command which store it is; further settings are the broker's."""
        conf = self.directory / f"{self.name}.conf"
        values = {**_SETTINGS, "mappedFileSizeCommitLog": self.log_file, **settings}
        conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), "utf-8")
        return [
            *("--store", str(self.store), "--output", str(self.output)),
            *("--broker-conf", str(conf)),
        ]

    def write(self, records: int) -> Writer:
        """Make a log of so many records, and return what appends more."""
        writer = Writer(self.store / names.COMMITLOG, self.log_file)
        for _ in range(records):
            writer.append(writer.next_message())
        return writer

    def start(self, *more: str, largest_file: int | None = None, **settings: int) -> None:
        """Start the job.

        Args:
            *more: options of `reput run`.
            largest_file: bytes that the job may make a file of.
            **settings: of the broker.
        """
        command = [*_REPUT, "run", *self.arguments(**settings), "--metrics-port", str(self.port)]
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.job = subprocess.Popen([*command, *more], stdout=log, stderr=log)
        if largest_file is not None:
            resource.prlimit(self.job.pid, resource.RLIMIT_FSIZE, (largest_file, largest_file))

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
        """Return what the job answers, None if it does not or says no."""
        try:
            with urllib.request.urlopen(
                f"http://{_LOCALHOST}:{self.port}{path}", timeout=10
            ) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None


# ---------------------------------------------------------------------------------------------
# What goes wrong. Each starts a job, or leaves one that has ended by itself.


def slow(place: Place) -> None:
    """A log that grows, and a job that is set to one batch a day."""
    with _writing(place):
        place.start("--trigger-seconds", "86400")
        time.sleep(75)


def nothing_on_disk(place: Place) -> None:
    """A broker whose checkpoint does not move, and a job that only takes what is on disk."""
    place.write(2000)
    place.start("--tail", "flushed")


def never_recorded(place: Place) -> None:
    """A job that is told to record its progress once an hour."""
    place.write(2000)
    place.start("--flush-seconds", "3600")


def expired(place: Place) -> None:
    """A broker's retention removes the log's first file while the job is stopped."""
    writer = place.write(300)
    place.dispatch()
    for _ in range(5000):
        writer.append(writer.next_message())
    first = place.store / names.COMMITLOG / names.offset_file(0)
    first.unlink()
    place.start()


def corrupt(place: Place) -> None:
    """A byte of the log is not what it was: the magic number of a record."""
    _damage(place)
    place.start()


def skipped(place: Place) -> None:
    """The same, and a job that is told to skip what is damaged."""
    _damage(place)
    place.start("--on-corrupt", "skip")


def _damage(place: Place) -> None:
    place.write(2000)
    path = place.store / names.COMMITLOG / names.offset_file(0)
    raw = bytearray(path.read_bytes())
    at = 0
    for _ in range(100):
        at += int.from_bytes(raw[at : at + 4], "big")
    raw[at + 4] ^= 0xFF
    path.write_bytes(raw)


def broken_index(place: Place) -> None:
    """Somebody cuts the newest index file short; the job is started again and again."""
    place.write(2000)
    place.dispatch()
    newest = max((place.output / names.INDEX).iterdir())
    os.truncate(newest, newest.stat().st_size // 2)
    end = time.monotonic() + 90
    while time.monotonic() < end:
        place.start()
        if place.job is not None:
            place.job.wait(120)


def gap(place: Place) -> None:
    """A record's queue offset is five beyond the end of its queue, and no broker runs."""
    writer = place.write(2000)
    message = writer.next_message()
    writer.append(message._replace(queue_offset=message.queue_offset + 5))
    place.start()


def out_of_turn(place: Place) -> None:
    """The same while a broker has its lock: it may be about to write its log again."""
    place.store.mkdir(parents=True)
    place.hold_lock()
    gap(place)


def no_space(place: Place) -> None:
    """The output takes no file as large as an index file has to be."""
    place.write(2000)
    place.start(largest_file=32 << 20, maxHashSlotNum=5_000_000, maxIndexNum=20_000_000)


def hung_start(place: Place) -> None:
    """Spark's JVM hangs while it starts."""
    place.write(2000)
    place.start()
    job = place.job
    if job is None:
        raise CheckError("it was started")
    _until(lambda: _children(job.pid), "a JVM")
    held = _children(job.pid)
    for process in held:
        os.kill(process, signal.SIGSTOP)

    def let_go() -> None:
        for process in held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    # Its end in order needs the JVM.
    later = threading.Timer(_HANGS_SECONDS, let_go)
    later.daemon = True
    later.start()


def _children(process: int) -> list[int]:
    """Return the processes that a process has started, on whichever thread."""
    lists = Path("/proc", str(process), "task").glob("*/children")
    return [int(each) for path in lists for each in path.read_text().split()]


def killed(place: Place) -> None:
    """A job that is killed and does not come back."""
    place.write(2000)
    place.start()
    _until(lambda: place.get("/readyz"), "a job that is ready")
    time.sleep(3)
    if place.job is not None:
        place.job.kill()
        place.job.wait(30)


# Cause, and the alerts that it has to make fire.
CAUSES: tuple[tuple[Callable[[Place], None], tuple[str, ...]], ...] = (
    (
        slow,
        (
            *("BehindBytes", "BehindBytesCritical", "BehindSeconds", "BehindSecondsCritical"),
            "RetentionNear",
        ),
    ),
    (broken_index, ("IndexFailure", "RestartLoop")),
    (nothing_on_disk, ("Stalled",)),
    (expired, ("OutrunByRetention",)),
    (never_recorded, ("CheckpointStale",)),
    (corrupt, ("CorruptRecord",)),
    (skipped, ("QueueOffsetsShifted",)),
    (gap, ("ConsumeQueueGap",)),
    (out_of_turn, ("RecordWaiting",)),
    (no_space, ("WriteFailure",)),
    (hung_start, ("QueryInactive",)),
    (killed, ("Missing",)),
)


# Alerts that no cause here can make fire by itself: tests/helm/test_alerts.py makes them fire from
# series. Those of Kafka need one: tests/kafka has it.
ELSEWHERE = {
    # Of the whole installation, so it has no pod; other jobs here are not started yet.
    "TooFew",
    # Of the machine's own disk, and of a JVM that needs half an hour to fill.
    "OutputFilling",
    "OutputFull",
    "HeapFull",
}


def pod_of(cause: Callable[[Place], None]) -> str:
    """Return the name of a cause's store."""
    return cause.__name__.replace("_", "-")


# ---------------------------------------------------------------------------------------------
# Prometheus, and who looks at it.


class Server:
    """A Prometheus that scrapes all jobs every second."""

    def __init__(self, directory: Path, ports: dict[str, int]) -> None:
        """Write its configuration.

        Args:
            directory: for configuration and data.
            ports: of the jobs, by pod.
        """
        self.directory = directory / "prometheus"
        self.directory.mkdir()
        self.port = free_port()
        self.url = f"http://{_LOCALHOST}:{self.port}"
        # (alert, pod): seconds since the start when it was first seen to fire.
        self.fired: dict[tuple[str, str], float] = {}
        self._began = time.monotonic()
        self._ending = threading.Event()
        rules = yaml.safe_dump(alerts.rule_file(SPEED, has_links=False), sort_keys=False)
        scope = {**alerts.SCOPE, "dispatchers": len(ports)}
        filled = alerts.fill(rules, {**THRESHOLDS, **scope})
        (self.directory / "reput.rules.yaml").write_text(filled, "utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["reput.rules.yaml"],
            "scrape_configs": [
                {
                    "job_name": "reput",
                    "static_configs": [
                        {
                            "targets": [f"{_LOCALHOST}:{port}"],
                            "labels": {"namespace": "rocketmq", "pod": pod},
                        }
                        for pod, port in ports.items()
                    ],
                }
            ],
        }
        (self.directory / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run it, and note which alerts fire."""
        program = shutil.which("prometheus", path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        if program is None:
            raise CheckError("prometheus is not here: run helm/tools.sh promtool")
        command = [
            program, f"--config.file={self.directory}/prometheus.yml",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address={_LOCALHOST}:{self.port}",
        ]  # fmt: skip
        with (self.directory / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        watch = threading.Thread(target=self._watch, daemon=True)
        try:
            _until(self._is_ready, "Prometheus", 60.0)
            watch.start()
            yield
            self._ending.set()
            watch.join(30)
        finally:
            process.terminate()
            process.wait(30)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def _is_ready(self) -> bool:
        try:
            return bool(panels.query(self.url, "vector(1)"))
        except (ValueError, urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def _watch(self) -> None:
        while not self._ending.wait(0.5):
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                for each in panels.query(self.url, 'ALERTS{alertstate="firing"}'):
                    labels = each["metric"]
                    key = (labels["alertname"], labels.get("pod", ""))
                    self.fired.setdefault(key, self.seconds)


def _until(holds: Callable[[], object], what: str, seconds: float = _PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        expect(time.monotonic() < end, f"{what}: not within {seconds:g} s")
        time.sleep(0.2)


@contextlib.contextmanager
def _writing(place: Place, seconds: float = 3600.0) -> Iterator[subprocess.Popen[bytes]]:
    """Have a writer append to the log at a rate."""
    shutil.rmtree(place.store, ignore_errors=True)
    log = str(place.store / names.COMMITLOG)
    words = (log, str(_RATE), str(seconds), str(place.log_file))
    command = [sys.executable, "-m", "streaming.demo_writer", *words]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        _until(lambda: place.store.is_dir() and any(place.store.rglob("0*")), "a log")
        yield writer
    finally:
        writer.kill()
        writer.wait()


# ---------------------------------------------------------------------------------------------
# The live job.


@dataclass
class Live:
    """What the live job showed.

    Attributes:
        lag_before, lag_stopped, lag_after: bytes behind: at work, at the first scrape after a stop,
            and then.
        stopped_seconds: how long that stop was.
        upgrades: of each upgrade, seconds from SIGTERM to the end, and to being ready again, which
            here is keeping up with the writer.
        messages: in the log.
        panels: what `panels` printed.
        promtool: what `promtool check metrics` printed.
        ended_at: Unix time at which the job still ran, for the last time.
    """

    lag_before: float = 0.0
    lag_stopped: float = 0.0
    lag_after: float = 0.0
    stopped_seconds: float = 0.0
    upgrades: list[tuple[float, float]] = field(default_factory=list)
    messages: int = 0
    panels: str = ""
    promtool: str = ""
    ended_at: float = 0.0


def live(place: Place, server: Server, seconds: float) -> Live:
    """Run a job beside a live writer, stop it, start it, and compare what it wrote.

    Raises:
        CheckError: something is not as it has to be.
    """
    shown = Live()
    began = time.monotonic()
    with _writing(place, seconds) as writer:
        _restart(place)
        time.sleep(seconds / 6)
        shown.lag_before = _highest_lag(server, "10s")
        stopped = time.monotonic()
        place.stop()
        time.sleep(seconds / 10)
        _restart(place)
        shown.stopped_seconds = time.monotonic() - stopped
        shown.lag_stopped = _highest_lag(server, f"{shown.stopped_seconds:.0f}s")
        expect(shown.lag_stopped > 3 * shown.lag_before, f"the lag did not rise: {shown}")
        _until(lambda: _lag(place) < shown.lag_stopped / 3, "the lag falls")
        time.sleep(5)
        shown.panels = _panels(server)
        for _ in range(3):
            # As a StatefulSet does it: the next one is started when the one before has ended.
            ended = place.stop()
            again = time.monotonic()
            _restart(place)
            shown.upgrades.append((ended, ended + time.monotonic() - again))
            time.sleep(5)
        metrics = place.get("/metrics") or ""
        shown.promtool = _promtool(metrics)
        printed, _ = writer.communicate(timeout=seconds + 60)
    shown.messages = int(json.loads(printed)["records"])
    _until(lambda: _lag(place) == 0, "the end of the log")
    shown.lag_after = _lag(place)
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    shown.ended_at = time.time()
    place.stop()
    _compare(place, shown.messages)
    return shown


def _restart(place: Place) -> None:
    """Start it, and wait until it keeps up: ready is who is a few seconds behind at most."""
    place.start("--flush-seconds", "5", "--ready-behind", "1m")
    _until(lambda: place.get("/readyz"), "a job that is ready again")


def _lag(place: Place) -> float:
    for line in (place.get("/metrics") or "").splitlines():
        if line.startswith(f"{s.BEHIND_BYTES}{{"):
            return float(line.split()[-1])
    return float("inf")


def _highest_lag(server: Server, window: str) -> float:
    found = panels.query(server.url, f'max_over_time({s.BEHIND_BYTES}{{pod="{LIVE}"}}[{window}])')
    return float(found[0]["value"][1])


def _promtool(text: str) -> str:
    program = shutil.which("promtool", path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        raise CheckError("promtool is not here: run helm/tools.sh promtool")
    done = subprocess.run(
        [program, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).strip()
    expect(done.returncode == 0 and not said, f"promtool check metrics: {said}")
    return "clean"


def _panels(server: Server) -> str:
    command = [sys.executable, "-m", "helm.monitoring.panels", server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"panels: {done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines()[-1]


def _compare(place: Place, messages: int) -> None:
    """Compare what was written over all restarts with the log, and with a rebuild of it."""
    verified = json.loads(place.run("verify").stdout)
    expect(verified["verdict"] == "sound", f"verify: {verified}")
    expect(verified["messages"] == messages, f"{messages} written, {verified['messages']} found")
    expect(verified["entries"] == messages, f"{verified['entries']} entries of {messages}")
    rebuilt = Place(place.directory, place.name, place.port, place.log_file)
    kept = place.output.rename(place.directory / "kept")
    rebuilt.dispatch()
    queues = sorted(p for p in kept.glob(f"{names.CONSUMEQUEUE}/*/*/*") if p.is_file())
    expect(queues, "there are no queues")
    for path in queues:
        other = place.output / path.relative_to(kept)
        expect(filecmp.cmp(path, other, shallow=False), f"{path} differs from a rebuild")


# ---------------------------------------------------------------------------------------------


def make_fire(
    place: Place, cause: Callable[[Place], None], expected: Sequence[str], server: Server
) -> dict[str, float]:
    """Have a cause happen, and return when each expected alert fired, in seconds since then.

    Raises:
        CheckError: one did not.
    """
    began = server.seconds
    keys = [(f"Reput{name}", place.name) for name in expected]
    try:
        cause(place)
        for key in keys:
            _until(lambda key=key: key in server.fired, f"{key[0]} by {place.name}")  # type: ignore[misc]
    finally:
        place.stop()
    return {name: server.fired[key] - began for name, key in zip(expected, keys, strict=True)}


def table(results: dict[str, dict[str, float]], shown: Live | None) -> str:
    """Return what happened as Markdown."""
    lines = ["| alert | made to fire by | after |", "|---|---|---|"]
    for cause, _ in CAUSES:
        for name, seconds in results.get(pod_of(cause), {}).items():
            text = str(cause.__doc__).strip().rstrip(".")
            lines.append(f"| Reput{name} | {text} | {seconds:.0f} s |")
    if shown is not None:
        ended = ", ".join(f"{seconds:.1f}" for seconds, _ in shown.upgrades)
        ready = ", ".join(f"{seconds:.1f}" for _, seconds in shown.upgrades)
        lines += [
            "",
            "| beside a live writer | |",
            "|---|---|",
            f"| `promtool check metrics` | {shown.promtool} |",
            f"| queries of dashboard and alerts | {shown.panels} |",
            f"| behind, at work | {shown.lag_before:,.0f} bytes at most |",
            (
                f"| behind, after {shown.stopped_seconds:.0f} s without the job |"
                f" {shown.lag_stopped:,.0f} bytes |"
            ),
            f"| behind, in the end | {shown.lag_after:,.0f} bytes |",
            f"| upgrades: SIGTERM to the end | {ended} s |",
            f"| upgrades: SIGTERM to ready again, less than 1 MiB behind | {ready} s |",
            f"| messages, entries in the end | {shown.messages:,}, none lost, none repeated |",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run all and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="how long the live writer writes"
    )
    parser.add_argument("--directory", type=Path, help="keep everything here")
    parser.add_argument("--only", action="append", default=[], help="one cause; again for more")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--picture", type=Path, help="write a PNG of the main panels here")
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="reput-live-"))
    directory.mkdir(parents=True, exist_ok=True)
    causes = [each for each in CAUSES if not given.only or pod_of(each[0]) in given.only]
    places = {pod_of(cause): Place(directory, pod_of(cause), free_port()) for cause, _ in causes}
    beside = Place(directory, LIVE, free_port(), _LOG_FILE)
    is_live = not given.only or LIVE in given.only
    server = Server(directory, {p.name: p.port for p in [*places.values(), beside]})
    results: dict[str, dict[str, float]] = {}
    shown: Live | None = None
    failures: list[str] = []
    with server.running(), ThreadPoolExecutor(_SIDE_BY_SIDE + 1) as pool:
        watched = pool.submit(live, beside, server, given.seconds) if is_live else None
        jobs = {
            pod_of(cause): pool.submit(make_fire, places[pod_of(cause)], cause, expected, server)
            for cause, expected in causes
        }
        for name, job in jobs.items():
            try:
                results[name] = job.result()
                print(f"{name}: {results[name]}", flush=True)
            except Exception as error:  # noqa: BLE001 - the others go on
                failures.append(f"{name}: {error}")
                print(failures[-1], flush=True)
        if watched is not None:
            try:
                shown = watched.result()
                if given.picture:
                    from helm.monitoring import picture  # noqa: PLC0415 - needs matplotlib

                    since = server.seconds - (time.time() - shown.ended_at)
                    picture.draw(server.url, given.picture, since, at=shown.ended_at)
            except Exception as error:  # noqa: BLE001 - said below
                failures.append(f"{LIVE}: {error}")
                print(failures[-1], flush=True)
    text = table(results, shown)
    print(text)
    if given.markdown:
        given.markdown.write_text(text, "utf-8")
    if not failures and given.directory is None:
        shutil.rmtree(directory)
    elif failures:
        print(f"everything is in {directory}", file=sys.stderr)
    fired = sum(map(len, results.values()))
    print(f"{fired} alerts fired, {len(failures)} failed")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
