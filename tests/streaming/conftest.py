from __future__ import annotations

import pytest

from reput.streaming.source.datasource import register
from reput.streaming.spark.session import build_session
from tests.builders.brokers import Broker
from tests.builders.stores import config_of, name_batch_topics


@pytest.fixture(scope="session")
def spark():
    """Return a session that knows the source; starting one takes longer than most tests."""
    session = build_session("tests", "local[2]")
    register(session)
    yield session
    session.stop()


@pytest.fixture
def made(tmp_path):
    """Return what makes a broker and the configuration of a dispatcher on its store."""

    def make(seed: int = 1, traits=None, **conf):
        broker = Broker(tmp_path / "store", seed, **(traits or {}))
        name_batch_topics(broker.store, "batches")
        return broker, config_of(broker.store, tmp_path / "out", **conf)

    return make
