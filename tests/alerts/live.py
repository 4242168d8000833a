"""Alerts, made to fire by their real causes: `python -m tests.alerts.live [--seconds 300]`.

A real Prometheus scrapes a real job; for Kafka's alerts the job sends to a real Kafka broker. One
job runs beside a live writer all the time, is stopped and started again, and is compared with the
log in the end. Each of the others gets something that goes wrong in production (`causes`), and a
Prometheus of its own; what fires besides is printed. Windows and holds of the alerts are those of
the rule file divided by `SPEED`; the expressions are the same. `--directory` keeps everything;
`--markdown`, `--picture` and `--kafka-picture` write what docs/monitoring.md shows.
`helm/tools.sh promtool` gets Prometheus, and tests/kafka/build.sh the broker.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from helm.monitoring import panels
from helm.monitoring import series as s
from reput.formats.rocketmq import names
from tests.alerts.causes import CAUSES, pod_of
from tests.alerts.kafka_causes import kafka_slow
from tests.alerts.place import SMALL_LOG_FILE, Place, until
from tests.alerts.server import Server
from tests.cluster.rig import TOOLS, CheckError, expect, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIVE = "live"
_LOG_FILE = 16 << 20
# Jobs that run at once beside the live one: Spark takes its time to start.
_SIDE_BY_SIDE = 2


@dataclass
class Live:
    """What the live job showed.

    Attributes:
        lag_before, lag_stopped, lag_after: bytes behind: at most while at work, at most over the
            whole stop and the start after it, and in the end.
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


def live(place: Place, seconds: float) -> Live:
    """Run a job beside a live writer, stop it, start it, and compare what it wrote.

    Raises:
        CheckError: something is not as it has to be.
    """
    shown, server = Live(), place.server
    began = time.monotonic()
    with place.writing(seconds) as writer:
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
        until(lambda: _lag(place) < shown.lag_stopped / 3, "the lag falls")
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
    until(lambda: _lag(place) == 0, "the end of the log")
    shown.lag_after = _lag(place)
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    shown.ended_at = time.time()
    place.stop()
    _compare(place, shown.messages)
    return shown


def _restart(place: Place) -> None:
    """Start it, and wait until it keeps up: it is ready when it is less than 1 MiB behind."""
    place.start("--flush-seconds", "5", "--ready-behind", "1m")
    place.wait_until_ready()


def _lag(place: Place) -> float:
    lag = place.value(s.BEHIND_BYTES)
    return float("inf") if lag is None else lag


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
    rebuilt = Place(place.directory, place.name, place.port, place.server, place.log_file)
    kept = place.output.rename(place.directory / "kept")
    rebuilt.dispatch()
    queues = sorted(p for p in kept.glob(f"{names.CONSUMEQUEUE}/*/*/*") if p.is_file())
    expect(queues, "there are no queues")
    for path in queues:
        other = place.output / path.relative_to(kept)
        expect(filecmp.cmp(path, other, shallow=False), f"{path} differs from a rebuild")


@dataclass
class Fired:
    """What a cause made fire.

    Attributes:
        after: of each expected alert, seconds since the cause began.
        besides: other alerts that fired, in the order in which they did.
    """

    after: dict[str, float]
    besides: list[str]


def place_of(directory: Path, name: str, log_file: int = SMALL_LOG_FILE) -> Place:
    """Return a place, with a Prometheus that does not run yet."""
    port = free_port()
    server = Server(directory / f"{name}-prometheus", name, port)
    return Place(directory, name, port, server, log_file)


