"""A log was cut and written again where all that the output had of it has expired since."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reput.checkpoints import progress
from reput.checkpoints.disk import recording
from reput.formats.rocketmq import names
from reput.formats.rocketmq.batchconsumequeue import UNIT
from reput.formats.rocketmq.encode import Message
from reput.sinks.files.consumequeue import ConsumeQueueSink
from reput.stores.findings import Kind
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.resuming import recovery
from reput.streaming.events import TRUNCATION
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from reput.streaming.verify.repair import repair
from tests.builders.slow_twins import differences
from tests.builders.stores import (
    LOG_FILE,
    Log,
    config_of,
    files_of,
    name_batch_topics,
)

if TYPE_CHECKING:
    from pathlib import Path

STORED_AT = 1_700_000_000_000
SMALL, LARGE = 40, 1200
# What both logs begin with.
COMMON = 3


class Made:
    """A store that is cut while no job runs, and what two of its logs give."""

    def __init__(self, root: Path, **conf: str) -> None:
        self.root, self.store, self.output = root, root / "store", root / "out"
        self.conf = conf
        self.config = config_of(self.store, self.output, **conf)
        self.log = Log()
        self.following: dict[str, int] = {}
        self.properties: dict[str, str] = {}

    def put(self, topic: str = "t", count: int = 1, body: int = SMALL) -> None:
        for _ in range(count):
            number = self.following.get(topic, 0)
            self.following[topic] = number + 1
            properties = {"KEYS": f"{topic}{number}", "TAGS": f"T{body}"}
            if "enableLmq" in self.conf:
                queue_offset = self.following.get("%LMQ%a", 0)
                self.following["%LMQ%a"] = queue_offset + 1
                properties["INNER_MULTI_DISPATCH"] = "%LMQ%a"
                properties["INNER_MULTI_QUEUE_OFFSET"] = str(queue_offset)
            self.log.append(
                Message(
                    topic,
                    body=bytes(body),
                    properties=properties,
                    queue_offset=number,
                    store_timestamp=STORED_AT + 1000 * len(self.log.places),
                )
            )

    def dispatch(self, first: int = 0, ahead: int = 0, **options: bool) -> list[str]:
        """Write the log without its first files, and dispatch it; return what was said."""
        shutil.rmtree(self.store / names.COMMITLOG, ignore_errors=True)
        self.log.write(self.store, first=first, ahead=ahead)
        dispatcher = StoreDispatcher(self.config, **options)
        try:
            batch = dispatcher.dispatch(find_tail(dispatcher.log).end)
        finally:
            dispatcher.close()
        return batch.events

    def before(self, *, is_border: bool, topics: tuple[str, ...] = ("t",)) -> None:
        """Dispatch a log that ends in its first file, or just where that ends."""
        for topic in topics:
            self.put(topic, COMMON)
        while self.log.end < LOG_FILE - 700:
            for topic in topics:
                self.put(topic)
        if is_border:
            self.log.blank()
        self.dispatch(ahead=1)

    def cut(self, count: int, topics: tuple[str, ...] = ("t",), body: int = LARGE) -> None:
        """Cut the log, and continue with other messages to its second file and further."""
        self.log, self.following = Log(), {}
        for topic in topics:
            self.put(topic, COMMON)
        while self.log.end < LOG_FILE:
            for topic in topics:
                self.put(topic, body=body)
        for _ in range(count):
            for topic in topics:
                self.put(topic)

    def entries(self, output: Path, topic: str = "t", start: int = LOG_FILE) -> dict[int, int]:
        """Return by physical offset from `start` on at which number each record stands."""
        found = {}
        for path in sorted((output / names.CONSUMEQUEUE / topic / "0").iterdir()):
            raw = path.read_bytes()
            for at in range(0, len(raw), 20):
                offset = int.from_bytes(raw[at : at + 8], "big")
                if offset >= start and 0 < int.from_bytes(raw[at + 8 : at + 12], "big") < LOG_FILE:
                    found[offset] = (int(path.name) + at) // 20
        return found

    def fresh(self) -> Path:
        """Return a rebuild of the log as it is."""
        output = self.root / "fresh"
        dispatcher = StoreDispatcher(config_of(self.store, output, **self.conf))
        try:
            dispatcher.dispatch(find_tail(dispatcher.log).end)
        finally:
            dispatcher.close()
        return output


@pytest.fixture(params=["border", "lost"])
def is_border(request):
    return request.param == "border"


KINDS = {
    "plain": {},
    "extensions": {"enableConsumeQueueExt": "true"},
    "several queues": {"enableMultiDispatch": "true", "enableLmq": "true"},
}


class TestGoesBack:
    """The records that the log has get entries, at the numbers that a rebuild gives them."""

    @pytest.mark.parametrize("removes_expired", [False, True])
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_record_has_its_entry(self, tmp_path, kind, is_border, removes_expired):
        made = Made(tmp_path, **KINDS[kind])
        topics = ("t", "u")
        made.before(is_border=is_border, topics=topics)
        made.cut(9, topics)
        said = made.dispatch(first=1, fail_on_data_loss=is_border, removes_expired=removes_expired)
        fresh = made.fresh()
        queues = (*topics, *(["%LMQ%a"] if kind == "several queues" else []))
        known = progress.load(made.output)

        for topic in queues:
            entries = made.entries(made.output, topic)
            assert entries == made.entries(fresh, topic)
            assert len(entries) == len(made.log.places) / (1 if "%" in topic else 2) - len(
                [p for p in made.log.places if p.position < LOG_FILE]
            ) / (1 if "%" in topic else 2)
        assert any(event.kind == TRUNCATION for event in said)
        # All queues at once, also those that only a record itself names.
        assert known.truncations == 1
        assert known.repeated == 0
        assert verify(made.config).ok
        assert examine(made.config).is_safe

    def test_a_queue_that_gets_its_first_record_later(self, tmp_path, is_border):
        """
        Also after another start, which finds the log to be the one that it was.
        """
        made = Made(tmp_path)
        made.before(is_border=is_border, topics=("t", "late"))
        made.cut(4)
        made.following["late"] = COMMON
        made.dispatch(first=1, fail_on_data_loss=is_border)
        made.put("late", 5)
        said = made.dispatch(first=1)

        assert len(made.entries(made.output, "late")) == 5
        assert made.entries(made.output, "late") == made.entries(made.fresh(), "late")
        assert [event.kind for event in said] == [TRUNCATION]
        assert verify(made.config).ok

    def test_a_queue_that_begins_again(self, tmp_path, is_border):
        """
        Its numbers are lower than all that are left of it.
        """
        made = Made(tmp_path)
        made.before(is_border=is_border, topics=("t", "u"))
        made.cut(4)
        made.put("u", 3)
        made.dispatch(first=1, fail_on_data_loss=is_border)

        assert sorted(made.entries(made.output, "u").values()) == [0, 1, 2]
        assert verify(made.config).ok

    def test_a_batch_queue(self, tmp_path, is_border):
        """
        A reader searches its units by their numbers, so none of a higher one may stand before.
        """
        made = Made(tmp_path)
        name_batch_topics(made.store, "t")
        made.before(is_border=is_border)
        made.cut(9)
        made.dispatch(first=1, fail_on_data_loss=is_border)
        files = sorted((made.output / names.BATCH_CONSUMEQUEUE / "t" / "0").iterdir())
        units = np.concatenate([np.fromfile(path, UNIT) for path in files])
        units = units[units["size"] > 0]

        assert (np.diff(units["base_offset"].astype(np.int64)) == 1).all()
        live = [place.position for place in made.log.places if place.position >= LOG_FILE]
        assert units["physical_offset"].tolist()[-len(live) :] == live
        assert verify(made.config).ok

    def test_a_queue_that_goes_on_keeps_its_units(self, tmp_path, is_border):
        """
        Its next record says a number below 0, which no queue takes, and shows nothing.
        """
        made = Made(tmp_path)
        name_batch_topics(made.store, "b")
        made.before(is_border=is_border, topics=("t", "b"))
        (path,) = (made.output / names.BATCH_CONSUMEQUEUE / "b" / "0").glob("*0")
        before, count = path.read_bytes(), made.following["b"]
        made.cut(2)
        made.log.append(
            Message(
                "b",
                properties={"INNER_NUM": "1", "INNER_BASE": "-1"},
                queue_offset=count,
                store_timestamp=STORED_AT + 1000 * len(made.log.places),
            )
        )
        made.following["b"] = count
        made.put("b", 2)
        made.put("t")
        events = made.dispatch(first=1, fail_on_data_loss=is_border)

        assert any("queue offsets go back" in event for event in events)
        assert any(before)
        assert path.read_bytes() == before

    def test_one_that_is_cut_off_goes_on(self, tmp_path, is_border, monkeypatch):
        """
        The progress record goes first, so the next start rolls back what was left.
        """
        made = Made(tmp_path)
        made.before(is_border=is_border)
        made.cut(9)

        def fail(*_):
            raise OSError(5, "the device failed")

        with monkeypatch.context() as patched:
            patched.setattr(recovery, "roll_back_to", fail)
            with pytest.raises(OSError, match="the device failed"):
                made.dispatch(first=1, fail_on_data_loss=is_border)
        made.dispatch(first=1, fail_on_data_loss=is_border)

        assert made.entries(made.output) == made.entries(made.fresh())
        assert verify(made.config).ok


class TestExpiredExtension:
    """Numbers that go back into entries whose units were removed with the files they stood in."""

    # Of 22 units in the first log file, 7 a file; entries 16 to 23 share a file of the queue.
    @pytest.mark.parametrize("number", [16, 17, 18, 21, 22])
    def test_the_extension_begins_again(self, tmp_path, number):
        """
        As in a rebuild, also where the units of all entries that stay ended with the file before.
        Where one of them has a unit that is there, it continues after that.
        """
        made = Made(tmp_path, **KINDS["extensions"])
        made.put(count=22)
        made.log.blank()
        made.put(count=2)
        made.dispatch()
        made.log.blank()
        made.dispatch(first=1, ahead=1, removes_expired=True)
        ext = made.output / names.CONSUMEQUEUE_EXT / "t" / "0"
        assert [path.name for path in ext.iterdir()] == [names.offset_file(480)]

        made.log, made.following = Log(), {}
        made.put(count=number - 1)
        made.log.blank()
        made.put()
        made.log.blank()
        made.put(count=6)
        said = made.dispatch(first=2, removes_expired=True)
        fresh = made.fresh()
        assert [event.kind for event in said] == [TRUNCATION]
        for _ in range(2):
            assert made.entries(made.output) == made.entries(fresh)
            there = [file.read_bytes() for file in sorted(ext.iterdir())]
            if number < 22:
                rebuilt = fresh / names.CONSUMEQUEUE_EXT / "t" / "0"
                assert there == [file.read_bytes() for file in sorted(rebuilt.iterdir())]
            else:
                assert [path.name for path in ext.iterdir()] == [names.offset_file(480)]
            assert verify(made.config).ok
            assert examine(made.config).is_safe
            assert made.dispatch(first=2) == []


class TestIsFound:
    """`verify` and `handover` never call entries of messages that are gone sound."""

    @pytest.fixture
    def made(self, tmp_path, is_border, monkeypatch):
        """Return an output that took the log's records for repeated ones."""
        made = Made(tmp_path)
        made.before(is_border=is_border)
        made.cut(9)
        with monkeypatch.context() as patched:
            patched.setattr(ConsumeQueueSink, "has_gone_back", lambda *_: False)
            made.dispatch(first=1, fail_on_data_loss=is_border)
        assert progress.load(made.output).repeated > 0
        return made

    def test_entries_that_are_missing(self, made):
        lacking = len(made.entries(made.fresh())) - len(made.entries(made.output))
        findings = verify(made.config).findings
        result = examine(made.config)

        assert {found.kind for found in findings} == {Kind.MISSING}
        assert all("others have their numbers" in found.detail for found in findings)
        assert sum(int(found.detail.split()[0]) for found in findings) == lacking
        assert not result.is_safe
        assert result.is_damaged

    def test_a_repair_puts_them_right(self, made):
        assert repair(made.config).ok
        assert made.entries(made.output) == made.entries(made.fresh())
        assert examine(made.config).is_safe

    def test_a_queue_that_is_repaired_before_it_gets_a_record(self, tmp_path, is_border):
        made = Made(tmp_path)
        made.before(is_border=is_border, topics=("t", "late"))
        made.cut(4)
        made.following["late"] = COMMON
        made.dispatch(first=1, ahead=1, fail_on_data_loss=is_border)
        assert repair(made.config).ok
        made.put("late", 5)
        made.dispatch(first=1)

        assert made.entries(made.output, "late") == made.entries(made.fresh(), "late")
        assert verify(made.config).ok


