"""Two threads take turns: a batch of Spark's does not begin while the query is being ended."""

from __future__ import annotations

import threading

import pytest

from reput.streaming.job.turns import Turns


@pytest.fixture
def turns():
    return Turns()


def test_a_batch_is_ours_until_the_job_is_asked_to_end(turns):
    with turns.batch() as is_ours:
        assert is_ours
    turns.ending.set()
    with turns.batch() as is_ours:
        assert not is_ours


def test_a_batch_that_fails_gives_its_turn_back(turns):
    with pytest.raises(OSError, match="full"), turns.batch():
        raise OSError("full")

    with turns.batch() as is_ours:
        assert is_ours


def test_the_end_waits_for_the_batch_that_lasts_and_lets_it_know(turns):
    begun, seen = threading.Event(), []

    def last() -> None:
        with turns.batch():
            begun.set()
            seen.append(turns.ending.wait(60))

    batch = threading.Thread(target=last, daemon=True)
    batch.start()
    assert begun.wait(60)
    with turns.after_last_batch():
        assert seen == [True]
    batch.join(60)


def test_a_batch_that_comes_during_the_end_does_not_wait_for_it(turns):
    """
    Spark's `stop` waits for that batch: neither would end.
    """
    seen: list[bool] = []

    def late() -> None:
        with turns.batch() as is_ours:
            seen.append(is_ours)

    with turns.after_last_batch():
        batch = threading.Thread(target=late, daemon=True)
        batch.start()
        batch.join(60)
        assert seen == [False]
