"""Answers a question in turns of an event loop, so that no other one waits for it.

A question is a generator of *steps*. It yields where another has its turn, and where something is
not in memory: a thread then reads that, and the next step follows. What is in memory, and short, is
answered at once.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from reput.stores.reads import ColdError, impatience

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from reput.stores.reads import Span, Steps

    Result = TypeVar("Result")

_PIECE = 1 << 20
# What follows is likely to be asked for next; the kernel reads it meanwhile.
_AHEAD = 1 << 20
# A question whose bytes were brought this many times, and were gone again, is answered whatever it
# takes: there is no memory for it, or the disk fails.
_MOST_AGAIN = 256


class _Met:
    """The cold bytes that one question has met."""

    def __init__(self) -> None:
        self._spans: set[tuple[Span, ...]] = set()
        self._again = 0

    @property
    def is_first(self) -> bool:
        """Tell whether it has met none."""
        return not self._spans

    def takes_too_many(self, cold: ColdError) -> bool:
        """Take what is cold; tell whether too much of what was brought was gone again."""
        before = len(self._spans)
        self._spans.add(tuple(cold.spans))
        self._again += len(self._spans) == before
        return self._again >= _MOST_AGAIN


class Turns:
    """Answers questions on one event loop.

    Attributes:
        cold: how many questions had to wait for something that was not in memory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        """Start nothing yet.

        Args:
            loop: where questions are answered.
            threads: that read what is not in memory.
        """
        self._loop = loop
        self._threads = ThreadPoolExecutor(threads, "cold")
        # Reads that wait for a disk, and when one of them ended, or the first one began.
        self._reads, self._moved_at = 0, loop.time()
        self.cold = 0

    @property
    def stuck_seconds(self) -> float:
        """Return for how long questions have waited for a disk that has brought nothing."""
        return self._loop.time() - self._moved_at if self._reads else 0.0

    def run(self, steps: Steps[Result]) -> Result | asyncio.Future[Result]:
        """Return the result of a question, or a future of it where it cannot be had at once."""
        try:
            cold = _step(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what `steps` returns
        future: asyncio.Future[Result] = self._loop.create_future()
        self._wait(steps, future, cold, _Met())
        return future

    def _wait(
        self,
        steps: Steps[Result],
        future: asyncio.Future[Result],
        cold: ColdError | None,
        met: _Met,
    ) -> None:
        """Do the next step of a question when its turn comes, or what it needs is in memory."""
        if cold is None:
            self._loop.call_soon(self._resume, steps, future, met)
            return
        self.cold += met.is_first
        waits = met.takes_too_many(cold) or not cold.is_known
        # It fails where there can be no more threads.
        reading = self._loop.run_in_executor(self._threads, touch, cold.spans)
        if not self._reads:
            self._moved_at = self._loop.time()
        self._reads += 1

        def resume(_: object) -> None:
            self._reads -= 1
            self._moved_at = self._loop.time()
            self._resume(steps, future, met, waits=waits)

        reading.add_done_callback(resume)

    def _resume(
        self,
        steps: Steps[Result],
        future: asyncio.Future[Result],
        met: _Met,
        *,
        waits: bool = False,
    ) -> None:
        if future.cancelled():
            steps.close()
            return
        try:
            cold = _step(steps, waits=waits)
            self._wait(steps, future, cold, met)
        except StopIteration as done:
            future.set_result(done.value)
        except Exception as error:  # noqa: BLE001 - the future's owner gets it
            future.set_exception(error)

    def close(self) -> None:
        """End the threads; what they read is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _step(steps: Steps[Result], *, waits: bool = False) -> ColdError | None:
    with contextlib.nullcontext() if waits else impatience():
        return next(steps)


def touch(spans: Sequence[Span]) -> None:
    """Read parts of files into memory. A file that is gone, or was closed, is left out."""
    buffer = memoryview(bytearray(min(_PIECE, max(span.length for span in spans))))
    for span in spans:
        with contextlib.suppress(OSError):
            # Else the kernel reads ahead by itself, megabytes at a time, in the thread that comes
            # to a page which it has marked: in the event loop's, too.
            os.posix_fadvise(span.descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            length = span.length + _AHEAD
            os.posix_fadvise(span.descriptor, span.position, length, os.POSIX_FADV_WILLNEED)
    for descriptor, position, length in spans:
        with contextlib.suppress(OSError):
            for at in range(0, length, len(buffer)):
                os.preadv(descriptor, [buffer[: length - at]], position + at)
