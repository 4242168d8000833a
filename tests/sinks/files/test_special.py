"""Records that are more than one entry, and queues that cannot be: the broker's rules for both."""

from __future__ import annotations

import pytest

from reput.formats.errors import ReputError
from reput.formats.kernels.routes import SCHEDULE, SPECIAL
from reput.formats.rocketmq.names import QueueName
from reput.sinks.files.queues import MAX_QUEUE_ID, QueueDirectory


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
