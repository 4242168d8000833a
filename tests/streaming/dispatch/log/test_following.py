"""A log that a broker cuts and writes again: the output ends as if the old records had never been."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import pytest

from reput.checkpoints import marks, progress, quarantine
from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import Verdict
from reput.formats.rocketmq.encode import Message
from reput.stores.following import flushed
from reput.stores.following.flushed import FlushedEnd
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.tail import KnownEnd, find_tail, known_end
from reput.stores.log.tail_watch import TailWatch
from reput.stores.log.unreadable import next_record
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import GAP, kind_of_event
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.source.offsets import StoreOffsets
from reput.streaming.source.options import parse
from reput.streaming.verify.output import verify
from tests.builders.brokers import Broker, queue, write_over
from tests.builders.slow_twins import differences
from tests.builders.stores import (
    LOG_FILE,
    Log,
    config_of,
    files_of,
)

EXT = {"enableConsumeQueueExt": "true"}
SYNC = FlushPolicy(is_sync=True)


def dispatch_all(dispatcher: StoreDispatcher):
    return dispatcher.dispatch(find_tail(dispatcher.log).end)


class TestCut:
    @pytest.mark.parametrize("conf", [{}, EXT], ids=["plain", "ext"])
    @pytest.mark.parametrize("is_open", [True, False], ids=["running", "restarted"])
    @pytest.mark.parametrize("seed", range(6))
    def test_the_output_goes_back_with_the_log(self, made, seed, is_open, conf):
        """
        While the job runs, or between its runs; cut anywhere, once and again.
        """
        pick = random.Random(seed)
        broker, config = made(seed, {"batches": True}, **conf)
        dispatcher = StoreDispatcher(config, flush=FlushPolicy(thorough_seconds=0.001))
        truncations = 0
        for _ in range(4):
            for _ in range(pick.randrange(1, 6)):
                broker.append(pick.randrange(1, 15))
                dispatch_all(dispatcher)
            if not is_open:
                dispatcher.close()
            broker.recover(pick.choice(broker.log.places[1:]).position)
            broker.append(pick.choice([1, 3, 60]), now=broker.messages.now + 5000)
            if not is_open:
                dispatcher = StoreDispatcher(config, flush=SYNC)
            # What stands after the new records is looked at as a broker at rest would.
            dispatch_all(dispatcher)
            truncations += dispatcher.recovery.truncations
            broker.append(120)
            dispatch_all(dispatcher)
        dispatcher.close()

        assert truncations + dispatcher.recovery.truncations > 0
        assert differences(files_of(config.output), broker.expected(config.settings)) == []
        assert verify(config).ok

    def test_it_says_so_and_counts_it(self, made):
        broker, config = made()
        broker.append(20)
        dispatcher = StoreDispatcher(config)
        for place in broker.log.places:
            dispatcher.dispatch(place.end)
        broker.recover(broker.log.places[10].position)
        end = broker.append(30, now=broker.messages.now + 9000)
        batch = dispatcher.dispatch(end)
        dispatcher.close()

        assert "was cut and rewritten" in batch.events[0]
        assert dispatcher.recovery.truncations == 1
        assert batch.start == broker.log.places[9].end

    def test_a_shorter_log_is_followed_too(self, made):
        broker, config = made()
        broker.append(40)
        dispatcher = StoreDispatcher(config)
        for place in broker.log.places:
            dispatcher.dispatch(place.end)
        position = broker.log.places[33].position
        broker.recover(position)
        path = broker.store / names.COMMITLOG / names.offset_file(position - position % LOG_FILE)
        raw = path.read_bytes()[: position % LOG_FILE]
        path.write_bytes(raw.ljust(LOG_FILE, b"\0"))
        dispatcher.dispatch(position)
        dispatcher.close()

        assert progress.load(config.output).end == position
        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_where_only_the_first_record_is_left_it_is_built_anew(self, made):
        broker, config = made()
        broker.append(15)
        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        broker.recover(broker.log.places[1].position)
        broker.append(40, now=broker.messages.now + 9000)
        dispatch_all(dispatcher)
        dispatcher.close()

        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_another_log_is_refused(self, made):
        broker, config = made()
        broker.append(15)
        dispatcher = StoreDispatcher(config)
        dispatch_all(dispatcher)
        broker.recover(0)
        broker.append(40, now=broker.messages.now + 9000)

        with pytest.raises(StoreError, match="none of its records"):
            dispatch_all(dispatcher)
        dispatcher.close()

    def test_the_checkpoint_goes_back_before_the_queues_do(self, made, monkeypatch):
        """
        Ahead of the queues it would have a broker skip what is missing in them.
        """
        broker, config = made()
        dispatcher = StoreDispatcher(config, flush=SYNC)
        for _ in range(30):
            broker.append(1)
            dispatch_all(dispatcher)
        logics_before = marks.read_checkpoint(config.output).logics_timestamp
        broker.recover(broker.log.places[10].position)
        broker.append(40, now=broker.messages.now + 9000)

        def cut_off(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("reput.sinks.upkeep.rollback.restore", cut_off)
        with pytest.raises(KeyboardInterrupt):
            dispatch_all(dispatcher)
        dispatcher.close()
        monkeypatch.undo()

        assert marks.read_checkpoint(config.output).logics_timestamp < logics_before
        again = StoreDispatcher(config)
        dispatch_all(again)
        again.close()
        assert differences(files_of(config.output), broker.expected(config.settings)) == []


class TestWait:
    """Records that came out of turn while a broker runs."""

    def stale(self, made):
        """Return a store whose new records are followed by older ones that fit in."""
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        for number in range(8):
            broker.put(
                Message(
                    "t", body=b"old-%d" % number, queue_offset=number, store_timestamp=1000 + number
                )
            )
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(broker.log.places[2].end)
        broker.recover(broker.log.places[2].end)
        broker.put(Message("t", body=b"new-3", queue_offset=3, store_timestamp=9000))
        return broker, config, dispatcher

    def test_older_records_after_the_end_are_not_dispatched(self, made, held):
        broker, config, dispatcher = self.stale(made)
        held(broker.store)
        end = find_tail(dispatcher.log).end
        assert end > broker.log.end
        batch = dispatcher.dispatch(end)
        assert batch.end == broker.log.end
        assert not dispatcher.waits
        for number in range(4, 30):
            broker.put(
                Message(
                    "t", body=b"new-%d" % number, queue_offset=number, store_timestamp=9000 + number
                )
            )
            dispatch_all(dispatcher)
            assert dispatcher.progress.end == broker.log.end
        dispatcher.close()

        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_a_clock_that_went_back_is_waited_for_no_longer_than_the_next_record(self, made, held):
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        held(broker.store)
        dispatcher = StoreDispatcher(config)
        broker.put(Message("t", queue_offset=0, store_timestamp=9000))
        first = dispatch_all(dispatcher)
        broker.put(Message("t", queue_offset=1, store_timestamp=5000))
        second = dispatch_all(dispatcher)
        third_end = broker.put(Message("t", queue_offset=2, store_timestamp=5001))
        third = dispatch_all(dispatcher)
        dispatcher.close()

        assert (first.messages, second.messages, third.messages) == (1, 0, 2)
        assert third.end == third_end

    def test_when_the_broker_has_stopped_it_is_taken_as_the_broker_would(self, made, held):
        broker, _config, dispatcher = self.stale(made)
        let_go = held(broker.store)
        end = find_tail(dispatcher.log).end
        dispatcher.dispatch(end)
        let_go()

        assert dispatcher.waits
        assert dispatcher.dispatch_waiting().end == end
        assert not dispatcher.waits
        dispatcher.close()

    def test_a_queue_offset_out_of_turn_is_waited_with_too(self, made, held):
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        held(broker.store)
        dispatcher = StoreDispatcher(config)
        broker.put(Message("t", queue_offset=0, store_timestamp=1000))
        dispatch_all(dispatcher)
        broker.put(Message("t", queue_offset=5, store_timestamp=1001))
        assert dispatch_all(dispatcher).messages == 0
        broker.put(Message("t", queue_offset=6, store_timestamp=1002))
        assert dispatch_all(dispatcher).messages == 2
        dispatcher.close()

        assert differences(files_of(config.output), broker.expected(config.settings)) == []

    def test_a_file_that_is_full_is_not_waited_with(self, made, held):
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        held(broker.store)
        dispatcher = StoreDispatcher(config)
        for number in range(80):
            broker.put(
                Message("t", body=bytes(99), queue_offset=number, store_timestamp=9000 - number)
            )
        batch = dispatch_all(dispatcher)
        active = broker.log.end - broker.log.end % LOG_FILE

        assert batch.end >= active > 0
        dispatcher.close()


class TestTailWatch:
    def test_an_end_inside_a_new_record_is_found_anew(self, made):
        broker, config = made()
        broker.append(8)
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
        watch = TailWatch(log)
        assert watch.look().end == broker.log.end
        broker.recover(broker.log.places[5].position)
        for _ in range(20):
            end = broker.append(1, now=broker.messages.now + 100)
            assert watch.look().end >= end
        broker.append(100)

        assert watch.look().end == broker.log.end


class TestKnownEnd:
    """What another process has seen a moment ago is taken as long as it can be true."""

    def known(self, config) -> KnownEnd:
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
        known = known_end(log)
        assert known is not None
        return known

    def watch(self, config, known) -> TailWatch:
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
        return TailWatch(log, known=known)

    @pytest.mark.parametrize("count", [1, 30, 200])
    def test_no_record_is_read_where_nothing_is_new(self, made, monkeypatch, count):
        broker, config = made()
        end = broker.append(count)
        known = self.known(config)
        watch = self.watch(config, known)

        def hop(*_):
            raise AssertionError("records were read")

        monkeypatch.setattr(CommitLog, "hop", hop)
        assert known.end == end
        assert watch.look() == (end, Verdict.END)

    def test_what_is_written_after_it_is_found(self, made):
        broker, config = made()
        broker.append(30)
        watch = self.watch(config, self.known(config))
        for count in (1, 200):
            end = broker.append(count)
            assert watch.look().end == end

    @pytest.mark.parametrize("cut", [5, 29])
    def test_of_a_log_that_was_cut_it_counts_no_more(self, made, cut):
        broker, config = made()
        broker.append(30)
        known = self.known(config)
        broker.recover(broker.log.places[cut].position)
        end = broker.append(1, now=broker.messages.now + 100)

        assert self.watch(config, known).look().end == end

    def test_it_may_be_where_a_file_ends_and_no_next_one_is(self, made, monkeypatch):
        broker, config = made()
        before = broker.append(3)
        broker.log.blank()
        broker.log.write(broker.store)
        known = self.known(config)
        watch = self.watch(config, known)
        chain = CommitLog.chain
        hops = []
        monkeypatch.setattr(CommitLog, "chain", lambda *args: hops.append(args) or chain(*args))

        assert known.end == before == watch.look().end
        assert hops == []
        end = broker.append(2)
        assert watch.look().end == end > LOG_FILE
        assert hops

    def test_it_may_have_been_looked_for_from_the_end_on(self, made):
        broker, config = made()
        end = broker.append(30)
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)

        assert known_end(log, end) == self.known(config)

    def test_there_is_none_before_a_torn_record(self, made):
        broker, config = made()
        broker.append(30)
        last = broker.log.places[-1]
        path = (
            broker.store / names.COMMITLOG / names.offset_file(last.position // LOG_FILE * LOG_FILE)
        )
        with path.open("r+b") as file:
            file.seek(last.position % LOG_FILE + last.size // 2)
            file.write(bytes(last.size - last.size // 2))
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)

        assert known_end(log) is None
        assert find_tail(log).end == last.position

    def test_a_planner_that_knows_it_does_without_the_compiler(self, made):
        broker, config = made()
        end = broker.append(30)
        known = self.known(config)
        options = {
            "path": str(config.path),
            "rows": "ranges",
            "maxBytesPerTrigger": "8g",
            "knownEnds": json.dumps({config.path.name: [known.end, *astuple(known.last)]}),
            "broker.mappedFileSizeCommitLog": str(LOG_FILE),
        }
        script = (
            "import json, sys\n"
            "from reput.streaming.source.options import parse\n"
            "from reput.streaming.source.ranges.reader import RangeReader\n"
            "reader = RangeReader(parse(json.loads(sys.argv[1])))\n"
            "reader.prepareForTriggerAvailableNow()\n"
            "rows, end = reader.read(reader.initialOffset())\n"
            "print(json.dumps([list(rows), end, 'numba' in sys.modules]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, json.dumps(options)],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parents[4],
        )
        name = config.path.name

        assert json.loads(done.stdout) == [[[name, 0, end]], {name: end}, False]


class TestSkip:
    def damaged(self, made, number: int, *, at: int = 4):
        broker, config = made(seed=5)
        broker.append(60)
        place = broker.log.places[number]
        path = (
            broker.store
            / names.COMMITLOG
            / names.offset_file(place.position - place.position % LOG_FILE)
        )
        raw = bytearray(path.read_bytes())
        raw[place.position % LOG_FILE + at] ^= 1
        path.write_bytes(raw)
        return broker, config, place

    @pytest.mark.parametrize("at", [3, 4, 8, 88])
    @pytest.mark.parametrize("number", [0, 7, 33, 58])
    def test_it_goes_on_at_the_next_record_and_keeps_a_copy(self, made, number, at):
        broker, config, place = self.damaged(made, number, at=at)
        if at in {8, 88} and not place.message.body:
            pytest.skip("no body, so none that its CRC would not match")
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        batch = dispatcher.dispatch(broker.log.end)
        dispatcher.close()
        (kept,) = quarantine.load(config.output)
        copy = config.output / ".reput" / "quarantine" / f"{names.offset_file(place.position)}.bin"

        assert batch.messages == 59
        assert (kept.start, kept.end) == (place.position, place.end)
        assert kept.byte == place.position % LOG_FILE
        assert len(copy.read_bytes()) == place.size
        assert str(copy) in batch.events[0]
        assert progress.load(config.output).skipped == ((place.position, place.end),)
        assert verify(config).messages == 59
        assert verify(config).ok

    def test_a_batch_may_end_inside_what_is_passed_over(self, made):
        broker, config, place = self.damaged(made, 20)
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        first = dispatcher.dispatch(place.position + 10)
        second = dispatcher.dispatch(broker.log.end)
        dispatcher.close()

        assert (first.end, first.messages, second.messages) == (place.end, 20, 39)

    def test_killed_and_started_again_it_passes_over_it_again(self, made):
        broker, config, place = self.damaged(made, 20)
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        dispatcher.dispatch(broker.log.end)
        dispatcher.abandon()
        again = StoreDispatcher(config, skips_corrupt=True)
        again.dispatch(broker.log.end)
        again.close()

        assert progress.load(config.output).skipped == ((place.position, place.end),)
        assert len(quarantine.load(config.output)) == 1
        assert verify(config).ok

    def test_without_being_asked_it_stops(self, made):
        broker, config, _ = self.damaged(made, 20)
        dispatcher = StoreDispatcher(config)
        with pytest.raises(FormatError):
            dispatcher.dispatch(broker.log.end)
        dispatcher.close()

        assert quarantine.load(config.output) == []

    def test_a_run_of_zeros_up_to_the_file_s_end_leads_to_the_next_file(self, made):
        broker, config = made(seed=5)
        broker.append(80)
        place = next(p for p in broker.log.places if p.position > LOG_FILE)
        path = broker.store / names.COMMITLOG / names.offset_file(LOG_FILE)
        path.write_bytes(path.read_bytes()[: place.end - LOG_FILE].ljust(LOG_FILE, b"\1"))
        log = CommitLog(commitlog_directories(config.path, config.settings), config.settings)

        assert next_record(log, place.end) == 2 * LOG_FILE


class TestFlushPolicy:
    def test_it_has_the_broker_s_names_and_defaults(self):
        assert FlushPolicy.of({}) == FlushPolicy(1.0, 2, 60.0)
        conf = {
            "flushIntervalConsumeQueue": "200",
            "flushConsumeQueueLeastPages": "5",
            "flushConsumeQueueThoroughInterval": "3000",
        }
        assert FlushPolicy.of(conf) == FlushPolicy(0.2, 5, 3.0)

    def test_sync_records_every_batch(self, made):
        broker, config = made()
        dispatcher = StoreDispatcher(config, flush=SYNC)
        for _ in range(5):
            end = broker.append(2)
            dispatch_all(dispatcher)
            assert progress.load(config.output).end == end
        dispatcher.close()

    def test_async_records_when_the_thorough_interval_is_over(self, made):
        broker, config = made()
        dispatcher = StoreDispatcher(config, flush=FlushPolicy(thorough_seconds=3600))
        end = broker.append(2)
        dispatch_all(dispatcher)
        assert progress.load(config.output).end == -1
        dispatcher.parts.flushing.flushed_at -= 3601
        dispatcher.flush_if_due()

        assert progress.load(config.output).end == end
        dispatcher.close()

    def test_queues_with_enough_new_pages_are_flushed_in_between(self, made, monkeypatch):
        broker, config = made(
            traits={"transactions": False, "delays": False, "wide": False},
            mappedFileSizeConsumeQueue=str(1 << 16),
        )
        for number in range(900):
            broker.put(Message("many", queue_offset=number, store_timestamp=1000))
        broker.put(Message("few", queue_offset=0, store_timestamp=1000))
        flushed = []
        monkeypatch.setattr(
            "reput.checkpoints.disk.changes.sync_memory", lambda path, *_: flushed.append(path)
        )
        dispatcher = StoreDispatcher(config, flush=FlushPolicy(0, 2, 3600))
        dispatch_all(dispatcher)

        assert [path.parent.parent.name for path in flushed] == ["many"]
        dispatcher.close()


class TestFlushed:
    def test_only_what_the_checkpoint_says_is_flushed(self, made, tmp_path):
        from reput.streaming.source.offsets import StoreOffsets
        from reput.streaming.source.options import parse

        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        for number in range(60):
            broker.put(Message("t", queue_offset=number, store_timestamp=1000 + number // 2))
        (broker.store / names.ABORT).touch()
        options = parse(
            {
                "stores": json.dumps(
                    {"s": {"path": str(broker.store), "broker": dict(config.properties)}}
                ),
                "tail": "flushed",
                "rows": "ranges",
            }
        )
        offsets = StoreOffsets(options.stores[0], only_flushed=True)

        def flushed_to(timestamp: int) -> int:
            raw = timestamp.to_bytes(8, "big").ljust(4096, b"\0")
            (broker.store / names.CHECKPOINT).write_bytes(raw)
            return offsets.end()

        places = broker.log.places
        assert flushed_to(0) == 0
        # Of two records of one millisecond one may not be on disk yet.
        assert flushed_to(1010) == 0 or flushed_to(1010) == places[20].position
        broker.put(Message("t", queue_offset=60, store_timestamp=2000))
        assert flushed_to(1030) <= places[60].position
        broker.put(Message("t", queue_offset=61, store_timestamp=3000))
        offsets.end()
        assert flushed_to(3000) == places[60].end
        (broker.store / names.ABORT).unlink()
        assert offsets.end() == broker.log.end

    def flushed(self, broker, config) -> list[int]:
        """Return a record's number for each time that a checkpoint could name: what is certain."""
        ends = [place.position for place in broker.log.places] + [broker.log.end]
        log = CommitLog([broker.store / names.COMMITLOG], config.settings)
        found = []
        for place in broker.log.places:
            raw = place.message.store_timestamp.to_bytes(8, "big").ljust(4096, b"\0")
            (broker.store / names.CHECKPOINT).write_bytes(raw)
            found.append(ends.index(FlushedEnd(broker.store).before(log, broker.log.end)))
        log.close()
        return found

    def test_a_clock_that_went_back_makes_nothing_certain_that_is_not(self, made):
        """
        At the first look, at any record that the broker may have flushed to: never what is after.
        """
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        times = [*range(1000, 1030), *range(400, 410), *range(990, 1040), 1039, 1039, 5]
        for number, at in enumerate(times):
            broker.put(Message("t", queue_offset=number, store_timestamp=at))
        (broker.store / names.ABORT).touch()
        found = self.flushed(broker, config)

        assert found == [times.index(at) for at in times]
        assert all(certain <= number for number, certain in enumerate(found))

    def test_followed_over_a_clock_that_goes_back_it_goes_on(self, made):
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        (broker.store / names.ABORT).touch()
        log = None
        followed = FlushedEnd(broker.store)
        ends = []
        for number, at in enumerate([1000, 1010, 1020, 400, 410, 420, 1015, 1030]):
            broker.put(Message("t", queue_offset=number, store_timestamp=at))
            log = log or CommitLog([broker.store / names.COMMITLOG], config.settings)
            log.refresh()
            raw = at.to_bytes(8, "big").ljust(4096, b"\0")
            (broker.store / names.CHECKPOINT).write_bytes(raw)
            ends.append(followed.before(log, broker.log.end))

        assert ends == [place.position for place in broker.log.places]

    def test_a_time_that_no_record_has_makes_nothing_more_certain(self, made):
        """
        Its record was cut away, or has expired.
        """
        broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
        for number in range(20):
            broker.put(Message("t", queue_offset=number, store_timestamp=1000 + number))
        (broker.store / names.ABORT).touch()
        log = CommitLog([broker.store / names.COMMITLOG], config.settings)
        raw = (99_999).to_bytes(8, "big").ljust(4096, b"\0")
        (broker.store / names.CHECKPOINT).write_bytes(raw)
        floor = broker.log.places[7].position

        assert FlushedEnd(broker.store).before(log, broker.log.end) == 0
        assert FlushedEnd(broker.store).before(log, broker.log.end, floor) == floor

    def test_a_start_just_after_a_place_that_was_passed_over_goes_on(self, made, held):
        """
        The flushed part ended at the record after the place, so the output does, too. Then the
        broker flushes more: a start dispatches that, with the files of a fresh rebuild.
        """
        broker, config = made()
        for number in range(76):
            broker.put(queue(number, store_timestamp=1000 + number))
        number = next(n for n, p in enumerate(broker.log.places) if p.position > LOG_FILE + 500)
        place = broker.log.places[number]
        path = broker.store / names.COMMITLOG / names.offset_file(LOG_FILE)
        raw, at = path.read_bytes(), place.position - LOG_FILE + 4
        path.write_bytes(raw[:at] + b"\xff" * 8 + raw[at + 8 :])
        assert broker.log.end > 2 * LOG_FILE
        (broker.store / names.ABORT).touch()
        held(broker.store)
        ends = []
        for following in (number + 1, 75):
            flush(broker, 1000 + following)
            dispatcher = StoreDispatcher(config, skips_corrupt=True, only_flushed=True)
            # As the planner of a job does, which knows only where to begin.
            planned = FlushedEnd(broker.store).before(
                dispatcher.log, dispatcher.parts.reach.tail(), max(dispatcher.progress.end, 0)
            )
            assert planned == broker.log.places[following].position
            dispatcher.dispatch(planned)
            dispatcher.close()
            ends.append(dispatcher.progress.end)
        assert ends == [place.end, broker.log.places[75].position]

        fresh = config_of(broker.store, config.output.parent / "fresh")
        dispatcher = StoreDispatcher(fresh, skips_corrupt=True)
        dispatcher.dispatch(ends[-1])
        dispatcher.close()
        assert differences(files_of(config.output), files_of(fresh.output)) == []


