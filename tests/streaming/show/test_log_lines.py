"""Log lines of a start, as an operator reads them."""

from __future__ import annotations

import logging
from types import SimpleNamespace

from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.show.log_lines import report_openings
from reput.streaming.writers.opening import events_of
from tests.builders.brokers import Broker
from tests.builders.stores import config_of


def test_what_an_opening_rolled_back_is_said_as_a_writer_says_it_later(tmp_path, caplog):
    """
    A writer tells it of a later opening.
    """
    broker = Broker(tmp_path / "store", 1)
    broker.append(60)
    config = config_of(broker.store, tmp_path / "out")
    killed = StoreDispatcher(config, flush=FlushPolicy(thorough_seconds=3600))
    killed.dispatch(broker.log.end)
    killed.abandon()
    dispatcher = StoreDispatcher(config)
    log, handler = logging.getLogger("reput"), logging.NullHandler()
    log.addHandler(handler)
    try:
        report_openings(SimpleNamespace(dispatchers={"a": dispatcher}))
        said = [record.getMessage() for record in caplog.records if hasattr(record, "store")]

        assert said == [f"a: {event}" for event in events_of(dispatcher)]
        assert "entries and" in said[0]
        assert {record.event for record in caplog.records} == {"recovery"}
    finally:
        log.removeHandler(handler)
        dispatcher.close()
