"""Exactly once over kill -9 of everything; longer: `python -m tests.kafka.kill_kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer, TopicPartition

from tests.kafka import kill_kafka
from tests.kafka.broker import Broker
from tests.kafka.kill_kafka import Digest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def test_dispatch_and_kafka_are_killed(tmp_path: Path) -> None:
    """
    A reader finds what is in the log, once and in order, whatever died meanwhile.
    """
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        result = kill_kafka.run(
            tmp_path / str(seed),
            messages=20_000,
            kills=6,
            broker_kills=2,
            job_kills=0,
            rate=3000,
            seed=seed,
        )
        # Kafka that was killed between a commit and its markers may leave one of them out when it
        # starts; nobody can read after that, whichever process wrote it (docs/kafka.md). Only
        # where its own books say so that is not ours.
        if not result.lost_ends:
            break

    assert result.failure == ""
    assert (result.core_kills, result.broker_kills) == (6, 2)
    assert result.committed == result.messages


def test_only_an_end_that_kafka_has_lost_is_taken_for_one(tmp_path: Path) -> None:
    """
    A transaction that is open, or committed, is not; one that its coordinator knows nothing of is.
    """
    # Else a broker does not take what its coordinator does not know.
    broker = Broker(tmp_path, {"transaction.partition.verification.enable": "false"})
    broker.start()
    try:
        broker.make_topic("lost", 2)
        producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id="x")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("lost", b"1", partition=0).get(30)
        assert broker.lost_ends("lost") == []
        producer.commit_transaction()
        assert broker.lost_ends("lost") == []

        producer.begin_transaction()
        producer._transaction_manager._partitions_in_transaction.add(TopicPartition("lost", 1))
        producer.send("lost", b"2", partition=1).get(30)
        assert broker.lost_ends("lost") == ["lost-1"]
        producer.close(timeout=0)
    finally:
        broker.stop()


class TestDigest:
    """A harness that cannot fail proves nothing."""

    def digest(self, *messages: tuple[int, bytes]) -> Digest:
        found = Digest()
        for offset, body in messages:
            found.add("orders", 1, offset * 100, offset, b"", body)
        return found

    def test_the_same_is_the_same(self) -> None:
        wanted = self.digest((0, b"a"), (1, b"b"))
        assert wanted.differences(self.digest((0, b"a"), (1, b"b"))) == []

    @pytest.mark.parametrize(
        "found",
        [
            [(0, b"a")],
            [(0, b"a"), (1, b"b"), (1, b"b")],
            [(1, b"b"), (0, b"a")],
            [(0, b"a"), (1, b"c")],
            [(0, b"a"), (0, b"a")],
        ],
        ids=["lost", "repeated", "out of order", "changed", "another"],
    )
    def test_what_differs_is_seen(self, found: list[tuple[int, bytes]]) -> None:
        assert self.digest((0, b"a"), (1, b"b")).differences(self.digest(*found))
