"""Where a store stands in Kafka: the last position that was committed, kept in Kafka itself.

A position is a record of a compacted topic, written in the same transaction as the messages before
it: readers have both or neither. Consumer group offsets would do as well but for two things: they
expire while a store is idle, and they do not tell whether the log is still the same.
The key is the transactional id; the value is JSON. See docs/adr/0014-kafka.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from reput.formats.errors import KafkaError
from reput.sinks.kafka.client.batch import encode_records
from reput.sinks.kafka.client.consumer import committed, partitions_of_progress
from reput.sinks.kafka.messages.plain import RECORD_BYTES
from reput.sinks.kafka.position.position import Found, Position, partition_of
from reput.sinks.kafka.position.trail import Chunk, prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reput.sinks.kafka.client.partition import Partition
    from reput.sinks.kafka.client.producer import Client
    from reput.sinks.kafka.client.settings import KafkaSettings

_MILLISECONDS = 1000
_LOOKED_BACK = 500


def read(
    settings: KafkaSettings,
    access: Mapping[str, Any],
    transactional_id: str,
    partitions: int,
    *,
    waits: bool = True,
) -> Found | None:
    """Return a store's last committed position, None if it has none.

    Call it once the producer is open: then no transaction of this store is. Those of other stores
    may be; this waits for what is after them.

    The topic may have had fewer partitions when the position was written, so all are looked at
    where it is not in the one that it would be in now. A position that has moved stays there: an id
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
    for number in range(partitions):
        if number != home:
            found = last_of(settings, access, transactional_id, number, waits=waits)
            there += [(*found, number)] if found is not None else []
    if not there:
        return None
    _, position, number = max(there, key=_rank)
    return Found(position, number)


def _rank(each: tuple[int, Position, int]) -> tuple[bool, int]:
    """Return the rank of a position, where its id has one in several partitions.

    One that has not moved counts, whatever the clocks say: there is at most one of these.

    Args:
        each: time, ms; position; partition.
    """
    stored, position, _ = each
    return not position.moved, stored


def read_if_there(
    settings: KafkaSettings, access: Mapping[str, Any], transactional_id: str
) -> Found | None:
    """Return what `read` does, without a producer and without waiting for open transactions.

    What follows one is not seen. None also where the topic does not exist.

    Args:
        settings: the operator's.
        access: kafka-python's settings of security.
        transactional_id: the store's.

    Raises:
        KafkaError: the topic cannot be read.
    """
    partitions = partitions_of_progress(settings, access)
    if not partitions:
        return None
    return read(settings, access, transactional_id, partitions, waits=False)


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
        with committed(settings, access, number, waits=False) as topic:
            for record in topic.records(topic.begin, topic.end):
                if record.key is not None and b"\n" not in record.key:
                    newest[record.key] = record
        for raw, record in newest.items():
            where = f"{settings.progress_topic}-{number}@{record.offset}"
            try:
                each = int(record.timestamp), Position.unpack(record.value, where), number
            except KafkaError:
                # Not of a store that is known here; the store itself reports it.
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
    prefix = prefix_of(transactional_id)
    newest: dict[bytes, bytes] = {}
    with committed(settings, access, number) as topic:
        for record in topic.records(topic.begin, topic.end):
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
    with committed(settings, access, number, waits=waits) as topic:
        step, stop = _LOOKED_BACK, topic.end
        while stop > topic.begin:
            start = max(topic.begin, stop - step)
            found = None
            for record in topic.records(start, stop):
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
    partition: Partition,
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