@pytest.mark.parametrize("following", [2, 9])
@pytest.mark.parametrize("kind", [*KINDS, "batch queues"])
@pytest.mark.parametrize("repairs", [True, False])
def test_what_was_never_recorded(tmp_path, kind, following, repairs):
    """
    A new output's first writer was killed before it had recorded any progress, and all that it
    had dispatched has expired: the queues begin with the log, as in a rebuild, whether a start or a
    repair comes first.
    """
    made = Made(tmp_path, **KINDS.get(kind, {}))
    if kind == "batch queues":
        name_batch_topics(made.store, "t", "late")
    made.put("late", 4)
    made.put("t", 8)
    made.put("late", 2)
    made.log.write(made.store)
    dispatcher = StoreDispatcher(made.config)
    dispatcher.dispatch(find_tail(dispatcher.log).end)
    dispatcher.parts.output.flush()
    dispatcher.abandon()
    assert progress.load(made.output).end == -1
    assert [name for name in files_of(made.output) if "consumequeue/late/0" in name]

    made.cut(4)
    made.following["late"] = following
    shutil.rmtree(made.store / names.COMMITLOG)
    made.log.write(made.store, first=1)
    if repairs:
        assert repair(made.config).ok
    made.put("late", 3)
    made.put(count=2)
    made.dispatch(first=1)

    assert differences(files_of(made.output), files_of(made.fresh())) == []
    assert (made.output / names.CHECKPOINT).read_bytes() == (
        made.root / "fresh" / names.CHECKPOINT
    ).read_bytes()
    assert verify(made.config).ok
    assert examine(made.config).is_safe


