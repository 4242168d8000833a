"""`reput verify` gives a verdict over a log that is damaged anywhere, before or after dispatch.

It compares all that can be compared, names each damaged place, and calls nothing sound that it has
not seen. What is wrong in the output is found next to the damage too.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil

import pytest

from reput.checkpoints import progress
from reput.formats.errors import FormatError
from reput.formats.rocketmq import names
from reput.stores.findings import Kind
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import store_config
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from tests.builders.stores import (
    LOG_FILE,
    SLOTS,
    SMALL,
    Log,
    Messages,
    config_of,
    fill,
    name_batch_topics,
)

EXT = {"enableConsumeQueueExt": "true"}
MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}
CONFS = {"plain": {}, "ext": EXT, "multi": MULTI, "batches": {}}
COUNT = 110
# Records in the last file.
ENOUGH = 9


def dispatch(config, end, **options):
    dispatcher = StoreDispatcher(config, **options)
    try:
        return dispatcher.dispatch(end)
    finally:
        dispatcher.close()


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a log and dispatches it; gives both."""

    def make(kind="plain", seed=5, *, dispatched=True):
        log = Log()
        traits = {"multi": kind == "multi", "batches": kind == "batches", "delays": False}
        maker = Messages(seed, **traits)
        while len(log.places) < COUNT or len(in_file(log, (log.end - 1) // LOG_FILE)) != ENOUGH:
            log.append(maker.next())
        log.write(tmp_path / "store")
        if kind == "batches":
            name_batch_topics(tmp_path / "store", "batches")
        config = config_of(tmp_path / "store", tmp_path / "out", **CONFS[kind])
        if dispatched:
            dispatch(config, log.end)
            assert verify(config).ok
            assert verify(config).is_complete
        return log, config

    return make


def own_of(config):
    """Return the configuration of a broker's own store with what was dispatched."""
    for path in config.output.iterdir():
        if path.name == progress.STATE_DIRECTORY:
            continue
        target = config.path / path.name
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            shutil.copy(path, target)
    return store_config(config.path, None, in_place=True, broker_version="5.5", broker_conf=SMALL)


def file_of(config, number):
    return config.path / names.COMMITLOG / names.offset_file(number * LOG_FILE)


def write(config, position, raw):
    with file_of(config, position // LOG_FILE).open("r+b") as file:
        file.seek(position % LOG_FILE)
        file.write(raw)


def in_file(log, number):
    return [p for p in log.places if p.position // LOG_FILE == number]


def harm(log, config, what):
    """Damage the log; return the file that is named, and the first offset that cannot be read."""
    last = (log.end - 1) // LOG_FILE
    where, how = what.split()
    number = {"first": 0, "second": 1, "middle": 3, "last": last}[where]
    places = in_file(log, number)
    if how == "missing":
        file_of(config, number).unlink()
        return number, number * LOG_FILE
    if how == "empty":
        os.truncate(file_of(config, number), 0)
        return number, number * LOG_FILE
    if how == "cut":
        place = places[len(places) // 2]
        os.truncate(file_of(config, number), place.position % LOG_FILE + 40)
        return number, place.position
    if how == "begin":
        write(config, places[0].position, b"\xff" * 30)
        return number, places[0].position
    first, after = places[2], places[6]
    raw = bytes(after.position - first.position)
    if how == "garbage":
        raw = b"\xd5" * len(raw)
    elif how == "byte":
        raw = b"\xff"
    assert how in {"zeros", "garbage", "byte"}
    write(config, first.position, raw)
    return number, first.position


DAMAGES = [
    "first begin",
    "first garbage",
    "first cut",
    "second missing",
    "second zeros",
    "middle missing",
    "middle empty",
    "middle cut",
    "middle zeros",
    "middle garbage",
    "middle byte",
    "middle begin",
    "last cut",
    "last zeros",
    "last garbage",
    "last byte",
    "last begin",
]


def entries_in(config, start, end):
    """Return files and bytes of the queue entries of records that start in a range."""
    found = []
    for path in sorted((config.output / names.CONSUMEQUEUE).rglob("0*")):
        if path.is_file():
            raw = path.read_bytes()
            for at in range(0, len(raw), 20):
                offset = int.from_bytes(raw[at : at + 8], "big")
                if start <= offset < end and any(raw[at + 8 : at + 12]):
                    found.append((path, at))
    return found


def flip(path, at, bit=1):
    raw = bytearray(path.read_bytes())
    raw[at] ^= bit
    path.write_bytes(raw)


class TestAfterDispatch:
    """Everything was dispatched; the log is damaged later."""

    @pytest.mark.parametrize("kind", CONFS)
    @pytest.mark.parametrize("what", DAMAGES)
    def test_the_place_is_named_and_the_rest_is_compared(self, made, kind, what):
        log, config = made(kind)
        messages = verify(config).messages
        number, start = harm(log, config, what)
        report = verify(config)

        assert report.findings == []
        assert not report.is_complete
        assert [lack.path for lack in report.lacks] == [str(file_of(config, number))]
        assert report.lacks[0].position == start % LOG_FILE
        # The first record alone may have no entry and no keys.
        assert report.unverifiable > 0 or what == "first begin"
        assert 0 < report.messages < messages

    @pytest.mark.parametrize("what", DAMAGES)
    def test_handover_answers_and_names_the_place(self, made, what):
        log, config = made()
        number, _ = harm(log, config, what)
        result = examine(config)

        assert not result.is_safe
        assert any(str(file_of(config, number)) in problem for problem in result.problems)

    @pytest.mark.parametrize("what", DAMAGES)
    def test_a_wrong_entry_before_or_after_is_found(self, made, what):
        log, config = made()
        _, start = harm(log, config, what)
        skipped = [p.position for p in log.places if p.position >= start]
        before = entries_in(config, 0, start)[-1:]
        # After the damage, however far it reaches.
        after = entries_in(config, start // LOG_FILE * LOG_FILE + LOG_FILE, log.end)[-1:]
        assert skipped
        for path, at in before + after:
            for byte in (3, 7, 10, 17):
                flip(path, at + byte)
                report = verify(config)
                flip(path, at + byte)
                assert not report.ok, (path, at, byte)
                assert (str(path), at) in {(f.path, f.position) for f in report.findings}
        assert verify(config).ok

    @pytest.mark.parametrize("what", ["middle cut", "last garbage"])
    def test_a_wrong_byte_of_the_index_is_found_where_its_record_is_there(self, made, what):
        log, config = made()
        _, start = harm(log, config, what)
        end = start // LOG_FILE * LOG_FILE + LOG_FILE
        for path in sorted((config.output / names.INDEX).iterdir()):
            raw = path.read_bytes()
            for item in range(40 + 4 * SLOTS + 20, len(raw), 20):
                offset = int.from_bytes(raw[item + 4 : item + 12], "big")
                is_lost = start <= offset < end
                # A lost record's chain alone is known: where it was before, and its order.
                at = item + (19 if is_lost else 3 + item % 13)
                if any(raw[item : item + 20]) and item % 3 == 0:
                    flip(path, at)
                    assert not verify(config).ok, (path, at, is_lost)
                    flip(path, at)

    def test_an_entry_in_the_damaged_place_that_points_elsewhere_is_found(self, made):
        log, config = made()
        _, start = harm(log, config, "middle cut")
        inside = entries_in(config, start, start // LOG_FILE * LOG_FILE + LOG_FILE)
        for path, at in inside[:4]:
            flip(path, at + 5, 0x30)
            report = verify(config)
            flip(path, at + 5, 0x30)
            assert report.found == 1
            assert (report.findings[0].path, report.findings[0].position) == (str(path), at)

    def test_an_entry_that_is_missing_in_the_damaged_place_is_found(self, made):
        log, config = made()
        _, start = harm(log, config, "middle cut")
        path, at = entries_in(config, start, start // LOG_FILE * LOG_FILE + LOG_FILE)[0]
        raw = bytearray(path.read_bytes())
        raw[at : at + 20] = bytes(20)
        path.write_bytes(raw)

        assert not verify(config).ok

    def test_several_places_are_each_named(self, made):
        log, config = made()
        numbers = {harm(log, config, what)[0] for what in DAMAGES[3::5]}
        report = verify(config)

        assert report.findings == []
        assert {lack.path for lack in report.lacks} == {str(file_of(config, n)) for n in numbers}

    @pytest.mark.parametrize("kind", CONFS)
    @pytest.mark.parametrize("seed", range(10))
    def test_any_files_with_records_that_come_out_of_turn(self, tmp_path, kind, seed):
        """
        A record that was repeated has no entry, but a unit of an extension; a queue may be shifted.
        """
        log = fill(
            Log(), seed, 160, out_of_turn=True, multi=kind == "multi", batches=kind == "batches"
        )
        log.write(tmp_path / "store")
        if kind == "batches":
            name_batch_topics(tmp_path / "store", "batches")
        config = config_of(tmp_path / "store", tmp_path / "out", **CONFS[kind])
        dispatch(config, log.end)
        pick = random.Random(seed)
        numbers = pick.sample(range((log.end - 1) // LOG_FILE), pick.randint(1, 3))
        for number in numbers:
            if number and pick.random() < 0.4:
                file_of(config, number).unlink()
            else:
                first = pick.choice(in_file(log, number))
                write(config, first.position, b"\xd5" * min(400, -first.position % LOG_FILE or 1))
        report = verify(config)

        assert report.findings == []
        named = {str(file_of(config, number)) for number in numbers}
        assert {lack.path for lack in report.lacks} <= named
        assert not report.is_complete

    def test_a_last_file_that_is_gone_is_a_finding(self, made):
        """
        A broker's cut removes files too, so the output may be wrong: it has more than the log.
        """
        log, config = made()
        file_of(config, (log.end - 1) // LOG_FILE).unlink()
        report = verify(config)

        assert not report.ok
        assert Kind.PROGRESS in {finding.kind for finding in report.findings}
        assert not examine(config).is_safe


class TestBeforeDispatch:
    """The log is damaged before it is dispatched."""

    @pytest.mark.parametrize("kind", CONFS)
    @pytest.mark.parametrize("what", DAMAGES)
    def test_an_output_that_ends_there_is_incomplete(self, made, kind, what):
        log, config = made(kind, dispatched=False)
        number, start = harm(log, config, what)
        with contextlib.suppress(FormatError):
            dispatch(config, start)
            # In the last file dispatch waits where nothing is written, and a start says it.
            dispatch(config, start + 1)
        report = verify(config)

        assert progress.load(config.output).end == start
        assert report.findings == []
        assert not report.is_complete
        assert str(file_of(config, number)) in {lack.path for lack in report.lacks}
        assert not examine(config).is_safe

    @pytest.mark.parametrize("kind", CONFS)
    @pytest.mark.parametrize("what", DAMAGES)
    def test_passed_over_it_is_incomplete_and_the_rest_is_compared(self, made, kind, what):
        log, config = made(kind, dispatched=False)
        number, start = harm(log, config, what)
        dispatch(config, log.end, skips_corrupt=True)
        report = verify(config)

        # What is still too short may be on its way.
        assert [gap for gap, _ in progress.load(config.output).skipped] == (
            [] if what == "last cut" else [start]
        )
        assert report.findings == []
        assert str(file_of(config, number)) in {lack.path for lack in report.lacks}
        assert not examine(config).is_safe

    @pytest.mark.parametrize("what", ["middle cut", "middle garbage", "last garbage"])
    def test_an_entry_that_points_into_a_place_that_was_passed_over_is_wrong(self, made, what):
        log, config = made(dispatched=False)
        _, start = harm(log, config, what)
        dispatch(config, log.end, skips_corrupt=True)
        path, at = entries_in(config, 0, start)[-1]
        raw = bytearray(path.read_bytes())
        raw[at : at + 8] = start.to_bytes(8, "big")
        path.write_bytes(raw)

        assert (str(path), at) in {(f.path, f.position) for f in verify(config).findings}

    def test_more_damage_after_some_was_passed_over(self, made):
        log, config = made(dispatched=False)
        harm(log, config, "second zeros")
        dispatch(config, log.end, skips_corrupt=True)
        number, _ = harm(log, config, "middle cut")
        harm(log, config, "second missing")
        report = verify(config)

        assert report.findings == []
        assert str(file_of(config, number)) in {lack.path for lack in report.lacks}
        assert report.unverifiable > 0


class TestOwn:
    """A broker's own store: no progress record says what was dispatched."""

    @pytest.mark.parametrize("what", DAMAGES)
    def test_the_place_is_named_and_the_rest_is_compared(self, made, what):
        log, config = made()
        own = own_of(config)
        number, start = harm(log, own, what)
        report = verify(own)
        before = entries_in(own, 0, start)

        assert report.findings == []
        assert [lack.path for lack in report.lacks] == [str(file_of(own, number))]
        for path, at in before[-2:]:
            flip(path, at + 3)
            assert not verify(own).ok
            flip(path, at + 3)

    def test_a_broker_that_has_cut_its_log_at_the_damage_lacks_no_entries(self, made):
        """
        What follows garbage in the last file is not in the log then.
        """
        log, config = made(dispatched=False)
        number, start = harm(log, config, "last garbage")
        damaged = file_of(config, number).read_bytes()
        write(config, start, bytes(LOG_FILE - start % LOG_FILE))
        dispatch(config, start)
        own = own_of(config)
        file_of(own, number).write_bytes(damaged)
        report = verify(own)

        assert report.findings == []
        assert not report.is_complete

    @pytest.mark.parametrize("what", ["middle cut", "last garbage", "last zeros"])
    def test_an_output_in_place_that_ends_there_is_incomplete(self, made, what):
        log, config = made(dispatched=False)
        own = store_config(
            config.path, None, in_place=True, broker_version="5.5", broker_conf=SMALL
        )
        _, start = harm(log, own, what)
        with contextlib.suppress(FormatError):
            dispatch(own, start + 1)
        report = verify(own)

        assert report.findings == []
        assert not report.is_complete
        assert not examine(own).is_safe
