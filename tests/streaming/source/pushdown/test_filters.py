"""Filters that are handed down never change an answer, whatever is read for them."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
import random
import shutil

import pytest
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from reput.formats.errors import UsageError
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.source.datasource import BatchReader
from reput.streaming.source.options import parse
from reput.streaming.source.planning import LogRanges
from reput.streaming.source.pushdown import choosing
from reput.streaming.source.pushdown.filtered import FilteringReader
from reput.streaming.source.pushdown.wanted import Span, Wanted
from tests.builders.stores import SMALL, Log, Messages, config_of, fill

COMPARE = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
}
NOW = 1_700_000_000_000
BROKER = {f"broker.{name}": value for name, value in SMALL.items()}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Records of these stores are close together: let ranges begin and end between them."""
    monkeypatch.setattr(choosing, "_NEAR", 16)
    monkeypatch.setattr(choosing, "_BEGINNING", 0)
    monkeypatch.setattr(choosing, "_WORTH", 100)
    monkeypatch.setattr(choosing, "ENTRY_SIZE", 0)


def options(store, output=None, **more):
    values = {"path": str(store), **BROKER, **more}
    return parse(values | ({"output": str(output)} if output else {}))


def rows_of(reader):
    found = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            found += batch.to_pylist()
    return found


def holds(condition, row):
    if isinstance(condition, Not):
        inner = holds(condition.child, row)
        return None if inner is None else not inner
    value = row[condition.attribute[0]]
    if isinstance(condition, IsNotNull):
        return value is not None
    if value is None:
        return condition.value is None if isinstance(condition, EqualNullSafe) else None
    if isinstance(condition, In):
        return value in condition.value
    if isinstance(condition, StringContains):
        return condition.value in value
    return COMPARE[type(condition)](value, condition.value)


def answer(rows, conditions):
    return sorted(
        row["physicalOffset"] for row in rows if all(holds(each, row) for each in conditions)
    )


def pushed(parsed, conditions):
    """What a query gets: the rows that are read, filtered again as Spark does; and the way."""
    reader = FilteringReader(parsed)
    assert list(reader.pushFilters(list(conditions))) == list(conditions)
    rows = rows_of(reader)
    assert len({row["physicalOffset"] for row in rows}) == len(rows)
    return answer(rows, conditions)


def test_bounds_by_time_after_a_clock_went_back(tmp_path):
    """
    Between two times is what lies from the first record stored at the one, or later, up to the
    first stored at the other: parts with such bounds join without gaps and without repetition.
    """
    log = Log()
    times = [NOW + 1000 * i for i in [*range(50), *range(20, 70), *range(10, 90, 3)]]
    for i, stored in enumerate(times):
        log.append(Message("t", b"x" * 50, queue_offset=i, store_timestamp=stored))
    store = log.write(tmp_path / "store")

    def first(at):
        return next((i for i, stored in enumerate(times) if stored >= at), len(times))

    marks = [NOW + 1000 * at for at in (-5, 0, 10, 25, 30, 45, 49, 55, 69, 80, 88, 99)]
    seen = []
    for begin, end in itertools.pairwise(marks):
        more = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
        rows = rows_of(BatchReader(options(store, **more)))
        assert [row["queueOffset"] for row in rows] == list(range(first(begin), first(end)))
        seen += [row["queueOffset"] for row in rows]
    assert seen == list(range(first(marks[0]), len(times)))


def test_bounds_by_time_are_bisected_where_that_is_asked_for(tmp_path, monkeypatch):
    log = Log()
    for i in range(100):
        log.append(Message("t", b"x" * 50, queue_offset=i, store_timestamp=NOW + i))
    more = {"startingTimestamp": str(NOW + 60), "ascendingStoreTime": "true"}
    parsed = options(log.write(tmp_path / "store"), **more)
    monkeypatch.setattr("reput.streaming.source.offsets.first_since", None)

    assert [row["queueOffset"] for row in rows_of(BatchReader(parsed))] == list(range(60, 100))


