"""What was passed over and comes back is noticed, named, and put into the output by a repair."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from reput.checkpoints import progress
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair import repair
from tests.builders.brokers import go_on_at_hole, put_with_hole
from tests.builders.slow_twins import differences
from tests.builders.stores import LOG_FILE, Log, config_of, files_of, fill
from tests.streaming.dispatch.test_dispatcher import expected
from tests.streaming.verify.test_repair import EXT

SAID = "records can be read there now"
HOUR = 3600


def gone_on(dispatcher, config, root, *, is_open):
    """Dispatch the rest of a log, in the same job or another one; return it, and a fresh rebuild's.

    Both have ended.
    """
    if is_open:
        dispatcher.follow()
    else:
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
    fresh = StoreDispatcher(config_of(config.path, root), skips_corrupt=True)
    for each in (dispatcher, fresh):
        each.dispatch(each.parts.reach.tail())
        each.close()
    return dispatcher, fresh


class Stored:
    """A store, its output with places passed over, and the log's files as they should be."""

    def __init__(self, root, log: Log, **conf) -> None:
        self.root, self.log = root, log
        self.store = log.write(root / "store")
        self.conf = conf
        self.config = config_of(self.store, root / "out", **conf)

    def file(self, number: int):
        return self.store / names.COMMITLOG / names.offset_file(number * LOG_FILE)

    def harm(self, number: int, how: str) -> None:
        path = self.file(number)
        raw = path.read_bytes()
        match how:
            case "missing":
                path.unlink()
            case "emptied":
                path.write_bytes(b"")
            case "short":
                path.write_bytes(raw[:1000])
            case "garbage":
                # From a record's beginning on: properties have no CRC.
                base = number * LOG_FILE
                at = next(p.position for p in self.log.places if p.position > base + 500) - base
                path.write_bytes(raw[:at] + b"\xff" * 700 + raw[at + 700 :])

    def restore(self, number: int) -> None:
        data = bytes(self.log.data[number * LOG_FILE :][:LOG_FILE])
        self.file(number).write_bytes(data.ljust(LOG_FILE, b"\0"))

    def age(self) -> None:
        """Give all files of the log old times, as a copy that keeps times has."""
        then = time.time() - HOUR
        for path in (self.store / names.COMMITLOG).iterdir():
            os.utime(path, (then, then))

    def dispatch(self, *, skips: bool = False, output=None):
        config = self.config if output is None else config_of(self.store, output, **self.conf)
        dispatcher = StoreDispatcher(config, skips_corrupt=skips)
        try:
            return dispatcher.dispatch(dispatcher.parts.reach.tail())
        finally:
            dispatcher.close()

    def check(self) -> None:
        """Compare output and record with those of a rebuild that passes over what it must."""
        fresh = self.root / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        self.dispatch(skips=True, output=fresh)
        assert differences(files_of(self.config.output), files_of(fresh)) == []
        mine, another = progress.load(self.config.output), progress.load(fresh)
        for field in ("end", "messages", "skipped", "queues", "lasts", "files", "clean"):
            ours, theirs = getattr(mine, field), getattr(another, field)
            if field == "files":
                ours, theirs = ([file[:3] for file in each] for each in (ours, theirs))
            assert ours == theirs, field

    @property
    def lacks(self) -> list[str]:
        report = verify(self.config)
        assert report.ok
        return [lack.detail for lack in report.lacks]


@pytest.fixture
def stored(tmp_path):
    return Stored(tmp_path, fill(Log(), 5, 150))


def said(batch) -> list[str]:
    return [event for event in batch.events if SAID in event]


