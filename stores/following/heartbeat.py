"""Tells whether this process stood still: it was stopped or frozen, or its machine was paused.

A thread beats five times a second. Whatever else the process does, however long it takes, leaves
the thread its turn: it waits for a device or for Spark, or runs kernels, without the interpreter.
So where two beats are far apart, nothing of the process ran in between.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Heartbeat", "shared"]

_BEAT_SECONDS = 0.2
# Beats that are further apart are a pause: a busy machine may have a thread wait for a while.
_PAUSE_SECONDS = 2.0
_NAME = "heartbeat"


def _steady_seconds() -> float:
    """Return the time since the machine started; suspended times count."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Heartbeat:
    """Counts pauses; `beat` has to be called often, see `shared`.

    It takes no lock. Where two threads beat at once, one pause may count twice, and none is lost.
    """

    def __init__(self, clock: Callable[[], float] = _steady_seconds) -> None:
        """Begin now.

        Args:
            clock: returns seconds; a clock that is never set.
        """
        self._clock = clock
        self._pauses = 0
        self._beat_at = clock()

    def beat(self) -> None:
        """Note that the process runs, and a pause if it did not for a while."""
        now = self._clock()
        if now - self._beat_at > _PAUSE_SECONDS:
            self._pauses += 1
        self._beat_at = now

    @property
    def pauses(self) -> int:
        """Return how many there were so far, including one that ended just now."""
        self.beat()
        return self._pauses


class _Beating:
    """A heartbeat with its thread, for all that use it."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat()
        self.users = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_BEAT_SECONDS):
            self.heartbeat.beat()

    def end(self) -> None:
        """End the thread, and wait for it."""
        self._over.set()
        self._thread.join()


class _Shared:
    """The heartbeat of this process, while it has users."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.beating: _Beating | None = None


_shared = _Shared()
# A thread does not run in a process that is forked off, and the lock may be held there for ever.
os.register_at_fork(after_in_child=_shared.__init__)  # type: ignore[misc]


@contextlib.contextmanager
def shared() -> Iterator[Heartbeat]:
    """Yield this process's heartbeat; its thread runs while it has users."""
    with _shared.lock:
        beating = _shared.beating
        if beating is None:
            beating = _shared.beating = _Beating()
        beating.users += 1
    try:
        yield beating.heartbeat
    finally:
        with _shared.lock:
            beating.users -= 1
            if not beating.users and beating is _shared.beating:
                _shared.beating = None
                beating.end()