class TestFlushedAndCut:
    """A log that is cut below what was flushed: the checkpoint names a record that is gone."""

    @pytest.fixture(autouse=True)
    def quick_looks(self, monkeypatch):
        monkeypatch.setattr("reput.stores.following.vouch._REST_SECONDS", 0)
        monkeypatch.setattr("reput.stores.following.vouch._SHARE", 1e9)
        monkeypatch.setattr("reput.streaming.dispatch.log.following._FOLLOW_SECONDS", 0)

    @pytest.fixture
    def cut(self, made, held):
        """Return a broker with 20 records, 15 of them flushed for certain, and what cuts its log.

        The records that are cut away line up with those that come, and stand where they did.
        """
        broker, config = made()
        for number in range(20):
            broker.put(queue(number, store_timestamp=1000 + number))
        (broker.store / names.ABORT).touch()
        held(broker.store)
        flush(broker, 1015)
        return broker, config, lambda count: write_over(broker, 5, count, size=41, now=9000)

    @pytest.mark.parametrize("count", [2, 9, 10, 40])
    @pytest.mark.parametrize("is_lined_up", [False, True])
    def test_what_is_left_counts_until_the_next_flush(self, cut, count, is_lined_up):
        """
        The log ends before that place, at it, or after it, with old records taken for its own too.
        """
        broker, config, cut_off = cut
        log = CommitLog([broker.store / names.COMMITLOG], config.settings)
        followed = FlushedEnd(broker.store)
        flush(broker, 1002)
        assert followed.before(log, broker.log.end) == broker.log.places[2].position
        flush(broker, 1015)
        before, size = broker.log.end, broker.log.places[0].size
        assert followed.before(log, before) == broker.log.places[15].position
        cut_off(count)
        assert broker.log.places[-1].size == size
        end = max(before, broker.log.end) if is_lined_up else broker.log.end
        log.refresh()
        for _ in range(3):
            assert followed.before(log, end) <= broker.log.places[5].position
        flush(broker, 9005 + count - 1)

        assert followed.before(log, end) == broker.log.places[-1].position

    def test_a_flush_while_the_cut_is_looked_for(self, cut, monkeypatch):
        """
        The time that was read before is of before the cut: it names an old record, which lines up.
        """
        broker, config, cut_off = cut
        log = CommitLog([broker.store / names.COMMITLOG], config.settings)
        followed = FlushedEnd(broker.store)
        flush(broker, 1010)
        for _ in range(2):
            assert followed.before(log, broker.log.end) == broker.log.places[10].position
        flush(broker, 1015)
        before = broker.log.end
        cut_off(9)
        reads = []

        def last_flush(store):
            """Make the broker flush between the first look and the next one."""
            reads.append(stored(store))
            flush(broker, 9006)
            return reads[-1]

        stored = flushed.last_flush
        monkeypatch.setattr(flushed, "last_flush", last_flush)
        log.refresh()
        found = followed.before(log, before)

        assert reads == [1015, 9006]
        assert found == broker.log.places[6].position

    def test_the_checkpoint_is_read_once_for_a_plan_that_is_flushed(self, cut, monkeypatch):
        """
        And once more for one that is not: what counts then is what stands there after a cut.
        """
        broker, config, _ = cut
        dispatcher = StoreDispatcher(config, only_flushed=True)
        reads = []
        stored = flushed.last_flush
        monkeypatch.setattr(flushed, "last_flush", lambda store: reads.append(1) or stored(store))
        counts = []
        for number in (3, 6, 19):
            reads.clear()
            dispatcher.dispatch(broker.log.places[number].position)
            counts.append((dispatcher.progress.end, len(reads)))
        dispatcher.close()

        places = [broker.log.places[number].position for number in (3, 6, 15)]
        assert counts == list(zip(places, [2, 1, 2], strict=True))

    def test_a_flush_where_nobody_knows_how_far_the_log_was_cut(self, cut, monkeypatch):
        """
        What is read then may be of before the cut or after it, and is not taken for sure.
        """
        broker, config, _ = cut
        log = CommitLog([broker.store / names.COMMITLOG], config.settings)
        followed = FlushedEnd(broker.store)
        assert followed.before(log, broker.log.end) == broker.log.places[15].position
        followed._forget()
        flush(broker, 1010)
        end = broker.log.places[9].position
        stored = flushed.last_flush
        reads = []

        def last_flush(store):
            reads.append(stored(store))
            flush(broker, 1003)
            return reads[-1]

        monkeypatch.setattr(flushed, "last_flush", last_flush)
        for _ in range(2):
            followed.before(log, end)

        assert reads == [1010, 1003, 1003]
        assert followed._doubted == 1003

    @pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
    @pytest.mark.parametrize("count", [2, 9, 10, 40])
    def test_dispatch_waits_for_the_next_flush(self, cut, count, is_restarted):
        """
        Whatever was planned before: no record is dispatched that a power cut can take.
        """
        broker, config, cut_off = cut
        dispatcher = StoreDispatcher(config, only_flushed=True)
        for number in (3, 15):
            dispatcher.dispatch(broker.log.places[number].position)
        dispatcher.follow()
        dispatcher.flush()
        planned = broker.log.end
        cut_off(count)
        if is_restarted:
            dispatcher.close()
            dispatcher = StoreDispatcher(config, only_flushed=True)
        for _ in range(2):
            dispatcher.follow()
            dispatcher.dispatch(planned)
            assert dispatcher.progress.end == broker.log.places[3].position
            assert not dispatcher.waits
        flush(broker, 9005 + count - 1)
        assert dispatcher.waits
        dispatcher.dispatch_waiting()
        assert dispatcher.progress.end == broker.log.places[-1].position
        assert not dispatcher.waits
        (broker.store / names.ABORT).unlink()
        dispatcher.dispatch(broker.log.end)
        dispatcher.close()
        found, wanted = files_of(config.output), broker.expected(config.settings)
        assert differences(found, wanted) == []

    @pytest.mark.parametrize("is_taken_up", [True, False], ids=["taken up", "planned"])
    def test_a_plan_of_before_the_cut_is_bound_by_what_is_flushed_after_it(self, cut, is_taken_up):
        """
        The broker has flushed a part of what it has written over the cut, and the plan continues.
        """
        broker, config, cut_off = cut
        dispatcher = StoreDispatcher(config, only_flushed=True)
        dispatcher.dispatch(broker.log.places[15].position)
        planned = broker.log.end
        cut_off(40)
        dispatcher.dispatch(planned)
        flush(broker, 9007)
        if is_taken_up:
            dispatcher.dispatch_waiting()
        for end in (planned, broker.log.end):
            dispatcher.dispatch(end)
            assert dispatcher.progress.end == broker.log.places[7].position
        flush(broker, 9015)
        assert dispatcher.waits
        dispatcher.dispatch_waiting()
        assert dispatcher.progress.end == broker.log.places[15].position
        dispatcher.close()

    @pytest.mark.parametrize("count", [2, 9, 40])
    def test_a_cut_between_what_is_dispatched_and_the_planned_end(self, cut, count):
        """
        What is dispatched is the same, so only what is known of the plan shows the cut.
        """
        broker, config, cut_off = cut
        planned = broker.log.places[15].position
        dispatcher = StoreDispatcher(config, only_flushed=True)
        offsets = offsets_of(broker)
        offsets.freeze()
        assert offsets.end() == planned
        dispatcher.dispatch(broker.log.places[2].position)
        cut_off(count)
        dispatcher.dispatch(planned)
        assert dispatcher.progress.end <= broker.log.places[5].position
        assert offsets.end() <= broker.log.places[5].position
        flush(broker, 9005 + count - 1)
        dispatcher.follow()
        if dispatcher.waits:
            dispatcher.dispatch_waiting()
        assert dispatcher.progress.end == broker.log.places[-1].position
        dispatcher.close()

    @pytest.mark.parametrize("count", [1, 3, 40])
    @pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
    def test_a_flush_before_the_cut_is_seen_counts(self, cut, count, is_restarted, monkeypatch):
        """
        The broker has cut its log, continued and flushed it between two looks, and writes no more.
        """
        broker, config, cut_off = cut
        dispatcher = StoreDispatcher(config, only_flushed=True)
        followed = offsets_of(broker)
        dispatcher.dispatch(followed.end())
        cut_off(count)
        flush(broker, 9005 + count - 1)
        with monkeypatch.context() as unseen:
            unseen.setattr("reput.stores.following.vouch.Vouch.look", lambda *_, **__: None)
            followed.end()
            dispatcher.follow()
            dispatcher.flush()
        if is_restarted:
            dispatcher.close()
            dispatcher = StoreDispatcher(config, only_flushed=True)
        for _ in range(2):
            dispatcher.follow()
            dispatcher.dispatch(max(followed.end(), dispatcher.progress.end))
        assert dispatcher.progress.end == broker.log.places[-1].position
        assert followed.end() == broker.log.places[-1].position
        dispatcher.close()

    def test_a_start_over_a_clock_that_went_back_waits_for_the_next_flush(self, cut):
        """
        A record that went back may have been left over before the place that was cut.
        """
        broker, config, _ = cut
        for number, at in enumerate((500, 1030, 1031), 20):
            broker.put(queue(number, store_timestamp=at))
        flush(broker, 1030)
        dispatcher = StoreDispatcher(config, only_flushed=True)
        dispatcher.dispatch(broker.log.places[21].position)
        assert dispatcher.progress.end == 0
        flush(broker, 1031)
        assert dispatcher.waits
        dispatcher.dispatch_waiting()
        # It continues to the record that went back: that is held back while the broker runs.
        assert dispatcher.progress.end == broker.log.places[20].position
        assert dispatcher.holds
        dispatcher.close()

    @pytest.mark.parametrize("count", [2, 9])
    def test_a_start_takes_no_record_for_flushed_that_is_left_over(self, cut, count):
        """
        The log was cut, at a place that was not dispatched yet, while the job was down. What has
        taken its place leads to the old record that the checkpoint names.
        """
        broker, config, cut_off = cut
        dispatcher = StoreDispatcher(config, only_flushed=True)
        dispatcher.dispatch(broker.log.places[2].position)
        dispatcher.close()
        planned = broker.log.end
        cut_off(count)
        dispatcher = StoreDispatcher(config, only_flushed=True)
        dispatcher.dispatch(planned)
        assert dispatcher.progress.end <= broker.log.places[5].position
        dispatcher.close()

    def test_what_stands_after_the_end_is_not_looked_through(self, cut):
        """
        The log was cut a moment ago, so its end is not known yet.
        """
        broker, config, _ = cut
        log = CommitLog([broker.store / names.COMMITLOG], config.settings)
        before = broker.log.end
        write_over(broker, 5, 3, size=70, now=9000)
        log.refresh()

        assert FlushedEnd(broker.store).before(log, before) == 0