class TestRestored:
    @pytest.mark.parametrize("keeps_times", [True, False])
    @pytest.mark.parametrize("how", ["missing", "emptied", "short", "garbage"])
    def test_a_file_that_comes_back_is_named_and_a_repair_dispatches_it(
        self, stored, how, keeps_times
    ):
        """
        A start does not go back by itself; verify and handover say what to do; after the repair the
        output is that of a fresh rebuild, and nothing is said any longer.
        """
        stored.age()
        stored.harm(2, how)
        stored.dispatch(skips=True)
        before = files_of(stored.config.output)
        assert said(stored.dispatch(skips=True)) == []
        assert not any(SAID in lack for lack in stored.lacks)
        stored.restore(2)
        if keeps_times:
            stored.age()
        batch = stored.dispatch(skips=True)

        assert batch.messages == 0
        (event,) = said(batch)
        assert str(stored.file(2)) in event
        assert "`reput rebuild --repair`" in event
        assert files_of(stored.config.output) == before
        assert [SAID in lack and "rebuild --repair" in lack for lack in stored.lacks] == [True]
        assert [SAID in problem for problem in examine(stored.config).problems] == [True]
        result = repair(stored.config)
        assert result.ok
        assert len(result.restored) == 1
        assert progress.load(stored.config.output).skipped == ()
        assert differences(
            files_of(stored.config.output), expected(stored.log, stored.config.settings)
        ) == []  # fmt: skip
        stored.check()
        assert said(stored.dispatch()) == []
        assert examine(stored.config).is_safe

    @pytest.mark.parametrize("bad", [(0, 8), (0, 3, 8), (4, 8)])
    def test_a_file_that_comes_back_with_damage_is_repaired_as_it_is_rebuilt(self, stored, bad):
        """
        Its first record among what is bad, too.
        """
        stored.harm(2, "missing")
        stored.dispatch(skips=True)
        stored.restore(2)
        raw = bytearray(stored.file(2).read_bytes())
        records = [p for p in stored.log.places if p.position // LOG_FILE == 2]
        for number in bad:
            at = records[number].position - 2 * LOG_FILE
            raw[at : at + 60] = b"\xff" * 60
        stored.file(2).write_bytes(raw)
        stored.dispatch(skips=True)
        repair(stored.config, skips_corrupt=True)

        stored.check()
        assert len(progress.load(stored.config.output).skipped) == len(bad)

    def test_what_is_still_damaged_stays_passed_over(self, stored):
        stored.harm(1, "garbage")
        stored.harm(3, "missing")
        stored.dispatch(skips=True)
        garbage, _ = progress.load(stored.config.output).skipped
        stored.restore(3)
        result = repair(stored.config)

        assert result.failure is None
        assert not result.ok
        assert progress.load(stored.config.output).skipped == (garbage,)
        stored.check()

    def test_one_of_several_files_of_a_place(self, stored):
        stored.harm(1, "missing")
        stored.harm(2, "missing")
        stored.dispatch(skips=True)
        assert progress.load(stored.config.output).skipped == ((LOG_FILE, 3 * LOG_FILE),)
        stored.restore(2)
        assert len(said(stored.dispatch())) == 1
        repair(stored.config)

        assert progress.load(stored.config.output).skipped == ((LOG_FILE, 2 * LOG_FILE),)
        stored.check()
        assert said(stored.dispatch()) == []

    def test_damage_that_is_not_known_is_not_passed_over(self, stored):
        """
        A repair that nobody told to pass over things leaves out what the output has left out.
        """
        stored.harm(2, "garbage")
        stored.dispatch(skips=True)
        known = progress.load(stored.config.output).skipped
        following = stored.log.end // LOG_FILE + 1
        fill(stored.log, 6, 60)
        stored.log.write(stored.store)
        stored.harm(2, "garbage")
        stored.harm(following, "missing")
        result = repair(stored.config)

        assert str(stored.file(following)) in str(result.failure)
        assert progress.load(stored.config.output).skipped == known
        repair(stored.config, skips_corrupt=True)
        assert len(progress.load(stored.config.output).skipped) == 2
        stored.check()

    def test_a_hole_in_the_last_file_stays_passed_over(self, tmp_path):
        """
        Records after it are dispatched as before.
        """
        log = fill(Log(), 5, 150)
        inside = [p for p in log.places if p.position >= log.end // LOG_FILE * LOG_FILE]
        start = inside[1].position
        after = next(p.position for p in inside if p.position >= start + 200)
        whole = bytes(log.data)
        log.data[start:after] = bytes(after - start)
        stored = Stored(tmp_path, log)
        stored.dispatch(skips=True)
        before = files_of(stored.config.output)
        result = repair(stored.config)

        assert result.changes == []
        assert files_of(stored.config.output) == before
        assert progress.load(stored.config.output).skipped == ((start, after),)
        log.data[:] = whole
        stored.restore(log.end // LOG_FILE)
        assert repair(stored.config).ok
        stored.check()

    def test_messages_are_counted_where_older_ones_have_expired(self, tmp_path):
        stored = Stored(tmp_path, fill(Log(), 11, 300), **EXT)
        stored.harm(4, "missing")
        stored.dispatch(skips=True)
        stored.restore(4)
        for number in range(2):
            stored.file(number).unlink()
        repair(stored.config)
        found = progress.load(stored.config.output)

        assert found.skipped == ()
        assert found.messages == len(stored.log.places)
        assert verify(stored.config).ok


class TestUnfit:
    """A record that can be read, and that no queue can take."""

    def logged(self, tmp_path) -> tuple[Stored, int, int]:
        log = fill(Log(), 3, 60)
        place = log.append(Message("../../x", body=b"b", store_timestamp=1))
        fill(log, 4, 90)
        return Stored(tmp_path, log), place.position, place.end

    def test_nobody_says_that_it_can_be_read(self, tmp_path):
        stored, *place = self.logged(tmp_path)
        stored.dispatch(skips=True)

        assert progress.load(stored.config.output).skipped == (tuple(place),)
        assert said(stored.dispatch()) == []
        assert not any(SAID in lack for lack in stored.lacks)

    def test_it_stays_passed_over_when_its_file_comes_back(self, tmp_path):
        stored, *place = self.logged(tmp_path)
        number = place[0] // LOG_FILE
        stored.harm(number, "missing")
        stored.dispatch(skips=True)
        stored.restore(number)
        assert len(said(stored.dispatch())) == 1
        repair(stored.config)

        assert progress.load(stored.config.output).skipped == (tuple(place),)
        stored.check()
        assert said(stored.dispatch()) == []

    def test_a_record_after_it_that_is_older_is_no_cut(self, tmp_path):
        """
        A broker's clock went back there: each start finds the log as it was.
        """
        log = fill(Log(), 3, 60)
        newest = log.places[-1].message.store_timestamp
        place = log.append(Message("../../x", body=b"b", store_timestamp=newest + 1000))
        fill(log, 4, 3)
        assert place.position // LOG_FILE == log.end // LOG_FILE
        stored = Stored(tmp_path, log)
        stored.dispatch(skips=True)

        for _ in range(2):
            batch = stored.dispatch(skips=True)
            assert (batch.messages, batch.events) == (0, [])
        assert progress.load(stored.config.output).truncations == 0
        stored.check()


class TestCutThere:
    """A broker that starts cuts its log at a hole, and erases nothing after it."""

    @pytest.fixture
    def holed(self, made):
        """Return a broker, its store's configuration and the hole, all in the last file."""
        broker, config = made()
        start, after = put_with_hole(broker)
        assert start // LOG_FILE == broker.log.end // LOG_FILE
        return broker, config, start, after

    @pytest.mark.parametrize("is_open", [False, True], ids=["started", "running"])
    @pytest.mark.parametrize(
        "sizes",
        [(2500, 50, 50), (20, 2500, 50), (2500,), (50,), (20,), (90,), (50, 50), (50, 2500)],
        ids=lambda sizes: "-".join(map(str, sizes)),
    )
    def test_the_output_goes_back_to_the_hole(self, holed, tmp_path, monkeypatch, sizes, is_open):
        """
        The next message does not fit and rolls the file, or fills the place exactly, or is shorter
        or longer: the records after the hole are gone, though they may still stand in the file.
        """
        monkeypatch.setattr("reput.streaming.dispatch.log.following._FOLLOW_SECONDS", 0)
        broker, config, start, after = holed
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        dispatcher.dispatch(dispatcher.parts.reach.tail())
        assert dispatcher.progress.skipped == ((start, after),)
        dispatcher.follow()
        if not is_open:
            dispatcher.close()
        go_on_at_hole(broker, start, sizes, now=9000)
        dispatcher, fresh = gone_on(dispatcher, config, tmp_path / "fresh", is_open=is_open)
        assert dispatcher.progress.truncations == 1
        assert dispatcher.progress.skipped == fresh.progress.skipped
        assert dispatcher.progress.end == fresh.progress.end
        assert differences(files_of(config.output), files_of(tmp_path / "fresh")) == []
        again = StoreDispatcher(config, skips_corrupt=True)
        again.close()
        assert again.progress.truncations == 1

    @pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "restored"])
    @pytest.mark.parametrize("filler", [b"\0", b"\xff"], ids=["zeros", "garbage"])
    @pytest.mark.parametrize("is_whole", [False, True], ids=["part", "whole file"])
    def test_a_place_to_a_files_end_that_nothing_was_read_after(
        self, stored, filler, is_cut, is_whole
    ):
        """
        A batch has ended in it, and it may be all that the file has. The broker cuts there, removes
        the next file and continues; or the file comes back: what stands there then has its turn.
        """
        number = int(is_whole)
        end = (number + 1) * LOG_FILE
        before = [p.position for p in stored.log.places if p.position < LOG_FILE]
        position = LOG_FILE if is_whole else before[-4]
        harmed = stored.file(number)
        kept = harmed.read_bytes()[: position % LOG_FILE]
        harmed.write_bytes(kept + filler * (LOG_FILE - len(kept)))
        stored.age()
        dispatcher = StoreDispatcher(stored.config, skips_corrupt=True)
        dispatcher.dispatch(position + 10)
        dispatcher.close()
        assert dispatcher.progress.skipped == ((position, end),)
        assert dispatcher.progress.end == end

        if is_cut:
            kept = [p.message for p in stored.log.places if p.position < position]
            shutil.rmtree(stored.store)
            stored.log = Log()
            for message in kept:
                stored.log.append(message)
            fill(stored.log, 9, 40).write(stored.store)
        else:
            stored.restore(number)
        stored.dispatch(skips=True)
        assert progress.load(stored.config.output).truncations == 1
        assert progress.load(stored.config.output).skipped == ()
        stored.check()
        assert stored.lacks == []
        stored.dispatch(skips=True)
        assert progress.load(stored.config.output).truncations == 1

    def test_the_second_of_two_files_that_come_back_has_its_turn(self, stored):
        """
        They are one place, whose first file is still missing.
        """
        stored.age()
        stored.harm(1, "missing")
        stored.harm(2, "missing")
        dispatcher = StoreDispatcher(stored.config, skips_corrupt=True)
        dispatcher.dispatch(3 * LOG_FILE)
        dispatcher.close()
        assert dispatcher.progress.skipped == ((LOG_FILE, 3 * LOG_FILE),)
        stored.restore(2)
        stored.dispatch(skips=True)

        assert progress.load(stored.config.output).skipped == ((LOG_FILE, 2 * LOG_FILE),)
        stored.check()

    def test_the_first_of_two_places_has_its_turn(self, stored):
        """
        The second one follows it, and nothing after it was read.
        """
        stored.age()
        at = [p.position for p in stored.log.places if p.position // LOG_FILE == 1][-3] - LOG_FILE
        raw = stored.file(1).read_bytes()
        stored.file(1).write_bytes(raw[:at] + b"\xff" * (LOG_FILE - at))
        stored.harm(2, "missing")
        dispatcher = StoreDispatcher(stored.config, skips_corrupt=True)
        dispatcher.dispatch(3 * LOG_FILE)
        dispatcher.close()
        assert len(dispatcher.progress.skipped) == 2
        stored.restore(1)
        stored.dispatch(skips=True)

        assert progress.load(stored.config.output).skipped == ((2 * LOG_FILE, 3 * LOG_FILE),)
        stored.check()

    @pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "restored"])
    def test_a_place_before_a_blank_that_nothing_was_read_after(self, stored, is_cut):
        """
        A batch has ended with the file, whose BLANK is not a record: another message of that size, or
        the one that was there, has its turn.
        """
        last = [p for p in stored.log.places if p.position < LOG_FILE][-1]
        assert last.end in stored.log.blanks
        raw = stored.file(0).read_bytes()
        stored.file(0).write_bytes(raw[: last.position] + bytes(last.size) + raw[last.end :])
        stored.age()
        dispatcher = StoreDispatcher(stored.config, skips_corrupt=True)
        dispatcher.dispatch(LOG_FILE)
        dispatcher.close()
        assert dispatcher.progress.skipped == ((last.position, last.end),)
        assert dispatcher.progress.end == LOG_FILE

        if is_cut:
            kept = [p.message for p in stored.log.places if p.position < last.position]
            shutil.rmtree(stored.store)
            stored.log = Log()
            for message in kept:
                stored.log.append(message)
            body = bytes(len(last.message.body))
            stored.log.append(last.message._replace(body=body, store_timestamp=1))
            assert stored.log.end == last.end
            fill(stored.log, 9, 40).write(stored.store)
        else:
            stored.restore(0)
        stored.dispatch(skips=True)
        assert progress.load(stored.config.output).truncations == 1
        assert progress.load(stored.config.output).skipped == ()
        stored.check()
        assert stored.lacks == []

    @pytest.mark.parametrize("is_open", [False, True], ids=["started", "running"])
    @pytest.mark.parametrize("sizes", [(50,), (50, 50, 50)], ids=["one record", "three"])
    def test_a_place_in_a_file_that_nothing_was_read_after(
        self, holed, tmp_path, monkeypatch, sizes, is_open
    ):
        """
        A batch has ended just after it. The broker cuts there and writes records of the same sizes,
        which lead to those that follow, and no clock and no number tells: nothing was read there,
        so what stands in the place has its turn.
        """
        monkeypatch.setattr("reput.streaming.dispatch.log.following._FOLLOW_SECONDS", 0)
        broker, config, start, after = holed
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        dispatcher.dispatch(after)
        assert dispatcher.progress.skipped == ((start, after),)
        assert dispatcher.progress.end == after
        dispatcher.follow()
        if not is_open:
            dispatcher.close()
        stamp = broker.log.places[-3].message.store_timestamp
        go_on_at_hole(broker, start, sizes, now=stamp)
        dispatcher, fresh = gone_on(dispatcher, config, tmp_path / "fresh", is_open=is_open)
        assert dispatcher.progress.truncations == 1
        assert dispatcher.progress.skipped == fresh.progress.skipped == ()
        assert dispatcher.progress.messages == fresh.progress.messages
        assert differences(files_of(config.output), files_of(tmp_path / "fresh")) == []
        again = StoreDispatcher(config, skips_corrupt=True)
        again.close()
        assert again.progress.truncations == 1

    def test_a_hole_that_is_restored_takes_nothing_back(self, holed):
        """
        The records after it stand where they did: it can be read now, and that is said.
        """
        broker, config, start, after = holed
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        dispatcher.dispatch(dispatcher.parts.reach.tail())
        dispatcher.close()
        before = files_of(config.output)
        broker.log.write(broker.store)
        dispatcher = StoreDispatcher(config, skips_corrupt=True)
        batch = dispatcher.dispatch(dispatcher.parts.reach.tail())
        dispatcher.close()

        assert len(said(batch)) == 1
        assert dispatcher.progress.truncations == 0
        assert dispatcher.progress.skipped == ((start, after),)
        assert files_of(config.output) == before
