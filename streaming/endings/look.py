"""A call that may not return, as a disk hangs: on a thread of its own, and waited for a while."""

from __future__ import annotations

import errno
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_Found = TypeVar("_Found")
# A look takes milliseconds.
PATIENCE_SECONDS = 10.0


def unanswered(place: Path, seconds: float) -> TimeoutError:
    """Return the error of a place that has not answered in time."""
    return TimeoutError(
        errno.ETIMEDOUT,
        f"no answer within {seconds:g} s: a disk or file system hangs. Look for blocked tasks in "
        "the kernel's log",
        str(place),
    )


class Look(Generic[_Found]):
    """One call: those who ask for what it returns share it, and none waits past its time."""

    def __init__(self, look: Callable[[], _Found], seconds: float) -> None:
        """Begin to look.

        Args:
            look: what is called.
            seconds: that may be waited for it, from now on.
        """
        self._look = look
        self._found: _Found | None = None
        self._failure: Exception | None = None
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._look()
        except Exception as error:  # noqa: BLE001 - raised to those who ask
            self._failure = error

    @property
    def is_over(self) -> bool:
        """Tell whether it has returned."""
        return not self._thread.is_alive()

    def found(self) -> _Found | None:
        """Wait for what it returns; None if that lasts: no later call waits.

        Raises:
            Exception: what it has raised.
        """
        self._thread.join(max(self._until - time.monotonic(), 0.0))
        if self._failure is not None:
            raise self._failure
        return self._found

    def answer(self, place: Path) -> _Found:
        """Return what it returns.

        Args:
            place: that is looked at.

        Raises:
            TimeoutError: the place does not answer.
            Exception: what it has raised.
        """
        found = self.found()
        if not self.is_over:
            raise unanswered(place, self._seconds)
        # Only one that lasts has found nothing.
        return cast("_Found", found)
