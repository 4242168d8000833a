"""What is done while Spark starts: a log whose device hangs keeps no other store from its start."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace

import pytest

from reput.formats.errors import StoreError
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.job import preparation
from reput.streaming.job.preparation import Preparation
from tests.builders.brokers import Broker
from tests.builders.stores import config_of


@pytest.fixture
def stores(tmp_path):
    """Two brokers with 60 messages and the open outputs of their stores, by store."""
    with contextlib.ExitStack() as opened:
        found = {}
        for seed, name in enumerate("ab"):
            broker = Broker(tmp_path / name / "store", seed)
            broker.append(60)
            config = replace(config_of(broker.store, tmp_path / name / "out"), name=name)
            dispatcher = StoreDispatcher(config)
            opened.callback(dispatcher.close)
            found[name] = broker, dispatcher
        yield found


def preparation_of(stores, *, is_live: bool = True) -> Preparation:
    dispatchers = {name: dispatcher for name, (_, dispatcher) in stores.items()}
    return Preparation(dispatchers, skips_corrupt=False, is_live=is_live)


@pytest.fixture
def looks(monkeypatch):
    """Return a function that lets looks at a store's log do something first."""
    real = preparation.known_end

    def before(broker: Broker, do) -> None:
        def look(log, *args, **options):
            if log.directories[0].is_relative_to(broker.store):
                do(log)
            return real(log, *args, **options)

        monkeypatch.setattr(preparation, "known_end", look)

    return before


def test_nothing_is_waited_for_before_it_begins(stores):
    prepared = preparation_of(stores, is_live=False)
    prepared.wait_for_kernels()

    assert prepared.ends == {}


@pytest.mark.parametrize("is_live", [False, True])
def test_it_finds_where_logs_end(stores, is_live):
    prepared = preparation_of(stores, is_live=is_live)
    prepared.begin()
    prepared.wait_for_kernels()

    for name, (broker, _) in stores.items():
        assert prepared.ends[name].end == broker.log.end == prepared.end_of_log(name)


def test_a_log_that_hangs_keeps_neither_kernels_nor_other_logs_waiting(stores, looks, monkeypatch):
    """
    The first of two, which was looked at before all else.
    """
    monkeypatch.setattr(preparation, "_LOOK_SECONDS", 3.0)
    returns = threading.Event()
    looks(stores["a"][0], lambda _: returns.wait())
    prepared = preparation_of(stores)
    try:
        prepared.begin()
        loaded = threading.Thread(target=prepared.wait_for_kernels, daemon=True)
        loaded.start()
        loaded.join(60)

        assert not loaded.is_alive()
        assert set(prepared.ends) == {"b"}
    finally:
        returns.set()


def test_a_log_that_cannot_be_looked_at_is_left_to_the_planner(stores, looks):
    def fail(_) -> None:
        raise StoreError("/log", "it is away", "")

    looks(stores["a"][0], fail)
    prepared = preparation_of(stores, is_live=False)
    prepared.begin()

    assert set(prepared.ends) == {"b"}


def test_a_log_is_not_looked_at_through_what_dispatches_it(stores, looks):
    """
    The store may be followed before the look is over.
    """
    broker, dispatcher = stores["a"]
    seen = []
    looks(broker, seen.append)
    prepared = preparation_of(stores, is_live=False)
    prepared.begin()

    assert prepared.ends["a"].end == broker.log.end
    assert len(seen) == 1
    assert seen[0] is not dispatcher.log
    assert not seen[0]._open
