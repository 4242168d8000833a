"""Topics' types and consumers' filters that a broker changes while its log is followed."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time

import pytest

from reput.checkpoints.disk import locks
from reput.formats.errors import StoreError
from reput.formats.filters.bloomfilter import BloomFilter
from reput.formats.rocketmq import consumequeue_ext
from reput.formats.rocketmq.encode import Message
from reput.stores.config.topics import TOPICS
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.events import SETTING, kind_of_event
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.verify.handover import examine
from reput.streaming.verify.output import verify
from tests.builders.slow_twins import SlowStore, differences
from tests.builders.stores import Log, config_of, files_of, name_batch_topics

SQL = {"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
NOW = int(time.time() * 1000)
DAY = 86_400_000
BLOOM = BloomFilter.sized()
SMALL_LOG = 1 << 16


def expected(log: Log, settings, *batch_topics: str) -> dict[str, bytes]:
    return SlowStore(settings, batch_topics).dispatch(log.records()).files(empty_count=1)


def name_topics(store, batch=(), ordinary=()) -> None:
    table = {topic: {"attributes": {"queue.type": "BatchCQ"}} for topic in batch}
    table |= {topic: {"attributes": {}} for topic in ordinary}
    (store / "config").mkdir(parents=True, exist_ok=True)
    (store / "config" / TOPICS).write_text(json.dumps({"topicConfigTable": table}))


def name_filters(store, *filters: tuple[str, str, str, int], written: int = NOW) -> None:
    """Write the filters (topic, group, expression, time of birth) as of a time, ms."""
    topics: dict[str, dict] = {}
    for topic, group, expression, born in filters:
        topics.setdefault(topic, {"groupFilterData": {}})["groupFilterData"][group] = {
            "expression": expression,
            "expressionType": "SQL92",
            "bornTime": born,
            "deadTime": 0,
            "clientVersion": 1,
            "bloomFilterData": {
                "bitNum": BLOOM.bits,
                "bitPos": list(BLOOM.positions(group, topic)),
            },
        }
    (store / "config").mkdir(parents=True, exist_ok=True)
    path = store / "config" / "consumerFilter.json"
    path.write_text(json.dumps({"filterDataByTopic": topics}))
    os.utime(path, ns=(written * 1_000_000, written * 1_000_000))


def bitmaps_of(output, topic="t") -> list[bytes]:
    """Return the bit maps of a queue's units, in their order."""
    found = []
    for path in sorted((output / "consumequeue_ext" / topic / "0").iterdir()):
        raw, at = path.read_bytes(), 0
        while (unit := consumequeue_ext.unpack(raw, at)) is not None:
            found.append(unit.bitmap)
            at += unit.size
    return found


def bits(*groups: str) -> bytes:
    return BLOOM.bitmap(*(BLOOM.positions(group, "t") for group in groups))


NONE, EMPTY = b"", bits()
KINDS = {"consumequeue", "batchconsumequeue"}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def config(store, tmp_path):
    return config_of(store, tmp_path / "out", mappedFileSizeCommitLog=str(SMALL_LOG))


def sql_config(store, tmp_path, **conf):
    big = {"mappedFileSizeCommitLog": str(SMALL_LOG), "mappedFileSizeConsumeQueueExt": "4096"}
    return config_of(store, tmp_path / "out", **SQL, **big, **conf)


@pytest.fixture
def is_held(monkeypatch):
    """Make the store's lock look as if a broker held it, or not."""
    state = {"held": True}
    monkeypatch.setattr(locks, "is_held", lambda _path: state["held"])
    return state


@pytest.fixture
def clock_back(monkeypatch):
    """Return what sets the host's clock back: all that asks it for the time, not steady clocks."""

    def go_back(seconds: int) -> None:
        real, real_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: real() - seconds)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() - seconds * 10**9)

    return go_back


