"""Random histories of a log; many more by `python -m tests.histories.run`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.histories import generate
from tests.histories.run import KINDS, run
from tests.histories.shrink import shrink
from tests.histories.steps import parse, parse_history, show, step

_FIXED = 1
# Histories of each test: 200 together.
_MODELLED = 82
_REAL = 12
_VERSIONS = ("4.9.8", "5.3.3", "5.5.0")


def check(seed: int, count: int, version: str = "") -> None:
    """Carry out histories of a seed; what it prints repeats them."""
    who = f"--real {version} " if version else ""
    print(f"again: python -m tests.histories.run {who}--seed {seed} --histories {count}")
    result = run(seed, range(count), version)

    assert [str(failure) for failure in result.failures] == []
    assert result.histories == count
    assert result.outcome.checks["output"] > count
    assert result.outcome.checks["stream"] > 0
    assert result.outcome.checks["verify"] > 0


def seed_of_commit() -> int:
    """Return a seed that each commit has another one of, the fixed one where there is no git."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return _FIXED
    return int(done.stdout.strip()[:8], 16)


@pytest.mark.parametrize("seed", [_FIXED, seed_of_commit()], ids=["fixed", "commit"])
def test_output_and_answers_are_those_of_the_log(seed: int) -> None:
    """
    However a log is cut, written over, torn and expired, and our side stopped, killed, paused and
    damaged: what is there at rest is what the log says, or an error said why not.
    """
    check(seed, _MODELLED)


@pytest.mark.oracle
@pytest.mark.parametrize("version", _VERSIONS)
def test_output_and_answers_are_those_of_a_real_broker(version: str) -> None:
    """
    The same, and the store classes of each version derive and answer what we do: histories of the
    fixed seed and of the commit's.
    """
    for seed in (_FIXED, seed_of_commit()):
        check(seed, _REAL // 2, version)


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
