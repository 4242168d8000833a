"""A stream on a log that is cut: it delivers what the log has, or says why it cannot."""

from __future__ import annotations

import json

import pytest

from reput.formats.errors import ReputError
from reput.stores.following.head_cursor import HeadCursor
from reput.streaming.source.marks import Mark, marks_of
from reput.streaming.source.offsets import StoreOffsets
from reput.streaming.source.options import parse
from reput.streaming.source.stream import StreamReader
from tests.builders.brokers import go_on_at_hole, put_with_hole, queue, write_over
from tests.builders.stores import SMALL


class Stream:
    """Plans and reads as Spark does; `offset` is what its checkpoint has."""

    def __init__(self, store, **options: str) -> None:
        brokers = {f"broker.{name}": value for name, value in SMALL.items()}
        self._options = {"path": str(store), **brokers, **options}
        self.parsed = parse(self._options)
        self.restart()
        self.offset = self._through_json(self.reader.initialOffset())
        self.delivered: list[int] = []

    def restart(self) -> None:
        self.reader = StreamReader(parse(self._options))

    def _through_json(self, offset):
        return json.loads(json.dumps(offset))

    def plan(self):
        limit = self.reader.getDefaultReadLimit()
        return self._through_json(self.reader.latestOffset(self.offset, limit))

    def run(self) -> None:
        """Read all that is new."""
        end = self.plan()
        while end != self.offset:
            self.read(end)
            end = self.plan()

    def read(self, end) -> None:
        for partition in self.reader.partitions(self.offset, end):
            for batch in self.reader.read(partition):
                self.delivered += batch.column("physicalOffset").to_pylist()
        self.offset = end


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr("reput.stores.log.tail_watch._LOOK_SECONDS", 0)
    monkeypatch.setattr("reput.stores.following.vouch._REST_SECONDS", 0)


@pytest.fixture
def plain(made):
    broker, _ = made()
    for number in range(100):
        broker.put(queue(number, store_timestamp=1000 + number))
    return broker


SIZES = pytest.mark.parametrize("size", [50, 51, 20], ids=["same", "longer", "shorter"])


class TestCut:
    @SIZES
    @pytest.mark.parametrize("count", [1, 40, 70, 200], ids=["less", "some", "exact", "more"])
    @pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
    def test_records_that_were_read_are_gone(self, plain, count, size, is_restarted):
        """
        Shorter, as long, or grown past the stream's offset: an error, never silence.
        """
        stream = Stream(plain.store)
        stream.run()
        assert len(stream.delivered) == 100
        write_over(plain, 30, count, size=size, now=9000)
        if is_restarted:
            stream.restart()

        with pytest.raises(ReputError, match=r"been cut.*new checkpoint"):
            stream.run()
        assert len(stream.delivered) == 100

    @SIZES
    def test_a_batch_that_is_repeated_is_looked_at_too(self, plain, size):
        """
        Spark hands a batch in again that it had planned and not committed.
        """
        stream = Stream(plain.store, maxBytesPerTrigger="3000")
        stream.read(stream.plan())
        end = stream.plan()
        write_over(plain, 15, 100, size=size, now=9000)
        stream.restart()

        with pytest.raises(ReputError, match="been cut"):
            stream.read(end)

    def test_what_is_cut_before_it_was_read_is_no_loss(self, plain):
        """
        The stream had not come so far: it reads what stands there now.
        """
        stream = Stream(plain.store, maxBytesPerTrigger="3000")
        stream.read(stream.plan())
        write_over(plain, 60, 80, size=51, now=9000)
        stream.restart()
        stream.run()

        assert stream.delivered == [place.position for place in plain.log.places]

    def test_it_can_be_told_to_go_on(self, plain):
        """
        With failOnDataLoss=false it continues at its offset, wherever records begin there now.
        """
        stream = Stream(plain.store, failOnDataLoss="false")
        stream.run()
        place = marks_of(stream.offset)["store"].position
        write_over(plain, 30, 150, size=51, now=9000)
        stream.run()

        after = [p.position for p in plain.log.places if p.position >= place]
        assert stream.delivered[100:] == after

    def test_a_cut_is_said_once_until_the_log_grows(self, plain, caplog, monkeypatch):
        """
        Spark asks again and again with the same offset: the file is read for it once.
        """
        stream = Stream(plain.store, failOnDataLoss="false")
        stream.run()
        place = marks_of(stream.offset)["store"].position
        plain.recover(plain.log.places[30].position)
        for number in range(30, 100):
            plain.put(queue(number, store_timestamp=9000 + number))
        assert plain.log.end == place
        summed = []
        whole = HeadCursor.sum_to

        def sum_to(self, position):
            summed.append(self._position)
            return whole(self, position)

        monkeypatch.setattr(HeadCursor, "sum_to", sum_to)
        for _ in range(6):
            assert marks_of(stream.plan())["store"].position == place
        from_start = [position for position in summed if position < place]
        assert len(from_start) == 1
        assert len([r for r in caplog.records if "been cut" in r.message]) == 1
        plain.append(5)
        stream.run()
        assert stream.delivered[100:] == [
            p.position for p in plain.log.places if p.position >= place
        ]
        write_over(plain, 60, 60, size=51, now=19000)
        stream.plan()
        assert len([r for r in caplog.records if "been cut" in r.message]) == 2