class TestTypes:
    def test_a_topic_that_is_new_gets_its_queue_whatever_was_parsed_ahead(self, config, store):
        """
        The file is written while blocks with the topic's records wait, parsed as ordinary ones.
        """
        log = Log(SMALL_LOG)
        for i in range(100):
            topic = "late" if i > 20 else "t"
            log.append(Message(topic, queue_offset=i - 21 if i > 20 else i, store_timestamp=NOW))
        log.write(store)
        name_topics(store, ordinary=["t"])
        dispatcher = StoreDispatcher(config)
        dispatcher.pipeline.block_size = 1024

        def name_it(_block) -> None:
            # Every block that is parsed ahead is there by now.
            time.sleep(0.05)
            name_topics(store, batch=["late"], ordinary=["t"])

        batch = dispatcher.dispatch(log.end, name_it)
        dispatcher.close()

        assert differences(files_of(config.output), expected(log, config.settings, "late")) == []
        (event,) = batch.events
        assert (kind_of_event(event), "the type of late" in event) == (SETTING, True)
        assert verify(config).ok

    def test_the_first_record_waits_for_the_type(self, config, store, is_held):
        """
        A broker takes messages of a new topic a moment before its file has the topic.
        """
        log = Log(SMALL_LOG)
        log.append(Message("late", store_timestamp=int(time.time() * 1000)))
        log.write(store)
        name_topics(store, ordinary=["t"])
        dispatcher = StoreDispatcher(config)
        writes = threading.Timer(0.1, name_topics, (store, ["late"]))
        writes.start()
        dispatcher.dispatch(log.end)
        writes.join()
        dispatcher.close()

        assert is_held["held"]
        assert next(iter(files_of(config.output))).startswith("batchconsumequeue/late/0/")

    def test_one_that_stays_absent_is_ordinary(self, config, store, is_held):
        log = Log(SMALL_LOG)
        log.append(Message("nobody", store_timestamp=int(time.time() * 1000)))
        log.write(store)
        name_topics(store, ordinary=["t"])
        dispatcher = StoreDispatcher(config)
        batch = dispatcher.dispatch(log.end)
        dispatcher.close()

        assert is_held["held"]
        assert (batch.messages, batch.events) == (1, [])
        assert differences(files_of(config.output), expected(log, config.settings)) == []

    @pytest.mark.parametrize("text", ["", '{"topicConfigTable": {"late"', "{no: json}"])
    def test_a_file_that_cannot_be_read_ends_nothing(self, config, store, text):
        log = Log(SMALL_LOG)
        half = log.append(Message("batches", store_timestamp=NOW)).end
        log.append(Message("batches", queue_offset=1, store_timestamp=NOW))
        log.write(store)
        name_batch_topics(store, "batches")
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(half)
        (store / "config" / TOPICS).write_text(text)
        os.utime(store / "config" / TOPICS, (1, 1))
        events = dispatcher.dispatch(log.end).events
        dispatcher.close()

        assert [kind_of_event(event) for event in events] == ([SETTING] if text else [])
        assert differences(files_of(config.output), expected(log, config.settings, "batches")) == []

    def changed(self, config, store):
        """Dispatch two records of a topic that is deleted and made again as BatchCQ; the log."""
        later = NOW + DAY
        log = Log(SMALL_LOG)
        log.append(Message("t", store_timestamp=NOW - DAY))
        half = log.append(Message("t", queue_offset=1, store_timestamp=NOW - DAY)).end
        log.append(Message("t", queue_offset=2, store_timestamp=NOW - DAY))
        log.append(Message("t", store_timestamp=later, properties={"KEYS": "k"}))
        log.write(store)
        name_topics(store, ordinary=["t"])
        dispatcher = StoreDispatcher(config, flush=FlushPolicy(is_sync=True))
        dispatcher.dispatch(half)
        name_topics(store, batch=["t"])
        return log, dispatcher

    def test_a_topic_that_is_made_again_as_another_type(self, config, store):
        """
        What was stored before goes where the topic's queue was then, what comes after to a new one.
        """
        log, dispatcher = self.changed(config, store)
        dispatcher.dispatch(log.end)
        dispatcher.close()
        entries = {path.split("/")[0]: raw for path, raw in files_of(config.output).items()}

        assert [int.from_bytes(entries["consumequeue"][at : at + 12]) > 0 for at in (40, 60)] == [
            True,
            False,
        ]
        assert entries["batchconsumequeue"][:8] == log.places[3].position.to_bytes(8)
        assert verify(config).ok

    def test_a_topic_that_is_made_again_while_no_job_runs(self, config, store):
        """
        What was dispatched keeps its queue; the records after that go to the new one.
        """
        log, dispatcher = self.changed(config, store)
        dispatcher.dispatch(log.places[2].end)
        dispatcher.close()
        (config.output / ".reput" / "settings.json").unlink(missing_ok=True)
        name_topics(store)
        name_topics(store, batch=["t"])
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        assert verify(config).findings == []
        assert sorted({path.split("/")[0] for path in files_of(config.output)} & KINDS) == [
            "batchconsumequeue",
            "consumequeue",
        ]

    @pytest.mark.parametrize("restarts", [False, True])
    def test_a_clock_that_goes_back_dates_no_change_ahead(
        self, config, store, clock_back, restarts
    ):
        """
        A topic is made again as BatchCQ after that: its records are of that type at once.
        """
        now = int(time.time() * 1000)
        hour = 3_600_000
        log = Log(SMALL_LOG)
        half = log.append(Message("t", store_timestamp=now + 5000)).end
        log.append(Message("t", store_timestamp=now - hour + 5000, properties={"KEYS": "k"}))
        log.write(store)
        name_topics(store, ordinary=["t"])
        dispatcher = StoreDispatcher(config)
        # What a topic was is remembered once it was of type BatchCQ.
        for was in ({"batch": ["t"]}, {"ordinary": ["t"]}):
            name_topics(store, **was)
            dispatcher.live.look()
        dispatcher.dispatch(half)
        if restarts:
            dispatcher.close()
        clock_back(3600)
        name_topics(store, batch=["t"])
        path = store / "config" / TOPICS
        os.utime(path, ns=((now - hour + 1000) * 1_000_000,) * 2)
        if restarts:
            dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        written = files_of(config.output)
        batch = next(raw for name, raw in written.items() if name.startswith("batchconsumequeue/t"))
        assert batch[:8] == log.places[1].position.to_bytes(8)

    def test_a_clock_that_goes_back_stops_no_look(self, config, store, clock_back):
        """
        While nothing is dispatched, the files are looked at every second by a steady clock.
        """
        log = Log(SMALL_LOG)
        log.append(Message("t", store_timestamp=NOW))
        log.write(store)
        name_topics(store, ordinary=["t"])
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        clock_back(3600)
        name_topics(store, batch=["t"])
        dispatcher.live._looked_steadily -= 2

        assert [kind_of_event(event) for event in dispatcher.live.look_if_idle()] == [SETTING]
        assert dispatcher.live.look_if_idle() == []
        dispatcher.close()

    def test_handover_names_a_queue_that_keeps_a_broker_from_starting(self, config, store):
        log, dispatcher = self.changed(config, store)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        (problem,) = examine(config).problems
        assert problem.startswith(f"{config.output / 'consumequeue' / 't'}: the topic is of type")

    def test_killed_and_started_again_a_record_gets_the_type_of_its_time(self, config, store):
        log, dispatcher = self.changed(config, store)
        dispatcher.dispatch(log.places[2].end)
        before = files_of(config.output)
        dispatcher.abandon()
        again = StoreDispatcher(config)
        assert [again.live.is_batch("t", at) for at in (NOW - DAY, NOW + DAY)] == [False, True]
        again.dispatch(log.end)
        again.close()

        after = files_of(config.output)
        key = next(path for path in before if path.startswith("consumequeue/"))
        assert after[key] == before[key]
        assert verify(config).ok

    def test_a_topic_that_is_deleted_keeps_its_type(self, config, store):
        log = Log(SMALL_LOG)
        half = log.append(Message("batches", store_timestamp=NOW)).end
        log.append(Message("batches", queue_offset=1, store_timestamp=NOW))
        log.write(store)
        name_batch_topics(store, "batches")
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(half)
        name_topics(store)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        assert differences(files_of(config.output), expected(log, config.settings, "batches")) == []

    @pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', '{"format": 1, "types": 5}'])
    def test_a_record_of_settings_that_is_damaged_is_named(self, config, store, text):
        log_at(NOW).write(store)
        (config.output / ".reput").mkdir(parents=True)
        (config.output / ".reput" / "settings.json").write_text(text)

        with pytest.raises(StoreError, match=r"settings\.json: not readable"):
            StoreDispatcher(config)


