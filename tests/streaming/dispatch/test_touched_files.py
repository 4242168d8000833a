"""Files that are removed or replaced under a writer: it says so, and records nothing of them."""

from __future__ import annotations

import shutil

import pytest

from reput.checkpoints import progress
from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.brokers import Broker
from tests.builders.slow_twins import differences
from tests.builders.stores import config_of, files_of, name_batch_topics

KINDS = [names.CONSUMEQUEUE, names.CONSUMEQUEUE_EXT, names.BATCH_CONSUMEQUEUE, names.INDEX]
TRAITS = {"enableConsumeQueueExt": "true"}


@pytest.fixture
def written(tmp_path):
    """A broker with 60 messages, the configuration of its store, and a dispatcher that has them."""
    broker = Broker(tmp_path / "store", 5, multi=True, batches=True)
    name_batch_topics(broker.store, "batches")
    config = config_of(broker.store, tmp_path / "out", **TRAITS)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(broker.append(60))
    dispatcher.flush()
    yield broker, config, dispatcher
    dispatcher.close()


def dispatch_and_flush(dispatcher: StoreDispatcher, end: int) -> None:
    dispatcher.dispatch(end)
    dispatcher.flush()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_removed_is_found_by_the_next_flush_and_not_recorded(written, kind):
    """
    The writer's maps are of files without a name: nothing that it writes there is kept.
    """
    broker, config, dispatcher = written
    recorded = dispatcher.recorded_end
    shutil.rmtree(config.output / kind)

    with pytest.raises(StoreError, match="removed"):
        dispatch_and_flush(dispatcher, broker.append(60))
    dispatcher.close()
    assert progress.load(config.output).end == recorded
    with pytest.raises(StoreError, match="repair"):
        StoreDispatcher(config)


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_a_queue_that_was_removed_before_it_was_opened_does_not_begin_again(written, kind):
    """
    It would get empty entries in place of those that are gone, and the next start would take it.
    """
    broker, config, dispatcher = written
    dispatcher.close()
    again = StoreDispatcher(config)
    recorded = again.recorded_end
    shutil.rmtree(config.output / kind)

    with pytest.raises(StoreError, match="the queue has 0 bytes, expected"):
        again.dispatch(broker.append(60))
    again.close()
    assert progress.load(config.output).end == recorded


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_a_copy_has_replaced_are_taken_at_the_next_opening(written, kind):
    broker, config, dispatcher = written
    copy = shutil.copytree(config.output / kind, config.output / "copy")
    shutil.rmtree(config.output / kind)
    copy.rename(config.output / kind)

    with pytest.raises(StoreError, match="not the file that is being written"):
        dispatch_and_flush(dispatcher, broker.append(60))
    dispatcher.close()
    again = StoreDispatcher(config)
    again.dispatch(broker.append(1))
    again.close()
    assert not differences(files_of(config.output), broker.expected(config.settings))
