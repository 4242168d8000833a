"""Log lines of a start, as an operator reads them."""

from __future__ import annotations

import contextvars
import json
import logging
from types import SimpleNamespace

from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import CURRENT_STORE
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.show import log_lines
from reput.streaming.show.log_lines import log_to_stderr, report_openings
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


def test_lines_of_what_runs_for_one_store_say_so(capsys, monkeypatch):
    log = logging.getLogger("reput")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log_lines, "_HANDLER", None)
    log_to_stderr(as_json=True)

    def of_store():
        CURRENT_STORE.set("b0")
        log.warning("one")
        log.warning("another", extra={"store": "b1"})

    contextvars.copy_context().run(of_store)
    log.warning("of all")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert [line.get("store") for line in said] == ["b0", "b1", None]