def offsets_of(broker: Broker) -> StoreOffsets:
    """Return what plans a job with `--tail flushed`."""
    options = {
        "path": str(broker.store),
        "rows": "ranges",
        "tail": "flushed",
        "broker.mappedFileSizeCommitLog": str(LOG_FILE),
    }
    return StoreOffsets(parse(options).stores[0], only_flushed=True)


def flush(broker: Broker, timestamp: int) -> None:
    """Make the broker's checkpoint say that it has flushed up to a record of this time, ms."""
    raw = timestamp.to_bytes(8, "big").ljust(4096, b"\0")
    (broker.store / names.CHECKPOINT).write_bytes(raw)


def test_an_empty_file_that_a_repeated_record_has_made_outlives_a_kill(made):
    """
    A broker makes a queue's next file before it looks whether the record is a new one.
    """
    broker, config = made(traits={"transactions": False, "delays": False, "wide": False})
    for number in range(8):
        broker.put(Message("t", queue_offset=number, store_timestamp=1000))
    broker.put(Message("t", queue_offset=3, store_timestamp=1000))
    dispatcher = StoreDispatcher(config, flush=SYNC)
    dispatch_all(dispatcher)
    dispatcher.abandon()
    again = StoreDispatcher(config)
    broker.put(Message("u", queue_offset=0, store_timestamp=1000))
    dispatch_all(again)
    again.close()

    assert max(p.name for p in (config.output / "consumequeue/t/0").iterdir()) == f"{160:020d}"
    assert differences(files_of(config.output), broker.expected(config.settings)) == []


