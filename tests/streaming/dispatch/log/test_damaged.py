"""A damaged log is not a dead end: what is there is dispatched, what is missing is named and counted."""

from __future__ import annotations

import copy
import os
import random
import time
import traceback
from itertools import pairwise
from pathlib import Path

import pytest

from reput.checkpoints import progress, quarantine
from reput.formats.errors import FormatError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message, encode
from reput.stores.following.identity import compare
from reput.stores.log.commitlog import CommitLog, LogChangedError, commitlog_directories
from reput.stores.log.holes import damage_error, flaw_after
from reput.stores.log.tail import find_tail
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher, rebuild
from reput.streaming.dispatch.log.damage import explained, gaps_of, of_export
from reput.streaming.source.datasource import BatchReader
from reput.streaming.source.options import parse
from reput.streaming.source.ranges.reader import RangeReader
from reput.streaming.source.rows import read_batches
from reput.streaming.spark.errors import source_error
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair import repair
from tests.builders.slow_twins import differences
from tests.builders.stores import (
    LOG_FILE,
    SMALL,
    Log,
    Messages,
    config_of,
    files_of,
    fill,
)
from tests.streaming.dispatch.test_dispatcher import expected, small_blocks


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a log and gives its store's configuration."""

    def make(log: Log, **conf):
        log.write(tmp_path / "store")
        return config_of(tmp_path / "store", tmp_path / "out", **conf)

    return make


def file_of(config, number: int):
    return config.path / names.COMMITLOG / names.offset_file(number * LOG_FILE)


def harm(config, number: int, kept: int | None) -> None:
    """Take a file away (None), or cut it short."""
    if kept is None:
        file_of(config, number).unlink()
    else:
        os.truncate(file_of(config, number), kept)


def without(log: Log, start: int, end: int) -> Log:
    """Return the log without the records that have a byte in [start, end)."""
    left = copy.copy(log)
    left.places = [p for p in log.places if p.end <= start or p.position >= end]
    return left


def dispatch(config, end: int | None = None, **options):
    dispatcher = StoreDispatcher(config, **options)
    try:
        if end is None:
            end = find_tail(dispatcher.log).end
        return dispatcher.dispatch(end)
    finally:
        dispatcher.close()


def planned(config, *, skips: bool = False) -> RangeReader:
    options = {"path": str(config.path), "rows": "ranges"}
    options |= {f"broker.{name}": value for name, value in SMALL.items()}
    options |= {"onCorrupt": "skip"} if skips else {}
    reader = RangeReader(parse(options))
    reader.prepareForTriggerAvailableNow()
    return reader


DAMAGES = [(1, None), (1, 0), (1, 700), (1, 3000), (2, 91), (3, None)]


