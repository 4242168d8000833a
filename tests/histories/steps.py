"""The steps of a history, as lines that can be read, written and pasted.

    put count=3 seed=7 kind=same
    truncate back=2
    pause at=parsed number=1 during=poll { truncate back=5; put count=2 seed=8 kind=same }

A step knows nothing of those before it: what it cuts is counted from the log's end, what it makes
comes from a seed of its own. So any step can be left out and the rest is still a history.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Step(NamedTuple):
    """One step: what is done, with which values, and what is done within it."""

    name: str
    values: tuple[tuple[str, str], ...] = ()
    inner: tuple[Step, ...] = ()

    def __str__(self) -> str:
        words = [self.name, *(f"{key}={value}" for key, value in self.values)]
        if self.inner:
            words.append("{ " + "; ".join(map(str, self.inner)) + " }")
        return " ".join(words)

    def text(self, key: str, default: str = "") -> str:
        """Return a value as it stands."""
        return dict(self.values).get(key, default)

    def number(self, key: str, default: int = 0) -> int:
        """Return a value as a number."""
        return int(dict(self.values).get(key, default))


def step(name: str, *inner: Step, **values: object) -> Step:
    """Return a step with these values."""
    return Step(name, tuple((key, str(value)) for key, value in values.items()), inner)


_INNER = re.compile(r"^(.*?)\s*\{(.*)\}\s*$")


def parse(line: str) -> Step:
    """Return the step that a line says.

    Raises:
        ValueError: a word that is not a value.
    """
    found = _INNER.match(line)
    inner: tuple[Step, ...] = ()
    if found:
        line = found[1]
        inner = tuple(parse(part) for part in found[2].split(";") if part.strip())
    name, *words = line.split()
    values = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} in {line!r} is not of the form name=value")
        values.append((key, value))
    return Step(name, tuple(values), inner)


def parse_history(text: str) -> list[Step]:
    """Return the steps of a text, one a line; empty lines and those with # say nothing."""
    lines = (line.strip() for line in text.splitlines())
    return [parse(line) for line in lines if line and not line.startswith("#")]


def show(history: list[Step]) -> str:
    """Return a history as text."""
    return "\n".join(map(str, history))
