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


class Watch:
    """Looks at a process and all below it, on a thread, until told to end.

    Attributes:
        cpu: seconds of each of them, by process id, as last seen.
        memory: bytes that are not page cache, of all of them together, at each look.
    """

    def __init__(self, process: int) -> None:
        """Begin."""
        self.cpu: dict[int, float] = {}
        self.memory: list[float] = []
        self._root = psutil.Process(process)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.memory.append(_look(self._root, self.cpu))
            self._ended.wait(_PERIOD_SECONDS)

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()


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
    watch = Watch(process.pid)
    output, said = process.communicate()
    seconds = time.monotonic() - began
    watch.end()
    if process.returncode != 0:
        sys.stderr.write(said)
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said[-2000:]}")
    memory = watch.memory
    quarter = len(memory) // 4 or 1
    return Measured(
        output,
        seconds,
        sum(watch.cpu.values()),
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
