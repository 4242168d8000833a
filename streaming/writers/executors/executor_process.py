"""Which executor a process works for, and whether that still lives."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

# A task's worker, Spark's daemon, the JVM; and what a system may put between.
_ANCESTORS = 8


class Executor:
    """The process that a writer works for, as long as it lives."""

    def __init__(self, process: int) -> None:
        """Watch a process; one that cannot be watched is taken to live."""
        self.process = process
        self._descriptor: int | None = None
        # An old kernel, or a number of another namespace: silence still ends the writer.
        with contextlib.suppress(OSError):
            self._descriptor = os.pidfd_open(process)

    @property
    def is_gone(self) -> bool:
        """Tell whether it has ended."""
        if self._descriptor is None:
            return False
        # Not select(): it cannot take a descriptor above 1,023, and ten thousand queues have those.
        watched = select.poll()
        watched.register(self._descriptor, select.POLLIN)
        return bool(watched.poll(0))

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def executor() -> tuple[int, str]:
    """Return the executor's process, and its host by the name that Spark has for it.

    A task is told neither, so they are looked for among the processes above it. Without a name, as
    in local mode, there is only one host. Without a JVM, the process right above has to do.
    """
    process = os.getppid()
    for _ in range(_ANCESTORS):
        directory = Path("/proc", str(process))
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
            above = int(
                (directory / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
            )
        except (OSError, ValueError):
            break
        if Path(words[0].decode("utf-8", "replace")).name == "java":
            named = b"--hostname" in words[:-1]
            return process, words[words.index(b"--hostname") + 1].decode() if named else ""
        process = above
    return os.getppid(), ""
