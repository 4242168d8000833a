"""What one store's trouble costs another store of the same job: from append to entry, beside it.

    python -m benchmarks.live.fates --troubles none,corrupt,full,hang,backlog [--json FILE]

A job has two stores. One gets records at a rate, and the time from append to entry is taken; the
other one has trouble all the while, and the job is started again amid it:

* corrupt: good records follow one that is damaged;
* full: its output is on a file system that has no room left;
* hang: its output is on a file system that is frozen;
* backlog: it begins with this many GiB that are not dispatched.

`full` and `hang` mount file systems, which takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.latencies import figures_of
from benchmarks.live.jobs import ROOT
from benchmarks.live.store import LiveStore, look, wait_for_all, wait_for_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

TROUBLES = ("none", "corrupt", "full", "hang", "backlog")
_RATE = 1000
_SMALL_DISK = "3m"
_LOOP_BYTES = 256 << 20
# A hung store has to end within a pod's grace period.
_END_SECONDS = 30.0


def settings_of(directory: Path, stores: dict[str, LiveStore]) -> Path:
    """Write the reput.toml of a job."""
    path = directory / "reput.toml"
    path.write_text(
        "".join(
            f'[[store]]\nname = "{name}"\npath = "{store.store}"\noutput = "{store.output}"\n'
            f'broker_conf = "{store.conf}"\n'
            for name, store in stores.items()
        )
    )
    return path


def run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@contextlib.contextmanager
def disk_of(trouble: str, output: Path) -> Iterator[None]:
    """Mount what an output is on, where its trouble is the disk."""
    output.mkdir(parents=True, exist_ok=True)
    if trouble == "full":
        run("mount", "-t", "tmpfs", "-o", f"size={_SMALL_DISK}", "tmpfs", output)
    elif trouble == "hang":
        image = output.with_name("image")
        with image.open("wb") as file:
            file.truncate(_LOOP_BYTES)
        run("mkfs.ext4", "-q", image)
        run("mount", "-o", "loop", image, output)
    try:
        yield
    finally:
        if trouble == "hang":
            subprocess.run(["fsfreeze", "-u", str(output)], check=False, capture_output=True)
        if trouble in {"full", "hang"}:
            # What is about to end may still have a file open.
            time.sleep(1)
            run("umount", "-l", output)


def begin_trouble(trouble: str, store: LiveStore, gigabytes: float) -> None:
    """Bring trouble on a store before the job starts, but for a hang."""
    if trouble == "corrupt":
        with (store.store / "commitlog").joinpath("0" * 20).open("r+b") as file:
            place = store.end
            for _ in range(50):
                store.append()
            file.seek(place + 4)
            file.write(b"\0\1")
    elif trouble == "backlog":
        store.append_bytes(int(gigabytes * (1 << 30)))


def measure(trouble: str, arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Return what one store's latency was beside the other one's trouble, by start."""
    good, bad = LiveStore(directory / "good"), LiveStore(directory / "bad", body=2000)
    for store in (good, bad):
        store.append()
    found: dict[str, object] = {"trouble": trouble}
    with disk_of(trouble, bad.output):
        begin_trouble(trouble, bad, arguments.gigabytes)
        config = settings_of(directory, {"good": good, "bad": bad})
        for number in range(arguments.starts):
            latencies, ended, code = one_start(trouble, good, bad, config, arguments)
            found[f"start_{number + 1}"] = {
                "messages": len(latencies),
                **figures_of(latencies),
                "end_seconds": ended,
                "exit_code": code,
            }
    return found


def one_start(
    trouble: str, good: LiveStore, bad: LiveStore, config: Path, arguments: argparse.Namespace
) -> tuple[np.ndarray, float, int]:
    """Run the job once; return latencies in ms, the seconds that its end took, its exit code."""
    log = config.with_suffix(".log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "reput", "run", "--config", str(config)], cwd=ROOT,
        stdout=log, stderr=log,
    )  # fmt: skip
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(bad, stop), daemon=True)
    try:
        wait_for_entry(good.queue_file, process)
        seen: list[float] = [0.0] * len(good.times)
        wait_for_all(good, process)
        watcher = threading.Thread(target=look, args=(good.queue_file, seen, stop), daemon=True)
        watcher.start()
        feeder.start()
        good.append_at(_RATE, arguments.warm)
        if trouble == "hang":
            run("fsfreeze", "-f", bad.output)
        first = len(good.times)
        good.append_at(_RATE, arguments.seconds)
        deadline = time.monotonic() + 60
        while len(seen) < len(good.times) and time.monotonic() < deadline:
            time.sleep(0.05)
        late = np.array(seen[first:]) - np.array(good.times[first : len(seen)])
        stop.set()
        return late * 1000, *end(process)
    finally:
        stop.set()
        if trouble == "hang":
            subprocess.run(["fsfreeze", "-u", str(bad.output)], check=False, capture_output=True)
        if process.poll() is None:
            process.kill()
            process.wait()


def feed(store: LiveStore, stop: threading.Event) -> None:
    """Append now and then."""
    while not stop.is_set():
        store.append()
        time.sleep(0.01)


def end(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """End a job; return how long that took, and its exit code, -1 if it has not ended."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    code = -1 if process.returncode is None else process.returncode
    return time.monotonic() - began, code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--troubles", default=",".join(TROUBLES))
    parser.add_argument("--seconds", type=float, default=20, help="of each start")
    parser.add_argument("--warm", type=float, default=8, help="seconds that are not counted")
    parser.add_argument("--starts", type=int, default=2, help="of the job, in each trouble")
    parser.add_argument("--gigabytes", type=float, default=4, help="of the backlog")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write all figures there")
    arguments = parser.parse_args()
    rows = []
    for trouble in arguments.troubles.split(","):
        with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
            work = Path(name)
            for store in ("good", "bad"):
                (work / store).mkdir()
            try:
                rows.append(measure(trouble, arguments, work))
            finally:
                kept = os.environ.get("FATES_LOG")
                if kept and (work / "reput.log").exists():
                    shutil.copy(work / "reput.log", f"{kept}-{trouble}")
        print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
