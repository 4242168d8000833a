"""`reput tail` on queues that are being written, and on logs that are cut under it."""

from __future__ import annotations

import os
import random
import struct

import pytest

from reput.formats.rocketmq import broker as versions
from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import Message
from reput.stores.config.message_filter import compile_filter
from reput.stores.query import tail_place
from reput.stores.query.message_store import MessageStore
from reput.stores.query.tail import QueueTail
from tests.builders.stores import QUEUE_FILE, SMALL, Log
from tests.stores.following.test_log_end import cut, put

NOW = 1_700_000_000_000
ENTRY = struct.Struct(">qiq")


class Broker:
    """Writes a log and its queues as a broker does: what is cut it writes over, and erases not."""

    def __init__(self, root) -> None:
        self.store = root / "store"
        self.log = Log()
        self.now = NOW
        self.log.write(self.store, ahead=1)
        self.queues: dict[tuple[str, int], int] = {}
        self.serial = 0

    def open(self) -> MessageStore:
        return MessageStore.open(self.store, None, versions.settings_of("5.5", SMALL))

    def put(self, *, topic="t", queue_id=0, size=30, tag="a", dispatched=True) -> str:
        self.now += 1
        self.serial += 1
        number = self.queues.get((topic, queue_id), 0)
        body = str(self.serial).encode().ljust(size)
        # With the BLANK that comes first, if one does.
        begin = self.log.end
        place = self.log.append(
            Message(
                topic,
                body,
                {"TAGS": tag},
                queue_id=queue_id,
                queue_offset=number,
                store_timestamp=self.now,
            )
        )
        put(self.store, begin, bytes(self.log.data[begin:]))
        if dispatched:
            self.entry(place, topic, queue_id, number)
        self.queues[topic, queue_id] = number + 1
        return str(self.serial)

    def entry(self, place, topic, queue_id, number, *, size=None, code=None) -> None:
        code = ord("a") if code is None else code
        raw = ENTRY.pack(place.position, size if size is not None else place.size, code)
        self.write(topic, queue_id, number * 20, raw)

    def write(self, topic, queue_id, position, raw) -> None:
        base = position - position % QUEUE_FILE
        path = self.store / "consumequeue" / topic / str(queue_id) / names.offset_file(base)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(bytes(QUEUE_FILE))
        with path.open("r+b") as file:
            file.seek(position - base)
            file.write(raw)

    def cut(self, number: int) -> None:
        """Cut before a record, and the queues: files whose first entry is cut are removed."""
        self.now += 10_000
        end = self.log.places[number].position
        lost = self.log.places[number:]
        cut(self.store, self.log, number)
        for place in lost:
            message = place.message
            key = message.topic, message.queue_id
            self.queues[key] = min(self.queues[key], message.queue_offset)
        for path in (self.store / "consumequeue").glob("*/*/*"):
            if ENTRY.unpack(path.read_bytes()[:20])[0] >= end:
                path.unlink()


def texts(tail) -> list[str]:
    return [arrival.record.body.decode().strip() for arrival in tail.look()]


class TestBeingWritten:
    @pytest.fixture
    def broker(self, tmp_path):
        broker = Broker(tmp_path)
        broker.put(topic="other")
        for _ in range(3):
            broker.put()
        return broker

    def test_an_entry_whose_code_is_not_there_yet_is_shown(self, broker):
        with broker.open() as store:
            tail = QueueTail(store, "t", compile_filter("a"))
            broker.put(dispatched=False)
            broker.entry(broker.log.places[-1], "t", 0, 3, code=0)
            assert texts(tail) == ["5"]
            broker.entry(broker.log.places[-1], "t", 0, 3)
            assert texts(tail) == []

    def test_an_entry_whose_offset_is_not_there_yet_waits_for_it(self, broker):
        """
        Of the log's first record, of another topic, nothing is shown, and nothing is lost.
        """
        with broker.open() as store:
            for wanted in (None, compile_filter("a")):
                store.refresh()
                tail = QueueTail(store, "t", wanted)
                name = broker.put(dispatched=False)
                number = broker.queues["t", 0] - 1
                place = broker.log.places[-1]
                broker.write("t", 0, number * 20, ENTRY.pack(0, place.size, 97))
                assert texts(tail) == []
                broker.entry(place, "t", 0, number)
                assert texts(tail) == [name]

    @pytest.mark.parametrize("written", range(1, 20))
    def test_an_entry_that_is_written_in_part(self, broker, written):
        with broker.open() as store:
            tail = QueueTail(store, "t", compile_filter("a"))
            name = broker.put(dispatched=False)
            raw = ENTRY.pack(broker.log.places[-1].position, broker.log.places[-1].size, 97)
            broker.write("t", 0, 3 * 20, raw[:written])
            seen = texts(tail)
            broker.write("t", 0, 3 * 20, raw)
            assert seen + texts(tail) == [name]

    def test_what_is_damaged_is_passed_when_an_entry_that_fits_follows(self, broker):
        with broker.open() as store:
            tail = QueueTail(store, "t")
            broker.put()
            put(broker.store, broker.log.places[-1].position + 100, b"\xff")
            assert texts(tail) == []
            name = broker.put()
            assert texts(tail) == [name]

    def test_a_fast_writer_loses_nothing(self, broker):
        """
        A process writes 2,000 entries, tags code last, while they are looked for.
        """
        count = 2000
        for _ in range(count):
            broker.put(dispatched=False)
        places = broker.log.places[-count:]
        with broker.open() as store:
            tail = QueueTail(store, "t", compile_filter("a"))
            child = os.fork()
            if child == 0:
                try:
                    for i, place in enumerate(places):
                        raw = ENTRY.pack(place.position, place.size, 97)
                        for start, stop in ((8, 12), (0, 8), (12, 20)):
                            broker.write("t", 0, (3 + i) * 20 + start, raw[start:stop])
                finally:
                    os._exit(0)
            seen = []
            while len(seen) < count:
                seen += texts(tail)
                done, _ = os.waitpid(child, os.WNOHANG)
                if done:
                    seen += texts(tail)
                    break
            assert seen == [str(i) for i in range(5, 5 + count)]


