from __future__ import annotations

import fcntl
import logging
import os
import signal
from typing import TYPE_CHECKING

import pytest

from reput.formats.rocketmq import names
from reput.streaming.source.datasource import register
from reput.streaming.spark.session import build_session
from tests.builders import goldens as golden_stores
from tests.skips import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.builders.goldens import GoldenStore


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], GoldenStore]:
    """Return a function that gives a real broker's store: read it, or write to a copy of it."""
    directories = {}

    def load(version: str, scenario: str) -> GoldenStore:
        # Unpacked once a session, and once a worker of pytest-xdist.
        if version not in directories:
            target = tmp_path_factory.mktemp("goldens") / version
            directories[version] = golden_stores.unpack(version, target)
        return golden_stores.load(version, scenario, directories[version])

    return load


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with the source registered; all tests share it, because it takes seconds to start."""
    session = build_session("tests", master="local[2]")
    register(session)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _same_log():
    """Undo what a command that runs in this process did to our logger: tests share it."""
    log = logging.getLogger("reput")
    level, handlers, propagates = log.level, log.handlers[:], log.propagate
    yield
    log.setLevel(level)
    log.handlers[:], log.propagate = handlers, propagates


@pytest.fixture
def held() -> Iterator[Callable[[Path], Callable[[], None]]]:
    """Return what holds a store's lock in another process, as a broker does, and lets it go."""
    children: list[int] = []

    def hold(store: Path) -> Callable[[], None]:
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
