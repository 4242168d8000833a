from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

import pytest

from reput.formats.rocketmq import names
from reput.streaming.source.datasource import register
from reput.streaming.spark.session import build_session
from tests.builders.brokers import Broker
from tests.builders.stores import config_of, name_batch_topics

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.fixture
def held(tmp_path):
    """Return what holds a store's lock in another process, as a broker does, and lets it go."""
    children = []

    def hold(store: Path):
        path = store / names.LOCK
        path.touch()
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            with path.open("r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
                os.write(go, b"x")
                while True:
                    signal.pause()
        children.append(child)
        assert os.read(ready, 1) == b"x"

        def let_go() -> None:
            children.remove(child)
            os.kill(child, 9)
            os.waitpid(child, 0)

        return let_go

    yield hold
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
