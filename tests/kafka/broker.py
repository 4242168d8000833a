"""A real Kafka broker: one process, KRaft, on 127.0.0.1, to be killed and started again.

Its jars come through Maven (build.sh). Without SASL and TLS it has one listener; with them the
listener that is asked for, and a plain one beside it for the tests' own use.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
_START_SECONDS = 120.0
_PATIENCE_SECONDS = 120.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _java(*args: str, env: dict[str, str] | None = None) -> list[str]:
    return ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-cp", f"{HERE}/target/libs/*", *args]  # fmt: skip


@dataclass
class Broker:
    """One broker and its data.

    Attributes:
        directory: of its data and logs.
        settings: of server.properties, over those below.
        listeners: further ones by name, such as `SASL_PLAINTEXT`.
        jvm: further options of its JVM.
    """

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    listeners: tuple[str, ...] = ()
    scram: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        subprocess.run([str(HERE / "build.sh")], check=True, timeout=600)
        self.ports = {name: free_port() for name in ("PLAINTEXT", "CONTROLLER", *self.listeners)}
        self.directory.mkdir(parents=True, exist_ok=True)
        self._conf = self.directory / "server.properties"
        named = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['CONTROLLER']}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(named),
            "advertised.listeners": ",".join(n for n in named if not n.startswith("CONTROLLER")),
            "listener.security.protocol.map": ",".join(
                f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in self.ports
            ),
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "num.partitions": "4",
            # The tests' messages are years old.
            "log.retention.ms": "-1",
            "log.cleaner.enable": "true",
            "log.cleaner.dedupe.buffer.size": "4194304",
            # The tests' own connections are not what is being secured.
            "super.users": "User:ANONYMOUS",
            **self.settings,
        }
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        if not (self.directory / "data").exists():
            identity = "MkU3OEVBNTcwNTJENDM2Qg"
            command = _java("kafka.tools.StorageTool", "format", "-t", identity, "-c",
                            str(self._conf))  # fmt: skip
            for each in self.scram:
                command += ["--add-scram", each]
            subprocess.run(command, check=True, capture_output=True, timeout=120)

    @property
    def address(self) -> str:
        """Return where its plain listener is."""
        return f"127.0.0.1:{self.ports['PLAINTEXT']}"

    def address_of(self, listener: str) -> str:
        """Return where another listener is."""
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *, waits: bool = True) -> None:
        """Start it, and return when it answers."""
        with (self.directory / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(
                _java("kafka.Kafka", str(self._conf)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "LC_ALL": "C"},
            )
        if waits:
            self.wait()

    def wait(self) -> None:
        """Return when it answers."""
        end = time.monotonic() + _START_SECONDS
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                text = (self.directory / "kafka.log").read_text("utf-8", "replace")
                raise RuntimeError(f"Kafka ended with {self._process.returncode}:\n{text[-3000:]}")
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.ports["PLAINTEXT"]), 1),
            ):
                break
            if time.monotonic() > end:
                raise RuntimeError(f"Kafka does not answer in {_START_SECONDS} s")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it without giving it a chance to do anything."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_at_rest(self, *topics: str) -> None:
        """Kill it once no transaction is open in these topics.

        One that is killed between a commit and its markers may leave one out when it starts again;
        then no reader gets past it, and only an operator can end it (docs/kafka.md).
        """
        end = time.monotonic() + _PATIENCE_SECONDS
        while self._stable_ends(topics, "read_committed") != self._stable_ends(topics):
            assert time.monotonic() < end, "a transaction stays open"
            time.sleep(0.1)
        self.kill()

    def pause(self) -> None:
        """Make it hang."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it, in whatever state it is."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.address, request_timeout_ms=30_000)

    def make_topic(self, name: str, partitions: int = 4, **configs: str) -> None:
        """Make a topic; underscores in names of settings stand for dots."""
        values = {key.replace("_", "."): value for key, value in configs.items()}
        admin = self.admin()
        try:
            admin.create_topics(
                {name: {"num_partitions": partitions, "configs": values}}, wait_for_metadata=True
            )
        finally:
            admin.close()

    def limit(self, client: str, rate: int) -> None:
        """Give a client a quota: bytes a second that it may send."""
        quota = ("--add-config", f"producer_byte_rate={rate}")
        command = _java("kafka.admin.ConfigCommand", "--bootstrap-server", self.address, "--alter",
                        *quota, "--entity-type", "clients", "--entity-name", client)  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    def lost_ends(self, topic: str) -> list[str]:
        """Return the partitions with an open transaction whose coordinator has none open there.

        Nobody but an operator can end such a one: Kafka has lost its marker.
        """
        consumer = KafkaConsumer(bootstrap_servers=self.address, group_id=None)
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
        consumer.close()
        admin = self.admin()
        try:
            producers = admin.describe_producers(partitions)
            names = [
                e.transactional_id for found in admin.list_transactions().values() for e in found
            ]
            known = admin.describe_transactions(names).values()
        finally:
            admin.close()
        return [
            f"{partition.topic}-{partition.partition}"
            for partition, state in producers.items()
            for each in state.active_producers
            if each.current_transaction_start_offset >= 0
            and not any(
                each.producer_id == one.producer_id and partition in one.topic_partitions
                for one in known
            )
        ]

    def read(self, *topics: str, level: str = "read_committed") -> Iterator[Any]:
        """Yield all records of topics that a reader sees, partition by partition, in order."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.address,
            group_id=None,
            enable_auto_commit=False,
            isolation_level=level,
            auto_offset_reset="earliest",
            fetch_max_bytes=64 << 20,
            max_partition_fetch_bytes=16 << 20,
            max_poll_records=20_000,
        )
        try:
            partitions = [
                TopicPartition(topic, number)
                for topic in topics
                for number in sorted(consumer.partitions_for_topic(topic) or ())
            ]
            ends = self._ends(partitions)
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            end = time.monotonic() + _PATIENCE_SECONDS
            while any(consumer.position(each) < ends[each] for each in partitions):
                for records in consumer.poll(timeout_ms=500).values():
                    yield from records
                    end = time.monotonic() + _PATIENCE_SECONDS
                assert time.monotonic() < end, "a reader does not come to the end of a topic"
        finally:
            consumer.close()

    def _stable_ends(
        self, topics: tuple[str, ...], level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """Return how far readers of a level can read."""
        reader = KafkaConsumer(bootstrap_servers=self.address, group_id=None, isolation_level=level)
        try:
            partitions = [
                TopicPartition(topic, number)
                for topic in topics
                for number in reader.partitions_for_topic(topic) or ()
            ]
            ends: dict[TopicPartition, int] = reader.end_offsets(partitions)
            return ends
        finally:
            reader.close()

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        any_reader = KafkaConsumer(bootstrap_servers=self.address, group_id=None)
        try:
            ends: dict[TopicPartition, int] = any_reader.end_offsets(partitions)
            return ends
        finally:
            any_reader.close()
