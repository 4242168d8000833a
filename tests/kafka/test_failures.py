"""What goes wrong with a real Kafka, provoked: the message that is said, and what becomes of it."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from reput.formats.errors import ReputError
from reput.formats.rocketmq.commitlog import COMPRESSED
from reput.formats.rocketmq.encode import Message
from reput.sinks.kafka.client.producer import Client
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import Log
from tests.builders.waiting import wait_until
from tests.json_schema import fits
from tests.kafka import stores
from tests.kafka.broker import Broker, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka


def open_transactions(broker: Broker, topic: str) -> list[str]:
    """Return the partitions of a topic that a reader of what is committed cannot pass."""
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None)
    partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
    consumer.close()
    admin = broker.admin()
    try:
        found = admin.describe_producers(partitions)
    finally:
        admin.close()
    return [
        f"{partition.topic}-{partition.partition}"
        for partition, state in found.items()
        for each in state.active_producers
        if each.current_transaction_start_offset >= 0
    ]


class TestDown:
    def test_dispatch_goes_on_without_kafka_and_stops_when_the_bound_is_over(
        self, tmp_path: Path
    ) -> None:
        """
        Queues and index are written at once; only then the job ends, and says where it continues.
        """
        log = stores.write(tmp_path / "store", stores.messages(500, ("x",), random.Random(1)))
        address = f"127.0.0.1:{free_port()}"
        made = stores.config(tmp_path / "store", tmp_path / "out", address, retry_seconds=2,
                             request_seconds=1)  # fmt: skip
        dispatcher = StoreDispatcher(made)
        try:
            batch = dispatcher.dispatch(log.end)
            assert batch.messages == 500
            assert dispatcher.kafka is not None
            with pytest.raises(
                ReputError,
                match=r"Tried again for \d+ s \(retry_seconds is 2; one try .* 1\); nothing",
            ):
                dispatcher.drain_kafka(lambda: False)
            assert dispatcher.kafka.state.retries > 0
        finally:
            dispatcher.close()
        assert (tmp_path / "out" / "consumequeue" / "x").is_dir()

    def test_a_broker_that_is_killed_and_comes_back_gets_the_rest_once(
        self, tmp_path: Path
    ) -> None:
        broker = Broker(tmp_path / "kafka")
        broker.start()
        try:
            broker.make_topic("back")
            log = stores.write(
                tmp_path / "store", stores.messages(4000, ("back",), random.Random(2))
            )
            made = stores.config(tmp_path / "store", tmp_path / "out", broker,
                                 transaction_bytes="64k")  # fmt: skip
            dispatcher = StoreDispatcher(made)
            try:
                stores.go_on(dispatcher, log.places[1000].position)
                broker.kill_at_rest("back", "reput-progress")
                dispatcher.dispatch(log.end)
                assert dispatcher.kafka is not None
                assert dispatcher.kafka.state.lag > 0
                broker.start()
                dispatcher.drain_kafka(lambda: False)
            finally:
                dispatcher.close()
            assert stores.by_queue(stores.got(broker, "back")) == stores.in_log(log)
        finally:
            broker.stop()


class TestSlow:
    def test_a_broker_that_hangs_stops_neither_dispatch_nor_what_comes_after(
        self, tmp_path: Path
    ) -> None:
        """
        Kafka says nothing for longer than a request may take, in the middle of transactions.
        """
        broker = Broker(tmp_path / "kafka")
        broker.start()
        try:
            broker.make_topic("slow")
            log = stores.write(
                tmp_path / "store", stores.messages(4000, ("slow",), random.Random(3))
            )
            made = stores.config(tmp_path / "store", tmp_path / "out", broker, request_seconds=2,
                                 transaction_bytes="64k")  # fmt: skip
            dispatcher = StoreDispatcher(made)
            try:
                stores.go_on(dispatcher, log.places[1000].position)
                broker.pause()
                began = time.monotonic()
                dispatcher.dispatch(log.end)
                assert dispatcher.progress.end == log.end
                assert dispatcher.kafka is not None
                while not dispatcher.kafka.state.retries:
                    assert time.monotonic() - began < 120
                    dispatcher.flush_if_due()
                    time.sleep(0.1)
                assert dispatcher.kafka.state.lag > 0
                broker.resume()
                dispatcher.drain_kafka(lambda: False)
            finally:
                dispatcher.close()
            assert stores.by_queue(stores.got(broker, "slow")) == stores.in_log(log)
        finally:
            broker.stop()

    def test_dispatch_keeps_within_the_lag_that_is_allowed(self, tmp_path: Path) -> None:
        """
        With max_lag dispatch waits where Kafka is away, and continues when it is back.
        """
        broker = Broker(tmp_path / "kafka")
        log = stores.write(tmp_path / "store", stores.messages(4000, ("lag",), random.Random(4)))
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, max_lag="100k",
                             request_seconds=2)  # fmt: skip
        dispatcher = StoreDispatcher(made)
        try:
            dispatcher.dispatch(log.end)
            assert 0 < dispatcher.progress.end <= (100 << 10) + 1000 < log.end
            assert not dispatcher.waits
            broker.start()
            broker.make_topic("lag")
            dispatcher.drain_kafka(lambda: False)
            assert dispatcher.progress.end == log.end
            assert stores.by_queue(stores.got(broker, "lag")) == stores.in_log(log)
        finally:
            dispatcher.close()
            broker.stop()


class TestTooLarge:
    @pytest.fixture
    def found(self) -> list[Message]:
        """Twenty messages, one of them larger than 20,000 bytes."""
        return [
            Message("", b"x" * (30_000 if i == 7 else 1000), {"KEYS": str(i)}, queue_offset=i)
            for i in range(20)
        ]

    @pytest.mark.parametrize("by_broker", [False, True], ids=["our-limit", "the-brokers"])
    def test_it_stops_without_loss(
        self, broker: Broker, tmp_path: Path, found: list[Message], by_broker: bool
    ) -> None:
        """
        The message names file, byte, topic and both settings; what was before is not sent in part.
        """
        topic = f"large-stop-{by_broker}"
        broker.make_topic(topic, **({"max_message_bytes": "20000"} if by_broker else {}))
        stores.write(tmp_path / "store", [m._replace(topic=topic) for m in found])
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic,
                             max_message_bytes="1m" if by_broker else "20000")  # fmt: skip

        with pytest.raises(
            ReputError, match=r"commitlog/0+ at byte \d+: Kafka refuses this record"
        ):
            stores.send(made)
        assert stores.got(broker, topic) == []

    def test_it_holds_back_kafka_and_nothing_else(
        self, broker: Broker, tmp_path: Path, found: list[Message]
    ) -> None:
        """
        Queues and index continue; that Kafka waits for somebody is in its state, and nothing of the
        transaction stays open: a reader comes to the end at once.
        """
        broker.make_topic("large-held", 1)
        messages = [m._replace(topic="large-held") for m in found]
        log = stores.write(tmp_path / "store", messages)
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="large-held",
                             max_message_bytes="20000")  # fmt: skip
        dispatcher = StoreDispatcher(made)
        try:
            dispatcher.dispatch(log.places[10].position)
            assert dispatcher.kafka is not None
            wait_until(lambda: dispatcher.kafka.state.stopped)
            dispatcher.flush_if_due()
            dispatcher.dispatch(log.end)

            assert dispatcher.progress.end == log.end
            assert (
                "Kafka refuses this record for topic large-held" in dispatcher.kafka.state.stopped
            )
            assert dispatcher.kafka.state.lag == log.end
            assert open_transactions(broker, "large-held") == []
        finally:
            dispatcher.close()

    @pytest.mark.parametrize("by_broker", [False, True], ids=["our-limit", "the-brokers"])
    def test_it_goes_to_the_dead_letters(
        self, broker: Broker, tmp_path: Path, found: list[Message], by_broker: bool
    ) -> None:
        """
        All others arrive; the dead letter says where it stood, why, and how long its body was.
        """
        topic = f"large-dead-{by_broker}"
        broker.make_topic(topic, **({"max_message_bytes": "20000"} if by_broker else {}))
        broker.make_topic(f"{topic}-dlq", 1)
        log = stores.write(tmp_path / "store", [m._replace(topic=topic) for m in found])
        made = stores.config(
            tmp_path / "store", tmp_path / "out", broker, name=topic, on_refusal="dead-letter",
            dead_letter_topic=f"{topic}-dlq", max_message_bytes="1m" if by_broker else "20000",
        )  # fmt: skip
        sent = stores.send(made)
        stores.send(made)

        assert [g.queue_offset for g in stores.got(broker, topic)] == [
            i for i in range(20) if i != 7
        ]
        (dead,) = stores.got(broker, f"{topic}-dlq")
        assert dead.headers["rmq.error"].startswith(b"MessageSizeTooLarge")
        assert dead.headers["rmq.error.topic"] == topic.encode()
        assert dead.physical_offset == log.places[7].position
        assert dead.key == b"7"
        if by_broker:
            assert dead.body == b"x" * 30_000
        else:
            assert (dead.body, dead.headers["rmq.error.bodyBytes"]) == (None, b"30000")
        assert sent.kafka is not None
        assert sent.kafka.state.dead_letters == 1

    @pytest.mark.parametrize("is_answered", [False, True], ids=["ahead", "answer-first"])
    def test_batches_are_made_smaller_where_a_topic_takes_smaller_ones(
        self, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
    ) -> None:
        """
        A batch that is too large is not a message that is too large: nothing is refused. It is the same if the
        refusal is there before the next batch is sent.
        """
        if is_answered:
            add = Client.add

            def add_after_answers(client: Client, *args: Any) -> None:
                while any(not batch.is_done for batch in client._unsettled):
                    time.sleep(0.001)
                add(client, *args)

            monkeypatch.setattr(Client, "add", add_after_answers)
        topic = f"small-batches-{is_answered}"
        broker.make_topic(topic, 1, max_message_bytes="5000")
        log = stores.write(tmp_path / "store", stores.messages(1000, (topic,), random.Random(6)))
        stores.send(stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic))

        assert stores.by_queue(stores.got(broker, topic)) == stores.in_log(log)


class TestNoSuchTopic:
    def test_it_stops_without_loss_and_goes_on_when_the_topic_is_there(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        log = stores.write(tmp_path / "store", stores.messages(300, ("missing",), random.Random(7)))
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="missing")

        with pytest.raises(ReputError, match="refuses topic missing: UnknownTopicOrPartition"):
            stores.send(made)
        broker.make_topic("missing")
        stores.send(made)

        assert stores.by_queue(stores.got(broker, "missing")) == stores.in_log(log)

    def test_dispatch_goes_on_and_kafka_follows_when_the_topic_is_there(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        One new topic that nobody has made yet costs neither queues nor a restart.
        """
        log = stores.write(tmp_path / "store", stores.messages(300, ("later",), random.Random(7)))
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="later",
                             refusal_seconds=0.5)  # fmt: skip
        dispatcher = StoreDispatcher(made)
        try:
            dispatcher.dispatch(log.places[100].position)
            assert dispatcher.kafka is not None
            wait_until(lambda: "refuses topic later" in dispatcher.kafka.state.trouble)
            dispatcher.flush_if_due()
            dispatcher.dispatch(log.end)
            assert not dispatcher.kafka.state.stopped
            broker.make_topic("later")
            wait_until(lambda: dispatcher.kafka.is_done)
            assert dispatcher.kafka.state.trouble == ""
        finally:
            dispatcher.close()

        assert stores.by_queue(stores.got(broker, "later")) == stores.in_log(log)

    def test_kafka_does_not_count_as_connected_while_it_refuses_each_attempt(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        An attempt asks for the topic for a while: an alert would see Kafka come back each time.
        """
        log = stores.write(tmp_path / "store", stores.messages(30, ("absent",), random.Random(7)))
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name="absent",
                             refusal_seconds=0.5)  # fmt: skip
        dispatcher = StoreDispatcher(made)
        seen = set()
        try:
            dispatcher.dispatch(log.end)
            feed = dispatcher.kafka
            assert feed is not None

            def have_two_failed() -> bool:
                seen.add(feed.state.is_connected)
                return feed.state.retries >= 2

            wait_until(have_two_failed)
            broker.make_topic("absent")
            wait_until(lambda: feed.is_done)
            assert feed.state.is_connected
        finally:
            dispatcher.close()

        assert seen <= {None, False}

    def test_its_messages_go_to_the_dead_letters(self, broker: Broker, tmp_path: Path) -> None:
        broker.make_topic("there")
        broker.make_topic("not-there-dlq", 2)
        log = stores.write(
            tmp_path / "store", stores.messages(300, ("there", "not-there"), random.Random(8))
        )
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "out", broker, name="not-there",
                          on_refusal="dead-letter", dead_letter_topic="not-there-dlq")
        )  # fmt: skip

        both = stores.by_queue(stores.got(broker, "there", "not-there-dlq"))
        assert both == stores.in_log(log)


class TestTruncation:
    @pytest.fixture
    def cut(self, broker: Broker, tmp_path: Path) -> tuple[Any, Any, Any]:
        """A store of which 300 messages were sent, and whose last 100 are others since."""
        topic = f"cut-{free_port()}"
        broker.make_topic(topic, 1)
        found = list(stores.messages(300, (topic,), random.Random(9)))
        old = stores.write(tmp_path / "store", found)
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic)
        dispatcher = StoreDispatcher(made)
        stores.go_on(dispatcher, old.places[199].end)
        stores.go_on(dispatcher)
        dispatcher.close()
        other = [m._replace(body=b"other") for m in found[200:280]]
        new = stores.write(tmp_path / "store", found[:200] + other)
        return made, old, new

    def test_it_stops_and_says_what_is_in_kafka(self, cut: tuple[Any, Any, Any]) -> None:
        made, old, _ = cut

        with pytest.raises(
            ReputError, match=f"sent of physical offsets .* to {old.end} is no longer in"
        ):
            stores.send(made)

    def test_it_goes_on_with_the_new_records_if_told_to(
        self, broker: Broker, tmp_path: Path, cut: tuple[Any, Any, Any]
    ) -> None:
        """
        What Kafka has of the old records stays; of the new ones none is missing.
        """
        made, _, new = cut
        again = stores.config(tmp_path / "store", tmp_path / "out", broker, name=made.name,
                              on_truncation="continue")  # fmt: skip
        stores.send(again)

        found = stores.got(broker, made.name)
        assert [g.body for g in found].count(b"other") == 80
        assert len(found) == 300 + 80
        bodies = {p.message.body for p in new.places}
        assert bodies <= {g.body for g in found}


class TestTruncationByLess:
    """The log is cut and fewer records are written: what was sent last still stands there."""

    @pytest.fixture
    def cut(self, broker: Broker, tmp_path: Path) -> tuple[Any, Any]:
        """A store of which 300 messages were sent, cut after 200, with five others since."""
        topic = f"less-{free_port()}"
        broker.make_topic(topic, 1)
        found = list(stores.messages(300, (topic,), random.Random(9)))
        old = stores.write(tmp_path / "store", found)
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name=topic)
        dispatcher = StoreDispatcher(made)
        stores.go_on(dispatcher)
        dispatcher.close()
        later = found[-1].store_timestamp + 1000
        other = [m._replace(body=b"other", store_timestamp=later) for m in found[200:205]]
        new = Log(old.file_size)
        for message in found[:200] + other:
            new.append(message)
        # What stands past the new end stays, as after a broker's cut.
        new.data += old.data[new.end :]
        new.write(tmp_path / "store")
        return made, old

    def test_it_stops_and_says_what_is_in_kafka(self, cut: tuple[Any, Any]) -> None:
        made, old = cut

        with pytest.raises(
            ReputError, match=f"sent of physical offsets .* to {old.end} is no longer in"
        ):
            stores.send(made)

    def test_it_goes_on_with_the_new_records_if_told_to(
        self, broker: Broker, tmp_path: Path, cut: tuple[Any, Any]
    ) -> None:
        """
        Also at a later start: that dispatch went back is in its books until Kafka has followed.
        """
        made, _ = cut
        with pytest.raises(ReputError, match="is no longer in the log"):
            stores.send(made)
        again = stores.config(tmp_path / "store", tmp_path / "out", broker, name=made.name,
                              on_truncation="continue")  # fmt: skip
        stores.send(again)
        stores.send(made)

        found = stores.got(broker, made.name)
        assert [g.body for g in found].count(b"other") == 5
        assert len(found) == 305

    def test_how_much_is_missing_is_not_known_until_it_has_followed(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        """
        The position is past the new end: a lag of 0 would say that Kafka has the new records.
        """
        old, new = f"sent-{free_port()}", f"new-{free_port()}"
        broker.make_topic(old, 1)
        found = list(stores.messages(300, (old,), random.Random(9)))
        stores.write(tmp_path / "store", found)
        made = stores.config(tmp_path / "store", tmp_path / "out", broker, name=old,
                             on_truncation="continue", refusal_seconds=0.5)  # fmt: skip
        stores.send(made)
        later = found[-1].store_timestamp + 1000
        other = [m._replace(topic=new, store_timestamp=later) for m in found[200:205]]
        log = stores.write(tmp_path / "store", found[:200] + other)
        dispatcher = StoreDispatcher(made)
        try:
            dispatcher.dispatch(log.end)
            feed = dispatcher.kafka
            assert feed is not None
            wait_until(lambda: feed.state.retries >= 1)
            missing = feed.state
            broker.make_topic(new, 1)
            wait_until(lambda: feed.is_done)
            assert feed.state.confirmed_lag == 0
        finally:
            dispatcher.close()

        assert missing.end > log.end
        assert (missing.lag, missing.confirmed_lag) == (None, None)
        assert len(stores.got(broker, new)) == 5


def test_a_position_that_is_gone_is_not_taken_for_a_first_start(
    broker: Broker, tmp_path: Path
) -> None:
    """
    A progress topic that was deleted would otherwise have everything sent again.
    """
    broker.make_topic("remembered")
    log = stores.write(tmp_path / "store", stores.messages(200, ("remembered",), random.Random(1)))

    def config(topic: str) -> Any:
        return stores.config(tmp_path / "store", tmp_path / "out", broker, name="remembered",
                             progress_topic=topic)  # fmt: skip

    stores.send(config("progress-before"))
    with pytest.raises(ReputError, match="no longer has a position of remembered,") as said:
        stores.send(config("progress-behind"))
    assert stores.by_queue(stores.got(broker, "remembered")) == stores.in_log(log)
    memory = tmp_path / "out" / ".reput" / "kafka.json"
    assert str(memory) in str(said.value)
    memory.unlink()
    stores.send(config("progress-behind"))
    assert len(stores.got(broker, "remembered")) == 400


CREDENTIALS = 'required username="admin" password="admin" user_admin="admin" user_reput="s3cret";'


@pytest.fixture(scope="class")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that wants SASL and allows nothing that no ACL does."""
    directory = tmp_path_factory.mktemp("guarded")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    prefix = "listener.name.sasl_plaintext"
    running = Broker(
        directory,
        settings={
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{prefix}.plain.sasl.jaas.config": f"{module} {CREDENTIALS}",
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        },
        listeners=("SASL_PLAINTEXT",),
        scram=(
            "SCRAM-SHA-256=[name=reput,password=s3cret]",
            "SCRAM-SHA-512=[name=reput,password=s3cret]",
        ),
    )
    running.start()
    yield running
    running.stop()


class TestAccess:
    """Each test has a topic and ACLs of its own."""

    def config(self, broker: Broker, tmp_path: Path, name: str, **settings: Any) -> Any:
        (tmp_path / "password").write_text("s3cret\n")
        values = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "reput",
                  "password_file": str(tmp_path / "password"), **settings}  # fmt: skip
        return stores.config(
            tmp_path / "store", tmp_path / "out", broker.address_of("SASL_PLAINTEXT"), name=name,
            **values,
        )  # fmt: skip

    def allow(self, broker: Broker, *allowed: tuple[str, str, str]) -> None:
        """Allow reput operations: kind of resource, name, operation."""
        from kafka.admin import (
            ACL,
            ACLOperation,
            ACLPermissionType,
            ResourcePattern,
            ResourceType,
        )

        admin = broker.admin()
        admin.create_acls(
            [
                ACL("User:reput", "*", ACLOperation[operation], ACLPermissionType.ALLOW,
                    ResourcePattern(ResourceType[kind], name))
                for kind, name, operation in allowed
            ]
        )  # fmt: skip
        admin.close()

    def positions(self, name: str) -> list[tuple[str, str, str]]:
        """Return what every store needs, as docs/kafka.md says."""
        progress = [("TOPIC", "reput-progress", each) for each in ("DESCRIBE", "READ", "WRITE")]
        return [
            *progress,
            ("TRANSACTIONAL_ID", f"reput-{name}", "WRITE"),
            ("TRANSACTIONAL_ID", f"reput-{name}", "DESCRIBE"),
            ("CLUSTER", "kafka-cluster", "CREATE"),
        ]

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    def test_it_gets_in_with_the_acls_of_the_manual(
        self, guarded: Broker, tmp_path: Path, mechanism: str
    ) -> None:
        topic = f"let-in-{mechanism}"
        guarded.make_topic(topic)
        write = [("TOPIC", topic, each) for each in ("DESCRIBE", "WRITE")]
        self.allow(guarded, *self.positions(topic), *write)
        log = stores.write(tmp_path / "store", stores.messages(100, (topic,), random.Random(1)))
        stores.send(self.config(guarded, tmp_path, topic, mechanism=mechanism))

        assert stores.by_queue(stores.got(guarded, topic)) == stores.in_log(log)

    def test_a_rename_needs_the_former_transactional_id_once_more(
        self, guarded: Broker, tmp_path: Path
    ) -> None:
        """
        Where that was given up with the name, the rename waits; once it is allowed, it goes over.
        """
        topic, new = "renamed", "renamed-since"
        guarded.make_topic(topic)
        write = [("TOPIC", topic, each) for each in ("DESCRIBE", "WRITE")]
        self.allow(guarded, *self.positions(new), *write)
        log = stores.write(tmp_path / "store", stores.messages(100, (topic,), random.Random(1)))
        stores.send(stores.config(tmp_path / "store", tmp_path / "out", guarded, name=topic))
        made = self.config(guarded, tmp_path, new, on_rename="continue")

        with pytest.raises(ReputError, match="TransactionalIdAuthorizationFailed"):
            stores.send(made)
        self.allow(guarded, *self.positions(topic))
        stores.send(made)

        assert stores.by_queue(stores.got(guarded, topic)) == stores.in_log(log)

    def test_a_wrong_password_is_said_and_not_shown(
        self, guarded: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        stores.write(tmp_path / "store", [Message("x", b"x")])
        # A connection may break before Kafka has said why; that is tried again, a refusal is not.
        made = self.config(guarded, tmp_path, "wrong", retry_seconds=60)
        (tmp_path / "password").write_text("wr0ng-s3cret")

        with pytest.raises(
            ReputError, match="does not let us in: SaslAuthenticationFailed"
        ) as said:
            stores.send(made)
        shown = capfd.readouterr()
        assert "wr0ng" not in f"{said.value}{shown.out}{shown.err}"

    def test_a_topic_that_is_not_allowed_stops_it(self, guarded: Broker, tmp_path: Path) -> None:
        guarded.make_topic("forbidden")
        self.allow(guarded, *self.positions("forbidden"))
        stores.write(tmp_path / "store", stores.messages(100, ("forbidden",), random.Random(1)))

        with pytest.raises(ReputError, match="refuses topic forbidden: TopicAuthorizationFailed"):
            stores.send(self.config(guarded, tmp_path, "forbidden"))

    def test_its_messages_go_to_the_dead_letters(self, guarded: Broker, tmp_path: Path) -> None:
        """
        It may be described and not written: the refusal comes in the middle of a transaction.
        """
        for topic in ("forbidden-too", "allowed", "forbidden-dlq"):
            guarded.make_topic(topic)
        self.allow(
            guarded, *self.positions("forbidden-too"), ("TOPIC", "forbidden-too", "DESCRIBE"),
            *[("TOPIC", t, o) for t in ("allowed", "forbidden-dlq") for o in ("DESCRIBE", "WRITE")],
        )  # fmt: skip
        log = stores.write(
            tmp_path / "store", stores.messages(200, ("forbidden-too", "allowed"), random.Random(1))
        )
        stores.send(
            self.config(guarded, tmp_path, "forbidden-too", on_refusal="dead-letter",
                        dead_letter_topic="forbidden-dlq")
        )  # fmt: skip

        both = stores.got(guarded, "allowed", "forbidden-dlq")
        assert stores.by_queue(both) == stores.in_log(log)
        dead = [g for g in both if "rmq.error" in g.headers]
        assert {g.queue[0] for g in dead} == {"forbidden-too"}

    def test_a_transactional_id_that_is_not_allowed_stops_it(
        self, guarded: Broker, tmp_path: Path
    ) -> None:
        stores.write(tmp_path / "store", [Message("x", b"x")])

        with pytest.raises(ReputError, match="TransactionalIdAuthorizationFailed"):
            stores.send(self.config(guarded, tmp_path, "no-transactions"))


class TestTls:
    @pytest.fixture
    def secured(self, tmp_path: Path) -> Iterator[Broker]:
        """A broker with a certificate of an authority that nobody knows."""
        store = tmp_path / "broker.p12"
        common = ["-storetype", "PKCS12", "-storepass", "changeit", "-keystore", str(store)]
        subprocess.run(
            ["keytool", "-genkeypair", "-alias", "broker", "-keyalg", "RSA", "-dname", "CN=localhost",
             "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-validity", "2", *common],
            check=True, capture_output=True,
        )  # fmt: skip
        subprocess.run(
            ["keytool", "-exportcert", "-rfc", "-alias", "broker", "-file", str(tmp_path / "ca.pem"),
             *common], check=True, capture_output=True,
        )  # fmt: skip
        running = Broker(
            tmp_path / "kafka",
            settings={
                "ssl.keystore.location": str(store),
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.password": "changeit",
            },
            listeners=("SSL",),
        )
        running.start()
        yield running
        running.stop()

    def test_it_trusts_whom_it_is_told_to(self, secured: Broker, tmp_path: Path) -> None:
        secured.make_topic("secret")
        log = stores.write(tmp_path / "store", stores.messages(100, ("secret",), random.Random(1)))
        address = secured.address_of("SSL")

        def config(**settings: Any) -> Any:
            return stores.config(tmp_path / "store", tmp_path / "out", address, protocol="SSL",
                                 retry_seconds=2, request_seconds=2, **settings)  # fmt: skip

        with pytest.raises(ReputError, match="Kafka at"):
            stores.send(config())
        stores.send(config(ca_file=str(tmp_path / "ca.pem")))
        assert stores.by_queue(stores.got(secured, "secret")) == stores.in_log(log)


@pytest.mark.spark
class TestRebuild:
    """`reput rebuild` with a Kafka that is not there, as an operator meets it."""

    def rebuilt(
        self, tmp_path: Path, *more: str, messages: list[Message] | None = None
    ) -> subprocess.CompletedProcess[str]:
        stores.write(tmp_path / "store", messages or stores.messages(50, ("x",), random.Random(1)))
        (tmp_path / "broker.conf").write_text(f"mappedFileSizeCommitLog={stores.FILE_SIZE}\n")
        return subprocess.run(
            [sys.executable, "-m", "reput", "rebuild", "--store", str(tmp_path / "store"),
             "--output", str(tmp_path / "out"), "--broker-conf", str(tmp_path / "broker.conf"),
             "--kafka-bootstrap", f"127.0.0.1:{free_port()}", "--kafka", "retry_seconds=1",
             "--kafka", "request_seconds=1", *more],
            cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip

    @pytest.mark.parametrize("placement", ["driver", "executors"])
    def test_it_says_what_is_done_and_ends_with_three(self, tmp_path: Path, placement: str) -> None:
        """
        Queues and index are complete: the document is that of a job that went well, and has the
        error as well.
        """
        done = self.rebuilt(tmp_path, "--placement", placement, "--json")

        assert done.returncode == 3
        said = json.loads(done.stdout)
        assert fits(said, "run")
        assert ("kafka" in said["stores"][0]) == (placement == "driver")
        assert "nothing is lost, the next start resumes at" in said["error"]
        assert (said["complete"], said["queues_complete"], said["exit_code"]) == (False, True, 3)
        assert (said["messages"], said["files"] > 0) == (50, True)
        assert said["error"] in done.stderr

    def test_what_a_bound_of_kafka_has_held_back_is_not_said_to_be_done(
        self, tmp_path: Path
    ) -> None:
        """
        With `max_lag` dispatch waits for Kafka.
        """
        done = self.rebuilt(tmp_path, "--kafka", "max_lag=2000", "--json")

        assert done.returncode == 3
        said = json.loads(done.stdout)
        assert fits(said, "run")
        assert (said["complete"], said["queues_complete"]) == (False, False)
        assert 0 < said["messages"] < 50

    @pytest.mark.parametrize("placement", ["driver", "executors"])
    def test_a_body_that_cannot_be_decompressed_is_no_damage_of_the_log(
        self, tmp_path: Path, broker: Broker, placement: str
    ) -> None:
        """
        Kafka is held back, as the record's own body is not what it says; what helps is another
        setting, and not a replica's file.
        """
        name = f"body-{placement}"
        found = list(stores.messages(50, (name,), random.Random(1)))
        found[20] = found[20]._replace(
            body=b"this is not zlib", sys_flag=found[20].sys_flag | COMPRESSED
        )
        broker.make_topic(name)
        done = self.rebuilt(
            tmp_path, "--kafka-bootstrap", broker.address, "--kafka", f"id_prefix={name}",
            "--placement", placement, "--json", messages=found,
        )  # fmt: skip

        assert done.returncode == 3, done.stderr
        said = json.loads(done.stdout)
        assert (said["messages"], said["queues_complete"], said["exit_code"]) == (50, True, 3)
        assert 'body = "stored"' in said["error"]
        assert "replica" not in said["error"]

    def test_its_table_says_so_as_well(self, tmp_path: Path) -> None:
        done = self.rebuilt(tmp_path)

        assert done.returncode == 3
        assert "Dispatched" in done.stdout
        assert "consume queues and index are complete; Kafka lacks some of the log" in done.stdout
        assert "(retry_seconds is 1; one try may take request_seconds, 1)" in done.stderr


def unsigned(text: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(text).encode()).decode().rstrip("=")


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Makes tokens that are not signed, which a broker without another validator takes."""

    def token(self) -> str:
        now = int(time.time())
        claims = {"sub": "reput", "iat": now, "exp": now + 600}
        return f"{unsigned({'alg': 'none'})}.{unsigned(claims)}."


def test_it_gets_in_with_tokens(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    prefix = "listener.name.sasl_plaintext"
    running = Broker(
        tmp_path / "kafka",
        settings={
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.oauthbearer.sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="broker";',
        },
        listeners=("SASL_PLAINTEXT",),
    )
    running.start()
    try:
        running.make_topic("tokens")
        log = stores.write(tmp_path / "store", stores.messages(100, ("tokens",), random.Random(1)))
        address = running.address_of("SASL_PLAINTEXT")
        stores.send(
            stores.config(tmp_path / "store", tmp_path / "out", address, retry_seconds=20,
                          protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER",
                          token_provider=f"{__name__}:Tokens")
        )  # fmt: skip
        assert stores.by_queue(stores.got(running, "tokens")) == stores.in_log(log)
    finally:
        running.stop()
