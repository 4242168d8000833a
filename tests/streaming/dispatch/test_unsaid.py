"""What a batch has to say is said though it ends with an error: what is lost is never lost silently."""

from __future__ import annotations

import logging

import pytest

from reput.formats.errors import UnreadableError
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import GAP, TRUNCATION, kind_of_event
from reput.streaming.job.job import Job
from reput.streaming.writers.job_options import JobOptions
from tests.builders.brokers import Broker
from tests.builders.stores import LOG_FILE, config_of

UNREADABLE = Message("t", properties=b"INNER_NUM\x0140000\x02INNER_BASE\x011\x02")


@pytest.fixture
def cut(tmp_path):
    """Return a function that cuts a log that is dispatched, up to a record that none can read."""
    broker = Broker(tmp_path / "store")
    broker.append(60)

    def cut(kept: int, *, expires: bool = False) -> int:
        broker.recover(broker.log.places[kept].position)
        broker.append(3, now=broker.messages.now + 9000)
        end = broker.put(UNREADABLE)
        if expires:
            (broker.store / "commitlog" / f"{0:020d}").unlink()
        return end

    return broker, config_of(broker.store, tmp_path / "out"), cut


def test_a_batch_that_fails_keeps_what_it_had_to_say(cut):
    """
    The output went back to where the log is the same, and stopped soon after.
    """
    broker, config, cut_log = cut
    dispatcher = StoreDispatcher(config)
    try:
        for place in broker.log.places:
            dispatcher.dispatch(place.end)
        with pytest.raises(UnreadableError):
            dispatcher.dispatch(cut_log(10))
        (ended,) = dispatcher.take_ended()

        assert [kind_of_event(event) for event in ended.events] == [TRUNCATION]
        assert dispatcher.take_ended() == []
    finally:
        dispatcher.close()


@pytest.mark.parametrize("comes", ["with a batch", "between two"])
def test_a_job_says_what_is_lost_before_it_ends_with_an_error(cut, caplog, monkeypatch, comes):
    """
    Its output begins again, as no point is left that both logs have, and what has expired is gone.
    """
    broker, config, cut_log = cut
    monkeypatch.setattr("reput.streaming.dispatch.log.following._FOLLOW_SECONDS", 0)
    kept = next(i for i, p in enumerate(broker.log.places) if p.position >= LOG_FILE) + 1
    job = Job([config], JobOptions(available_now=True))
    try:
        job._dispatch({config.name: broker.log.end}, 0)
        end = cut_log(kept, expires=True)
        with caplog.at_level(logging.WARNING, "reput"), pytest.raises(UnreadableError):
            job._tend() if comes == "between two" else job._dispatch({config.name: end}, 1)
    finally:
        job._close()

    assert [each.event for each in caplog.records] == [GAP, TRUNCATION]
    assert f"physical offsets 0 to {LOG_FILE} are lost" in caplog.text
    (summary,) = job.summary.stores
    assert [kind_of_event(event) for event in summary.events] == [GAP, TRUNCATION]