def test_what_cannot_be_dispatched_again_is_said_to_be_lost(made):
    """
    With a repeated record and extensions an output begins again after a cut, which takes the
    entries of records that have expired with it.
    """
    broker, config = made(2, {"out_of_turn": True}, **EXT)
    dispatcher = StoreDispatcher(config)
    for _ in range(2):
        broker.append(60)
        dispatch_all(dispatcher)
    assert dispatcher.progress.repeated > 0
    (broker.store / "commitlog" / names.offset_file(0)).unlink()
    broker.recover(broker.log.places[-5].position)
    broker.append(60, now=broker.messages.now + 5000)
    batch = dispatch_all(dispatcher)
    dispatcher.close()

    assert dispatcher.progress.lost == ((0, LOG_FILE),)
    assert batch.lost == LOG_FILE
    assert GAP in [kind_of_event(event) for event in batch.events]


def test_verify_misses_what_a_clock_that_went_back_has_left_undispatched(tmp_path, held):
    """
    Beside a running broker too: the first of these messages looks like one that was cut away.
    """
    log = Log()
    for i in range(3):
        log.append(Message("t", queue_offset=i, store_timestamp=2_000 + i))
    half = log.end
    for i in range(3, 30):
        log.append(Message("t", queue_offset=i, store_timestamp=1_000 + i))
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(half)
    dispatcher.close()
    let_go = held(config.path)

    report = verify(config)
    let_go()
    assert report.ok
    assert not report.is_complete
    assert "counts once the broker has written after it" in report.lacks[0].detail
