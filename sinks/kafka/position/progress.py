"""Where a store stands in Kafka: the last position that was committed, kept in Kafka itself.

A position is a record of a compacted topic, written in the same transaction as the messages before
it: readers have both or neither. Consumer group offsets would do as well but for two things: they
expire while a store is idle, and there is no telling by them whether the log is still the same.
The key is the transactional id; the value is JSON. See docs/adr/0014-kafka.md.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition, errors

from reput.checkpoints import checked_line
from reput.checkpoints.disk import changes
from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.producer import AccessError, AwayError, describe, encode_records
from reput.sinks.kafka.messages.plain import RECORD_BYTES
from reput.sinks.kafka.position import trail
from reput.sinks.kafka.position.start import Start, pack_points, unpack_points
from reput.sinks.kafka.position.trail import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from reput.sinks.kafka.client.producer import Client
    from reput.sinks.kafka.client.settings import KafkaSettings
    from reput.stores.log.trail import Point

_VERSION = 2
_WITHOUT_CUTS = 1
_MILLISECONDS = 1000
_PARTITIONS = 8
_LOOKED_BACK = 500
# Bytes of a damaged file that a message shows.
_SHOWN = 200
# What reading a damaged file comes to, by what stands where another thing should.
_DAMAGE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
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
        points: records before `end`, to find again in the log; only `record` and `end` count.
        messages: sent in all.
        dead_letters: of these, to the dead-letter topic.
        cut: number of the last cut of the log that sending has gone back for, see
            `checkpoints.progress.Progress.cuts`.
        store_timestamp: of the last record before `end`, ms; 0 if not known.
        first: physical offset and hash of the first record that the log had when this was written:
            by it a store is told from another one of the same name. None if not known.
        origin: path of the store, for messages.
        writer: of whom this position is, another one for each process.
        began: when that writer began, ms, and after every writer whose position it found: of two
            writers the one with the greater number is the later one. 0 if not known.
        chunk: number of the last chunk of the trail, see `sinks.kafka.position.trail`.
        accepted: physical offset where the log was found to end though more of it was sent, and
            the operator has accepted that; -1 if that is not so.
        moved: id under which the store is sent since; "" while it is this one.
        since: physical offset where sending began: of what is before it nothing was sent. -1 if
            not known.
    """

    end: int
    points: tuple[Point, ...] = ()
    messages: int = 0
    dead_letters: int = 0
    cut: int = 0
    store_timestamp: int = 0
    first: tuple[int, int] | None = None
    origin: str = ""
    writer: str = ""
    began: int = 0
    chunk: int = 0
    accepted: int = -1
    moved: str = ""
    since: int = -1

    @property
    def is_unsent(self) -> bool:
        """Tell whether nothing that the log has before `end` was sent."""
        return self.end <= self.since

    @property
    def has_no_record(self) -> bool:
        """Tell whether no record says whose it is: the log had none when it was written."""
        return self.is_unsent and self.first is None and not self.points

    def pack(self) -> bytes:
        """Return the record's value."""
        values = {
            "version": _VERSION,
            "end": self.end,
            "trail": pack_points(self.points),
            "messages": self.messages,
            "deadLetters": self.dead_letters,
            "cut": self.cut,
            "storeTimestamp": self.store_timestamp,
            "first": self.first,
            "origin": self.origin,
            "writer": self.writer,
            "began": self.began,
            "chunk": self.chunk,
            "accepted": self.accepted,
            "moved": self.moved,
            "since": self.since,
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
            first = values.get("first")
            return cls(
                end=int(values["end"]),
                points=unpack_points(values["trail"]),
                messages=int(values["messages"]),
                dead_letters=int(values["deadLetters"]),
                cut=int(values["cut"]),
                # Positions of earlier versions do not have what follows.
                store_timestamp=int(values.get("storeTimestamp", 0)),
                first=(int(first[0]), int(first[1])) if first is not None else None,
                origin=str(values.get("origin", "")),
                writer=str(values.get("writer", "")),
                began=int(values.get("began", 0)),
                chunk=int(values.get("chunk", 0)),
                accepted=int(values.get("accepted", -1)),
                moved=str(values.get("moved", "")),
                since=int(values.get("since", -1)),
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise KafkaError(
                f"{where} is no position of a store: {error!r}. Another program writes to this "
                "topic; give another progress_topic"
            ) from error


class Found(NamedTuple):
    """A position, and in which partition it stands: it goes on there."""

    position: Position
    partition: int


def partition_of(transactional_id: str, partitions: int) -> int:
    """Return where the positions of a store begin to stand."""
    return zlib.crc32(transactional_id.encode()) % partitions


class Memory(NamedTuple):
    """What an output remembers of Kafka while Kafka cannot be asked.

    Attributes:
        cluster: by what name Kafka tells itself from others.
        transactional_id: whose position it has.
        end: physical offset that was committed, or an earlier one; -1 if not known.
        store_timestamp: of the last record before it, ms; 0 if not known.
        bootstrap: where that Kafka was; "" if not known.
        latest: where a store with `start` "latest" begins that has nothing in Kafka yet.
        sent: how far it was sent, with records before that: where such a store begins in another
            Kafka that answers in this one's place. None if not known.
    """

    cluster: str
    transactional_id: str
    end: int = -1
    store_timestamp: int = 0
    bootstrap: str = ""
    latest: Start | None = None
    sent: Start | None = None


def remembered(path: Path) -> Memory | None:
    """Return what is remembered of a position; None if there is nothing.

    Raises:
        KafkaError: the file is damaged, or cannot be read. `remember` leaves none that is half
            written.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KafkaError(
            f"{path}: it cannot be read, so what Kafka was sent of this output is not known: "
            f"{error.strerror}. See to that, then start the job again"
        ) from error
    try:
        values = _checked(raw)
        end, stored = int(values.get("end", -1)), int(values.get("storeTimestamp", 0))
        latest, sent = values.get("latest"), values.get("sent")
        return Memory(
            str(values["cluster"]),
            str(values["id"]),
            end,
            stored,
            str(values.get("bootstrap", "")),
            Start.unpack(latest) if latest is not None else None,
            Start.unpack(sent) if sent is not None else None,
        )
    except _DAMAGE as error:
        raise KafkaError(
            f"{path}: it is damaged, so what Kafka was sent of this output is not known: {error!r} "
            f"in {raw[:_SHOWN]!r}. Restore the file; or stop the job and remove it. Without it "
            "sending goes on at the position that Kafka has. If Kafka has none of this store, "
            'start = "earliest" sends everything, also what was sent before, and start = "latest" '
            "only what comes after the next start"
        ) from error


def _checked(raw: bytes) -> Any:
    """Return what a memory's bytes say, if they match the CRC in their first line.

    An earlier version has written one line, without a CRC.

    Raises:
        ValueError, LookupError, TypeError, RecursionError: they are damaged.
    """
    if b"\n" in raw:
        line = checked_line.parted(raw)
        if not line.is_whole:
            raise ValueError("it does not match its CRC")
        return json.loads(b"{" + line.rest)
    values = json.loads(raw)
    if "crc" in values:
        raise ValueError("it has a CRC, and not in a line of its own")
    return values


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
        "bootstrap": memory.bootstrap,
        "latest": memory.latest.pack() if memory.latest is not None else None,
        "sent": memory.sent.pack() if memory.sent is not None else None,
    }
    changes.write_file(temporary, checked_line.checked(json.dumps(values)))
    changes.rename(temporary, path)
    changes.sync_directory(path.parent)


def create_topic(
    settings: KafkaSettings, access: Mapping[str, Any], topic: str, wanted: Mapping[str, Any]
) -> None:
    """Make a topic, if it is not there yet.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        topic: its name.
        wanted: what kafka-python's `create_topics` takes.

    Raises:
        kafka.errors.KafkaError: it could not be made.
    """
    admin = KafkaAdminClient(**_connection(settings, access))
    try:
        with contextlib.suppress(errors.TopicAlreadyExistsError):
            admin.create_topics({topic: dict(wanted)})
    finally:
        admin.close()


def make_topic(settings: KafkaSettings, access: Mapping[str, Any]) -> None:
    """Make the progress topic.

    Raises:
        AccessError: that is not allowed.
        AwayError: Kafka does not answer.
    """
    wanted = {"num_partitions": _PARTITIONS, "configs": _TOPIC_CONFIG}
    try:
        create_topic(settings, access, settings.progress_topic, wanted)
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
    *,
    waits: bool = True,
) -> Found | None:
    """Return a store's last committed position, None if it has none.

    To be called after the opening of the producer: then no transaction of this store is open. Those
    of other stores may be; this waits for what is after them.

    The topic may have had fewer partitions when the position was written, so all are looked at
    where it is not in the one that it would be in now. One that has moved is there for good: an id
    that was given again since has its position in another partition, and that one counts.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        transactional_id: the store's.
        partitions: how many the progress topic has.
        waits: for transactions that are open.

    Raises:
        KafkaError: the topic cannot be read.
    """
    home = partition_of(transactional_id, partitions)
    found = last_of(settings, access, transactional_id, home, waits=waits)
    if found is not None and not found[1].moved:
        return Found(found[1], home)
    there = [(*found, home)] if found is not None else []
    others = [number for number in range(partitions) if number != home]
    there += [
        (*last, number)
        for number in others
        if (last := last_of(settings, access, transactional_id, number, waits=waits)) is not None
    ]
    if not there:
        return None
    _, position, number = max(there, key=_rank)
    return Found(position, number)


def _rank(each: tuple[int, Position, int]) -> tuple[bool, int]:
    """Return by what the position of an id is known that stands in several partitions.

    One that has not moved, whatever the clocks say: there is one of these at most.

    Args:
        each: time, ms; position; partition.
    """
    stored, position, _ = each
    return not position.moved, stored


def read_if_there(
    settings: KafkaSettings, access: Mapping[str, Any], transactional_id: str
) -> Found | None:
    """Return what `read` does, without a producer and without waiting for open transactions.

    What is after one is not seen. None also where there is no such topic.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        transactional_id: the store's.

    Raises:
        KafkaError: the topic cannot be read.
    """
    with _reader(settings, access, "read_committed") as reader:
        found = reader.partitions_for_topic(settings.progress_topic)
    if not found:
        return None
    return read(settings, access, transactional_id, len(found), waits=False)


def read_all(
    settings: KafkaSettings, access: Mapping[str, Any], partitions: int
) -> dict[str, Found]:
    """Return the last committed position of every transactional id; open transactions are not seen.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        partitions: how many the progress topic has.

    Raises:
        KafkaError: the topic cannot be read.
    """
    best: dict[str, tuple[int, Position, int]] = {}
    for number in range(partitions):
        newest: dict[bytes, Any] = {}
        with _committed(settings, access, number, waits=False) as committed:
            for record in committed.records(committed.begin, committed.end):
                if record.key is not None and b"\n" not in record.key:
                    newest[record.key] = record
        for raw, record in newest.items():
            where = f"{settings.progress_topic}-{number}@{record.offset}"
            try:
                each = int(record.timestamp), Position.unpack(record.value, where), number
            except KafkaError:
                # No store's that is known here; the store itself hears of it.
                continue
            key = raw.decode(errors="replace")
            if key not in best or _rank(each) >= _rank(best[key]):
                best[key] = each
    return {key: Found(position, number) for key, (_, position, number) in best.items()}


def read_chunks(
    settings: KafkaSettings, access: Mapping[str, Any], transactional_id: str, number: int
) -> list[Chunk]:
    """Return the chunks of a store's trail, see `sinks.kafka.position.trail`.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        transactional_id: the store's.
        number: of the partition.

    Raises:
        KafkaError: the topic cannot be read.
    """
    prefix = trail.prefix_of(transactional_id)
    newest: dict[bytes, bytes] = {}
    with _committed(settings, access, number) as committed:
        for record in committed.records(committed.begin, committed.end):
            if record.key is not None and record.key.startswith(prefix):
                newest[record.key] = record.value or b""
    found = (Chunk.unpack(raw) for raw in newest.values())
    return [chunk for chunk in found if chunk is not None]


def last_of(
    settings: KafkaSettings,
    access: Mapping[str, Any],
    transactional_id: str,
    number: int,
    *,
    waits: bool = True,
) -> tuple[int, Position] | None:
    """Return the last position in a partition and its time, ms; None if there is none.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        transactional_id: the store's.
        number: of the partition.
        waits: for transactions that are open.

    Raises:
        KafkaError: the topic cannot be read.
    """
    key = transactional_id.encode()
    with _committed(settings, access, number, waits=waits) as committed:
        step, stop = _LOOKED_BACK, committed.end
        while stop > committed.begin:
            start = max(committed.begin, stop - step)
            found = None
            for record in committed.records(start, stop):
                if record.key == key:
                    found = record
            if found is not None:
                where = f"{settings.progress_topic}-{number}@{found.offset}"
                return int(found.timestamp), Position.unpack(found.value, where)
            stop, step = start, step * 8
    return None


def put_records(
    settings: KafkaSettings,
    client: Client,
    partition: TopicPartition,
    records: Iterable[tuple[bytes, bytes | None]],
) -> None:
    """Send records, key and value each, in batches that Kafka takes.

    Without a value Kafka erases what it has of the key.

    Raises:
        KafkaError: see `Client.add`.
    """
    now = int(time.time() * _MILLISECONDS)
    most = min(settings.batch_bytes, settings.max_message_bytes)
    batch: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]] = []
    size = 0
    for key, value in records:
        length = len(key) + len(value or b"") + RECORD_BYTES
        if batch and size + length > most:
            client.add(partition, encode_records(batch), len(batch), now, now)
            batch, size = [], 0
        batch.append((now, key, value, []))
        size += length
    if batch:
        client.add(partition, encode_records(batch), len(batch), now, now)


class _Committed:
    """What is committed in one partition, up to the end that it had at first."""

    def __init__(
        self, settings: KafkaSettings, partition: TopicPartition, reader: Any, begin: int, end: int
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._reader = reader
        self.begin, self.end = begin, end
        patience = settings.request_seconds + 2 * settings.transaction_timeout_seconds
        self._deadline = time.monotonic() + patience

    def records(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the records between two offsets.

        Raises:
            AwayError: a transaction stays open there.
        """
        partition = self._partition
        self._reader.seek(partition, start)
        while self._reader.position(partition) < stop:
            for record in _poll(self._reader, self._settings).get(partition, ()):
                if record.offset < stop:
                    yield record
            if time.monotonic() > self._deadline:
                raise AwayError(
                    f"{partition.topic}, partition {partition.partition}: a transaction in it "
                    "stays open, and what comes after it cannot be read. If it stays so, Kafka has "
                    "lost its end: docs/kafka.md says how to give it one"
                )


@contextlib.contextmanager
def _committed(
    settings: KafkaSettings, access: Mapping[str, Any], number: int, *, waits: bool = True
) -> Iterator[_Committed]:
    partition = TopicPartition(settings.progress_topic, number)
    # The end of the log, or of what is committed in it.
    level = "read_uncommitted" if waits else "read_committed"
    with _reader(settings, access, level) as any_reader:
        begin, end = _bounds(any_reader, partition)
    with _reader(settings, access, "read_committed") as reader:
        reader.assign([partition])
        yield _Committed(settings, partition, reader, begin, end)


def _connection(settings: KafkaSettings, access: Mapping[str, Any]) -> dict[str, Any]:
    milliseconds = int(settings.request_seconds * _MILLISECONDS)
    return {
        "bootstrap_servers": [host.strip() for host in settings.bootstrap.split(",")],
        "client_id": settings.client_id,
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
            "allow_auto_create_topics": False,
            # Below the patience for a request, as kafka-python wants it.
            "fetch_max_wait_ms": int(min(500, settings.request_seconds * _MILLISECONDS / 2)),
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
        if isinstance(error, errors.KafkaConfigurationError):
            return KafkaError(
                f"kafka-python does not take the settings of [kafka]: {describe(error)}"
            )
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