def log_at(*times: int) -> Log:
    log = Log(SMALL_LOG)
    for i, stored in enumerate(times):
        properties = {"a": str(i)}
        log.append(Message("t", queue_offset=i, store_timestamp=stored, properties=properties))
    return log


class TestFilters:
    def test_a_filter_counts_from_its_birth_on(self, store, tmp_path):
        log = log_at(NOW - 3, NOW - 2, NOW - 1, NOW)
        log.write(store)
        name_filters(store, ("t", "g", "a > 1", NOW - 2), ("t", "h", "a > 2", NOW))
        config = sql_config(store, tmp_path)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        assert bitmaps_of(config.output) == [NONE, EMPTY, bits("g"), bits("g", "h")]
        assert verify(config).ok

    def test_filters_that_come_change_and_go_while_the_log_is_followed(self, store, tmp_path):
        """
        Each record gets those of its time, whenever it is dispatched; verify knows them all.
        """
        times = [NOW + i * 1000 for i in range(8)]
        log = log_at(*times)
        log.write(store)
        config = sql_config(store, tmp_path)
        dispatcher = StoreDispatcher(config)

        def step(record: int, *filters, written: int) -> list[str]:
            name_filters(store, *filters, written=times[written])
            return dispatcher.dispatch(log.places[record].end).events

        first = ("t", "g", "a < 3", times[1])
        second = ("t", "g", "a > 4", times[4])
        other = ("t", "h", "a > 0", times[2])
        assert step(1, written=0) == []
        assert len(step(3, first, other, written=3)) == 1
        assert step(3, first, other, written=4) == []
        assert len(step(5, second, other, written=5)) == 1
        assert len(step(7, second, written=6)) == 1
        dispatcher.close()

        # The second record was dispatched before the file had its filter.
        assert bitmaps_of(config.output) == [
            NONE,
            NONE,
            bits("g", "h"),
            bits("h"),
            bits("h"),
            bits("g", "h"),
            bits("g"),
            bits("g"),
        ]

    def test_records_of_a_running_broker_wait_until_its_filters_are_known(
        self, store, tmp_path, is_held
    ):
        now = int(time.time() * 1000)
        log = log_at(now - 5000, now)
        log.write(store)
        name_filters(store, written=now - 1000)
        config = sql_config(store, tmp_path)
        dispatcher = StoreDispatcher(config)

        assert dispatcher.dispatch(log.end).messages == 1
        assert not dispatcher.waits
        name_filters(store, ("t", "g", "a > 0", now - 10), written=now + 5000)
        dispatcher.live.look()
        assert dispatcher.waits
        batch = dispatcher.dispatch_waiting()
        dispatcher.close()

        assert is_held["held"]
        assert batch.messages == 1
        assert bitmaps_of(config.output) == [NONE, bits("g")]
        assert verify(config).ok

    def test_when_the_broker_is_gone_nothing_waits(self, store, tmp_path, is_held):
        now = int(time.time() * 1000)
        log = log_at(now)
        log.write(store)
        name_filters(store, written=now - 1000)
        dispatcher = StoreDispatcher(sql_config(store, tmp_path))

        assert dispatcher.dispatch(log.end).messages == 0
        is_held["held"] = False
        assert dispatcher.waits
        assert dispatcher.dispatch_waiting().messages == 1
        dispatcher.close()

    def test_a_broker_that_writes_no_filters_is_not_waited_for(self, store, tmp_path, is_held):
        now = int(time.time() * 1000)
        log = log_at(now - 20_000)
        log.write(store)
        dispatcher = StoreDispatcher(sql_config(store, tmp_path))

        assert is_held["held"]
        assert dispatcher.dispatch(log.end).messages == 1
        dispatcher.close()

    def test_a_record_of_a_clock_that_is_ahead_does_not_wait_for_that(
        self, store, tmp_path, is_held, monkeypatch
    ):
        log = log_at(int(time.time() * 1000) + DAY)
        log.write(store)
        dispatcher = StoreDispatcher(sql_config(store, tmp_path))
        assert is_held["held"]
        assert dispatcher.dispatch(log.end).messages == 0
        assert not dispatcher.waits
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 20)

        assert dispatcher.waits
        assert dispatcher.dispatch_waiting().messages == 1
        assert not dispatcher.waits
        dispatcher.close()

    def test_without_filters_nothing_waits(self, store, config, is_held):
        log = log_at(int(time.time() * 1000))
        log.write(store)
        dispatcher = StoreDispatcher(config)

        assert is_held["held"]
        assert dispatcher.dispatch(log.end).messages == 1
        dispatcher.close()

    @pytest.mark.parametrize("text", ["", '{"filterDataByTopic": {', "{no: json}"])
    def test_a_file_that_cannot_be_read_ends_nothing(self, store, tmp_path, text):
        log = log_at(NOW, NOW)
        log.write(store)
        name_filters(store, ("t", "g", "a >= 0", 1))
        config = sql_config(store, tmp_path)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.places[0].end)
        path = store / "config" / "consumerFilter.json"
        path.write_text(text)
        os.utime(path, (1, 1))
        events = dispatcher.dispatch(log.end).events
        dispatcher.close()

        assert [kind_of_event(event) for event in events] == ([SETTING] if text else [])
        assert bitmaps_of(config.output) == [bits("g")] * 2

    def test_what_changes_while_nothing_is_dispatched_is_seen(self, store, tmp_path):
        """
        A filter that comes and goes between two batches has set bits in the records of its time.
        """
        log = log_at(NOW, NOW + 2000)
        log.write(store)
        config = sql_config(store, tmp_path)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.places[0].end)
        name_filters(store, ("t", "g", "a > 0", NOW + 1000), written=NOW + 1500)
        dispatcher.live._looked_steadily -= 2
        assert not dispatcher.waits
        dispatcher.flush_if_due()
        # A batch comes though nothing is to be dispatched: it says what was seen.
        assert dispatcher.waits
        name_filters(store, written=NOW + 3000)
        batch = dispatcher.dispatch(log.end)
        dispatcher.close()

        assert [kind_of_event(event) for event in batch.events] == [SETTING, SETTING]
        assert bitmaps_of(config.output) == [NONE, bits("g")]
        assert verify(config).ok

    def test_a_file_that_is_away_at_the_start_ends_no_filter(self, store, tmp_path):
        """
        A broker writes it under another name first; a record dispatched again keeps its bits.
        """
        log = log_at(NOW, NOW + 1000)
        log.write(store)
        name_filters(store, ("t", "g", "a >= 0", NOW - 1000))
        config = sql_config(store, tmp_path)
        StoreDispatcher(config).close()
        path = store / "config" / "consumerFilter.json"
        path.rename(path.with_suffix(".away"))
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.places[0].end)
        path.with_suffix(".away").rename(path)
        dispatcher.dispatch(log.end)
        dispatcher.close()

        assert bitmaps_of(config.output) == [bits("g")] * 2
        assert verify(config).ok

    def test_filters_of_expired_records_are_forgotten_and_no_others(self, store, tmp_path):
        """
        A group subscribes with another expression for each record. When files expire, the filters
        that ended before the next file are dropped; the others still make the same bit maps.
        """
        log = Log(SMALL_LOG)
        for i in range(30):
            body = bytes(6000)
            at = NOW + i * 1000
            log.append(Message("t", body, queue_offset=i, store_timestamp=at))
        config = sql_config(store, tmp_path)
        settings = config.output / ".reput" / "settings.json"

        def write_to(end: int) -> None:
            part = Log(SMALL_LOG)
            part.data = log.data[:end]
            part.write(store)

        def known() -> list[str]:
            terms = json.loads(settings.read_text())["filters"]["t"]
            return [term["expression"] for term in terms]

        dispatcher = None
        for i, place in enumerate(log.places):
            write_to(place.end)
            name_filters(store, ("t", "g", f"{i} = {i}", NOW + i * 1000), written=NOW + i * 1000)
            dispatcher = dispatcher or StoreDispatcher(config)
            dispatcher.dispatch(place.end)
        assert len(known()) == 30

        first = store / "commitlog" / f"{0:020}"
        first.unlink()
        dispatcher.dispatch(log.end)
        kept = [i for i, place in enumerate(log.places) if place.position >= SMALL_LOG]
        dispatcher.close()

        assert known() == [f"{i} = {i}" for i in range(kept[0] - 2, 30)]
        again = store.with_name("again")
        (again / ".reput").mkdir(parents=True)
        (again / ".reput" / "settings.json").write_bytes(settings.read_bytes())
        dispatcher = StoreDispatcher(dataclasses.replace(config, output=again))
        dispatcher.dispatch(log.end)
        dispatcher.close()
        assert (
            bitmaps_of(again) == bitmaps_of(config.output)[-len(kept) :] == [bits("g")] * len(kept)
        )
