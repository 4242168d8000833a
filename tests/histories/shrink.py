"""Makes a history that fails as short as it can be and still fail in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.histories.steps import Step

# A history that still fails is looked for this many times at most.
_TRIES = 400
_LESS = ("count", "back", "byte", "number")


def shrink(
    history: Sequence[Step], fails: Callable[[list[Step]], bool], tries: int = _TRIES
) -> list[Step]:
    """Return the shortest history that was found to fail.

    Args:
        history: one that fails.
        fails: whether another one does, in the same way.
        tries: how many others to ask about.
    """
    best = list(history)
    left = tries
    is_shorter = True
    while is_shorter and left > 0:
        is_shorter = False
        for candidate in _smaller(best):
            left -= 1
            if left < 0:
                break
            if fails(candidate):
                best, is_shorter = candidate, True
                break
    return best


def _smaller(history: list[Step]) -> Iterator[list[Step]]:
    """Yield histories with less in them: halves, pairs and steps gone, steps that do less."""
    size = len(history) // 2
    while size >= 1:
        for start in range(len(history) - size, -1, -size):
            yield history[:start] + history[start + size :]
        size //= 2
    for number, each in enumerate(history):
        for less in _less(each):
            yield [*history[:number], less, *history[number + 1 :]]


def _less(each: Step) -> Iterator[Step]:  # noqa: C901 - each way to make a step smaller
    for number in range(len(each.inner)):
        yield each._replace(inner=each.inner[:number] + each.inner[number + 1 :])
    for number, inner in enumerate(each.inner):
        for less in _less(inner):
            kept = (*each.inner[:number], less, *each.inner[number + 1 :])
            yield each._replace(inner=kept)
    values = dict(each.values)
    if each.name == "settings":
        for name in ("ext", "fan", "batch"):
            if values.get(name, "0") != "0":
                yield _with(each, name, "0")
        return
    if values.get("kind", "same") != "same":
        yield _with(each, "kind", "same")
    for name in _LESS:
        value = int(values.get(name, 0))
        for smaller in sorted({1 if name != "byte" else 0, value // 2, value - 1}):
            if (1 if name != "byte" else 0) <= smaller < value:
                yield _with(each, name, str(smaller))


def _with(each: Step, name: str, value: str) -> Step:
    return each._replace(values=tuple((k, value if k == name else v) for k, v in each.values))
