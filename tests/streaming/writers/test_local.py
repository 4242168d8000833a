"""Outputs that the job's own process writes: one after another, each with its own error."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reput.checkpoints import progress
from reput.formats.errors import FormatError
from reput.formats.rocketmq import names
from reput.streaming.writers.executors.protocol import Order, Spec
from reput.streaming.writers.job_options import JobOptions
from reput.streaming.writers.local import LocalWriters
from reput.streaming.writers.options import WriterOptions
from reput.streaming.writers.state import State
from tests.builders.stores import LOG_FILE, Log, config_of, fill


@pytest.fixture
def stores(tmp_path):
    """Three stores of 60 messages, by name, with their logs."""
    found = {}
    for seed, name in enumerate("abc"):
        log = fill(Log(), seed, 60)
        config = config_of(log.write(tmp_path / name), tmp_path / f"out-{name}")
        found[name] = (replace(config, name=name), log)
    return found


@pytest.fixture
def opened(stores):
    """All of them open, and the blocks that they have reported."""
    blocks = []
    writers = LocalWriters(
        [config for config, _ in stores.values()],
        WriterOptions(sync_flush=True),
        observe=lambda store, block: blocks.append((store, block.count)),
        is_over=lambda: False,
    )
    yield writers, blocks
    writers.close()


def test_each_store_is_dispatched_and_says_where_it_is(stores, opened):
    writers, blocks = opened
    ends = {name: log.end for name, (_, log) in stores.items()}
    results = list(writers.dispatch(ends))

    assert [(each.store, each.error) for each in results] == [(name, None) for name in "abc"]
    for name, end in ends.items():
        state = writers.state(name)
        assert (writers.end(name), state.recorded_end, state.holds) == (end, end, False)
        assert sum(count for store, count in blocks if store == name) == 60


def test_a_store_that_has_failed_stops_no_other(stores, opened):
    """
    Its error carries the place; what was dispatched before it is kept, and it is not tried again.
    """
    writers, _ = opened
    config, log = stores["b"]
    place = log.places[20]
    path = config.path / names.COMMITLOG / names.offset_file(place.position // LOG_FILE * LOG_FILE)
    raw = bytearray(path.read_bytes())
    raw[place.position % LOG_FILE + 4] ^= 1
    path.write_bytes(raw)
    results = list(writers.dispatch({name: log.end for name, (_, log) in stores.items()}))

    assert [(each.store, type(each.error)) for each in results] == [
        ("a", type(None)),
        ("b", FormatError),
        ("c", type(None)),
    ]
    assert results[1].error.position == place.position % LOG_FILE
    ends = [stores["a"][1].end, place.position, stores["c"][1].end]
    assert [writers.end(name) for name in "abc"] == ends
    assert [writers.failure(name) for name in "abc"] == [None, results[1].error, None]
    again = writers.dispatch({name: log.end for name, (_, log) in stores.items()})
    assert [each.store for each in again] == ["a", "c"]


def test_what_is_due_is_done_for_all(stores, opened):
    writers, _ = opened
    list(writers.dispatch({name: log.end for name, (_, log) in stores.items()}))

    assert [(each.store, each.error) for each in writers.tend()] == [(n, None) for n in "abc"]
    assert [each.store for each in writers.look_for_flaws()] == ["a", "b", "c"]
    assert list(writers.drain_kafka()) != []
    writers.close()
    for config, log in stores.values():
        known = progress.load(config.output)
        assert (known.end, known.clean) == (log.end, True)


def test_a_state_that_is_sent_lacks_only_what_is_long(stores, opened):
    writers, _ = opened
    list(writers.dispatch({"a": stores["a"][1].end}))
    state = State.of(writers.dispatchers["a"])
    sent = state.to_send()

    assert state.progress.queues
    assert not sent.progress.queues
    assert replace(sent, progress=state.progress) == state


def test_what_a_task_and_a_writer_say_arrives_whole(stores):
    """
    As JSON: a writer of another job may be of another version of this program.
    """
    config, _ = stores["a"]
    options = JobOptions(flush_seconds=2.5, skips_corrupt=True, available_now=True)
    spec = Spec.of("job", config, options)
    order = Order("dispatch", 5, seen=("writer", 3), counted=(4, 2))

    assert Spec.read(spec.written) == spec
    assert spec.options == WriterOptions(flush_seconds=2.5, skips_corrupt=True)
    came = Order(**json.loads(json.dumps(order._asdict())))
    assert came == order._replace(seen=["writer", 3], counted=[4, 2])
