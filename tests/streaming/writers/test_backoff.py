"""How long a failed store waits, and when it is well again."""

from __future__ import annotations

import pytest

from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.writers import backoff as backoff_module
from reput.streaming.writers.backoff import Backoff


@pytest.fixture
def opened(made):
    broker, config = made()
    broker.append(20)
    dispatcher = StoreDispatcher(config)
    yield broker, dispatcher
    dispatcher.close()


def dispatched_after_a_failure(broker, dispatcher, monkeypatch) -> Backoff:
    """Dispatch all, and flush nothing; return what is to flush it now."""
    backoff = Backoff()
    backoff.next()
    backoff.begin(dispatcher.recorded_end)
    dispatcher.dispatch(broker.log.end)
    monkeypatch.setattr(backoff_module, "_WELL_SECONDS", 0.0)
    return backoff


def test_waits_grow_up_to_the_longest():
    backoff = Backoff()
    assert [backoff.next() for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_store_is_well_again_once_it_was_flushed(opened):
    broker, dispatcher = opened
    backoff = Backoff()
    backoff.next(), backoff.next()
    backoff.begin(dispatcher.recorded_end)

    dispatcher.dispatch(broker.log.end)
    assert not backoff.is_well(dispatcher)
    dispatcher.flush()
    assert backoff.is_well(dispatcher)
    assert backoff.next() == 1.0


def test_one_that_was_not_flushed_for_a_while_is_flushed_for_that(opened, monkeypatch):
    broker, dispatcher = opened
    backoff = dispatched_after_a_failure(broker, dispatcher, monkeypatch)

    assert backoff.is_well(dispatcher)
    assert dispatcher.recorded_end == broker.log.end


def test_one_whose_flush_fails_is_not_well(opened, monkeypatch):
    broker, dispatcher = opened
    backoff = dispatched_after_a_failure(broker, dispatcher, monkeypatch)

    def refuse() -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(dispatcher.parts.output, "flush", refuse)
        with pytest.raises(OSError, match="No space"):
            backoff.is_well(dispatcher)
    assert backoff.next() == 2.0
