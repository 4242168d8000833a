"""A log that is cut and written again, by less than was cut: the output equals a fresh rebuild."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace

import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import recording
from reput.formats.errors import FormatError
from reput.stores.following.file_walk import FileWalk
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import find_tail
from reput.stores.log.tail_watch import TailWatch
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.events import GAP, kind_of_event
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from tests.builders.brokers import queue, write_over
from tests.builders.stores import LOG_FILE, files_of

SYNC = FlushPolicy(is_sync=True)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    """Look at the log each time: how often it is done is for the clock."""
    monkeypatch.setattr("reput.streaming.dispatch.log.following._FOLLOW_SECONDS", 0)
    monkeypatch.setattr("reput.stores.log.tail_watch._LOOK_SECONDS", 0)
    monkeypatch.setattr("reput.stores.following.vouch._REST_SECONDS", 0)


def open_log(config) -> CommitLog:
    return CommitLog(
        commitlog_directories(config.path, config.settings), config.settings, config.path
    )


def dispatch_all(dispatcher: StoreDispatcher):
    return dispatcher.dispatch(find_tail(dispatcher.log).end)


def fresh(config, tmp_path) -> dict[str, bytes]:
    """Return what a rebuild into an empty directory gives."""
    output = tmp_path / f"fresh-{time.monotonic_ns()}"
    rebuild(config.path, output, broker_version="5.5", broker_conf=dict(config.properties))
    return files_of(output)


@pytest.fixture
def plain(made):
    """Return a store of 100 records of one size, and its configuration."""
    broker, config = made()
    for number in range(100):
        broker.put(
            queue(number, store_timestamp=1000 + number, properties={"TAGS": "old", "KEYS": "k"})
        )
    return broker, config


CUTS = [(1, 2), (30, 1), (98, 1)]


class TestRewrittenByLess:
    @pytest.mark.parametrize("size", [50, 51, 20, 200], ids=["same", "longer", "short", "long"])
    @pytest.mark.parametrize(("kept", "count"), CUTS)
    @pytest.mark.parametrize("batch", [1, 20, 100])
    def test_at_the_next_start(self, plain, tmp_path, kept, count, size, batch):
        """
        The old records past the new end vouch for nothing, however the log was dispatched.
        """
        broker, config = plain
        dispatcher = StoreDispatcher(config)
        for place in broker.log.places[batch - 1 :: batch]:
            dispatcher.dispatch(place.end)
        dispatcher.close()
        write_over(broker, kept, count, size=size, now=9000)

        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()

        assert files_of(config.output) == fresh(config, tmp_path)
        assert verify(config).ok
        if size != 50:
            assert dispatcher.progress.end == broker.log.end
        assert dispatcher.progress.truncations == 1

    @pytest.mark.parametrize("size", [50, 51, 20, 200], ids=["same", "longer", "short", "long"])
    @pytest.mark.parametrize(("kept", "count"), CUTS)
    def test_while_the_job_runs(self, plain, held, kept, count, size):
        """
        Nothing new stands where the log ended, so no batch comes: the dispatcher looks by itself.
        Old records that fit after the new ones are held back as long as the broker runs.
        """
        broker, config = plain
        held(broker.store)
        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        assert dispatcher.follow() is None
        write_over(broker, kept, count, size=size, now=9000)

        batch = dispatcher.follow()

        assert batch is not None
        assert batch.truncations == 1
        assert "was cut and rewritten" in batch.events[0]
        assert dispatcher.progress.end == broker.log.end
        assert dispatcher.follow() is None
        broker.put(queue(kept + count, store_timestamp=9900))
        end = TailWatch(open_log(config)).look().end
        dispatcher.dispatch(end)
        assert dispatcher.progress.end == broker.log.end
        dispatcher.close()

    def test_again_and_again(self, plain, tmp_path):
        """
        Whatever is cut and written, with and without an end of the job in between.
        """
        broker, config = plain
        pick = random.Random(7)
        dispatcher = StoreDispatcher(config, flush=SYNC)
        for _ in range(60):
            kept = pick.randrange(1, len(broker.log.places))
            room = len(broker.log.places) - kept
            count = pick.randrange(1, room + 3)
            now = broker.messages.now = broker.messages.now + 1000
            write_over(broker, kept, count, size=pick.choice([50, 50, 51, 7]), now=now)
            if pick.random() < 0.5:
                dispatcher.close()
                dispatcher = StoreDispatcher(config, flush=SYNC)
            dispatcher.follow()
            dispatch_all(dispatcher)
            dispatcher.flush()
            assert files_of(config.output) == fresh(config, tmp_path)
        dispatcher.close()

    def test_a_record_of_the_same_head_and_another_tag(self, plain, tmp_path):
        """
        A tag stands outside the head; it is hashed too, because the entry has it.
        """
        broker, config = plain
        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()
        broker.recover(broker.log.places[50].position)
        known = queue(50, store_timestamp=1050, properties={"TAGS": "old", "KEYS": "k"})
        broker.put(known._replace(properties={"TAGS": "dlo", "KEYS": "k"}))

        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()

        assert dispatcher.progress.truncations == 1
        assert files_of(config.output) == fresh(config, tmp_path)

    def test_where_nobody_touched_the_log_the_last_file_is_compared(self, plain, monkeypatch):
        """
        A start on a log that is as it was reads no other.
        """
        broker, config = plain
        for path in (broker.store / "commitlog").iterdir():
            os.utime(path, (1_700_000_000, 1_700_000_000))
        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()

        step, walked = FileWalk.step, set()

        def note(walk: FileWalk, most: int) -> None:
            walked.add(walk.file.base)
            step(walk, most)

        monkeypatch.setattr(FileWalk, "step", note)
        dispatcher = StoreDispatcher(config)
        assert dispatcher.follow() is None
        dispatcher.close()

        assert len(dispatcher.progress.files) > 1
        assert walked == {dispatcher.progress.files[-1].base}


class TestCutDuringABatch:
    """The log is cut and written again between a block's parsing and the books."""

    @pytest.mark.parametrize("size", [50, 51, 20, 200], ids=["same", "longer", "short", "long"])
    @pytest.mark.parametrize("count", [1, 20, 120])
    def test_what_was_parsed_is_what_is_vouched_for(self, plain, tmp_path, size, count):
        """
        The books have hashes of the bytes that were parsed, so the next look sees the difference.
        """
        broker, config = plain
        dispatcher = StoreDispatcher(config)
        blocks = []

        def cut(block) -> None:
            if not blocks:
                write_over(broker, 30, count, size=size, now=9000)
            blocks.append(block)

        dispatcher.dispatch(broker.log.end, observe=cut)
        dispatcher.follow()
        dispatch_all(dispatcher)
        dispatcher.close()

        assert files_of(config.output) == fresh(config, tmp_path)

    def test_a_start_after_it_goes_back_as_well(self, plain, tmp_path):
        """
        The same when the process ended right after the batch: its end may be inside a record now.
        """
        broker, config = plain
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(
            broker.log.places[59].end,
            observe=lambda _: write_over(broker, 30, 60, size=51, now=9000),
        )
        dispatcher.close()

        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()

        assert files_of(config.output) == fresh(config, tmp_path)


