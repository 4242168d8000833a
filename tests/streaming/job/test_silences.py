"""A writer that is not seen to work is said once, and that it works again."""

from __future__ import annotations

import time

import pytest

from reput.streaming.events import RESUMED, SILENT
from reput.streaming.job.silences import Silences
from reput.streaming.observe.stores import SILENT_SECONDS
from reput.streaming.writers.executors.known_writer import KnownWriter
from reput.streaming.writers.executors.orders import ExecutorWriters
from reput.streaming.writers.executors.protocol import Spec
from reput.streaming.writers.job_options import JobOptions
from tests.builders.brokers import Broker
from tests.builders.stores import config_of


@pytest.fixture
def writers(tmp_path):
    """The driver's side of one store's writer, which was just heard of."""
    broker = Broker(tmp_path / "store", 1)
    broker.append(3)
    config = config_of(broker.store, tmp_path / "out")
    made = ExecutorWriters([config], JobOptions())
    made._writers = {config.name: KnownWriter(Spec.of("job", config, JobOptions()))}
    return made, config


def test_a_silent_writer_is_said_once_and_that_it_works_again(writers, caplog):
    made, config = writers
    known = made._writers[config.name]
    silences = Silences(made, {config.name: config.output})
    for silence in (0, SILENT_SECONDS - 5, SILENT_SECONDS + 1, 300, 0, 0, SILENT_SECONDS + 1):
        known.answered_at = time.monotonic() - silence
        silences.look(config.name)

    said = [(each.levelname, each.event, each.store) for each in caplog.records]
    silent = ("ERROR", SILENT, config.name)
    assert said == [silent, ("WARNING", RESUMED, config.name), silent]
    assert f"{config.output}: its writer has not moved for 21 s" in caplog.text


def test_a_store_that_has_failed_is_told_by_its_error(writers, caplog):
    made, config = writers
    known = made._writers[config.name]
    known.answered_at = time.monotonic() - 300
    known.failure = OSError(28, "No space left on device")
    Silences(made, {config.name: config.output}).look(config.name)

    assert not caplog.records
