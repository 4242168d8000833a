"""What a record gives beyond one plain entry: the broker's rules for batches and further queues."""

from __future__ import annotations

import pytest

from reput.formats.rocketmq import broker
from reput.formats.rocketmq.batchconsumequeue import inner_batch
from reput.formats.rocketmq.commitlog import Record
from reput.formats.rocketmq.further_entries import (
    BatchPut,
    EntryPut,
    multi_queues,
    own_of,
    puts_of,
)


def record(topic="t", names="", offsets="", **properties) -> Record:
    given = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
    properties |= {name: value for name, value in given.items() if value}
    return Record(0, 91, 3, 0, 0, 0, 0, "", 1, "", 0, 0, b"", topic, properties)


class TestMultiQueues:
    def queues(self, *given, lmq=True, system=False, nested=False):
        further = multi_queues(record(*given), lmq=lmq, system=system, nested=nested)
        return [(*name, at) for name, at in further]

    def test_each_name_with_its_offset(self):
        assert self.queues("t", "a,b", "7,8") == [("a", 3, 7), ("b", 3, 8)]

    def test_light_queues_are_their_topics_only_queue(self):
        assert self.queues("t", "%LMQ%a,b", "1,2") == [("%LMQ%a", 0, 1), ("b", 3, 2)]
        assert self.queues("t", "%LMQ%a,b", "1,2", lmq=False) == [("%LMQ%a", 3, 1), ("b", 3, 2)]

    @pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
    def test_topics_that_are_never_dispatched_again(self, topic):
        assert self.queues(topic, "a", "1") == []
        assert self.queues(topic, "a", "1", system=True) == [("a", 3, 1)]

    @pytest.mark.parametrize(
        ("names", "offsets"),
        [("a,b", "1"), ("a", "1,2"), ("", "1"), ("a", ""), (" ", "1"), (",", "1")],
    )
    def test_counts_that_differ(self, names, offsets):
        assert self.queues("t", names, offsets) == []

    def test_empty_pieces_at_the_end_are_dropped_as_javas_split_does(self):
        assert self.queues("t", "a,b,,", "1,2,") == [("a", 3, 1), ("b", 3, 2)]

    @pytest.mark.parametrize("name", ["\u00a0", "\u2007", "\u202f", "\x85"])
    def test_a_name_that_java_does_not_call_blank_is_a_queue(self, name):
        assert self.queues("t", name, "1") == [(name, 3, 1)]
        assert self.queues("t", "\u3000", "1") == []

    def test_a_name_with_the_path_separator_is_skipped(self):
        assert self.queues("t", "a/b,c", "1,2") == [("c", 3, 2)]
        assert self.queues("t", "a/b,c", "1,2", nested=True) == [("a/b", 3, 1), ("c", 3, 2)]

    @pytest.mark.parametrize("offsets", ["x,1", "1,", ",1", "1,9223372036854775808"])
    def test_an_offset_that_is_no_number(self, offsets):
        """
        Unless the counts differ, which comes first.
        """
        if offsets == "1,":
            assert self.queues("t", "a,b", offsets) == []
            return
        with pytest.raises(ValueError, match=r"not an integer|64 bits"):
            self.queues("t", "a,b", offsets)


class TestInnerBatch:
    def test_both_properties_or_none(self):
        assert inner_batch({"INNER_NUM": "5", "INNER_BASE": "70"}) == (70, 5)
        assert inner_batch({"INNER_NUM": "5"}) is None
        assert inner_batch({"INNER_BASE": "5"}) is None
        assert inner_batch({}) is None

    @pytest.mark.parametrize("number", ["x", "32768", "-32769", "2147483648"])
    def test_a_size_that_is_none(self, number):
        with pytest.raises(ValueError, match=r"not an integer|bits"):
            inner_batch({"INNER_NUM": number, "INNER_BASE": "1"})

    def test_a_base_that_is_none(self):
        with pytest.raises(ValueError, match="not an integer"):
            inner_batch({"INNER_NUM": "1", "INNER_BASE": "1.0"})


class Topics:
    """Topics of which one is of type BatchCQ, and a bit map for all others."""

    def is_batch(self, topic, store_timestamp):
        return topic == "batch"

    def bitmap_for(self, topic, properties, store_timestamp):
        return b"bits"


class TestPuts:
    def puts(self, given, **conf):
        settings = broker.settings_of("5.5", conf)
        return list(puts_of(own_of(given, 7), given, settings, Topics()))

    def test_a_plain_record_gives_its_own_entry(self):
        (put,) = self.puts(record())

        assert put == EntryPut(("t", 3), 0, (0, 91, 7), None, is_further=False)

    def test_an_extension_holds_code_time_and_bits(self):
        (put,) = self.puts(record(), enableConsumeQueueExt="true")

        assert (put.extension.tags_code, put.extension.bitmap) == (7, b"bits")

    def test_further_queues_get_the_plain_code(self):
        """
        Only the record's own entry names its extension.
        """
        conf = {"enableConsumeQueueExt": "true", "enableMultiDispatch": "true"}
        own, further = self.puts(record("t", "a", "9"), **conf)

        assert own.extension is not None
        assert further == EntryPut(("a", 3), 9, (0, 91, 7), None, is_further=True)

    def test_a_batch_gives_a_unit_in_place_of_an_entry(self):
        (put,) = self.puts(record("batch", INNER_NUM="5", INNER_BASE="70"))

        assert isinstance(put, BatchPut)
        assert (put.unit.base_offset, put.unit.batch_size) == (70, 5)

    def test_a_batch_below_zero_gives_nothing(self):
        assert self.puts(record("batch", INNER_NUM="5", INNER_BASE="-1")) == []

    def test_what_comes_before_a_wrong_offset_is_put(self):
        """
        A broker puts a record's own entry before it reads the offsets in its properties.
        """
        given = record("t", "a", "x")
        settings = broker.settings_of("5.5", {"enableMultiDispatch": "true"})
        puts = puts_of(own_of(given, 7), given, settings, Topics())

        assert next(puts).queue == ("t", 3)
        with pytest.raises(ValueError, match="not an integer"):
            next(puts)