@pytest.mark.parametrize("repairs", [True, False])
def test_a_queue_that_was_never_recorded(tmp_path, repairs):
    """
    Others were recorded, before the writer was killed.
    """
    made = Made(tmp_path)
    made.put("t", 8)
    made.dispatch()
    made.put("late", 4)
    made.log.write(made.store)
    dispatcher = StoreDispatcher(made.config)
    dispatcher.dispatch(find_tail(dispatcher.log).end)
    dispatcher.parts.output.flush()
    dispatcher.abandon()
    assert "consumequeue/late/0" not in progress.load(made.output).queues

    while made.log.end < LOG_FILE:
        made.put()
    shutil.rmtree(made.store / names.COMMITLOG)
    made.log.write(made.store, first=1)
    if repairs:
        result = repair(made.config, fail_on_data_loss=False)
        assert (result.failure, result.report.ok) == (None, True)
    made.following["late"] = 9
    made.put("late", 3)
    made.dispatch(first=1, fail_on_data_loss=False)

    assert sorted(made.entries(made.output, "late", 0).values()) == [9, 10, 11]
    assert progress.load(made.output).vouched_from >= LOG_FILE


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("in_place", [True, False])
def test_a_queue_that_is_not_in_the_record_may_be_a_brokers(tmp_path, in_place, is_clean):
    """
    In place, a broker may have continued after a writer that stopped in order; what a killed one has
    left is rolled back, as at a start.
    """
    made = Made(tmp_path)
    made.put("late", 4)
    while made.log.end < LOG_FILE + 400:
        made.put()
    if in_place:
        made.output = made.store
        made.config = replace(made.config, output=made.store, in_place=True)
    made.dispatch()
    made.dispatch(first=1)
    known, name = progress.load(made.output), "consumequeue/late/0"
    queues = {queue: end for queue, end in known.queues.items() if queue != name}
    lasts = {queue: end for queue, end in known.lasts.items() if queue != name}
    known = replace(known, clean=is_clean, queues=queues, lasts=lasts, tails={})
    recording.save(made.output, known)

    assert repair(made.config).ok
    stays = in_place and is_clean
    assert (made.output / name).exists() == stays
    assert (name in progress.load(made.output).queues) == stays


