"""Where a store stands in Kafka: the last position that was committed, kept in Kafka itself.

A position is a record of a compacted topic, written in the same transaction as the messages before
it: readers have both or neither. Consumer group offsets would do as well but for two things: they
expire while a store is idle, and there is no telling by them whether the log is still the same.
The key is the transactional id; the value is JSON. See docs/adr/0018-kafka.md.
"""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition, errors

from formats.errors import KafkaError
from sinks.kafka_client import AccessError, AwayError, describe
from stores import disk
from stores.trail import Fingerprint, Point

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sinks.kafka_settings import KafkaSettings

_VERSION = 2
_WITHOUT_CUTS = 1
_MILLISECONDS = 1000
_PARTITIONS = 8
_LOOKED_BACK = 500
_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    # One record a transaction: closed and compacted before reading it takes long.
    "segment.bytes": str(16 << 20),
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True)
class Position:
    """How far a store has been sent.

    Attributes:
        end: physical offset where sending goes on.
        points: records that were sent, to find again in the log; only `record` and `end` count.
        messages: sent in all.
        dead_letters: of these, to the dead-letter topic.
        cut: number of the last cut of the log that sending has gone back for, see
            `checkpoints.progress.Progress.cuts`.
        store_timestamp: of the last record before `end`, ms; 0 if not known.
    """

    end: int
    points: tuple[Point, ...] = ()
    messages: int = 0
    dead_letters: int = 0
    cut: int = 0
    store_timestamp: int = 0

    def pack(self) -> bytes:
        """Return the record's value."""
        trail = [
            [p.record.physical_offset, p.record.size, p.record.hash, p.end] for p in self.points
        ]
        values = {
            "version": _VERSION,
            "end": self.end,
            "trail": trail,
            "messages": self.messages,
            "deadLetters": self.dead_letters,
            "cut": self.cut,
            "storeTimestamp": self.store_timestamp,
        }
        return json.dumps(values).encode()

    @classmethod
    def unpack(cls, raw: bytes, where: str) -> Position:
        """Return what a record says.

        Args:
            raw: its value.
            where: it was found, for messages.

        Raises:
            KafkaError: it is none of ours.
        """
        try:
            values: dict[str, Any] = json.loads(raw)
            if values["version"] == _WITHOUT_CUTS:
                # Its points have fingerprints of another kind; its end is still good.
                values |= {"trail": [], "cut": 0}
            elif values["version"] != _VERSION:
                raise ValueError(f"version {values['version']}")
            points = tuple(
                Point(Fingerprint(int(at), int(size), int(crc)), int(end))
                for at, size, crc, end in values["trail"]
            )
            return cls(
                end=int(values["end"]),
                points=points,
                messages=int(values["messages"]),
                dead_letters=int(values["deadLetters"]),
                cut=int(values["cut"]),
                # Positions of earlier versions do not have what follows.
                store_timestamp=int(values.get("storeTimestamp", 0)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise KafkaError(
                f"{where} is no position of a store: {error!r}. Another program writes to this "
                "topic; give another progress_topic"
            ) from error


def partition_of(transactional_id: str, partitions: int) -> int:
    """Return where the positions of a store stand."""
    return zlib.crc32(transactional_id.encode()) % partitions


class Memory(NamedTuple):
    """What an output remembers of Kafka while Kafka cannot be asked.

    Attributes:
        cluster: by what name Kafka tells itself from others.
        transactional_id: whose position it has.
        end: physical offset that was committed, or an earlier one; -1 if not known.
        store_timestamp: of the last record before it, ms; 0 if not known.
    """

    cluster: str
    transactional_id: str
    end: int = -1
    store_timestamp: int = 0


def remembered(path: Path) -> Memory | None:
    """Return what is remembered of a position; None if there is nothing."""
    try:
        values = json.loads(path.read_text("utf-8"))
        end, stored = int(values.get("end", -1)), int(values.get("storeTimestamp", 0))
        return Memory(str(values["cluster"]), str(values["id"]), end, stored)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        # One that was being written when the machine went down has nothing to say.
        return None


def remember(path: Path, memory: Memory) -> None:
    """Remember that there is a position; `remembered` tells.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = path.with_suffix(".new")
    values = {
        "cluster": memory.cluster,
        "id": memory.transactional_id,
        "end": memory.end,
        "storeTimestamp": memory.store_timestamp,
    }
    disk.write_file(temporary, json.dumps(values).encode())
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


def make_topic(settings: KafkaSettings, access: Mapping[str, Any]) -> None:
    """Make the progress topic.

    Raises:
        AccessError: that is not allowed.
        AwayError: Kafka does not answer.
    """
    try:
        admin = KafkaAdminClient(**_connection(settings, access))
        try:
            admin.create_topics(
                {settings.progress_topic: {"num_partitions": _PARTITIONS, "configs": _TOPIC_CONFIG}}
            )
        finally:
            admin.close()
    except errors.TopicAlreadyExistsError:
        return
    except (errors.ClusterAuthorizationFailedError, errors.TopicAuthorizationFailedError) as error:
        raise AccessError(
            f"topic {settings.progress_topic}, which holds the positions, is not there and we may "
            f"not make it. Make it with cleanup.policy=compact, or allow us to ({describe(error)})"
        ) from error
    except errors.KafkaError as error:
        raise AwayError(
            f"topic {settings.progress_topic} could not be made: {describe(error)}"
        ) from error


def read(
    settings: KafkaSettings,
    access: Mapping[str, Any],
    transactional_id: str,
    partitions: int,
) -> Position | None:
    """Return a store's last committed position, None if it has none.

    To be called behind the opening of the producer: then no transaction of this store is open any
    more. Those of other stores may be; what is behind them is waited for.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        transactional_id: the store's.
        partitions: how many the progress topic has.

    Raises:
        KafkaError: the topic cannot be read.
    """
    partition = TopicPartition(settings.progress_topic, partition_of(transactional_id, partitions))
    deadline = (
        time.monotonic() + settings.request_seconds + 2 * settings.transaction_timeout_seconds
    )
    # The end of the log, and not of what is committed in it.
    with _reader(settings, access, "read_uncommitted") as any_reader:
        begin, end = _bounds(any_reader, partition)
    key = transactional_id.encode()
    with _reader(settings, access, "read_committed") as reader:
        reader.assign([partition])
        step = _LOOKED_BACK
        stop = end
        while stop > begin:
            start = max(begin, stop - step)
            reader.seek(partition, start)
            found = None
            while reader.position(partition) < stop:
                for record in _poll(reader, settings).get(partition, ()):
                    if record.key == key and record.offset < stop:
                        found = record
                if time.monotonic() > deadline:
                    raise AwayError(
                        f"{settings.progress_topic}, partition {partition.partition}: a "
                        "transaction in it stays open, and what is behind it cannot be read. If it "
                        "stays so, Kafka has lost its end: docs/kafka.md says how to give it one"
                    )
            if found is not None:
                where = f"{settings.progress_topic}-{partition.partition}@{found.offset}"
                return Position.unpack(found.value, where)
            stop, step = start, step * 8
    return None


def _connection(settings: KafkaSettings, access: Mapping[str, Any]) -> dict[str, Any]:
    milliseconds = int(settings.request_seconds * _MILLISECONDS)
    return {
        "bootstrap_servers": [host.strip() for host in settings.bootstrap.split(",")],
        "client_id": "reput",
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
        **access,
    }


class _Reader:
    """A consumer without a group that is closed at the end, with its errors as ours."""

    def __init__(self, settings: KafkaSettings, access: Mapping[str, Any], level: str) -> None:
        self._settings = settings
        self._options: dict[str, Any] = {
            **_connection(settings, access),
            "group_id": None,
            "enable_auto_commit": False,
            "isolation_level": level,
            "auto_offset_reset": "earliest",
            "metrics_enabled": False,
        }
        self._consumer: Any = None

    def __enter__(self) -> Any:
        try:
            self._consumer = KafkaConsumer(**self._options)
        except (errors.KafkaError, OSError) as error:
            raise self._explained(error) from error
        return self._consumer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._consumer is not None:
            self._consumer.close()
        if isinstance(error, errors.KafkaError):
            raise self._explained(error) from error

    def _explained(self, error: BaseException) -> KafkaError:
        topic = self._settings.progress_topic
        if isinstance(error, (errors.TopicAuthorizationFailedError, errors.AuthorizationError)):
            return AccessError(
                f"we may not read {topic}, which holds the positions: {describe(error)}"
            )
        return AwayError(f"{topic}, which holds the positions, cannot be read: {describe(error)}")


def _reader(settings: KafkaSettings, access: Mapping[str, Any], level: str) -> _Reader:
    return _Reader(settings, access, level)


def _bounds(consumer: Any, partition: TopicPartition) -> tuple[int, int]:
    begin = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    return int(begin), int(end)


def _poll(consumer: Any, settings: KafkaSettings) -> Any:
    return consumer.poll(timeout_ms=min(500, settings.request_seconds * _MILLISECONDS))