class TestWhereToGoBackTo:
    def test_the_older_points_have_expired(self, plain, tmp_path):
        """
        The first file's records are still known: the log is this output's, dispatch begins again.
        The entries of what has expired go with it, and that is said.
        """
        broker, config = plain
        rebuild(
            config.path, config.output, broker_version="5.5", broker_conf=dict(config.properties)
        )
        files = sorted((broker.store / "commitlog").iterdir())
        files[0].unlink()
        first = next(p for p in broker.log.places if p.position >= LOG_FILE)
        kept = broker.log.places.index(first) + 3
        write_over(broker, kept, 2, size=20, now=9000)
        files[0].unlink(missing_ok=True)

        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()

        assert dispatcher.progress.end == broker.log.end
        assert dispatcher.progress.lost == ((0, LOG_FILE),)
        assert GAP in [kind_of_event(event) for event in dispatcher.recovery.reasons]
        assert verify(config).ok

    def test_a_damaged_file_is_no_cut(self, plain):
        """
        A broker removes the files after a cut. Where a later one is as it was, entries stay.
        """
        broker, config = plain
        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()
        before = files_of(config.output)
        first = min((broker.store / "commitlog").iterdir())
        raw = bytearray(first.read_bytes())
        raw[1000:1004] = b"oops"
        first.write_bytes(raw)

        dispatcher = StoreDispatcher(config)
        batch = dispatch_all(dispatcher)
        dispatcher.close()

        assert files_of(config.output) == before
        assert dispatcher.progress.truncations == 0
        assert any(str(first) in event for event in [*dispatcher.recovery.reasons, *batch.events])


class TestPlanner:
    @pytest.mark.parametrize("size", [51, 20, 200])
    @pytest.mark.parametrize(("kept", "count"), CUTS)
    def test_a_watch_finds_an_end_that_went_back(self, plain, kept, count, size):
        """
        Old records past the new end are not taken for the log's end.
        """
        broker, config = plain
        watch = TailWatch(open_log(config))
        assert watch.look().end == broker.log.end
        write_over(broker, kept, count, size=size, now=9000)

        assert watch.look().end == broker.log.end
        for number in range(3):
            broker.put(queue(kept + count + number, 7, store_timestamp=9900))
            assert watch.look().end == broker.log.end


class TestZeroAtTheEnd:
    """A last record that ends with a zero byte: brokers before 5.0 write such properties."""

    def store(self, made):
        broker, config = made()
        broker.put(queue(0, store_timestamp=1000))
        broker.put(queue(1, store_timestamp=1001, properties=b"KEYS\x01k\x00"))
        return broker, config

    def test_it_counts_when_nobody_writes(self, made, tmp_path):
        broker, config = self.store(made)
        dispatcher = StoreDispatcher(config)
        batch = dispatch_all(dispatcher)
        dispatcher.close()

        assert (batch.messages, dispatcher.progress.end) == (2, broker.log.end)
        assert verify(config).ok

    def test_no_broker_gets_the_files_without_it(self, made):
        """
        It is a message as any other, and would be lost.
        """
        broker, config = self.store(made)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(broker.log.places[0].end)
        dispatcher.close()
        (problem,) = examine(config).problems
        assert f"ends at {broker.log.places[0].end}, the log ends at {broker.log.end}" in problem

        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        dispatcher.close()
        assert examine(config).is_safe

    def test_it_waits_while_a_broker_runs(self, made, held):
        """
        What is written last may be missing; the next record, or the broker's end, tells.
        """
        broker, config = self.store(made)
        let_go = held(broker.store)
        log = open_log(config)

        assert find_tail(log).end == broker.log.places[0].end
        let_go()
        assert find_tail(log).end == broker.log.end


def test_progress_of_an_earlier_format_is_refused(made):
    """
    Its points vouch for less than it takes to continue.
    """
    broker, config = made()
    broker.append(3)
    dispatcher = StoreDispatcher(config)
    dispatch_all(dispatcher)
    dispatcher.close()
    known = progress.load(config.output)
    recording.save(config.output, replace(known, format=2))

    with pytest.raises(FormatError, match="format 2, this is 3"):
        StoreDispatcher(config)
