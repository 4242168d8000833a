"""Reads of files that may be told not to wait for a device.

A server answers many from one thread. Within `impatience` its reads of what is not in memory raise
`ColdError` instead of waiting; another thread then reads it into memory. A thread that did not ask
for that waits, as with any read.

A question that may take long is a generator of *steps*: it yields what is not in memory, and None
where others have their turn.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    Result = TypeVar("Result")
    Steps = Generator["ColdError | None", None, Result]

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_SAY = {errno.EOPNOTSUPP, errno.EINVAL}


class Span(NamedTuple):
    """Bytes of a file, by its descriptor."""

    descriptor: int
    position: int
    length: int


class ColdError(Exception):
    """Something is not in memory.

    Attributes:
        spans: what.
        is_known: False where the file system cannot tell, so that it may be there.
    """

    def __init__(self, spans: Sequence[Span], *, is_known: bool = True) -> None:
        super().__init__(f"{len(spans)} parts of files are not in memory")
        self.spans = spans
        self.is_known = is_known


def patiently(question: Callable[[], Result]) -> Steps[Result]:
    """Return the steps of a question that reads, and may be asked again from its beginning."""
    while True:
        try:
            return question()
        except ColdError as cold:
            yield cold


def at_once(steps: Steps[Result]) -> Result:
    """Return the result of all steps.

    Raises:
        ColdError: this thread does not wait, and something is not in memory.
    """
    try:
        while True:
            cold = next(steps)
            if cold is not None:
                raise cold
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # what the steps return


class _Patience(threading.local):
    """Whether reads of this thread wait."""

    waits = True


_patience = _Patience()


@contextlib.contextmanager
def impatience() -> Iterator[None]:
    """Let reads of this thread not wait for a device."""
    _patience.waits = False
    try:
        yield
    finally:
        _patience.waits = True


def preadv(descriptor: int, buffers: Sequence[memoryview], position: int) -> int:
    """Read as `os.preadv` does.

    Raises:
        ColdError: this thread does not wait, and the first byte is not in memory.
    """
    if _patience.waits:
        return os.preadv(descriptor, buffers, position)
    try:
        return os.preadv(descriptor, buffers, position, _NOWAIT)
    except BlockingIOError:
        is_known = True
    except OSError as error:
        if error.errno not in _CANNOT_SAY:
            raise
        is_known = False
    length = sum(map(len, buffers))
    raise ColdError([Span(descriptor, position, length)], is_known=is_known)


def pread(descriptor: int, length: int, position: int) -> bytes:
    """Read as `os.pread` does.

    Raises:
        ColdError: this thread does not wait, and some of it is not in memory.
    """
    if _patience.waits:
        return os.pread(descriptor, length, position)
    data = memoryview(bytearray(length))
    got = 0
    while got < length and (more := preadv(descriptor, [data[got:]], position + got)):
        got += more
    return bytes(data[:got])
