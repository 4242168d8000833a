"""Random histories of a log; many more by `python -m tests.histories.run`."""

from __future__ import annotations

import pytest

from tests.histories import generate
from tests.histories.run import KINDS, run
from tests.histories.shrink import shrink
from tests.histories.steps import parse, parse_history, show, step

_FIXED = 2
_MODELLED = 80


def check(seed: int, count: int, version: str = "") -> None:
    who = f"--real {version} " if version else ""
    print(f"again: python -m tests.histories.run {who}--seed {seed} --histories {count}")
    result = run(seed, range(count), version)

    assert [str(failure) for failure in result.failures] == []
    assert result.histories == count
    assert result.outcome.checks["output"] > count
    assert result.outcome.checks["stream"] > 0
    assert result.outcome.checks["verify"] > 0


@pytest.mark.parametrize("seed", [_FIXED], ids=["fixed"])
def test_output_and_answers_are_those_of_the_log(seed: int) -> None:
    """
    However a log is cut, written over, torn and expired, and our side stopped, killed, paused and
    damaged: what is there at rest is what the log says, or an error said why not.
    """
    check(seed, _MODELLED)


def test_every_kind_of_step_is_drawn() -> None:
    """
    A kind that never came up would be a promise that nobody looks at.
    """
    drawn = set()
    for number in range(400):
        for each in generate.history(_FIXED, number):
            drawn |= {each.name, *(inner.name for inner in each.inner)}

    assert drawn >= KINDS


def test_a_history_can_be_read_back() -> None:
    """
    What a failure prints is what a test of it is made of.
    """
    for number in range(200):
        history = generate.history(_FIXED, number)
        assert parse_history(show(history)) == history
        assert history == generate.history(_FIXED, number)


def test_shrinking_leaves_what_it_takes() -> None:
    """
    Steps that have no part in a failure go, and so do counts that need not be that high.
    """
    history = [step("start"), *(step("put", count=9) for _ in range(6)), step("truncate", back=8)]
    history[3] = parse("pause at=parsed number=1 { put count=2; truncate back=5; put count=3 }")

    def fails(candidate: list) -> bool:
        inner = [each for pause in candidate for each in pause.inner]
        return any(each.name == "truncate" and each.number("back") > 2 for each in inner)

    assert show(shrink(history, fails)) == "pause at=parsed number=1 { truncate back=3 }"
