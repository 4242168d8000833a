"""The source on a real Spark: batch and stream, limits, restarts, live logs, errors."""

from __future__ import annotations

import hashlib
import json
import sys
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from reput.formats.errors import UsageError
from reput.streaming.source.datasource import RocketMQDataSource
from reput.streaming.source.stream import expect_the_end
from tests.builders.logs import FILE_SIZE, overwrite, write_store

pytestmark = pytest.mark.spark
SMALL = {"broker.mappedFileSizeCommitLog": str(FILE_SIZE)}
COUNT = 60


def messages(count=COUNT, first=0):
    return [
        {
            "topic": f"topic-{i % 3}",
            "body": b"body %d " % i * 5,
            "properties": {"TAGS": "tag", "UNIQ_KEY": f"{i:032X}"},
            "queue_offset": i,
            "store_timestamp": 1_700_000_000_000 + 1000 * i,
        }
        for i in range(first, first + count)
    ]


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    placed = write_store(path, messages())
    return path, placed


class Query:
    """Runs a stream with one checkpoint, trigger by trigger, and keeps what came."""

    def __init__(self, spark, path, **options):
        self.spark = spark
        self.options = {"path": str(path), **SMALL, **options}
        self.checkpoint = None
        self.batches = []

    def run(self, checkpoint):
        """Read what is there and return the physical offsets of each batch."""
        self.batches = []
        frame = self.spark.readStream.format("rocketmq").options(**self.options).load()
        writer = frame.select("brokerName", "physicalOffset").writeStream.foreachBatch(self.take)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        return self.batches

    def take(self, frame, _):
        rows = [(name, offset) for name, offset in frame.collect()]
        self.batches.append(sorted(rows))


def batch(spark, path, **options):
    frame = spark.read.format("rocketmq").options(path=str(path), **SMALL, **options).load()
    return sorted(row[0] for row in frame.select("physicalOffset").collect())


def positions(placed):
    return [p.position for p in placed]


def offsets(batches):
    return [offset for rows in batches for _, offset in rows]


def test_batch_and_stream_and_readable_reader_agree(spark, golden, tmp_path):
    """
    As many rows with the same bodies, from a store that a real broker wrote.
    """
    from tests.streaming.source.test_rows import log_of, read, store_of

    real = golden("5.5.0", "basic")
    options = {f"broker.{name}": value for name, value in real.conf.items()}
    expected = read(store_of(real.path, "5.5.0", **real.conf), 0, end_of(log_of(real.path)))
    rows = spark.read.format("rocketmq").options(path=str(real.path), **options).load()
    found = [(r.physicalOffset, bytes(r.body)) for r in rows.collect()]
    streamed = []

    def take(frame, _):
        streamed.extend((r.physicalOffset, bytes(r.body)) for r in frame.collect())

    stream = spark.readStream.format("rocketmq").options(path=str(real.path), **options).load()
    writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()

    def digest(pairs):
        return len(pairs), hashlib.sha256(b"".join(b for _, b in sorted(pairs))).hexdigest()

    assert digest(found) == digest([(r["physicalOffset"], r["body"]) for r in expected])
    assert digest(streamed) == digest(found)


def end_of(log):
    """Return the physical offset after the last byte that is not zero."""
    base = max(log)
    return base + len(log[base].rstrip(b"\0"))


def test_columns_arrive_as_they_are_named(spark, tmp_path):
    path = tmp_path / "broker-a"
    fields = {
        "topic": "订单",
        "body": b"\0\xff",
        "properties": b"TAGS\x01t\x02KEYS\x01k1 k2\x02x\x01\xed\xa0\x80\x02",
        "queue_id": 3,
        "flag": 7,
        "born_timestamp": 1_700_000_000_123,
        "store_host": "fd00::1",
    }
    write_store(path, [fields])
    frame = spark.read.format("rocketmq").options(path=str(path), **SMALL).load()
    row = frame.selectExpr("*", "unix_millis(bornTimestamp) AS born").collect()[0].asDict()

    assert (row["brokerName"], row["topic"], row["queueId"], row["flag"]) == (
        "broker-a",
        "订单",
        3,
        7,
    )
    assert bytes(row["body"]) == b"\0\xff"
    assert row["properties"] == {"TAGS": "t", "KEYS": "k1 k2", "x": "\ufffd"}
    assert (row["tags"], row["keys"], row["uniqKey"]) == ("t", "k1 k2", None)
    assert row["msgId"] == row["offsetMsgId"]
    assert len(row["offsetMsgId"]) == 56
    assert (row["bornHost"], row["storeHost"]) == ("10.0.0.9:50001", "[fd00::1]:10911")
    assert row["born"] == 1_700_000_000_123