class TestFiles:
    @pytest.mark.parametrize(("number", "kept"), DAMAGES)
    def test_the_job_stops_at_one_that_is_damaged_with_all_before_it(self, made, number, kept):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, number, kept)
        start = number * LOG_FILE + (kept or 0)
        with pytest.raises(FormatError) as raised:
            dispatch(config)
        found = progress.load(config.output)
        rest = Log()
        rest.data, rest.places = log.data, [p for p in log.places if p.end <= start]

        assert raised.value.path == str(file_of(config, number))
        assert "the file" in raised.value.problem
        assert found.messages == len(rest.places)
        assert differences(files_of(config.output), expected(rest, config.settings)) == []

    @pytest.mark.parametrize(("number", "kept"), DAMAGES)
    def test_passed_over_the_rest_is_dispatched_and_the_gap_is_named(self, made, number, kept):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, number, kept)
        start, end = number * LOG_FILE + (kept or 0), (number + 1) * LOG_FILE
        batch = dispatch(config, skips_corrupt=True)
        rest = without(log, start, end)
        ((gap, after),) = progress.load(config.output).skipped
        (place,) = quarantine.load(config.output)
        report = verify(config)
        copied = config.output / ".reput" / "quarantine" / f"{names.offset_file(gap)}.bin"

        assert batch.messages == len(rest.places)
        assert batch.skipped == 1
        assert differences(files_of(config.output), expected(rest, config.settings)) == []
        assert after == end
        assert (place.file, place.start, place.end) == (str(file_of(config, number)), gap, end)
        assert str(file_of(config, number)) in batch.events[0]
        assert copied.exists() == (gap < start)
        assert report.ok
        assert not report.is_complete
        assert [lack.path for lack in report.lacks] == [str(file_of(config, number))]
        assert any("passed over" in problem for problem in examine(config).problems)

    def test_one_that_lacks_nothing_but_filling_lacks_nothing(self, made):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, 0, log.blanks[0] + 8)

        assert log.blanks[0] + 8 < LOG_FILE
        assert dispatch(config).messages == len(log.places)
        assert verify(config).is_complete

    @pytest.mark.parametrize("is_dispatched", [False, True])
    def test_what_expired_before_it_was_dispatched_is_missing(self, made, is_dispatched):
        """
        Verify cannot look at it, nor at what the output has before it: the broker may have cut that.
        """
        log, maker = Log(), Messages(5)
        for _ in range(10):
            log.append(maker.next())
        config = made(log)
        dispatch(config)
        for _ in range(150):
            log.append(maker.next())
        log.write(config.path)
        if is_dispatched:
            dispatch(config)
        file_of(config, 0).unlink()
        report = verify(config)

        assert log.places[9].end < LOG_FILE < log.end
        assert report.ok
        assert report.is_complete == is_dispatched
        # What has expired, and what is left to be dispatched.
        assert [lack.path for lack in report.lacks] == [str(file_of(config, 1))] * (
            2 * (not is_dispatched)
        )

    def test_several_in_a_row_are_one_gap(self, made):
        log = fill(Log(), 5, 200)
        config = made(log)
        harm(config, 1, 500)
        harm(config, 2, None)
        harm(config, 3, 0)
        batch = dispatch(config, skips_corrupt=True)
        rest = without(log, LOG_FILE + 500, 4 * LOG_FILE)

        assert batch.skipped == 1
        assert batch.messages == len(rest.places)
        assert differences(files_of(config.output), expected(rest, config.settings)) == []

    @pytest.mark.parametrize("kept", [None, 0, 700])
    def test_one_that_goes_after_it_was_dispatched_takes_nothing_back(self, made, kept):
        log = fill(Log(), 5, 150)
        config = made(log)
        for place in log.places[40::40]:
            dispatch(config, place.position)
        harm(config, 1, kept)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        assert dispatcher.recovery.truncations == 0
        assert differences(files_of(config.output), expected(log, config.settings)) == []

    def test_killed_after_passing_over_it_passes_over_it_again(self, made):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, 2, 700)
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        dispatcher.dispatch(log.end)
        dispatcher.abandon()
        dispatch(config, skips_corrupt=True)
        rest = without(log, 2 * LOG_FILE + 700, 3 * LOG_FILE)

        assert len(progress.load(config.output).skipped) == 1
        assert differences(files_of(config.output), expected(rest, config.settings)) == []

    def test_readers_read_what_is_there_and_say_what_is_missing(self, made):
        log = fill(Log(), 5, 150)
        config = made(log)
        dispatch(config)
        harm(config, 1, None)
        harm(config, 3, 700)
        gone = [(LOG_FILE, 2 * LOG_FILE), (3 * LOG_FILE + 700, 4 * LOG_FILE)]
        rest = without(without(log, *gone[0]), *gone[1])
        with MessageStore.open(config.path, config.output, config.settings) as store:
            records = list(store.records_from(0))
            named = {(finding.path, finding.position) for finding in store.report.findings}

        assert [r.physical_offset for r in records] == [p.position for p in rest.places]
        assert named == {(str(file_of(config, 1)), 0), (str(file_of(config, 3)), 700)}

    @pytest.mark.parametrize("seed", range(24))
    def test_any_files_of_any_length(self, made, seed):
        """
        Compared with the model: the records that are whole in what is left. In batches that end
        anywhere, in small blocks, with writers that are killed.
        """
        maker = Messages(seed)
        pick = maker.random
        log = Log()
        for _ in range(200):
            log.append(maker.next())
        config = made(log)
        count = -(-len(log.data) // LOG_FILE)
        rest = log
        for number in pick.sample(range(1, count - 1), pick.randint(1, 4)):
            kept = pick.choice([None, 0, pick.randrange(LOG_FILE)])
            harm(config, number, kept)
            rest = without(rest, number * LOG_FILE + (kept or 0), (number + 1) * LOG_FILE)
        whole = [p.position for p in rest.places]
        for end in sorted(pick.sample(range(log.end), pick.randrange(6))):
            dispatcher = StoreDispatcher(config, skips_corrupt=True)
            small_blocks(dispatcher, pick.choice([512, 1024, 4096]))
            dispatcher.pipeline.parser.gaps = dict(dispatcher.progress.skipped)
            dispatcher.dispatch(end)
            if pick.random() < 0.5:
                dispatcher.abandon()
            else:
                dispatcher.close()
        dispatch(config, skips_corrupt=True)
        report = verify(config)

        assert progress.load(config.output).messages == len(whole)
        assert differences(files_of(config.output), expected(rest, config.settings)) == []
        assert report.ok
        assert not report.is_complete


class TestLastFile:
    @pytest.mark.parametrize("kept", [1, 91, 700, LOG_FILE - 1])
    def test_at_rest_one_that_is_too_short_is_reported_after_what_it_has(self, made, kept):
        log = fill(Log(), 5, 150)
        number = log.end // LOG_FILE
        config = made(log)
        harm(config, number, kept)
        start = number * LOG_FILE + kept
        whole = [p for p in log.places if p.end <= start]
        reader = planned(config)
        rows, end = reader.read(reader.initialOffset())
        with pytest.raises(FormatError) as raised:
            reader.read(end)
        with pytest.raises(FormatError, match="the file ends here"):
            rebuild(config.path, config.output, broker_version="5.5", broker_conf=SMALL)
        report = verify(config)

        assert list(rows) == [("store", 0, end["store"])]
        assert (raised.value.path, raised.value.position) == (str(file_of(config, number)), kept)
        assert progress.load(config.output).messages == len(whole)
        assert report.ok
        assert [(lack.path, lack.position) for lack in report.lacks] == [
            (str(file_of(config, number)), kept)
        ]
        assert any("the file ends here" in problem for problem in examine(config).problems)

    def test_a_running_job_says_so_once_and_waits(self, made):
        log = fill(Log(), 5, 150)
        number = log.end // LOG_FILE
        config = made(log)
        raw = file_of(config, number).read_bytes()
        harm(config, number, 700)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        events = dispatcher.dispatch_waiting().events
        assert [(e.kind, str(file_of(config, number)) in e) for e in events] == [
            ("unfinished", True)
        ]
        assert not dispatcher.waits
        file_of(config, number).write_bytes(raw)
        dispatcher.dispatch(find_tail(dispatcher.log).end)
        dispatcher.close()

        assert not dispatcher.waits
        assert differences(files_of(config.output), expected(log, config.settings)) == []


class TestNoTime:
    @pytest.mark.parametrize("skips", [True, False])
    def test_records_without_a_store_time_are_never_passed_over_in_silence(self, made, skips):
        log = Log()
        for number in range(9):
            log.append(Message("t", queue_offset=number, store_timestamp=0))
        config = made(log)
        reader = planned(config, skips=skips)
        with pytest.raises(FormatError, match="without a store timestamp"):
            reader.read(reader.initialOffset())
        with pytest.raises(FormatError, match="without a store timestamp"):
            rebuild(config.path, config.output, broker_version="5.5", broker_conf=SMALL)

        assert not verify(config).is_complete


class TestHole:
    def holed(self, made, filling: int, first: int = 0):
        """Return a log with zeros over some bytes of its last file, and the hole."""
        log = fill(Log(), 5, 150)
        inside = [p for p in log.places if p.position >= log.end // LOG_FILE * LOG_FILE]
        start = inside[first].position
        after = next(p.position for p in inside if p.position >= start + filling)
        log.data[start:after] = bytes(after - start)
        return log, made(log), start, after

    @pytest.mark.parametrize("first", [0, 1, 3])
    def test_a_rebuild_dispatches_what_is_before_it_and_fails(self, made, first):
        _, config, start, after = self.holed(made, 200, first)
        reader = planned(config)
        _, end = reader.read(reader.initialOffset())
        with pytest.raises(FormatError, match="continues after a hole"):
            reader.read(end)
        with pytest.raises(FormatError, match="continues after a hole") as raised:
            rebuild(config.path, config.output, broker_version="5.5", broker_conf=SMALL)
        report = verify(config)
        result = examine(config)

        assert end == {"store": start}
        assert raised.value.position == start % LOG_FILE
        assert f"physical offsets {start} to {after}" in str(raised.value)
        assert progress.load(config.output).end == start
        assert report.ok
        assert not report.is_complete
        assert not result.is_safe

    @pytest.mark.parametrize("first", [0, 1, 3])
    def test_passed_over_what_follows_is_dispatched(self, made, first):
        log, config, start, after = self.holed(made, 200, first)
        reader = planned(config, skips=True)
        _, ends = reader.read(reader.initialOffset())
        batch = dispatch(config, ends["store"], skips_corrupt=True)
        rest = without(log, start, after)

        assert batch.messages == len(rest.places)
        assert progress.load(config.output).skipped == ((start, after),)
        assert differences(files_of(config.output), expected(rest, config.settings)) == []
        assert verify(config).ok

    @pytest.mark.parametrize("first", [0, 1, 3])
    @pytest.mark.parametrize("is_compiled", [False, True])
    def test_readers_of_the_output_go_on_after_it(self, made, monkeypatch, first, is_compiled):
        """
        All that was dispatched is answered, and the place is reported. Readers of another output,
        of which nothing was passed over, end there; so do all where a broker that has recovered
        holds the store.
        """
        log, config, start, after = self.holed(made, 200, first)
        dispatch(config, log.end, skips_corrupt=True)

        def opened(output=config.output):
            return MessageStore.open(config.path, output, config.settings, is_compiled=is_compiled)

        with opened() as store:
            assert store.log.end() == log.end
            for place in log.places:
                is_there = not start <= place.position < after
                assert store.is_record(place.position) is is_there
            assert [f.position for f in store.report.findings] == [start % LOG_FILE]
            assert str(after) in store.report.findings[0].detail
        with opened(config.path) as store:
            assert store.log.end() == start
        monkeypatch.setattr("reput.stores.log.broker_lock.is_held", lambda path: True)
        with opened() as store:
            assert store.log.end() == start

    def test_what_was_cut_off_at_a_place_passed_over_is_not_read(self, made):
        """
        A broker has recovered and cut the log there since, and written a message or two.
        """
        log, config, start, after = self.holed(made, 400)
        dispatch(config, log.end, skips_corrupt=True)
        place = next(p for p in log.places if p.position >= after)
        newer = encode(Message("t", queue_offset=9, store_timestamp=1_900_000_000_000), start)
        path = config.path / "commitlog" / names.offset_file(start - start % LOG_FILE)
        with path.open("r+b") as file:
            file.seek(start % LOG_FILE)
            file.write(newer)
        with MessageStore.open(config.path, config.output, config.settings) as store:
            assert store.log.end() == start + len(newer)
            assert not store.is_record(place.position)

    @pytest.mark.parametrize(
        "text", ["", "{", '"skipped": [[', '"skipped": [1]', '"skipped": {"a"']
    )
    def test_a_damaged_record_of_the_output_passes_nothing_over(self, made, text):
        log, config, start, _ = self.holed(made, 200)
        dispatch(config, log.end, skips_corrupt=True)
        (config.output / ".reput" / "progress.json").write_text(text)
        with MessageStore.open(config.path, config.output, config.settings) as store:
            assert store.log.end() == start

    def test_a_running_job_says_so_and_goes_on(self, made):
        """
        A broker that has recovered the log ends it there, and writes over what follows.
        """
        _, config, start, _ = self.holed(made, 200)
        dispatcher = StoreDispatcher(config)
        dispatcher.parts.flaws.looks_at = 0.0
        dispatcher.dispatch(start)
        assert dispatcher.waits
        events = dispatcher.dispatch_waiting().events
        dispatcher.close()

        assert [event.kind for event in events] == ["corrupt"]
        assert "continues after a hole" in events[0]
        assert not dispatcher.waits

    def test_what_is_wrong_after_the_end_is_so_until_a_broker_has_the_store(
        self, made, monkeypatch
    ):
        """
        Or until the log has grown past the place.
        """
        log, config, start, _ = self.holed(made, 200)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(start)
        assert dispatcher.flaw is None
        dispatcher.look_for_flaw()
        assert "continues after a hole" in str(dispatcher.flaw)
        with monkeypatch.context() as patched:
            patched.setattr("reput.checkpoints.disk.locks.is_held", lambda path: True)
            assert dispatcher.flaw is None
        log.write(config.path)
        newer = encode(Message("t", queue_offset=9, store_timestamp=1_900_000_000_000), start)
        path = config.path / "commitlog" / names.offset_file(start - start % LOG_FILE)
        with path.open("r+b") as file:
            file.seek(start % LOG_FILE)
            file.write(newer)
        dispatcher.dispatch(start + len(newer))
        assert dispatcher.flaw is None
        dispatcher.close()

    def test_a_file_that_goes_while_a_running_job_looks_hides_nothing(self, made, monkeypatch):
        """
        The job looks again; it looked once in its life before.
        """
        _, config, start, _ = self.holed(made, 200)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(start)

        def gone(*_args, **_options):
            raise LogChangedError("a file that has gone")

        with monkeypatch.context() as patched:
            patched.setattr("reput.streaming.dispatch.log.flaws.flaw_after", gone)
            dispatcher.parts.flaws.looks_at = 0.0
            dispatcher.flush_if_due()
        assert not dispatcher.waits
        now = time.monotonic() + 3600
        monkeypatch.setattr("reput.streaming.dispatch.log.flaws.time.monotonic", lambda: now)
        dispatcher.flush_if_due()

        assert dispatcher.waits
        assert [event.kind for event in dispatcher.dispatch_waiting().events] == ["corrupt"]
        dispatcher.close()


class TestDataFrame:
    """`onCorrupt=skip`: rows of what is there, whatever the tasks' ranges are."""

    def positions(self, config, bounds: list[int], *, skips: bool) -> list[int]:
        options = {"path": str(config.path), "onCorrupt": "skip" if skips else "stop"}
        options |= {f"broker.{name}": value for name, value in SMALL.items()}
        parsed = parse(options)
        found = []
        for start, end in pairwise(bounds):
            for batch in read_batches(
                parsed.stores[0], start, end, fail_on_data_loss=True, skips_corrupt=skips
            ):
                found += batch.column("physicalOffset").to_pylist()
        return found

    @pytest.mark.parametrize("seed", range(8))
    def test_what_is_there_is_read(self, made, seed, caplog):
        pick = random.Random(seed)
        log = fill(Log(), 5, 150)
        config = made(log)
        number = pick.choice([1, 2, 3])
        kept = pick.choice([None, 0, 700, 2000])
        harm(config, number, kept)
        rest = without(log, number * LOG_FILE + (kept or 0), (number + 1) * LOG_FILE)
        bounds = sorted({0, log.end, *pick.sample(range(log.end), pick.randrange(6))})

        found = self.positions(config, bounds, skips=True)
        assert found == [p.position for p in rest.places]
        assert str(file_of(config, number)) in caplog.text
        with pytest.raises(FormatError, match="the file"):
            self.positions(config, [0, log.end], skips=False)

    def test_a_batch_says_what_follows_the_logs_end(self, made):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, log.end // LOG_FILE, 700)
        options = {"path": str(config.path)}
        options |= {f"broker.{name}": value for name, value in SMALL.items()}

        with pytest.raises(FormatError, match="the file ends here"):
            BatchReader(parse(options)).partitions()
        assert BatchReader(parse({**options, "onCorrupt": "skip"})).partitions()


UNFIT = {
    "topic": (Message("../../x", body=b"b", store_timestamp=1), {}),
    "queue id": (Message("t", queue_id=1 << 24, store_timestamp=1), {}),
    "further queue": (
        Message(
            "t",
            properties={"INNER_MULTI_DISPATCH": "..", "INNER_MULTI_QUEUE_OFFSET": "0"},
            store_timestamp=1,
        ),
        {"enableMultiDispatch": "true", "enableLmq": "true"},
    ),
}


class TestUnfit:
    """A record that can be read, and that no queue can take."""

    def logged(self, message: Message, **conf):
        log = fill(Log(), 3, 30)
        place = log.append(message)
        fill(log, 4, 30)
        return log, place

    @pytest.mark.parametrize("case", UNFIT)
    def test_it_is_an_error_with_file_byte_and_remedy(self, made, case):
        message, conf = UNFIT[case]
        log, place = self.logged(message)
        config = made(log, **conf)
        with pytest.raises(FormatError) as raised:
            dispatch(config)
        report = verify(config)

        assert raised.value.path == str(file_of(config, place.position // LOG_FILE))
        assert raised.value.position == place.position % LOG_FILE
        assert "--on-corrupt skip" in str(raised.value)
        assert progress.load(config.output).end == place.position
        assert [lack.position for lack in report.lacks] == [place.position % LOG_FILE]
        (problem,) = examine(config).problems
        assert "cannot be dispatched" in problem
        assert "once more" not in problem

    @pytest.mark.parametrize("case", UNFIT)
    def test_it_is_passed_over_if_asked(self, made, case):
        message, conf = UNFIT[case]
        log, place = self.logged(message)
        config = made(log, **conf)
        batch = dispatch(config, skips_corrupt=True)
        rest = without(log, place.position, place.end)
        report = verify(config)

        assert batch.messages == len(rest.places)
        assert progress.load(config.output).skipped == ((place.position, place.end),)
        assert differences(files_of(config.output), expected(rest, config.settings)) == []
        assert report.ok
        assert not report.is_complete

    @pytest.mark.parametrize("case", UNFIT)
    def test_the_log_is_the_same_one_afterwards(self, made, case):
        message, conf = UNFIT[case]
        log, place = self.logged(message)
        config = made(log, **conf)
        dispatch(config, skips_corrupt=True)
        before = files_of(config.output)
        found = progress.load(config.output)
        files = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
        seen = compare(files, progress.known_log(found), is_thorough=True)
        files.close()
        result = repair(config, skips_corrupt=True)

        assert seen.is_same
        assert seen.damaged is None
        assert result.changes == []
        assert files_of(config.output) == before
        # The record is still in no queue.
        assert not result.ok
        assert result.report.ok
        assert [lack.position for lack in result.report.lacks] == [place.position % LOG_FILE]

    def test_a_file_of_the_output_that_is_wrong_is_not_passed_over(self, made, monkeypatch):
        log, _ = self.logged(Message("t", store_timestamp=1))
        config = made(log, enableConsumeQueueExt="true")

        def refuse(self, record):
            raise FormatError(config.output / "consumequeue", 0, "not what was written")

        monkeypatch.setattr("reput.sinks.files.special.SpecialSink._put", refuse)
        with pytest.raises(Exception, match="not what was written"):
            dispatch(config, skips_corrupt=True)

        assert progress.load(config.output).skipped == ()


class TestSaid:
    def test_an_error_says_what_is_done_and_what_passing_over_leaves_out(self, made):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, 1, 700)
        with pytest.raises(FormatError) as raised:
            dispatch(config)
        found = progress.load(config.output)
        said = str(explained(raised.value, config))

        assert "--on-corrupt skip" in said
        assert f"{found.messages} messages, up to physical offset {found.end}" in said
        assert f"physical offsets {found.end} to {2 * LOG_FILE}" in said

    @pytest.mark.parametrize("kind", ["garbage", "hole", "missing"])
    def test_the_remedy_is_said_once_and_a_file_is_named_one_way(self, made, kind, monkeypatch):
        """
        The error comes through Spark as text, of a store that was named by a relative path.
        """
        log = fill(Log(), 5, 150)
        config = made(log)
        if kind == "missing":
            harm(config, 1, None)
        else:
            with file_of(config, log.end // LOG_FILE).open("r+b") as file:
                file.seek(log.places[-3].position % LOG_FILE)
                file.write((b"\0" if kind == "hole" else b"\xff") * log.places[-3].size)
        files = CommitLog(commitlog_directories(config.path, config.settings), config.settings)
        try:
            error = flaw_after(files, find_tail(files).end) or damage_error(files.damages[0])
        except FormatError as raised:
            error = raised
        finally:
            files.close()
        text = f"Spark says\n{''.join(traceback.format_exception(error))}\tat of.a.stack(Trace)"
        monkeypatch.chdir(config.path.parent)
        relative = config_of(Path(config.path.name), config.output)
        came = source_error(text)
        said = str(explained(came, relative))

        assert (came.path, came.position, came.remedy) == (
            error.path,
            error.position,
            error.remedy,
        )
        assert said.count("--on-corrupt skip") == 1
        assert said.count("Restore the file") == 1
        assert said.count(f"{error.position} to byte") == 1
        # By the error's own way once; a hole names no other file.
        assert said.count(str(file_of(config, 0).parent)) == 1
        assert str(file_of(relative, 0).parent) + "/" not in said.replace(error.path, "")

    def test_a_data_frame_names_its_own_option(self, made):
        log = fill(Log(), 5, 150)
        config = made(log)
        with file_of(config, 1).open("r+b") as file:
            file.seek(next(p.position for p in log.places if p.position > LOG_FILE) - LOG_FILE)
            file.write(b"\xff" * 60)
        options = {f"broker.{name}": value for name, value in SMALL.items()}
        reader = BatchReader(parse({**options, "path": str(config.path)}))
        with pytest.raises(FormatError) as raised:
            _ = [list(reader.read(task)) for task in reader.partitions()]
        exported = of_export(raised.value)

        assert "onCorrupt=skip" in str(raised.value)
        assert "--on-corrupt" not in str(raised.value)
        assert "--on-corrupt skip" in str(exported)
        assert "onCorrupt" not in str(exported)
        assert exported.problem == raised.value.problem
        other = FormatError(config.path / "x", 0, "bad", "Do this.")
        assert of_export(other) is other

    def test_what_a_data_frame_passes_over_is_logged_without_advice(self, made, caplog):
        log = fill(Log(), 5, 150)
        config = made(log)
        harm(config, 1, 700)
        options = {f"broker.{name}": value for name, value in SMALL.items()}
        reader = BatchReader(parse({**options, "path": str(config.path), "onCorrupt": "skip"}))
        for task in reader.partitions():
            list(reader.read(task))

        (said,) = {record.getMessage() for record in caplog.records if "Skipped" in record.message}
        assert str(file_of(config, 1)) in said
        assert f"to {2 * LOG_FILE}" in said
        assert "Restore" not in said

    @pytest.mark.parametrize("seed", range(6))
    def test_the_gaps_of_a_log_are_what_a_reader_leaves_out(self, made, seed):
        log = fill(Log(), seed, 150)
        config = made(log)
        pick = random.Random(seed)
        count = -(-len(log.data) // LOG_FILE)
        rest = log
        for number in pick.sample(range(1, count - 1), 2):
            kept = pick.choice([None, 0, pick.randrange(LOG_FILE)])
            harm(config, number, kept)
            rest = without(rest, number * LOG_FILE + (kept or 0), (number + 1) * LOG_FILE)
        broken = pick.choice(rest.places[:-1])
        with file_of(config, broken.position // LOG_FILE).open("r+b") as file:
            file.seek(broken.position % LOG_FILE)
            file.write(b"\xff" * 30)
        rest = without(rest, broken.position, broken.end)
        gaps = [(start, end) for _, _, start, end in gaps_of(config.path, config.settings)]
        left = [p for p in log.places if not any(a <= p.position < b for a, b in gaps)]

        assert [p.position for p in left] == [p.position for p in rest.places]
        assert len(gaps) >= 2

    def test_an_error_elsewhere_is_left_alone(self, made, tmp_path):
        config = made(fill(Log(), 5, 20))

        assert explained(FormatError(tmp_path / "x", 0, "bad"), config) is None
        assert explained(FormatError(tmp_path / names.offset_file(0), 0, "bad"), config) is None
