"""Waits for what a test has brought about, and no longer than it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = TypeVar("Found")


def wait_until(
    is_so: Callable[[], Found],
    seconds: float = 120.0,
    pause: float = 0.02,
    says: Callable[[], str] = str,
) -> Found:
    """Return what a function returns once that is true.

    Args:
        is_so: is asked again and again.
        seconds: after this the test has failed; a busy machine may need many.
        pause: seconds from one answer to the next question.
        says: returns what is told then.
    """
    until = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < until, says()
        time.sleep(pause)
    return found
