"""Lets the stores' threads of one process take their turns one after another.

Python runs one thread at a time. A turn hands over at each look at a file and each kernel, then
waits until it may run again: of twenty turns at once, one that needs half a millisecond of the
processor lasts ten. One after another, each lasts as long as it needs.

Stores do not share a fate here, either: a turn that takes long (a flush, a backlog, a disk that
hangs) keeps each of the others waiting for `_PATIENCE_SECONDS` at most, and most of them not at
all.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_SECONDS = 0.005


class Turnstile:
    """What one thread at a time goes through, as long as none stays in it."""

    def __init__(self) -> None:
        """Let the first one in."""
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn of the thread that calls, for a moment at most; yield within it."""
        lock = self._lock
        if lock.acquire(timeout=_PATIENCE_SECONDS):
            try:
                yield
            finally:
                lock.release()
        else:
            # It is left to the one that stays in it: the next ones go through another.
            if self._lock is lock:
                self._lock = threading.Lock()
            yield