class TestHole:
    """Zeros in the last file, that the stream has passed over with onCorrupt=skip."""

    @pytest.fixture
    def holed(self, made):
        broker, _ = made()
        start, _ = put_with_hole(broker)
        stream = Stream(broker.store, onCorrupt="skip")
        stream.run()
        assert len(stream.delivered) == 75
        return broker, stream, start

    @pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
    @pytest.mark.parametrize("sizes", [(50,) * 4, (50,), (20,), (2500, 50)], ids=len)
    def test_a_cut_at_it_is_said(self, holed, sizes, is_restarted):
        """
        A broker that starts cuts its log there. What stood after the hole was delivered.
        """
        broker, stream, start = holed
        go_on_at_hole(broker, start, sizes, now=9000)
        if is_restarted:
            stream.restart()

        with pytest.raises(ReputError, match=r"been cut.*new checkpoint"):
            stream.run()
        assert len(stream.delivered) == 75

    @pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
    def test_a_cut_after_it_is_said(self, holed, is_restarted):
        """
        The last record before the offset is another one now, of the same size.
        """
        broker, stream, _ = holed
        hole = broker.log.places[-3]
        broker.log.data[hole.position : hole.end] = bytes(hole.size)
        write_over(broker, 75, 3, size=50, now=9000)
        if is_restarted:
            stream.restart()

        with pytest.raises(ReputError, match=r"been cut.*new checkpoint"):
            stream.run()

    def test_a_log_that_grows_is_delivered_once(self, holed):
        broker, stream, start = holed
        for number in range(76, 120):
            broker.put(queue(number, store_timestamp=1000 + number))
            if number % 5 == 0:
                stream.restart()
            if number % 3 == 0:
                stream.run()
        stream.run()

        assert stream.delivered == [p.position for p in broker.log.places if p.position != start]

    @pytest.mark.parametrize("limit", ["maxBytesPerTrigger", "maxBytesPerStore"])
    @pytest.mark.parametrize("cap", ["100", "1000", "3000"])
    def test_a_limit_in_bytes_leads_past_it(self, made, limit, cap):
        """
        A batch that ends at the hole is followed by one that continues after it.
        """
        broker, _ = made()
        start, _ = put_with_hole(broker)
        stream = Stream(broker.store, onCorrupt="skip", **{limit: cap})
        stream.run()

        assert stream.delivered == [p.position for p in broker.log.places if p.position != start]
        assert stream.offset[broker.store.name]["offset"] == broker.log.end

    def test_a_limit_in_bytes_leads_out_of_what_stands_after_a_blank(self, made):
        """
        The log was cut at the hole a moment ago, and the batch before went up to its old end.
        """
        broker, _ = made()
        start, _ = put_with_hole(broker)
        stream = Stream(broker.store, onCorrupt="skip")
        offsets = StoreOffsets(stream.parsed.stores[0], skips_corrupt=True)
        before = offsets.end()
        go_on_at_hole(broker, start, (2500, 50), now=9000)
        end = offsets.end()
        place = broker.log.places[-2].position
        assert start < before < place < end

        assert offsets.after_bytes(before, 100, end) == place
        assert offsets.after_bytes(place, 100, end) == broker.log.places[-1].position


