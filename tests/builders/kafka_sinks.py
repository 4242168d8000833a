"""Logs as they were sent to Kafka, and sinks of them whose Kafka is not asked."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.sinks.kafka.messages.blocks import RowReader
from reput.sinks.kafka.position.trail import Chunk, Trail
from reput.sinks.kafka.sink import KafkaSink
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.settings.config import store_config
from reput.streaming.settings.kafka import kafka_settings
from tests.builders.stores import Log
from tests.kafka import stores

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message
    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.position.position import Position
    from reput.sinks.kafka.sent import Sent

FILE_SIZE = 1 << 16
COUNT = 1000


def written(path: Path, messages: list[Message], file_size: int = 1 << 20) -> tuple[Log, CommitLog]:
    made = Log(file_size)
    for message in messages:
        made.append(message)
    made.write(path)
    conf = {"mappedFileSizeCommitLog": str(file_size)}
    settings = store_config(path, path.parent / "out", broker_conf=conf).settings
    return made, CommitLog(commitlog_directories(path, settings), settings)


def columns_of(log: CommitLog, start: int, end: int) -> Any:
    """Yield the columns of a part of the log, which are used again for the next ones."""
    for block in RowReader(log, decompresses=True, block_bytes=1 << 16).blocks(start, end, {}):
        yield block.columns


def sent_in(log: CommitLog, ends: list[int], *, writes: Any = lambda _: True) -> list[Chunk]:
    """Return what is in a compacted topic when transactions have ended there."""
    trail = Trail("reput-x", 100_000)
    trail.begin(Chunk(1, 0, 0, np.zeros(0, np.uint32)))
    topic: dict[bytes, bytes] = {}
    start = 0
    for number, end in enumerate(ends):
        for columns in columns_of(log, start, end):
            trail.add(columns)
        found = trail.chunks(start, end)
        is_written = writes(number)
        if is_written:
            topic.update(found)
        trail.commit(is_written=is_written)
        start = end
    return [chunk for raw in topic.values() if (chunk := Chunk.unpack(raw)) is not None]


def messages(count: int = COUNT, *, new_from: int = COUNT, body: bytes = b"new") -> list[Message]:
    """Return messages of one size; those from a number on are of a log that was cut there."""
    made = stores.messages(count, ("x",), random.Random(1))
    return [
        m._replace(body=(body if number >= new_from else b"old") + b"%06d" % number, properties={})
        for number, m in enumerate(made)
    ]


def later(message: Message, by: int) -> Message:
    """Return a message that was stored and born some ms later."""
    stored, born = message.store_timestamp + by, message.born_timestamp + by
    return message._replace(store_timestamp=stored, born_timestamp=born)


def log_of(path: Path, **changes: Any) -> tuple[Log, CommitLog]:
    return written(path / "store", messages(**changes), FILE_SIZE)


def without_record(path: Path, base: int = 0) -> None:
    """Write a log as a broker does that has no message yet, or has lost its last one."""
    file = path / "store" / "commitlog" / f"{base:020}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(FILE_SIZE))


def sink(path: Path, name: str = "x", *, start: str = "latest", **settings: Any) -> KafkaSink:
    """Return a sink of the store; its Kafka is not asked."""
    conf = {"mappedFileSizeCommitLog": str(FILE_SIZE)}
    memory = path / "out" / ".reput" / "kafka.json"
    memory.parent.mkdir(parents=True, exist_ok=True)
    broker = store_config(path / "store", path / "out", broker_conf=conf).settings
    made = kafka_settings({"bootstrap": "127.0.0.1:1", "start": start} | settings)
    return KafkaSink(made, {}, name, path / "store", broker, memory=memory)


def kafka_of(cluster: str) -> Any:
    """Return a client of a Kafka that takes everything."""
    return SimpleNamespace(
        cluster=cluster,
        close=lambda **_: None,
        begin=lambda: None,
        abort=lambda: None,
        flush=lambda: None,
        in_flight=0,
    )


def prepared(
    sending: KafkaSink, position: Position, extent: Extent
) -> tuple[Position, Sent | None]:
    """Return what a sink makes of a position that it has found, and what it would send then."""
    sending.position = position
    sending.log.refresh()
    sent = sending._prepared(extent)
    assert sending.position is not None
    return sending.position, sent
