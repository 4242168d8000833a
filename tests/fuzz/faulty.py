"""A target that goes wrong in every way there is: does the runner see it?"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tests.fuzz import guard
from tests.fuzz.target import WrongError

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

WAYS = ("fine", "beyond the end", "before the beginning", "for ever", "memory", "error", "promise")


class Faulty:
    """Its batches go wrong by what they draw; those that warm a worker up are fine."""

    name = "faulty"

    def __init__(self) -> None:
        self._arena = guard.Arena(100)
        self._warm = 2

    def make(self, random: Random) -> str:
        return random.choice(WAYS)

    def keep(self, batch: str, directory: Path) -> None:
        directory.mkdir(parents=True)
        (directory / "way").write_text(batch, "ascii")

    def check(self, batch: str) -> list[str]:
        if self._warm:
            self._warm -= 1
        else:
            go_wrong(batch, self._arena)
        return [batch]


def go_wrong(way: str, arena: guard.Arena) -> None:
    """Go wrong in this way."""
    if way == "beyond the end":
        array = arena.hold(bytes(100))
        ctypes.string_at(array.ctypes.data + 100, 1)
    elif way == "before the beginning":
        array = arena.hold(bytes(100), at_end=False)
        ctypes.string_at(array.ctypes.data - 1, 1)
    elif way == "for ever":
        while True:
            pass
    elif way == "memory":
        held = []
        while True:
            held.append(b"\1" * (1 << 24))
    elif way == "error":
        raise KeyError(way)
    elif way == "promise":
        raise WrongError(way)
