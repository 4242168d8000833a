"""What does not belong together is not served in silence."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import locks
from reput.formats.errors import StoreError
from reput.stores.query.message_store import MessageStore
from reput.streaming.cli.serve import queue_holes
from reput.streaming.cli.serve.belongs import doubts, refuse_strangers, touched
from reput.streaming.cli.serve.queue_holes import hole
from tests.builders.served import dispatched, messages
from tests.builders.stores import config_of


@pytest.fixture
def made(tmp_path):
    """
    Return two stores with their outputs, as configurations.
    """
    for name, size in (("a", 40), ("b", 61)):
        dispatched(messages(20, queues=2, size=size), tmp_path / name).close()
    return [config_of(tmp_path / name / "store", tmp_path / name / "out") for name in ("a", "b")]


def check(config) -> None:
    with MessageStore.open(config.path, config.output, config.settings) as store:
        refuse_strangers(config, store)


def test_queues_of_another_store_are_refused(made, tmp_path):
    one, other = made
    copied = tmp_path / "copied"
    shutil.copytree(other.output / "consumequeue", copied / "consumequeue")

    with pytest.raises(StoreError, match="belongs to another store"):
        check(config_of(one.path, copied))
    check(config_of(other.path, copied))


def test_queues_of_a_longer_log_are_refused(made, tmp_path):
    dispatched(messages(400, queues=2, size=80), tmp_path / "long").close()
    copied = tmp_path / "copied"
    shutil.copytree(tmp_path / "long" / "out" / "consumequeue", copied / "consumequeue")
    for queue in ("0", "1"):
        (copied / "consumequeue" / "t" / queue / f"{0:020d}").unlink()

    with pytest.raises(StoreError, match="belongs to another store"):
        check(config_of(made[0].path, copied))


def test_an_output_of_another_version_is_doubted(made):
    one = made[0]
    assert doubts(one) is None
    said = doubts(config_of(one.path, one.output, "4.9"))
    assert "made as by a broker 5.5" in said
    assert "give --broker-version 5.5" in said


@pytest.mark.parametrize("what", ["file", "queue"])
def test_a_file_of_an_output_that_is_gone_is_said(made, what):
    """
    A pull passes over it as at a broker, so that nobody would notice what was not consumed.
    """
    one = made[0]
    assert touched(one, 0) is None
    queue = one.output / "consumequeue" / "t" / "1"
    if what == "queue":
        shutil.rmtree(queue)
    else:
        min(queue.iterdir()).unlink()
    said = touched(one, 0)

    assert f"clients may miss messages of {one.output}: {queue}" in said
    assert "reput rebuild --repair" in said


def test_an_output_that_is_being_repaired_is_not_whole_yet(made):
    """
    A repair may be killed. One that has put the file back, or a job that dispatches after it, has not
    to end first.
    """
    one = made[0]
    queue = one.output / "consumequeue" / "t" / "1"
    queue.rename(one.output / "kept")
    said = touched(one, 0)
    with locks.lock_output(one.output / progress.STATE_DIRECTORY):
        assert touched(one, 0) is None
        assert touched(one, 0, said) == said
        (one.output / "kept").rename(queue)
        assert touched(one, 0, said) is None


def test_an_index_of_another_version_is_doubted(tmp_path):
    """
    5.4 and 5.5 index tags, which 4.9 does not.
    """
    big = {"maxIndexNum": "1000"}
    dispatched(messages(40), tmp_path / "c", **big).close()
    one = config_of(tmp_path / "c" / "store", tmp_path / "c" / "out", **big)
    for name in ("consumequeue", "index"):
        shutil.copytree(one.output / name, one.path / name)
    (tmp_path / "copied").mkdir()
    said = doubts(config_of(one.path, tmp_path / "copied", "4.9", **big))
    assert "items for tags" in said
    assert "--any-version" not in said


def test_a_file_that_is_missing_in_a_queue_of_the_broker_s_own_is_said(tmp_path):
    """
    A copy that is not whole: a broker passes over what the file had, and the lag of groups is 0.
    """
    store = dispatched(messages(40), tmp_path)
    store.close()
    shutil.move(tmp_path / "out" / "consumequeue", tmp_path / "store" / "consumequeue")
    one = config_of(tmp_path / "store", tmp_path / "out")
    one = dataclasses.replace(one, output=tmp_path / "store")
    queue = tmp_path / "store" / "consumequeue" / "t" / "0"
    first, second, third, *_ = sorted(queue.iterdir())

    assert touched(one, 0) is None
    # Expired.
    first.unlink()
    assert touched(one, 0) is None

    third.rename(tmp_path / "away")
    said = touched(one, 0)
    assert said.startswith("clients may miss messages of")
    assert f"{third}: no such file" in said

    # All that was in it, and the first message of the file after it, stand before the log's begin.
    fourth = sorted(queue.iterdir())[1]
    floor = int.from_bytes(fourth.read_bytes()[:8], "big")
    assert touched(one, floor) is None
    assert touched(one, floor - 1) == said

    (tmp_path / "away").rename(third)
    assert touched(one, 0, said) is None
    assert second.exists()


def test_a_file_that_expires_during_a_look(tmp_path, monkeypatch):
    """
    All before it have then, too, and nothing is said.
    """
    dispatched(messages(40), tmp_path).close()
    one = config_of(tmp_path / "store", tmp_path / "out")
    queue = one.output / "consumequeue" / "t" / "0"
    first, second, third, *_ = sorted(queue.iterdir())
    second.unlink()
    assert hole(one.output, one.settings) == str(second)
    listed = queue_holes._listed

    def expiring(directory):
        yield from listed(directory)
        for each in (first, third):
            each.unlink()

    monkeypatch.setattr(queue_holes, "_listed", expiring)
    assert hole(one.output, one.settings) is None
    assert not third.exists()
