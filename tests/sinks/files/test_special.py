"""Records that are more than one entry, and queues that cannot be: the broker's rules for both."""

from __future__ import annotations

import pytest

from reput.formats.errors import ReputError
from reput.formats.kernels.routes import SCHEDULE, SPECIAL
from reput.formats.rocketmq.batchconsumequeue import inner_batch
from reput.formats.rocketmq.commitlog import Record
from reput.formats.rocketmq.further_entries import multi_queues
from reput.formats.rocketmq.names import QueueName
from reput.sinks.files.queues import MAX_QUEUE_ID, QueueDirectory


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


class TestQueueDirectory:
    def test_numbers_are_dense_and_stay(self):
        queues = QueueDirectory(lambda topic: False)

        assert [queues.number("a", 0), queues.number("a", 1), queues.number("a", 0)] == [0, 1, 0]
        assert queues.names == [QueueName("a", 0), QueueName("a", 1)]

    def test_topics_that_java_decodes_alike_share_a_queue(self):
        """
        Two malformed topics, two routes, one directory: as it is for the broker.
        """
        queues = QueueDirectory(lambda topic: False)
        queues.add_route(b"\xff", 0)
        queues.add_route(b"\xfe", 0)

        assert queues.names == [QueueName("\ufffd", 0)]
        assert queues.routes.count == 2
        assert queues.routes.arrays.queue[:2].tolist() == [0, 0]

    def test_kinds(self):
        queues = QueueDirectory(lambda topic: topic == "s")
        for topic in (b"t", b"s", b"SCHEDULE_TOPIC_XXXX"):
            queues.add_route(topic, 0)

        assert queues.routes.arrays.kind[:3].tolist() == [0, SPECIAL, SCHEDULE]

    @pytest.mark.parametrize("topic", ["", ".", "..", "../x", "a/b", "a\0b", "x" * 256])
    def test_a_topic_that_cannot_have_a_directory(self, topic):
        queues = QueueDirectory(lambda topic: False)

        for add in (lambda: queues.number(topic, 0), lambda: queues.add_route(topic.encode(), 0)):
            with pytest.raises(ReputError, match="cannot have a directory"):
                add()
        assert queues.names == []
        assert queues.routes.count == 0

    def test_further_queues_of_old_brokers_may_stand_in_directories_of_their_own(self):
        queues = QueueDirectory(lambda topic: False)

        assert queues.number("a/b", 0, nested=True) == 0
        for name in ("a/../b", "/a", "a//b", "a/", "a/b\0"):
            with pytest.raises(ReputError, match="cannot have a directory"):
                queues.number(name, 0, nested=True)

    @pytest.mark.parametrize("queue_id", [-1, MAX_QUEUE_ID + 1, -(1 << 31), (1 << 31) - 1])
    def test_a_queue_id_that_no_broker_gives(self, queue_id):
        with pytest.raises(ReputError, match=f"queue id {queue_id}"):
            QueueDirectory(lambda topic: False).number("t", queue_id)
