"""When a log is at rest: then a last record that ends with a zero is whole, before it may be torn."""

from __future__ import annotations

import os
import time

import pytest

from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.stores.findings import Report
from reput.stores.following.log_end import EndedLog
from reput.stores.log import files
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.stores.query.message_store import MessageStore
from reput.streaming.source.offsets import StoreOffsets
from reput.streaming.source.options import parse
from tests.builders.stores import SMALL, Log, config_of

HOUR_NS = 3_600_000_000_000


@pytest.fixture
def made(tmp_path):
    """Return a store's configuration, the last record's place, and the log's file."""
    log = Log()
    for number in range(5):
        log.append(Message("t", queue_offset=number, properties={"TAGS": "a"}))
    store = log.write(tmp_path / "store")
    path = store / names.COMMITLOG / names.offset_file(0)
    raw = bytearray(path.read_bytes())
    # The broker has copied the properties in part.
    place = log.places[-1]
    raw[place.end - 1] = 0
    path.write_bytes(raw)
    return config_of(store, tmp_path / "output"), place, path


def planned(config) -> StoreOffsets:
    options = parse({"path": str(config.path), **{f"broker.{k}": v for k, v in SMALL.items()}})
    return StoreOffsets(options.stores[0])


def age(path, nanoseconds: int) -> None:
    moment = time.time_ns() - nanoseconds
    os.utime(path, ns=(moment, moment))


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("is_young", [True, False])
def test_by_lock_marker_and_times(made, monkeypatch, is_held, is_marked, is_young):
    """
    A broker that holds the lock writes. Where its marker stands and its lock cannot be seen it may
    be one of another host, so the files tell. A store that was closed is at rest at once. What
    dispatches and what reads find the same end.
    """
    config, place, path = made
    monkeypatch.setattr("reput.stores.log.broker_lock.is_held", lambda lock: is_held)
    if is_marked:
        (config.path / names.ABORT).touch()
    age(path, 0 if is_young else HOUR_NS)
    is_at_rest = not is_held and not (is_marked and is_young)
    directories = commitlog_directories(config.path, config.settings)
    log = CommitLog(directories, config.settings, config.path)
    read = EndedLog(directories, config.settings, Report(), config.path)

    assert log.is_at_rest() is is_at_rest
    assert log.is_quiet() is (not is_held and not is_young)
    assert find_tail(log).end == (place.end if is_at_rest else place.position)
    assert read.end() == find_tail(log).end
    for is_compiled in (False, True):
        opened = MessageStore.open(config.path, None, config.settings, is_compiled=is_compiled)
        with opened as store:
            assert store.log.end() == read.end()


def test_of_an_unknown_store_the_times_tell(made):
    config, _, path = made
    for nanoseconds, expected in ((0, False), (HOUR_NS, True), (-HOUR_NS, True)):
        age(path, nanoseconds)
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
        assert log.is_at_rest() is expected


def test_a_plan_waits_until_a_killed_broker_s_log_is_at_rest(made, monkeypatch):
    """
    Its last record would be left out else, and the plan's end called the log's.
    """
    config, place, path = made
    (config.path / names.ABORT).touch()
    age(path, 0)
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if seconds > 1:
            age(path, HOUR_NS)

    monkeypatch.setattr(files.time, "sleep", sleep)
    log = planned(config)
    log.freeze()

    assert log.end() == place.end
    assert [seconds for seconds in slept if 2 < seconds <= 3]


def test_a_plan_does_not_wait_for_a_broker_that_runs(made, monkeypatch):
    config, place, _ = made
    monkeypatch.setattr("reput.stores.log.broker_lock.is_held", lambda lock: True)
    log = planned(config)
    log.freeze()

    assert log.end() == place.position
