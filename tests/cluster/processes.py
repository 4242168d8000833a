"""Child processes that end with us, and what the memory of a tree of them is."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_POLL_SECONDS = 0.1


class ClusterError(RuntimeError):
    """A process of the run ended, or did not do what it is there for."""


def spawn(
    command: Sequence[str],
    output: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Starts a process that is killed when this one dies; what it prints goes to a file."""
    if shutil.which("setpriv"):
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    with output.open("ab") as out:
        return subprocess.Popen(command, stdin=stdin, stdout=out, stderr=out, env=env)


def wait_until(
    reached: Callable[[], bool], what: str, process: subprocess.Popen[bytes], seconds: float
) -> None:
    """Waits for something that a running process will bring about."""
    end = time.monotonic() + seconds
    while not reached():
        if process.poll() is not None:
            raise ClusterError(f"{what}: process {process.pid} ended with {process.returncode}")
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


def terminate(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Asks a process to end, and returns its exit code; kills it after that time."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def kill(process: subprocess.Popen[bytes] | None) -> None:
    """Ends a process at once, if it runs."""
    if process is not None and process.poll() is None:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Memory:
    """What a process and its descendants have in memory, in KiB.

    Attributes:
        resident: all of it, pages of mapped files as well.
        root: the first process's anonymous memory.
        java: the JVMs'.
        rest: the other processes'.
    """

    resident: int = 0
    root: int = 0
    java: int = 0
    rest: int = 0

    @property
    def anonymous(self) -> int:
        """What is theirs alone, heaps above all: what a leak would add to."""
        return self.root + self.java + self.rest


def memory_of_tree(root: int) -> Memory:
    """What a process and all its descendants have in memory now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    resident = 0
    anonymous = {"root": 0, "java": 0, "rest": 0}
    waiting = [root]
    while waiting:
        process = waiting.pop()
        status = _status(process)
        resident += int(status.get("VmRSS", "0").split()[0])
        kind = "root" if process == root else "java" if status.get("Name") == "java" else "rest"
        anonymous[kind] += int(status.get("RssAnon", "0").split()[0])
        waiting.extend(children.get(process, ()))
    return Memory(resident, **anonymous)


def _parent(entry: Path) -> int | None:
    try:
        # The name before it may have spaces and brackets in it.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def _status(process: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
