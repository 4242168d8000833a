from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker that all tests of a worker share; each uses topics of its own."""
    running = Broker(tmp_path_factory.mktemp("kafka"))
    running.start()
    yield running
    running.stop()
