"""Blocks of rows for Kafka: no sender can make one large."""

from __future__ import annotations

import zlib

from reput.formats.rocketmq import broker
from reput.formats.rocketmq.commitlog import COMPRESSED
from reput.formats.rocketmq.encode import Message
from reput.sinks.kafka.messages.blocks import RowReader
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from tests.builders.stores import Log

BODY = bytes(6 << 20)


def test_a_block_ends_where_its_bodies_are_large(tmp_path):
    """
    40 bodies of 6 KB that stand for 6 MiB each: every row comes once, two or three at a time.
    """
    file_size = 1 << 20
    log = Log(file_size=file_size)
    stored = zlib.compress(BODY, 9)
    for i in range(80):
        log.append(
            Message(
                topic="t",
                body=stored if i % 2 else b"%d" % i,
                queue_offset=i,
                sys_flag=COMPRESSED if i % 2 else 0,
                properties={"n": str(i)} if i % 3 else {},
            )
        )
    root = log.write(tmp_path / "store")
    settings = broker.settings_of("5.5", {"mappedFileSizeCommitLog": str(file_size)})
    opened = CommitLog(commitlog_directories(root, settings), settings)
    reader = RowReader(opened, decompresses=True, block_bytes=4 << 20)
    offsets, reached = [], []
    for block in reader.blocks(0, log.end, {}):
        columns = block.columns
        offsets += columns.queue_offset.tolist()
        reached.append(block.reached)
        assert columns.body.length.sum() <= 16 << 20
        for row in range(len(columns.size)):
            number = int(columns.queue_offset[row])
            at, length = int(columns.body.at[row]), int(columns.body.length[row])
            raw = block.data[at : at + length].tobytes()
            assert raw == (BODY if number % 2 else b"%d" % number)
            value = columns.property_end[row]
            assert (value > (columns.property_end[row - 1] if row else 0)) == bool(number % 3)
    opened.close()

    assert offsets == list(range(80))
    assert reached == sorted(set(reached))
    assert reached[-1] == log.end
    assert len(reached) > 15
