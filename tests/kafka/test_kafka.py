"""Messages go to a real Kafka: all that is wanted, once, in order, as the mapping table says."""

from __future__ import annotations

import json
import random
import struct
import zlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from reput.formats.errors import ReputError
from reput.formats.java import strings
from reput.formats.rocketmq.commitlog import (
    COMMIT,
    COMPRESSED,
    INNER_BATCH,
    NEED_UNWRAP,
    PREPARED,
    ROLLBACK,
)
from reput.formats.rocketmq.encode import Message
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka


class TestMessages:
    def test_all_arrive_once_and_in_order(self, broker: Broker, tmp_path: Path) -> None:
        """
        Queue by queue a reader finds what a consumer of RocketMQ would, and a second run adds none.
        """
        broker.make_topic("all-a")
        broker.make_topic("all-b", 3)
        log = stores.write(
            tmp_path / "store", stores.messages(5000, ("all-a", "all-b"), random.Random(1))
        )
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="all")

        first = stores.send(made)
        again = stores.send(made)

        assert stores.by_queue(stores.got(broker, "all-a", "all-b")) == stores.in_log(log)
        assert first.kafka is not None
        assert first.kafka.state.messages == 5000
        assert again.kafka is not None
        assert again.kafka.state.messages == 0

    def test_headers_say_where_it_stood_and_what_it_had(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        broker.make_topic("headers")
        message = Message(
            "headers", b"body", {"TAGS": "T", "KEYS": "k1 k2", "UNIQ_KEY": "U", "own": "größe"},
            queue_id=6, queue_offset=7, store_timestamp=1000, born_timestamp=900,
            reconsume_times=2,
        )  # fmt: skip
        log = stores.write(tmp_path / "store", [message])
        stores.send(stores.config(tmp_path / "store", tmp_path / "out", broker, name="headers"))

        (record,) = broker.read("headers")
        assert (record.key, record.value, record.partition, record.timestamp) == (
            b"k1 k2", b"body", 2, 1000,
        )  # fmt: skip
        assert {name: value.decode() for name, value in record.headers} == {
            "rmq.store": "headers",
            "rmq.topic": "headers",
            "rmq.queueId": "6",
            "rmq.queueOffset": "7",
            "rmq.physicalOffset": str(log.places[0].position),
            "rmq.storeTimestamp": "1000",
            "rmq.bornTimestamp": "900",
            "rmq.sysFlag": "0",
            "rmq.reconsumeTimes": "2",
            "TAGS": "T",
            "KEYS": "k1 k2",
            "UNIQ_KEY": "U",
            "own": "größe",
        }

    def test_only_what_is_wanted_is_sent(self, broker: Broker, tmp_path: Path) -> None:
        """
        Half messages and delayed ones come when they are committed or due, system topics if asked.
        """
        for topic in ("picked.a", "picked.b", "RMQ_SYS_TRACE_TOPIC", ".RETRY.group"):
            broker.make_topic(topic)
        found = [
            Message("RMQ_SYS_TRANS_HALF_TOPIC", b"half"),
            Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"op"),
            Message("SCHEDULE_TOPIC_XXXX", b"not yet"),
            Message("rmq_sys_wheel_timer", b"not yet"),
            Message("picked.a", b"prepared", sys_flag=PREPARED),
            Message("picked.a", b"rolled back", sys_flag=ROLLBACK),
            Message("picked.a", b"committed", {"TAGS": "Aa"}, sys_flag=COMMIT),
            Message("picked.a", b"same hash", {"TAGS": "BB"}),
            Message("picked.a", b"no tag"),
            Message("picked.a", b"C", {"TAGS": "C"}),
            Message("picked.b", b"excluded", {"TAGS": "C"}),
            Message("%RETRY%group", b"retry", {"TAGS": "C"}),
            Message("RMQ_SYS_TRACE_TOPIC", b"trace", {"TAGS": "C"}),
        ]
        stores.write(tmp_path / "store", found)
        settings = {"include": ["picked*", "%*", "RMQ*", "SCHED*", "rmq*"], "tags": "Aa || C"}

        stores.send(
            stores.config(tmp_path / "store", tmp_path / "o1", broker, name="picked-1",
                          exclude=["*.b"], **settings)
        )  # fmt: skip
        assert {g.body for g in stores.got(broker, "picked.a", "picked.b")} == {b"committed", b"C"}
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "o2", broker, name="picked-2",
                          system_topics=True, exclude="picked*", on_rename="begin", **settings)
        )  # fmt: skip
        system = stores.got(broker, "RMQ_SYS_TRACE_TOPIC", ".RETRY.group")
        assert {g.body for g in system} == {b"trace", b"retry"}

    @pytest.mark.parametrize("kept", [False, True])
    def test_bodies_are_as_produced_or_as_stored(
        self, broker: Broker, tmp_path: Path, kept: bool
    ) -> None:
        topic = f"bodies-{kept}"
        broker.make_topic(topic)
        plain = b"a body that is compressed " * 20
        stored = {
            0: zlib.compress(plain),
            1: bytes(pa.compress(plain, codec="lz4", asbytes=True)),
            2: bytes(pa.compress(plain, codec="zstd", asbytes=True)),
            3: zlib.compress(plain),
        }
        stores.write(
            tmp_path / "store",
            [
                Message(topic, raw, sys_flag=COMPRESSED | kind << 8, queue_offset=kind)
                for kind, raw in stored.items()
            ]
            + [Message(topic, b"plain", queue_offset=4)],
        )
        body = "stored" if kept else "decompressed"
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic, body=body)
        )

        found = {g.queue_offset: g.body for g in stores.got(broker, topic)}
        assert found == {**(stored if kept else dict.fromkeys(stored, plain)), 4: b"plain"}

    def test_partitions_by_key_are_those_of_kafkas_clients(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        So that a producer that writes to Kafka itself puts a key where we have put it.
        """
        from kafka.partitioner.default import murmur2

        broker.make_topic("keyed", 5)
        log = stores.write(tmp_path / "store", stores.messages(500, ("keyed",), random.Random(2)))
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "out", broker, name="keyed",
                          partition_by="key")
        )  # fmt: skip

        records = list(broker.read("keyed"))
        assert len(records) == len(log.places)
        assert all(r.partition == (murmur2(r.key) & 0x7FFFFFFF) % 5 for r in records)

    def test_topics_are_mapped_by_template(self, broker: Broker, tmp_path: Path) -> None:
        broker.make_topic("rmq.shop.mapped.orders")
        stores.write(tmp_path / "store", [Message("mapped%orders", b"x")])
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "out", broker, name="shop",
                          topic="rmq.{store}.{topic}")
        )  # fmt: skip

        assert [g.queue[0] for g in stores.got(broker, "rmq.shop.mapped.orders")] == [
            "mapped%orders"
        ]

    def test_texts_that_are_not_utf8_come_as_java_reads_them(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        broker.make_topic("odd")
        stores.write(tmp_path / "store", [Message("odd", b"x", b"KEYS\x01a\xffb\x02TAGS\x01T")])
        stores.send(stores.config(tmp_path / "store", tmp_path / "out", broker, name="odd"))

        (found,) = stores.got(broker, "odd")
        assert found.key == "a\ufffdb".encode()
        assert found.headers["TAGS"] == b"T"


def test_arrival_notices_are_what_a_brokers_listener_hears(broker: Broker, tmp_path: Path) -> None:
    """
    The offset is that after the message: what a consumer that waits may now read up to.
    """
    broker.make_topic("noticed.arrivals")
    log = stores.write(tmp_path / "store", stores.messages(300, ("noticed",), random.Random(3)))
    stores.send(
        stores.config(tmp_path / "store", tmp_path / "out", broker, name="noticed",
                      products=["arrivals"], arrivals_topic="{topic}.arrivals")
    )  # fmt: skip

    records = list(broker.read("noticed.arrivals"))
    found = {(r["queueId"], r["queueOffset"]): r for r in (json.loads(x.value) for x in records)}
    assert found == {
        (m.queue_id, m.queue_offset + 1): {
            "topic": "noticed",
            "queueId": m.queue_id,
            "queueOffset": m.queue_offset + 1,
            "tagsCode": strings.hash_code(m.properties["TAGS"]),
            "storeTimestamp": m.store_timestamp,
        }
        for m in (place.message for place in log.places)
    }
    assert {r.key for r in records} == {b"noticed@%d" % i for i in range(4)}


class TestModes:
    def test_idempotent_only_sends_all_and_goes_on_where_it_was(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        broker.make_topic("cheap")
        log = stores.write(tmp_path / "store", stores.messages(2000, ("cheap",), random.Random(4)))
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="cheap",
                             mode="idempotent")  # fmt: skip
        stores.send(made)
        stores.send(made)

        assert stores.by_queue(stores.got(broker, "cheap")) == stores.in_log(log)

    def test_a_second_job_with_the_same_id_fences_the_first(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        Two jobs that send one store would send everything twice: the older one has to stop.
        """
        broker.make_topic("fenced")
        found = list(stores.messages(2000, ("fenced",), random.Random(5)))
        log = stores.write(tmp_path / "store", found)
        older = StoreDispatcher(
            stores.config(tmp_path / "store", tmp_path / "o1", broker, name="fenced")
        )
        try:
            stores.go_on(older, log.places[1000].position)
            stores.send(stores.config(tmp_path / "store", tmp_path / "o2", broker, name="fenced"))
            with pytest.raises(ReputError, match="another process writes with this store's"):
                stores.go_on(older)
        finally:
            older.close()

        assert stores.by_queue(stores.got(broker, "fenced")) == stores.in_log(log)


class TestBatches:
    INNER = (
        (b"one", {"TAGS": "A", "KEYS": "k1"}, 7),
        (b"", {}, 0),
        (b"three", {"TAGS": "B", "own": "x"}, 0),
    )

    def body(self) -> bytes:
        raw = b""
        for body, own, flag in self.INNER:
            properties = b"".join(f"{k}\x01{v}\x02".encode() for k, v in own.items())
            size = 22 + len(body) + len(properties)
            raw += struct.pack(">iiiii", size, 0, 0, flag, len(body)) + body
            raw += struct.pack(">h", len(properties)) + properties
        return raw

    def test_they_are_unwrapped_as_a_consumer_does_it(self, broker: Broker, tmp_path: Path) -> None:
        """
        Each message of a batch comes for itself, between those before and after the batch.
        """
        broker.make_topic("batches", 1)
        flags = INNER_BATCH | NEED_UNWRAP
        stores.write(
            tmp_path / "store",
            [
                Message("batches", b"before", {"KEYS": "a", "TAGS": "T"}, queue_offset=4),
                Message("batches", self.body(), {"INNER_NUM": "3"}, queue_offset=5, sys_flag=flags),
                Message("batches", zlib.compress(self.body()), queue_offset=8,
                        sys_flag=flags | COMPRESSED),
                Message("batches", b"no batch", {"x": "y"}, queue_offset=11, sys_flag=flags),
                Message("batches", b"behind", {"KEYS": "z"}, queue_offset=12),
            ],
        )  # fmt: skip
        stores.send(stores.config(tmp_path / "store", tmp_path / "out", broker, name="batches"))

        found = stores.got(broker, "batches")
        bodies = [body for body, _, _ in self.INNER]
        assert [g.body for g in found] == [b"before", *bodies, *bodies, b"no batch", b"behind"]
        assert [g.queue_offset for g in found] == list(range(4, 13))
        own = [
            {k: v.decode() for k, v in g.headers.items() if not k.startswith("rmq.")} for g in found
        ]
        inner = [properties for _, properties, _ in self.INNER]
        assert own == [
            {"KEYS": "a", "TAGS": "T"}, *inner, *inner, {"x": "y"}, {"KEYS": "z"},
        ]  # fmt: skip
        assert [g.key for g in found] == [b"a", b"k1", None, None, b"k1", None, None, None, b"z"]
        assert len({g.physical_offset for g in found}) == 5
