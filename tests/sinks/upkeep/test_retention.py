"""Expired files of an output go, as a broker's do; what is left is what it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import changes, recording
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.sinks.upkeep.retention import expired_files, firsts_without
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.verify.output import verify
from tests.builders.stores import (
    LOG_FILE,
    QUEUE_FILE,
    Log,
    config_of,
    files_of,
    fill,
    name_batch_topics,
)

if TYPE_CHECKING:
    from pathlib import Path

EXT = {"enableConsumeQueueExt": "true"}


def remove_expired(config, begin: int) -> list[Path]:
    """Remove what has expired in an output, and record that first as a job does; return it."""
    found = expired_files(config.output, config.settings, begin)
    firsts = firsts_without(config.output, config.settings, found)
    record = progress.load(config.output)
    recording.save(config.output, replace(record, firsts=record.firsts | firsts))
    for path in found:
        path.unlink()
    return found


def expire(log: Log, store, files: int) -> int:
    """Remove the log's oldest files as a broker does; return where it begins then."""
    for number in range(files):
        (store / names.COMMITLOG / names.offset_file(number * LOG_FILE)).unlink()
    return files * LOG_FILE


@pytest.fixture
def made(tmp_path):
    log = fill(Log(), 5, 200, batches=True)
    name_batch_topics(log.write(tmp_path / "store"), "batches")
    config = config_of(tmp_path / "store", tmp_path / "out", **EXT)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    return log, config


def last_offsets(root) -> dict[str, int]:
    """Return the physical offset in the last entry of each full consume queue file."""
    found = {}
    for path in (root / "consumequeue").rglob("0*"):
        if path.is_file() and (raw := path.read_bytes()[QUEUE_FILE - 20 :])[8:12] != bytes(4):
            found[str(path.relative_to(root))] = int.from_bytes(raw[:8], "big")
    return found


@pytest.mark.parametrize("files", [3, 5, 6])
def test_the_files_that_hold_nothing_else_go(made, files):
    log, config = made
    before, ends = files_of(config.output), last_offsets(config.output)
    begin = expire(log, config.path, files)
    removed = remove_expired(config, begin)
    after = files_of(config.output)
    gone = {str(path.relative_to(config.output)) for path in removed}
    queues = {name for name in gone if name.startswith("consumequeue/")}
    newest = {max(n for n in before if n.rpartition("/")[0] == q.rpartition("/")[0]) for q in ends}

    assert queues == {name for name, end in ends.items() if end < begin} - newest
    assert queues
    kept = {name for name in before if not name.startswith("index") and name not in gone}
    assert kept == {name for name in after if not name.startswith("index")}
    assert all(after[name] == before[name] for name in kept)
    assert verify(config).ok


def test_the_newest_file_stays_whatever_is_in_it(made):
    _, config = made
    remove_expired(config, 1 << 50)
    left = files_of(config.output)
    directories = [name.rpartition("/")[0] for name in left]

    assert {d for d in directories if not d.startswith("consumequeue_ext")} == {
        d for d in directories if directories.count(d) == 1 and not d.startswith("consumequeue_ext")
    }
    assert [name for name in left if name.startswith("index")] == ["index/0"]


def test_nothing_goes_while_nothing_has_expired(made):
    _, config = made

    assert remove_expired(config, 0) == []


def test_a_job_does_it_after_a_flush_and_goes_on(tmp_path):
    log = Log()
    for number in range(300):
        log.append(Message("t", body=bytes(40), queue_offset=number))
    store = log.write(tmp_path / "store")
    config = config_of(store, tmp_path / "out")
    dispatcher = StoreDispatcher(
        config, flush=FlushPolicy(is_sync=True), removes_expired=True, fail_on_data_loss=False
    )
    half = log.places[150].end
    dispatcher.dispatch(half)
    begin = expire(log, store, half // LOG_FILE)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    bases = sorted(int(path.name) for path in (config.output / "consumequeue/t/0").iterdir())
    first = next(n for n, place in enumerate(log.places) if place.position >= begin)

    assert bases[0] == first * 20 // QUEUE_FILE * QUEUE_FILE
    assert bases[-1] == 299 * 20 // QUEUE_FILE * QUEUE_FILE
    again = StoreDispatcher(config)
    again.dispatch(log.end)
    again.close()
    assert verify(config).ok


def test_a_job_removes_nothing_before_that_is_recorded(tmp_path, monkeypatch):
    """
    A kill between any two removals leaves a record that does not name the files that are gone; what
    it names is on disk.
    """
    log = fill(Log(), 5, 200)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config, removes_expired=True)
    dispatcher.dispatch(log.end)
    dispatcher.flush()
    expire(log, config.path, 3)
    steps, remove, flush = [], changes.remove_file, dispatcher.parts.output.flush

    def removed(path):
        name = path.parent.relative_to(config.output).as_posix()
        if path.name != names.ABORT:
            steps.append("remove")
        if name.startswith(names.CONSUMEQUEUE):
            firsts = progress.load(config.output).firsts
            assert firsts[name] >= int(path.name) + config.settings.consumequeue_file_size
        remove(path)

    def flushed():
        steps.append("flush")
        flush()

    monkeypatch.setattr("reput.checkpoints.disk.changes.remove_file", removed)
    monkeypatch.setattr(dispatcher.parts.output, "flush", flushed)
    dispatcher.dispatch(log.end)
    dispatcher.close()

    assert steps[0] == "flush"
    assert len(steps) > 1
    assert set(steps[1:]) == {"remove"}
    assert verify(config).ok