def test_two_stores_in_one_query(spark, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    in_a, in_b = write_store(a, messages(20)), write_store(b, messages(9))
    query = Query(spark, f"{a},{b}")
    found = query.run(tmp_path / "c")[0]

    assert found == [("a", p) for p in positions(in_a)] + [("b", p) for p in positions(in_b)]
    named = {"stores": json.dumps({"x": str(a), "y": {"path": str(b)}}), "endingOffsets": "latest"}
    frame = spark.read.format("rocketmq").options(**SMALL, **named).load()
    assert dict(frame.groupBy("brokerName").count().collect()) == {"x": 20, "y": 9}


@pytest.mark.parametrize("partitions", [1, 2, 7, 40])
def test_any_number_of_partitions_gives_the_same_rows(spark, store, partitions):
    path, placed = store
    frame = spark.read.format("rocketmq").options(path=str(path), **SMALL)
    frame = frame.option("minPartitions", partitions).load()

    assert frame.rdd.getNumPartitions() >= partitions
    assert [r.physicalOffset for r in frame.select("physicalOffset").collect()] == positions(placed)


class TestLimits:
    def test_records_are_counted_exactly(self, spark, store, tmp_path):
        path, placed = store
        batches = Query(spark, path, maxRecordsPerTrigger="25").run(tmp_path / "c")

        assert [len(rows) for rows in batches] == [25, 25, 10]
        assert offsets(batches) == positions(placed)

    def test_bytes_are_a_soft_cap_with_one_record_at_least(self, spark, store, tmp_path):
        path, placed = store
        sizes = [len(p.raw) for p in placed]
        batches = Query(spark, path, maxBytesPerTrigger="2k").run(tmp_path / "c")

        assert offsets(batches) == positions(placed)
        by_position = dict(zip(positions(placed), sizes, strict=True))
        for rows in batches:
            assert rows
            assert sum(by_position[p] for _, p in rows) < 2048 + max(sizes)

    def test_of_both_the_smaller_counts(self, spark, store, tmp_path):
        path, _ = store
        both = {"maxRecordsPerTrigger": "40", "maxBytesPerTrigger": "4k"}
        batches = Query(spark, path, **both).run(tmp_path / "c")

        assert max(len(rows) for rows in batches) < 40

    def test_stores_share_a_limit(self, spark, tmp_path):
        """
        What the smaller store does not need is the larger one's; nobody waits for long.
        """
        a, b = tmp_path / "a", tmp_path / "b"
        write_store(a, messages(30))
        write_store(b, messages(4))
        batches = Query(spark, f"{a},{b}", maxRecordsPerTrigger="20").run(tmp_path / "c")

        assert [len(rows) for rows in batches] == [20, 14]
        assert sum(name == "b" for name, _ in batches[0]) == 4


class TestBounds:
    def test_starting_and_ending(self, spark, store):
        path, placed = store
        all_of = positions(placed)
        middle = placed[30].position
        moment = 1_700_000_000_000 + 30_000

        assert batch(spark, path, startingOffsets="latest") == []
        assert batch(spark, path, startingOffsets=str(middle)) == all_of[30:]
        assert batch(spark, path, startingOffsets=str(middle - 1)) == all_of[30:]
        assert batch(spark, path, startingOffsets=str(middle + 1)) == all_of[31:]
        assert batch(spark, path, startingOffsets='{"store": "earliest"}') == all_of
        assert batch(spark, path, startingTimestamp=str(moment)) == all_of[30:]
        assert batch(spark, path, startingOffsets=f"timestamp:{moment - 1}") == all_of[30:]
        assert batch(spark, path, startingTimestamp="2023-11-14T22:13:51Z") == all_of[31:]
        assert batch(spark, path, endingOffsets=str(middle)) == all_of[:30]
        assert batch(spark, path, endingTimestamp=str(moment)) == all_of[:30]

    def test_stream_begins_where_it_is_told(self, spark, store, tmp_path):
        path, placed = store
        query = Query(spark, path, startingOffsets="latest")
        assert offsets(query.run(tmp_path / "latest")) == []
        query = Query(spark, path, startingOffsets=str(placed[50].position))
        assert offsets(query.run(tmp_path / "offset")) == positions(placed)[50:]


class TestLiveLog:
    def test_torn_tail_is_invisible_until_it_is_whole(self, spark, tmp_path):
        """
        A preallocated file, then a record that comes in halves, then the next file.
        """
        path = tmp_path / "store"
        placed = write_store(path, messages(20))
        for p in placed:
            overwrite(path, p.position, bytes(len(p.raw)))
        query, checkpoint = Query(spark, path), tmp_path / "c"
        assert offsets(query.run(checkpoint)) == []

        for p in placed[:2]:
            overwrite(path, p.position, p.raw)
        third = placed[2]
        overwrite(path, third.position, third.raw[: len(third.raw) // 2])
        assert offsets(query.run(checkpoint)) == positions(placed[:2])
        overwrite(path, third.position, third.raw)
        assert offsets(query.run(checkpoint)) == [third.position]
        for p in placed[3:]:
            overwrite(path, p.position, p.raw)
        assert offsets(query.run(checkpoint)) == positions(placed[3:])

    def test_store_without_a_file_yet(self, spark, tmp_path):
        path = tmp_path / "store"
        (path / "commitlog").mkdir(parents=True)
        query, checkpoint = Query(spark, path), tmp_path / "c"
        assert offsets(query.run(checkpoint)) == []
        placed = write_store(path, messages(3), base=5 * FILE_SIZE)
        assert offsets(query.run(checkpoint)) == positions(placed)

    def test_processing_time_follows_the_log(self, spark, tmp_path):
        path = tmp_path / "store"
        placed = write_store(path, messages(5))
        extra = write_store(tmp_path / "longer", messages(8))[5:]
        query = Query(spark, path)
        frame = spark.readStream.format("rocketmq").options(**query.options).load()
        writer = frame.select("brokerName", "physicalOffset").writeStream.foreachBatch(query.take)
        running = writer.option("checkpointLocation", str(tmp_path / "c")).start()
        try:
            running.processAllAvailable()
            for p in extra:
                overwrite(path, p.position, p.raw)
            running.processAllAvailable()
            latest = running.lastProgress["sources"][0]["latestOffset"]
        finally:
            running.stop()
        assert offsets(query.batches) == positions(placed) + positions(extra)
        assert json.loads(latest) == {"store": extra[-1].end}


class TestRestart:
    def test_goes_on_exactly_after_the_checkpoint(self, spark, store, tmp_path):
        path, placed = store
        query, checkpoint = Query(spark, path, maxBytesPerTrigger="5k"), tmp_path / "c"
        first = offsets(query.run(checkpoint))
        assert offsets(query.run(checkpoint)) == []
        longer = write_store(path, messages(COUNT + 10))
        assert first == positions(placed)
        assert offsets(query.run(checkpoint)) == positions(longer)[COUNT:]

    def test_other_stores_than_the_checkpoints_are_refused(self, spark, store, tmp_path):
        path, _ = store
        write_store(tmp_path / "b", messages(3))
        checkpoint = tmp_path / "c"
        Query(spark, path).run(checkpoint)

        with pytest.raises(PySparkException, match="of the stores store; the options name b, st"):
            Query(spark, f"{path},{tmp_path / 'b'}").run(checkpoint)
        with pytest.raises(PySparkException, match="of the stores store; the options name b\\. "):
            Query(spark, tmp_path / "b").run(checkpoint)

    @pytest.mark.parametrize("fails", [True, False])
    def test_expired_records(self, spark, store, tmp_path, fails):
        path, _ = store
        checkpoint = tmp_path / "c"
        query = Query(spark, path, failOnDataLoss=str(fails).lower())
        query.run(checkpoint)
        longer = write_store(path, messages(4 * COUNT))
        lost = longer[COUNT - 1].end
        for file in sorted((path / "commitlog").iterdir())[:3]:
            file.unlink()
        first = int(min((path / "commitlog").iterdir()).name)

        assert lost < first
        if fails:
            expected = f"store store: physical offsets {lost} to {first} have expired"
            with pytest.raises(PySparkException, match=expected):
                query.run(checkpoint)
        else:
            expected = [p for p in positions(longer) if p >= first]
            assert offsets(query.run(checkpoint)) == expected


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"maxBytePerTrigger": "1m"}, "option 'maxbytepertrigger' is not known; did you mean"),
            ({"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger='much' is not a number of bytes"),
            ({"startingOffsets": "newest"}, "startingOffsets='newest': it is earliest or latest"),
            ({"path": "/nowhere"}, "/nowhere: no such directory"),
        ],
    )
    def test_load_says_what_is_wrong(self, spark, store, options, message):
        path, _ = store
        with pytest.raises(PySparkException, match=message):
            spark.read.format("rocketmq").options(**{"path": str(path), **SMALL, **options}).load()

    def test_columns_of_ones_own_are_refused(self, spark, store):
        path, _ = store
        frame = spark.read.format("rocketmq").options(path=str(path), **SMALL)
        with pytest.raises(PySparkException, match="schema: the columns are brokerName"):
            frame.schema("a int").load().collect()

    def test_good_records_come_before_a_corrupt_one(self, spark, store, tmp_path):
        """
        In the middle of the log when it is read, in its last file when it is planned.
        """
        path, placed = store
        bad = placed[-4]
        overwrite(path, bad.position + 90, b"!")
        place = f"byte {bad.position % FILE_SIZE}: a record whose body does not match"
        query = Query(spark, path)

        with pytest.raises(PySparkException, match=place):
            query.run(tmp_path / "c")
        assert offsets(query.batches) == positions(placed[:-4])
        with pytest.raises(PySparkException, match=place):
            batch(spark, path)
        overwrite(path, placed[1].position + 90, b"!")
        with pytest.raises(PySparkException, match=r"commitlog/0+ at byte"):
            batch(spark, path, endingOffsets=str(FILE_SIZE))


