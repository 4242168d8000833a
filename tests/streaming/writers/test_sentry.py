"""Logs at rest that one thread looks after, for all stores of a process."""

from __future__ import annotations

import threading
import time

import pytest

from reput.streaming.writers.sentry import Sentry
from tests.builders.brokers import Broker
from tests.streaming.writers.test_live_tail import follow, settled

LONG = 30.0


@pytest.fixture
def sentry():
    made = Sentry()
    made.start()
    yield made
    made.end()


@pytest.fixture
def resting(tmp_path):
    """Return a broker, and the end of its log, which is at rest."""
    broker = Broker(tmp_path / "store", 1)
    broker.append(3)
    tail = follow(broker)
    settled(tail)
    # No thorough look is due while this is tested.
    tail._looks_at = time.monotonic() + LONG
    return broker, tail


class Rest:
    """A store's thread that rests."""

    def __init__(self, sentry, tail, seconds: float) -> None:
        self.post = sentry.post()
        self.thread = threading.Thread(
            target=sentry.rest, args=(self.post, tail, seconds), daemon=True
        )
        self.thread.start()

    def is_over(self, within: float) -> bool:
        self.thread.join(within)
        return not self.thread.is_alive()


def test_it_lasts_while_nothing_comes_and_ends_with_the_first_record(sentry, resting):
    broker, tail = resting
    rest = Rest(sentry, tail, LONG)

    assert not rest.is_over(0.3)
    broker.append(1)
    assert rest.is_over(10)


def test_it_ends_when_its_time_is_over(sentry, resting):
    assert Rest(sentry, resting[1], 0.05).is_over(10)


def test_a_log_that_went_ends_it(sentry, resting):
    """
    What is wrong with it is the store's own thread's to find.
    """
    broker, tail = resting
    rest = Rest(sentry, tail, LONG)
    tail._end = broker.log.end + (1 << 20)
    assert rest.is_over(10)


def test_where_the_sentry_hangs_at_one_store_the_others_look_for_themselves(sentry, resting):
    broker, tail = resting
    lets_go = threading.Event()

    class Hanging:
        def has_news(self) -> bool:
            return lets_go.wait(LONG)

    hung = Rest(sentry, Hanging(), LONG)
    rest = Rest(sentry, tail, LONG)
    try:
        # It is over at once, again and again, as the store's thread looks each time.
        assert rest.is_over(10)
        assert not hung.is_over(0.1)
    finally:
        lets_go.set()
    assert hung.is_over(10)
    assert broker.log.end == tail.look()