def test_numbers_that_went_on_too_far(tmp_path):
    """
    The log was cut and got more, smaller messages: entries stand before their places, and that is
    found.
    """
    made = Made(tmp_path)
    made.before(is_border=True)
    made.cut(9, body=1)
    made.dispatch(first=1)
    (found,) = verify(made.config).findings

    assert found.kind == Kind.SHIFTED
    assert f"the log may have been cut before physical offset {LOG_FILE}" in found.detail
    assert repair(made.config).ok
    assert made.entries(made.output) == made.entries(made.fresh())


def test_a_log_that_was_not_cut(tmp_path):
    """
    Nothing is said, and nothing done, where the numbers continue.
    """
    made = Made(tmp_path)
    made.before(is_border=True)
    before = progress.load(made.output)
    made.put(count=20)
    said = made.dispatch(first=1)

    assert said == []
    assert progress.load(made.output).truncations == before.truncations
    assert made.entries(made.output) == made.entries(made.fresh())
    assert verify(made.config).ok
    assert examine(made.config).is_safe


def test_repeated_records_before_what_expired(tmp_path):
    """
    A broker skips a record whose number is taken, and so do we, while the log is known to be one.
    """
    made = Made(tmp_path)
    made.put(count=20)
    while made.log.end < LOG_FILE:
        made.put()
    made.following["t"] -= 4
    made.put(count=10)
    made.dispatch()
    entries = made.entries(made.output)
    assert progress.load(made.output).repeated == 4

    made.dispatch(first=1)
    made.put()
    made.dispatch(first=1)
    assert len(made.entries(made.output)) == len(entries) + 1
    assert verify(made.config).ok
    (problem,) = examine(made.config).problems
    assert "4 entries of messages are left out" in problem