class TestCut:
    def test_opened_before(self, tmp_path):
        """
        What stood there is left, what is new is shown, and that something is gone is said.
        """
        broker = Broker(tmp_path)
        for _ in range(40):
            broker.put()
        with broker.open() as store:
            tail = QueueTail(store, "t", from_start=True)
            assert len(texts(tail)) == 40
            broker.cut(20)
            new = [broker.put(size=33) for _ in range(7)]
            assert texts(tail) == new
            (note,) = tail.notes
            assert "the log was cut; the messages at queue offsets 20 to 39" in note
            assert texts(tail) == []
            new = [broker.put(size=33) for _ in range(40)]
            assert texts(tail) == new

    def test_opened_after(self, tmp_path):
        broker = Broker(tmp_path)
        for _ in range(40):
            broker.put()
        broker.cut(20)
        for _ in range(7):
            broker.put(size=33)
        with broker.open() as store:
            assert store.queue("t", 0).max_offset == 27
            tail = QueueTail(store, "t")
            for _ in range(20):
                assert texts(tail) == []
                name = broker.put(size=33)
                assert texts(tail) == [name]
            assert tail.notes == []

    def test_more_is_cut_than_is_remembered(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tail_place, "_REMEMBERED", 10)
        broker = Broker(tmp_path)
        for _ in range(60):
            broker.put()
        with broker.open() as store:
            tail = QueueTail(store, "t", from_start=True)
            assert len(texts(tail)) == 60
            broker.cut(20)
            new = [broker.put(size=33) for _ in range(45)]
            assert texts(tail) == new
            assert len(tail.notes) == 1

    @pytest.mark.parametrize("seed", range(12))
    def test_of_any_history_what_is_new_is_shown_once(self, tmp_path, seed, monkeypatch):
        """
        Two topics, two queues, records of one size or of several, cut now and then: each message
        is shown as long as it is looked at before it is cut, and none twice.
        """
        monkeypatch.setattr(tail_place, "_REMEMBERED", 128)
        monkeypatch.setattr(tail_place, "_COMPARED", 64)
        pick = random.Random(seed)
        broker = Broker(tmp_path)
        same_size = pick.random() < 0.5
        broker.put()
        with broker.open() as store:
            tail = QueueTail(store, "t")
            for _ in range(60):
                kind = pick.random()
                if kind < 0.15:
                    broker.cut(
                        pick.randrange(
                            max(1, len(broker.log.places) - 25), len(broker.log.places) + 1
                        )
                        - 1
                    )
                    # A broker that is cut is written to: else nothing tells.
                expected = set()
                for _ in range(pick.randint(1, 9)):
                    topic, size = pick.choice("tto"), 30 if same_size else pick.randint(30, 60)
                    name = broker.put(topic=topic, queue_id=pick.randrange(2), size=size)
                    if topic == "t":
                        expected.add(name)
                seen = []
                for _ in range(
                    -(-tail_place._REMEMBERED // tail_place._COMPARED) if kind < 0.15 else 1
                ):
                    seen += texts(tail)
                assert sorted(seen) == sorted(expected)


class TestMessagesThatNeverCame:
    """A broker's queue that lacks messages: their places have those that came after them."""

    def test_an_entry_below_its_number_is_shown_when_it_is_the_next_one(self, tmp_path):
        broker = Broker(tmp_path)
        for _ in range(3):
            broker.put()
        with broker.open() as store:
            tail = QueueTail(store, "t")
            # As after a cut whose messages the broker has counted.
            broker.queues["t", 0] = 10
            broker.put(topic="other")
            new = [broker.put(dispatched=False) for _ in range(2)]
            for number, place in zip((3, 4), broker.log.places[-2:], strict=True):
                broker.entry(place, "t", 0, number)
            assert texts(tail) == new
            (note,) = tail.notes
            assert "at queue offset 3, messages stand 7 places below" in note

    @pytest.mark.parametrize("stale", [3, 4])
    def test_a_stale_entry_that_names_a_later_record_of_its_queue_waits(self, tmp_path, stale):
        """
        A cut, then records of the same size, more of them of this queue: a stale entry names a
        record with a higher number. The messages that belong before it are in the log, so it is
        not shown; once the broker has dispatched them, each is shown once, at its own place.
        """
        broker = Broker(tmp_path)
        for _ in range(3):
            broker.put()
        with broker.open() as store:
            tail = QueueTail(store, "t", from_start=True)
            assert len(texts(tail)) == 3
            for _ in range(3):
                broker.put(topic="o")
            for _ in range(stale - 2):
                broker.put()
            store.refresh()
            broker.cut(3)
            new = [broker.put(dispatched=False) for _ in range(6)]
            places = broker.log.places[-6:]
            (queue,) = (broker.store / "consumequeue" / "t" / "0").iterdir()
            offset, size, _ = ENTRY.unpack(queue.read_bytes()[60:80])
            assert (offset, size) == (places[3].position, places[3].size)
            for _ in range(3):
                assert texts(tail) == []
            for number, place in enumerate(places, 3):
                broker.entry(place, "t", 0, number)
            assert texts(tail) == new
            assert tail.notes == []