def make_fire(
    directory: Path,
    cause: Callable[[Place], None],
    expected: Sequence[str],
    path: Path | None = None,
) -> Fired:
    """Let a cause happen, and return what fired.

    Args:
        directory: for what it needs.
        cause: what goes wrong.
        expected: names of alerts.
        path: of a picture of the dashboard's row of Kafka, None for none.

    Raises:
        CheckError: an expected alert did not fire, or did before there was a cause.
    """
    place = place_of(directory, pod_of(cause))
    server = place.server
    with server.running(), place.beside:
        place.begin()
        try:
            cause(place)
            for name in expected:
                until(lambda name=name: server.has_fired(name), f"{name} by {place.name}")  # type: ignore[misc]
            if path is not None:
                from helm.monitoring import picture

                titles = picture.KAFKA
                picture.draw(server.url, path, server.seconds, place.name, titles=titles)
        finally:
            place.stop()
    fired = {name.removeprefix("Reput"): at - place.since for name, at in server.fired.items()}
    early = [name for name in expected if fired[name] <= 0]
    expect(not early, f"{place.name}: {', '.join(early)} fired before its cause")
    return Fired(
        {name: fired[name] for name in expected}, [name for name in fired if name not in expected]
    )


def table(results: dict[str, Fired], shown: Live | None) -> str:
    """Return what happened as Markdown."""
    lines = ["| alert | made to fire by | after |", "|---|---|---|"]
    for cause, _ in CAUSES:
        found = results.get(pod_of(cause))
        for name, seconds in found.after.items() if found else ():
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


def _watch(directory: Path, seconds: float, path: Path | None) -> Live:
    """Run the live job, and draw it if there is a path for a picture."""
    place = place_of(directory, LIVE, log_file=_LOG_FILE)
    with place.server.running():
        shown = live(place, seconds)
        if path:
            from helm.monitoring import picture

            since = place.server.seconds - (time.time() - shown.ended_at)
            picture.draw(place.server.url, path, since, at=shown.ended_at)
    return shown


def _given() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="how long the live writer writes"
    )
    parser.add_argument("--directory", type=Path, help="keep everything here")
    parser.add_argument("--only", action="append", default=[], help="one cause; again for more")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--picture", type=Path, help="write a PNG of the main panels here")
    parser.add_argument("--kafka-picture", type=Path, help="write one of a slow Kafka's panels")
    given = parser.parse_args()
    known = [LIVE, *(pod_of(cause) for cause, _ in CAUSES)]
    for name in given.only:
        if name not in known:
            parser.error(f"--only {name}: there is no such cause; there are {', '.join(known)}")
    return given


def _run_all(
    directory: Path, given: argparse.Namespace
) -> tuple[dict[str, Fired], Live | None, list[str]]:
    """Run the causes, and the live job beside them.

    Returns:
        what each cause made fire, what the live job showed, and what failed.
    """
    causes = [each for each in CAUSES if not given.only or pod_of(each[0]) in given.only]
    is_live = not given.only or LIVE in given.only
    results: dict[str, Fired] = {}
    shown: Live | None = None
    failures: list[str] = []
    with ThreadPoolExecutor(_SIDE_BY_SIDE + 1) as pool:
        watched = pool.submit(_watch, directory, given.seconds, given.picture) if is_live else None
        drawn = {pod_of(kafka_slow): given.kafka_picture}
        jobs = {
            (name := pod_of(cause)): pool.submit(
                make_fire, directory, cause, expected, drawn.get(name)
            )
            for cause, expected in causes
        }
        for name, job in jobs.items():
            try:
                results[name] = job.result()
                print(f"{name}: {results[name]}", flush=True)
            except Exception as error:  # noqa: BLE001 - the others continue
                failures.append(f"{name}: {error}")
                print(failures[-1], flush=True)
        if watched is not None:
            try:
                shown = watched.result()
            except Exception as error:  # noqa: BLE001 - said below
                failures.append(f"{LIVE}: {error}")
                print(failures[-1], flush=True)
    return results, shown, failures


def main() -> int:
    """Run all and return the exit code."""
    given = _given()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="reput-live-"))
    directory.mkdir(parents=True, exist_ok=True)
    results, shown, failures = _run_all(directory, given)
    text = table(results, shown)
    print(text)
    if given.markdown:
        given.markdown.write_text(text, "utf-8")
    if not failures and given.directory is None:
        shutil.rmtree(directory)
    elif failures:
        print(f"everything is in {directory}", file=sys.stderr)
    fired = sum(len(each.after) for each in results.values())
    print(f"{fired} {'alert' if fired == 1 else 'alerts'} fired, {len(failures)} failed")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
