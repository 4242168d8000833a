"""Runs a command and measures it with all processes that it starts."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PERIOD_SECONDS = 0.2
MIB = 1 << 20


class Measured(NamedTuple):
    """What a command took.

    Attributes:
        output: its standard output.
        seconds: from command to exit.
        cpu_seconds: of all its processes, as last seen: what one of them did in its last fifth
            of a second is missing.
        anonymous_mib: memory that is not page cache, of all of them together, at its highest.
        first, last: a quarter of the way and at the end, the highest around there: memory that
            grows with a backlog shows here.
    """

    output: str
    seconds: float
    cpu_seconds: float
    anonymous_mib: float
    first: float
    last: float


def measure(command: Sequence[str | Path], *, cwd: Path | None = None) -> Measured:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    began = time.monotonic()
    # A new session: what outlives its parent is still a part of it.
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=cwd, start_new_session=True,
    )  # fmt: skip
    cpu: dict[int, float] = {}
    memory: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        root = psutil.Process(process.pid)
        while not ended.is_set():
            memory.append(_look(root, cpu))
            ended.wait(_PERIOD_SECONDS)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, said = process.communicate()
    seconds = time.monotonic() - began
    ended.set()
    watcher.join()
    if process.returncode != 0:
        sys.stderr.write(said)
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said[-2000:]}")
    quarter = len(memory) // 4 or 1
    return Measured(
        output,
        seconds,
        sum(cpu.values()),
        max(memory) / MIB,
        max(memory[: 2 * quarter]) / MIB,
        max(memory[2 * quarter :]) / MIB,
    )


def _look(root: psutil.Process, cpu: dict[int, float]) -> float:
    """Note the CPU seconds of a process and its descendants; return their anonymous bytes."""
    total = 0.0
    try:
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    for process in family:
        try:
            times, memory = process.cpu_times(), process.memory_info()
        except psutil.Error:
            continue
        cpu[process.pid] = times.user + times.system
        total += memory.rss - memory.shared
    return total
