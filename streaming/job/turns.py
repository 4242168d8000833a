"""Whose turn it is to speak to the writers: that of Spark's thread, or that of the job's own."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL_SECONDS = 0.2


class Turns:
    """Two threads that speak to the same writers.

    Attributes:
        talk: held while one of them speaks to the writers.
        ending: the job was asked to end, or has failed: no batch lasts any longer.
    """

    def __init__(self) -> None:
        """Begin without a batch."""
        self.talk = threading.Lock()
        self.ending = threading.Event()
        self._batch = threading.Lock()

    @contextlib.contextmanager
    def batch(self) -> Iterator[bool]:
        """Hold the lock of a batch; yield False, with or without it, if the job is to end.

        The thread that ends the query holds the lock, and Spark waits for this very call then: if
        this call waited for the lock, neither would end.
        """
        while not self._batch.acquire(timeout=_POLL_SECONDS):
            if self.ending.is_set():
                yield False
                return
        try:
            yield not self.ending.is_set()
        finally:
            self._batch.release()

    @contextlib.contextmanager
    def after_last_batch(self) -> Iterator[None]:
        """End the batch that lasts, and let no other one begin."""
        self.ending.set()
        with self._batch:
            yield
