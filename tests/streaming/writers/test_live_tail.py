"""The end of a log that grows: what is proven counts at once, the last record once it settled."""

from __future__ import annotations

import time

import pytest

from reput.formats.errors import FormatError
from reput.formats.rocketmq.encode import Message, encode
from reput.stores.log.tail import find_tail
from reput.stores.log.tail_watch import TailWatch
from reput.streaming.writers import live_tail
from reput.streaming.writers.live_tail import LiveTail
from tests.builders.brokers import Broker
from tests.builders.stores import LOG_FILE
from tests.stores.log.test_tail import change, open_log

SETTLED = 2 * live_tail.SETTLE_SECONDS


@pytest.fixture
def broker(tmp_path):
    """Return a broker with a record."""
    made = Broker(tmp_path / "store", 1)
    made.append(1)
    return made


def follow(broker: Broker) -> LiveTail:
    log = open_log(broker.store)
    return LiveTail(log, TailWatch(log))


def settled(tail: LiveTail) -> int:
    """Look until the end stays."""
    for _ in range(3):
        tail.look()
        time.sleep(SETTLED)
    return tail.look()


class TestGrowth:
    def test_it_is_where_a_thorough_look_finds_it(self, broker):
        """
        Over the ends of files, record by record and many at once.
        """
        tail = follow(broker)
        for count in (1, 2, 40, 1, 7, 90, 1):
            end = broker.append(count)
            assert settled(tail) == end == find_tail(open_log(broker.store)).end

    def test_records_that_are_followed_count_at_once_and_the_last_one_later(self, broker):
        tail = follow(broker)
        assert tail.look() == broker.log.end
        for number in range(3):
            broker.put(Message("topic", properties={"K": "v"}, store_timestamp=5000 + number))
        places = broker.log.places

        assert tail.look() == places[-1].position
        time.sleep(SETTLED)
        assert tail.look() == places[-1].end

    def test_a_record_that_an_older_one_follows_is_not_proven_by_it(self, broker, monkeypatch):
        """
        What stands after it may be left over from before a cut; the thorough look decides.
        """
        monkeypatch.setattr(live_tail, "_REST_SECONDS", 600.0)
        tail = follow(broker)
        tail.look()
        for stored in (9000, 8000):
            broker.put(Message("topic", properties={"K": "v"}, store_timestamp=stored))
        first, second = broker.log.places[-2:]

        assert settled(tail) == first.position
        tail._looks_at = time.monotonic()
        assert tail.look() == second.end == find_tail(open_log(broker.store)).end

    def test_a_last_record_that_changes_is_waited_for(self, broker):
        tail = follow(broker)
        end = tail.look()
        raw = encode(Message("topic", properties={"K": "value"}, store_timestamp=9000), end)
        change(broker.store, end, raw[:-1] + b"x")
        assert tail.look() == end
        time.sleep(SETTLED)
        change(broker.store, end, raw)

        assert tail.look() == end
        time.sleep(SETTLED)
        assert tail.look() == end + len(raw)

    @pytest.mark.parametrize("keeps", [8, 40, 90])
    def test_a_half_written_record_is_waited_for(self, broker, keeps):
        tail = follow(broker)
        end = tail.look()
        message = Message("topic", b"body" * 9, {"K": "v"}, store_timestamp=9000)
        raw = encode(message, end)
        change(broker.store, end, raw[:keeps])

        assert {tail.look() for _ in range(5)} == {end}
        change(broker.store, end, raw)
        assert settled(tail) == end + len(raw)


class TestElse:
    def test_a_corrupt_record_with_good_ones_after_it_is_an_error(self, broker):
        tail = follow(broker)
        end = tail.look()
        broker.append(3)
        change(broker.store, end + 4, b"\x00\x01")

        assert tail.look() == end
        time.sleep(1.5 * live_tail._WRITING_SECONDS)
        with pytest.raises(FormatError) as error:
            tail.look()
        assert error.value.position == end % LOG_FILE

    def test_a_cut_takes_the_end_back(self, broker):
        """
        At rest, where the end's file is gone too; the new records stand before the old end.
        """
        broker.append(120)
        tail = follow(broker)
        before = settled(tail)
        broker.recover(broker.log.places[10].position)
        time.sleep(live_tail._REST_SECONDS)
        end = broker.append(2, now=broker.messages.now + 10_000)

        assert settled(tail) == end < before

    def test_nothing_is_read_but_eight_bytes_while_nothing_comes(self, broker, monkeypatch):
        tail = follow(broker)
        tail.look()
        read = []
        real = tail._log.read_into

        def counted(buffer, position):
            read.append(len(buffer))
            return real(buffer, position)

        monkeypatch.setattr(tail._log, "read_into", counted)
        for _ in range(10):
            tail.look()

        assert read == [8] * 10
