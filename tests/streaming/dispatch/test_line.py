"""The line as a whole: what a store lacks leaves no trace in it, and long batches leave points."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest

from reput.checkpoints import progress
from reput.formats.errors import KafkaError
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.stopwatch import PHASES
from reput.streaming.settings.config import FlushPolicy
from tests.builders.stores import Log, config_of, fill


@pytest.fixture
def log(tmp_path):
    return fill(Log(), 5, 200)


def test_a_store_without_index_and_kafka_has_null_objects(tmp_path, log):
    """
    Nothing asks for them: an index that never fills, a Kafka that is never behind.
    """
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out", messageIndexEnable="false")
    dispatcher = StoreDispatcher(config)
    batch = dispatcher.dispatch(log.end)
    dispatcher.flush()
    phases = batch.phases | dispatcher.take_phases()
    dispatcher.close()

    assert (batch.items, batch.index_files) == (0, 0)
    assert (dispatcher.index.fill, list(dispatcher.index.names)) == (0.0, [])
    assert dispatcher.kafka is None
    assert set(phases) == set(PHASES) - {"index"}
    assert not (config.output / "index").exists()


def test_a_long_batch_sets_points_on_its_way(tmp_path, log, monkeypatch):
    """
    A log that is cut in what a batch of gigabytes has read costs no more than from the last point.
    """
    monkeypatch.setattr("reput.streaming.dispatch.books._POINT_BYTES", 4096)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config)
    dispatcher.pipeline.block_size = 1024
    dispatcher.dispatch(log.end)
    ends = [point.end for point in dispatcher.progress.trail]
    dispatcher.close()

    assert ends[-1] == log.end
    assert len(ends) > 2
    assert all(after > before for before, after in pairwise(ends))


@pytest.mark.parametrize(
    ("part", "method", "error", "counted"),
    [
        # Closing records the first; the second leaves files that are rolled back.
        ("kafka", "check", KafkaError("away for too long"), [200]),
        ("output", "flush", OSError(errno.EIO, "Input/output error"), []),
    ],
)
def test_what_is_dispatched_before_a_flush_that_fails_is_counted_as_far_as_it_stays(
    tmp_path, log, monkeypatch, part, method, error, counted
):
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config, flush=FlushPolicy(is_sync=True))

    def fail() -> None:
        raise error

    monkeypatch.setattr(getattr(dispatcher.parts, part), method, fail)
    with pytest.raises(type(error)):
        dispatcher.dispatch(log.end)
    ended = [batch for batch in dispatcher.take_ended() if batch.bytes]
    dispatcher.close()

    assert [batch.messages for batch in ended] == counted
    known = progress.load(config.output)
    assert (known.messages if known is not None else 0) == sum(counted)