def test_a_topic_without_a_name_is_one_too(tmp_path):
    """
    No broker stores such a topic; where a log has one, a filter finds it.
    """
    log = Log()
    for i in range(20):
        log.append(Message("t" if i % 2 else "", b"x", queue_offset=i // 2))
    parsed = options(log.write(tmp_path / "store"))
    conditions = [EqualTo(("topic",), "")]

    rows = rows_of(BatchReader(parsed))
    assert pushed(parsed, conditions) == answer(rows, conditions)
    assert len(answer(rows, conditions)) == 10


class Conditions:
    """Makes filters up, from values that are there and from others."""

    def __init__(self, seed, rows):
        self.random = random.Random(seed)
        self.rows = rows

    def value(self, column):
        row = self.random.choice(self.rows)
        value = row[column]
        if isinstance(value, int) and self.random.random() < 0.3:
            return value + self.random.choice((-1000, -1, 1, 7))
        if isinstance(value, dt.datetime) and self.random.random() < 0.5:
            return value + dt.timedelta(microseconds=self.random.choice((-1500, -1, 1, 999)))
        return value if value is not None or column != "keys" else "none"

    def one(self):
        pick = self.random
        column = pick.choice(
            [
                *("topic", "topic", "topic", "queueId", "queueOffset", "queueOffset", "keys"),
                *("physicalOffset", "storeTimestamp", "uniqKey", "msgId", "offsetMsgId"),
                *("brokerName", "tags"),
            ]
        )
        attribute = (column,)
        is_text = column in {"topic", "keys", "uniqKey", "msgId", "offsetMsgId"}
        kind = pick.random()
        if is_text and kind < 0.7:
            return EqualTo(attribute, self.value(column))
        if kind < 0.15:
            return In(attribute, tuple(self.value(column) for _ in range(pick.randint(1, 3))))
        if kind < 0.2:
            return Not(EqualTo(attribute, self.value(column)))
        if kind < 0.25:
            return IsNotNull(attribute)
        return pick.choice(list(COMPARE))(attribute, self.value(column))

    def several(self):
        found = [self.one() for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.6:
            found.append(EqualTo(("topic",), self.value("topic")))
        return [
            each
            for each in found
            if isinstance(each, EqualNullSafe | IsNotNull | Not | In)
            or getattr(each, "value", None) is not None
        ]


def dispatch(tmp_path, log, name="store"):
    store = log.write(tmp_path / name)
    output = tmp_path / f"{name}-output"
    config = config_of(store, output)
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.end)
    dispatcher.close()
    return store, output


class TestAnswers:
    @pytest.mark.parametrize("seed", range(8))
    def test_are_those_of_an_unfiltered_read(self, tmp_path, seed):
        """
        Stores with transactions, out of turn records, batches, several queues a message; with
        queues and index files removed, or short of the log.
        """
        pick = random.Random(seed)
        log = Log()
        fill(log, seed, 150, out_of_turn=seed % 2 == 0, multi=seed % 3 == 0)
        dispatched = (
            log.end if pick.random() < 0.5 else log.places[pick.randrange(90, 150)].position
        )
        store = log.write(tmp_path / "store")
        output = tmp_path / "output"
        dispatcher = StoreDispatcher(config_of(store, output))
        dispatcher.dispatch(dispatched)
        dispatcher.close()
        if pick.random() < 0.5:
            for path in sorted((output / "consumequeue").rglob("0*")):
                if path.is_file() and pick.random() < 0.2:
                    path.unlink()
        for path in sorted((output / "index").iterdir())[: pick.choice((0, 0, 1, 3))]:
            path.unlink()
        parsed = options(store, output)
        rows = rows_of(BatchReader(parsed))
        assert len(rows) == 150
        conditions = Conditions(seed, rows)
        for _ in range(80):
            several = conditions.several()
            assert pushed(parsed, several) == answer(rows, several), several

    def test_a_start_amid_records_is_none(self, tmp_path):
        log = fill(Log(), 3, 80)
        store, output = dispatch(tmp_path, log)
        for start in (1, 500, log.places[7].position, log.places[30].position + 9):
            parsed = options(store, output, startingOffsets=str(start))
            rows = rows_of(BatchReader(parsed))
            for topic in {row["topic"] for row in rows}:
                conditions = [EqualTo(("topic",), topic)]
                assert pushed(parsed, conditions) == answer(rows, conditions)


class TestChoice:
    @pytest.fixture
    def chosen(self, tmp_path, monkeypatch):
        log = Log()
        maker = Messages(5, transactions=False, delays=False, wide=False)
        for _ in range(300):
            log.append(maker.next())
        store, output = dispatch(tmp_path, log)
        found = []
        monkeypatch.setattr(
            "reput.streaming.source.pushdown.filtered.announce",
            lambda *args, aloud: found.append(args),
        )

        def choose(conditions, *, root=output, **more):
            found.clear()
            reader = FilteringReader(options(store, root, **more))
            reader.pushFilters(conditions)
            reader.partitions()
            return found[0][1]

        choose.output = output
        choose.store = store
        choose.rows = rows_of(BatchReader(options(store, output)))
        return choose

    def test_a_topic_is_read_by_its_queues(self, chosen):
        choice = chosen([EqualTo(("topic",), "orders")])
        assert choice.way == choosing.QUEUES
        wanted = [row for row in chosen.rows if row["topic"] == "orders"]
        assert choice.bytes < 1.5 * sum(row["size"] for row in wanted)

    def test_a_queue_offset_is_one_record(self, chosen):
        mine = [row for row in chosen.rows if (row["topic"], row["queueId"]) == ("orders", 1)]
        row = mine[len(mine) // 2]
        conditions = [
            *(EqualTo(("topic",), "orders"), EqualTo(("queueId",), 1)),
            EqualTo(("queueOffset",), row["queueOffset"]),
        ]
        choice = chosen(conditions)
        assert choice.way == choosing.QUEUES
        assert [r.start for r in choice.ranges] == [row["physicalOffset"]]

    def test_a_key_is_read_by_the_index(self, chosen):
        row = next(row for row in chosen.rows if row["uniqKey"] and row["topic"] == "orders")
        conditions = [EqualTo(("topic",), "orders"), EqualTo(("uniqKey",), row["uniqKey"])]
        choice = chosen(conditions)
        assert choice.way == choosing.INDEX
        assert [r.start for r in choice.ranges] == [row["physicalOffset"]]

    def test_without_queues_the_log_is_read(self, chosen):
        shutil.rmtree(chosen.output / "consumequeue")
        choice = chosen([EqualTo(("topic",), "orders")])
        assert (choice.way, choice.reason) == (choosing.LOG, "there is no consume queue")
        choice = chosen([EqualTo(("tags",), "TagA"), EqualTo(("queueId",), 1)])
        assert (choice.way, choice.reason) == (choosing.LOG, "no topic is named")

    def test_queues_that_do_not_fit_are_not_believed(self, chosen):
        """
        Entries that overlap, or that leave a gap where no record begins, are of another log.
        """
        path = min((chosen.output / "consumequeue" / "orders" / "0").iterdir())
        data = bytearray(path.read_bytes())
        data[8:12] = (int.from_bytes(data[8:12], "big") - 4).to_bytes(4, "big")
        path.write_bytes(data)
        choice = chosen([EqualTo(("topic",), "orders")])
        assert (choice.way, choice.reason) == (
            choosing.LOG,
            "the consume queues do not fit the log",
        )

    def test_a_message_id_is_one_place(self, chosen):
        row = chosen.rows[77]
        choice = chosen([EqualTo(("offsetMsgId",), row["offsetMsgId"])])
        assert [tuple(r) for r in choice.ranges] == [
            (row["physicalOffset"], row["physicalOffset"] + 1)
        ]

    def test_times_leave_out_parts_of_the_log_only_if_they_ascend(self, chosen):
        row = chosen.rows[150]
        conditions = [GreaterThanOrEqual(("storeTimestamp",), row["storeTimestamp"])]
        assert (
            chosen(conditions).bytes == chosen.rows[-1]["physicalOffset"] + chosen.rows[-1]["size"]
        )
        ascending = chosen(conditions, ascendingStoreTime="true")
        assert ascending.ranges[0].start <= row["physicalOffset"]
        assert ascending.bytes < chosen.rows[-1]["physicalOffset"] // 1.8

    def test_a_topic_that_is_not_there_is_said(self, chosen, caplog):
        """
        No rows come, as of any condition; a warning in the words of `reput query` says why.
        """
        choice = chosen([EqualTo(("topic",), "oders")])
        known = sorted({row["topic"] for row in chosen.rows})

        assert choice.ranges == ()
        assert choice.reason.startswith("no such topic 'oders'; there are orders, ")
        assert caplog.messages == [f"store {chosen.store.name}: {choice.reason}"]
        caplog.clear()
        for topic in known:
            chosen([EqualTo(("topic",), topic), EqualTo(("queueId",), 99)])
        chosen([EqualTo(("topic",), "oders"), EqualTo(("brokerName",), "another")])
        assert caplog.messages == []

    def test_what_cannot_be_is_not_looked_for(self, chosen):
        assert chosen([EqualTo(("brokerName",), "another")]).ranges == ()
        assert chosen([EqualTo(("offsetMsgId",), "none")]).ranges == ()

    def test_the_line_says_what_was_chosen(self, chosen):
        choice = chosen([EqualTo(("topic",), "orders")])
        wanted = Wanted.of([EqualTo(("topic",), "orders")])
        line = choice.describe("s", wanted)
        assert line.startswith("store s: topic = 'orders': by the consume queues, ")

    def test_tasks_share_the_ranges(self, chosen):
        reader = FilteringReader(options(chosen.store, chosen.output, minPartitions="4"))
        reader.pushFilters([EqualTo(("topic",), "orders")])
        tasks = reader.partitions()
        assert len(tasks) >= 4
        assert all(isinstance(task, LogRanges) for task in tasks)
        starts = [start for task in tasks for start, _ in task.ranges]
        assert starts == sorted(starts)


class TestWanted:
    def test_times_are_rounded_so_that_none_is_lost(self):
        at = dt.datetime(2023, 11, 14, 22, 13, 20, 1500, dt.UTC)
        column = ("storeTimestamp",)
        ms = 1_700_000_000_001
        assert Wanted.of([GreaterThan(column, at)]).store_times == Span(low=ms + 1)
        assert Wanted.of([GreaterThanOrEqual(column, at)]).store_times == Span(low=ms + 1)
        assert Wanted.of([LessThan(column, at)]).store_times == Span(high=ms)
        assert Wanted.of([LessThanOrEqual(column, at)]).store_times == Span(high=ms)

    def test_filters_are_joined(self):
        wanted = Wanted.of(
            [
                In(("topic",), ("a", "b", None)),
                EqualTo(("topic",), "b"),
                GreaterThan(("queueOffset",), 5),
                LessThan(("queueOffset",), 9),
                StringContains(("topic",), "x"),
                EqualTo(("properties", "a"), "b"),
            ]
        )
        assert wanted.topics == {"b"}
        assert wanted.queue_offsets == Span(6, 8)
        assert len(wanted.filters) == 4


def test_one_output_is_for_one_path(tmp_path):
    with pytest.raises(UsageError, match="several stores"):
        parse({"path": f"{tmp_path}/a,{tmp_path}/b", "output": str(tmp_path)})


@pytest.mark.spark
class TestSpark:
    def test_answers_are_the_same_with_and_without(self, spark, tmp_path):
        log = fill(Log(), 11, 200, out_of_turn=True)
        store, output = dispatch(tmp_path, log)

        def read(pushdown):
            return (
                spark.read.format("rocketmq")
                .options(**BROKER, path=str(store), output=str(output), pushdown=pushdown)
                .load()
            )

        rows = rows_of(BatchReader(options(store, output)))
        middle = rows[100]
        key = next(row["keys"] for row in rows if row["keys"] and row["topic"] == "orders")
        for condition in (
            f.col("topic") == "orders",
            (f.col("topic") == "orders") & (f.col("queueId") == 1) & (f.col("queueOffset") >= 3),
            (f.col("topic") == "orders") & (f.col("keys") == key),
            f.col("topic").isin("orders", "a")
            & (f.col("storeTimestamp") > middle["storeTimestamp"]),
            f.col("physicalOffset").between(middle["physicalOffset"], 10**9),
            f.col("offsetMsgId") == middle["offsetMsgId"],
            (f.col("topic") == "orders") | (f.col("queueId") == 2),
            f.col("storeTimestamp") < "2023-11-14 22:15:00",
        ):
            with_it, without = (
                sorted(row["physicalOffset"] for row in read(pushdown).where(condition).collect())
                for pushdown in ("true", "false")
            )
            assert with_it == without
            assert with_it
