"""Calls in another thread: in the main thread PySpark would take over Ctrl-C."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Made = TypeVar("_Made")
_LOOK_SECONDS = 0.1


def beside(make: Callable[[], _Made], is_over: Callable[[], bool] = lambda: False) -> _Made | None:
    """Return what `make` returns, called in another thread; None once `is_over` says so.

    Raises:
        BaseException: what `make` has raised.
    """
    made = _called_beside(make, is_over)
    return made[0] if made else None


def elsewhere(make: Callable[[], _Made]) -> _Made:
    """Return what `make` returns, called in another thread; see `beside`."""
    return _called_beside(make, lambda: False)[0]


def _called_beside(make: Callable[[], _Made], is_over: Callable[[], bool]) -> list[_Made]:
    """Return what `make` returns, as the one item of a list; an empty list if it is over first."""
    made: list[_Made] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=run, name="beside", daemon=True)
    thread.start()
    while thread.is_alive() and not is_over():
        thread.join(_LOOK_SECONDS)
    if failures:
        raise failures[0]
    return made
