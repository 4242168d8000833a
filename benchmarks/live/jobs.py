"""A job of one or several stores: its command, its start, what it takes, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.scale_out import cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from benchmarks.live.store import LiveStore

ROOT = Path(__file__).resolve().parents[2]
WARM_SECONDS = 15


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and all below it."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(p.cpu_times()[:2]) for p in family)


def stop(process: subprocess.Popen[bytes], pid_file: Path | None = None) -> None:
    """Let the job end in order; spark-submit's JVM, which would leave it at once, ends after it."""
    pid = process.pid if pid_file is None else int(pid_file.read_text())
    os.kill(pid, signal.SIGTERM)
    if process.wait(120) != 0:
        raise RuntimeError(f"the job ended with {process.returncode}")


def command_of(directory: Path, stores: list[LiveStore]) -> list[str]:
    """Return the command of a job of several stores."""
    if len(stores) == 1:
        return stores[0].command()
    config = directory / "reput.toml"
    config.write_text(
        "".join(
            f'[[store]]\nname = "s{number}"\npath = "{each.store}"\noutput = "{each.output}"\n'
            f'broker_conf = "{each.conf}"\n'
            for number, each in enumerate(stores)
        )
    )
    return [sys.executable, "-m", "reput", "run", "--config", str(config)]


@contextlib.contextmanager
def job_of(
    directory: Path, stores: list[LiveStore], placement: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the job, and end it in order."""
    with contextlib.ExitStack() as stack:
        command, environment = command_of(directory, stores), dict(os.environ)
        pid_file = directory / "job.pid" if placement == "executors" else None
        if placement == "executors":
            address = stack.enter_context(cluster(directory, os.cpu_count() or 2))
            submit = Path(sys.executable).with_name("spark-submit")
            conf = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
            words = ["--master", address, *words, str(ROOT / "helm" / "image" / "run.py")]
            command = [str(submit), *words, *command[3:], "--placement", placement]
            python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
            environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), **python}
            environment |= {"REPUT_PID_FILE": str(pid_file)}
        log = stack.enter_context((directory / "job.log").open("wb"))
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            if process.poll() is None:
                stop(process, pid_file)