@pytest.mark.parametrize("extends", [False, True])
@pytest.mark.parametrize("removes", [False, True])
def test_numbers_that_only_expired_messages_had_are_missing(tmp_path, extends, removes):
    """
    A topic was deleted and made again, and its old messages expire before the new ones: a rebuild
    has entries of all that are left, so an output without them is not sound, and a repair makes them.
    """
    made = Made(tmp_path, **({"enableConsumeQueueExt": "true"} if extends else {}))
    made.put(count=40)
    made.following["t"] = 0
    made.put(count=60)
    made.dispatch()
    assert verify(made.config).repeated > 0
    made.dispatch(first=2, removes_expired=removes)
    first = 2 * LOG_FILE
    there = made.entries(made.output, start=first)
    rebuilt = made.entries(made.fresh(), start=first)

    report = verify(made.config)
    missing = [found for found in report.findings if "have their numbers" in found.detail]
    assert {found.kind for found in missing} == {Kind.MISSING}
    assert there.items() < rebuilt.items()
    assert sum(int(found.detail.split()[0]) for found in missing) == len(rebuilt) - len(there)
    assert report.repeated == 0
    assert not examine(made.config).is_safe

    assert repair(made.config).verdict == "sound"
    assert made.entries(made.output, start=first) == rebuilt
    assert verify(made.config).ok
    assert verify(made.config).repeated == 0
