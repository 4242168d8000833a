"""Memory of Spark's JVM: its heap, as it says itself, and the process, as the kernel says."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

# The heap is asked for on the job's own thread, so that a scrape never waits for a JVM that hangs.
_SAMPLE_SECONDS = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """What was last seen, in bytes; None if it is not known."""

    heap_used: int
    heap_max: int
    resident: int | None


class Jvm:
    """The JVM beside this process."""

    def __init__(self, view: Any) -> None:
        """Ask the JVM for its process.

        Args:
            view: py4j's view of it, a SparkContext's `_jvm`.
        """
        self._runtime = view.java.lang.Runtime.getRuntime()
        self._process = int(view.java.lang.ProcessHandle.current().pid())
        self._sampled_at = -_SAMPLE_SECONDS
        self._heap: tuple[int, int] | None = None

    def sample(self) -> None:
        """Ask for the heap, at most once in five seconds; a JVM that is gone is left out."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - Spark is slow to import

        if time.monotonic() - self._sampled_at < _SAMPLE_SECONDS:
            return
        self._sampled_at = time.monotonic()
        with contextlib.suppress(Py4JError, OSError):
            used = self._runtime.totalMemory() - self._runtime.freeMemory()
            self._heap = used, self._runtime.maxMemory()

    @property
    def memory(self) -> Memory | None:
        """Return what is known, None before the first sample."""
        if self._heap is None:
            return None
        return Memory(*self._heap, self._resident())

    def _resident(self) -> int | None:
        # The process is gone, or in another process namespace.
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path("/proc", str(self._process), "statm").read_text().split()[1]) * _PAGE
        return None