class TestExpiring:
    """Files that a broker removes up to a stream's offset, and beyond, are not a cut."""

    def stream(self, plain, monkeypatch, *, is_at_file_end: bool, **options):
        """Return a stream that has looked at the log, and the path of its offset's file."""
        monkeypatch.setattr("reput.stores.log.tail_watch._LOOK_SECONDS", 3600)
        size = plain.log.file_size
        inside = next(p.position for p in plain.log.places if p.position > size + 500)
        stop = 2 * size if is_at_file_end else inside
        stream = Stream(plain.store, **options)
        stream.offset = {"store": StoreOffsets(stream.parsed.stores[0]).mark(stop).as_json()}
        assert marks_of(stream.offset)["store"].log is not None
        stream.plan()
        return stream, sorted((plain.store / "commitlog").iterdir())[:2]

    @pytest.mark.parametrize("is_lost", [False, True])
    def test_after_a_look_at_the_log(self, plain, monkeypatch, is_lost):
        """
        At the end of the file that expired nothing is lost. Inside of it the error names expiry.
        """
        stream, files = self.stream(plain, monkeypatch, is_at_file_end=not is_lost)
        for path in files:
            path.unlink()
        if is_lost:
            with pytest.raises(ReputError, match="have expired"):
                stream.run()
        else:
            stream.run()
            end = 2 * plain.log.file_size
            assert stream.delivered == [p.position for p in plain.log.places if p.position >= end]

    def test_while_the_file_is_read(self, plain, monkeypatch):
        stream, files = self.stream(plain, monkeypatch, is_at_file_end=True)
        stream.restart()
        whole = HeadCursor.sum_to

        def sum_to(self, position):
            for path in files:
                path.unlink(missing_ok=True)
            self._log.close()
            return whole(self, position)

        monkeypatch.setattr(HeadCursor, "sum_to", sum_to)
        stream.run()
        assert stream.delivered
        assert not [path for path in files if path.exists()]


class TestGrowing:
    @pytest.mark.parametrize("cap", ["1", "500", "3000", "100000"])
    def test_a_log_that_grows_is_delivered_once(self, plain, cap):
        """
        With restarts in between, and batches that end inside records.
        """
        stream = Stream(plain.store, maxBytesPerTrigger=cap)
        for number in range(6):
            stream.run()
            plain.append(7)
            if number % 2:
                stream.restart()
        stream.run()

        assert stream.delivered == [place.position for place in plain.log.places]

    def test_an_offset_of_an_earlier_version_goes_on(self, plain):
        """
        A number alone tells nothing of the log, and is taken as it is.
        """
        stream = Stream(plain.store)
        stream.run()
        place = marks_of(stream.offset)["store"].position
        stream.offset = {"store": place}
        stream.restart()
        plain.append(5)
        stream.run()

        assert len(stream.delivered) == 105

    def test_nothing_new_is_the_same_offset(self, plain):
        """
        Spark plans a batch wherever an offset differs.
        """
        stream = Stream(plain.store)
        stream.run()
        stream.restart()

        assert stream.plan() == stream.offset


class TestMarks:
    def test_a_place_alone_is_written_as_a_number(self):
        assert Mark(7).as_json() == 7
        assert marks_of({"a": 7, "b": {"offset": 8, "log": "ff"}}) == {
            "a": Mark(7),
            "b": Mark(8, "ff"),
        }

    @pytest.mark.parametrize("value", ["7", None, {"log": "ff"}, {"offset": 7, "log": 3}, True])
    def test_what_is_no_offset_is_refused(self, value):
        with pytest.raises(ReputError, match="not a place in a commitlog"):
            marks_of({"a": value})
