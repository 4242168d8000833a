"""Asks stores' disks before a job begins: one that hangs keeps neither others nor signals waiting.

A call of the operating system on such a disk does not return. The main thread would take no signal
meanwhile, and begin no job.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from reput.formats.errors import ReputError
from reput.streaming.endings.look import PATIENCE_SECONDS, Look, unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from reput.streaming.settings.config import StoreConfig


class Looks:
    """What was asked of each store last, in the job's order of stores."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Ask nothing yet.

        Args:
            seconds: to wait for all answers.
        """
        self._seconds = seconds
        self._last: dict[int, Look[Any]] = {}

    def ask(
        self, question: Callable[[StoreConfig], Any], configs: Sequence[StoreConfig]
    ) -> list[Any]:
        """Ask all stores of a job at the same time.

        Args:
            question: what is called with each; may raise a ReputError or an OSError.
            configs: all stores, always in the same order.

        Returns:
            What each answers, or the error that was raised: a TimeoutError of one that does not
            answer. A store whose last question is still open is asked nothing, and not waited for.
        """
        return self._ask([(each.path, partial(question, each)) for each in configs])

    def silent(self, places: Sequence[Sequence[Path]]) -> list[OSError | None]:
        """Return the errors of stores whose places cannot be looked at, None for the others.

        Args:
            places: of each store; what is not there can be.
        """
        found = self._ask(
            [(group[0], partial(_look, group)) if group else None for group in places]
        )
        return [each if isinstance(each, OSError) else None for each in found]

    def _ask(self, questions: Iterable[tuple[Path, Callable[[], Any]] | None]) -> list[Any]:
        begun: list[tuple[Path, Look[Any] | None] | None] = []
        for number, asked in enumerate(questions):
            if asked is None:
                begun.append(None)
                continue
            place, question = asked
            last, look = self._last.get(number), None
            if last is None or last.is_over:
                look = self._last[number] = Look(question, self._seconds)
            begun.append((place, look))
        return [None if each is None else self._answer(*each) for each in begun]

    def _answer(self, place: Path, look: Look[Any] | None) -> Any:
        if look is None:
            return unanswered(place, self._seconds)
        try:
            return look.answer(place)
        except (ReputError, OSError) as error:
            return error


def _look(places: Iterable[Path]) -> None:
    """Look whether they are there, and into directories."""
    for place in places:
        if place.is_dir():
            os.scandir(place).close()