def test_ranges_are_a_row_for_each_store_and_batch(spark, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    in_a, in_b = write_store(a, messages(20)), write_store(b, messages(5))
    seen = []

    def take(frame, _):
        seen.append(sorted(tuple(row) for row in frame.collect()))

    options = {"path": f"{a},{b}", "rows": "ranges", "maxRecordsPerTrigger": "12", **SMALL}
    frame = spark.readStream.format("rocketmq").options(**options).load()
    writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()

    assert seen == [
        [("a", 0, in_a[7].position), ("b", 0, in_b[-1].end)],
        [("a", in_a[7].position, in_a[19].position)],
        [("a", in_a[19].position, in_a[-1].end)],
    ]


def test_a_wrong_option_has_one_frame_of_ours():
    """
    Spark shows a user all frames before what is wrong.
    """
    with pytest.raises(UsageError, match="did you mean startingOffsets") as raised:
        RocketMQDataSource({"path": "/x", "startingoffset": "1"})

    frames = [each for each in raised.traceback if str(each.path) != __file__]
    assert [each.name for each in frames] == ["__init__"]


def test_a_planner_whose_spark_has_ended_says_nothing(monkeypatch, capsys):
    """
    Its socket is gone; any other error is told as ever, and so is that of any other process.
    """
    before = sys.excepthook
    expect_the_end()
    assert sys.excepthook is before
    spec = SimpleNamespace(name="pyspark.sql.streaming.python_streaming_source_runner")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    monkeypatch.setattr(sys, "excepthook", before)
    expect_the_end()

    sys.excepthook(BrokenPipeError, BrokenPipeError(32, "Broken pipe"), None)
    assert capsys.readouterr().err == ""
    sys.excepthook(ValueError, ValueError("else"), None)
    assert "ValueError: else" in capsys.readouterr().err
