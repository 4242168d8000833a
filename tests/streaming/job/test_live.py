"""A job that stays at work: what it reads again, counts and forgets in the long run."""

from __future__ import annotations

import os
import threading
import time

import pytest

from reput.formats.rocketmq import names
from reput.stores.following import file_walk, heartbeat, known
from reput.stores.log.files import LogChangedError
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.resuming import truncation
from tests.builders.brokers import queue, write_over

NOW = 1_700_000_000_000


@pytest.fixture
def walked(monkeypatch):
    """Return the bytes of log that are compared, piece by piece."""
    pieces: list[int] = []
    real = file_walk.FileWalk._read_on

    def counted(walk) -> None:
        before = walk._position
        real(walk)
        pieces.append(walk._position - before)

    monkeypatch.setattr(file_walk.FileWalk, "_read_on", counted)
    return pieces


def test_a_start_while_files_expire_finds_no_damage(made, monkeypatch):
    """
    The broker removes the two oldest files between the look at them and the comparison.
    """
    broker, config = made()
    broker.append(300)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(broker.log.end)
    dispatcher.close()
    real = truncation.compare

    def expiring(log, known):
        for base in log.bases[:2]:
            (broker.store / names.COMMITLOG / names.offset_file(base)).unlink()
        return real(log, known)

    monkeypatch.setattr(truncation, "compare", expiring)
    dispatcher = StoreDispatcher(config)

    assert dispatcher.recovery.reasons == []
    assert dispatcher.progress.end == broker.log.end
    dispatcher.close()


class TestAtWork:
    def test_a_slow_flush_has_nothing_read_again(self, made, walked, monkeypatch):
        """
        A device that takes seconds for a flush: the process ran all the while, and was not stopped.
        """
        broker, config = made()
        broker.append(30)
        dispatcher = StoreDispatcher(config)
        real = dispatcher.parts.output.flush

        def slow() -> None:
            time.sleep(2.2)
            real()

        monkeypatch.setattr(dispatcher.parts.output, "flush", slow)
        dispatcher.dispatch(broker.log.end)
        walked.clear()

        dispatcher.flush()
        broker.append(3)
        dispatcher.dispatch(broker.log.end)

        assert walked == []
        monkeypatch.setattr(dispatcher.parts.output, "flush", real)
        dispatcher.close()

    def test_after_a_pause_what_is_not_certain_is_read_again(self, made, walked):
        broker, config = made()
        broker.append(30)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(broker.log.end)
        walked.clear()

        dispatcher.parts.heartbeat._beat_at -= 3
        broker.append(3)
        dispatcher.dispatch(broker.log.end)

        assert sum(walked) > 0
        dispatcher.close()

    def test_the_heartbeat_ends_with_the_last_dispatcher(self, made, monkeypatch):
        monkeypatch.setattr(heartbeat, "_shared", heartbeat._Shared())

        def beating() -> set[threading.Thread]:
            return {thread for thread in threading.enumerate() if thread.name == "heartbeat"}

        broker, config = made()
        broker.append(3)
        before = beating()
        dispatcher = StoreDispatcher(config)
        assert len(beating() - before) == 1
        dispatcher.close()
        assert beating() == before


class TestCounts:
    def test_index_items_of_a_batch_in_which_the_files_were_opened_again(self, made):
        """
        A record that no queue can take is passed over: what it has left is cut, and all reopened.
        """
        conf = {"enableMultiDispatch": "true", "maxHashSlotNum": "50", "maxIndexNum": "11"}
        broker, config = made(**conf)
        for number in range(100):
            broker.put(queue(number, store_timestamp=NOW, properties={"KEYS": f"k{number}"}))
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        first = dispatcher.dispatch(broker.log.end)
        bad = {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": "x"}
        for number in range(100, 130):
            keys = {"KEYS": f"k{number}"}
            more = bad if number == 115 else {}
            broker.put(queue(number, store_timestamp=NOW, properties=keys | more))
        second = dispatcher.dispatch(broker.log.end)
        dispatcher.close()

        assert second.skipped == 1
        assert (first.items, second.items) == (100, 29)
        assert first.index_files + second.index_files == len(dispatcher.index.names)

    def test_bytes_of_a_batch_in_which_the_log_was_cut(self, made, monkeypatch):
        """
        The output goes back farther than where the batch began: it is a batch from there.
        """
        broker, config = made()
        for number in range(100):
            broker.put(queue(number, store_timestamp=NOW))
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(broker.log.places[80].position)
        planned, real = broker.log.end, dispatcher.parts.reader._range

        def cut_meanwhile(*arguments):
            monkeypatch.setattr(dispatcher.parts.reader, "_range", real)
            write_over(broker, 30, 10, size=60, now=NOW + 1)
            yield from ()
            return LogChangedError("a file has gone")

        monkeypatch.setattr(dispatcher.parts.reader, "_range", cut_meanwhile)
        batch = dispatcher.dispatch(planned)
        dispatcher.close()

        assert batch.truncations == 1
        assert dispatcher.progress.end == broker.log.end == batch.end
        assert batch.bytes == broker.log.end - batch.start > 0


def test_log_files_that_are_certain_are_not_asked_for_in_each_batch(made, monkeypatch):
    """
    A batch looks at the files that may yet become certain, and no others.
    """
    broker, config = made()
    end = broker.append(300)
    for path in (broker.store / names.COMMITLOG).iterdir():
        os.utime(path, (1_700_000_000,) * 2)
    dispatcher = StoreDispatcher(config)
    asked: list[int] = []
    real = dispatcher.log.stamp_of

    def counted(base: int):
        asked.append(base)
        return real(base)

    monkeypatch.setattr(dispatcher.log, "stamp_of", counted)
    dispatcher.dispatch(end)
    files = dispatcher.progress.files
    assert len(asked) == len(files) > 3
    assert all(file.stamp is not None for file in files)
    asked.clear()

    dispatcher.dispatch(broker.append(1))
    dispatcher.dispatch(broker.append(1))

    assert len(asked) <= 2
    dispatcher.close()


def test_a_file_that_is_young_becomes_certain_later(made, monkeypatch):
    broker, config = made()
    end = broker.append(300)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(end)
    assert all(file.stamp is None for file in dispatcher.progress.files)

    monkeypatch.setattr(known, "_OLD_NS", 0)
    dispatcher.dispatch(broker.append(1))

    assert all(file.stamp is not None for file in dispatcher.progress.files[:-1])
    dispatcher.close()
