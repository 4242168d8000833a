"""Tells records of a log from those that its broker has cut away, compiled: `stores.log.holes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.frames import check
from reput.formats.kernels.memory import load_i32, load_i64
from reput.formats.rocketmq.commitlog import (
    PREPARED,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    ROLLBACK,
    SYS_FLAG_AT,
    TRANSACTION_TYPE,
    Verdict,
)

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

_RECORD = int(Verdict.RECORD)


@kernel
def last_of_queue(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    stop: int,
    topic: Bytes,
    queue_id: int,
) -> tuple[int, int, int]:
    """Go from record to record, and find the last one of a queue.

    Records without a number in their queue, prepared and rolled back ones, do not count.

    Args:
        data: this and the next five are those of `frames.check`.
        at: index of a record.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `frames.check`.
        stop: physical offset where to end.
        topic: the queue's topic, as it stands in records.
        queue_id: the queue.

    Returns:
        The physical offset that was reached, and those of the record: physical offset, -1 for none,
        and queue offset.
    """
    found, number = -1, -1
    while position < stop:
        verdict, size, _, _, _, topic_at, topic_length, _ = check(
            data, at, limit, position, file_end, rules
        )
        if verdict != _RECORD:
            break
        kind = load_i32(data, at + SYS_FLAG_AT) & TRANSACTION_TYPE
        if (
            kind not in (PREPARED, ROLLBACK)
            and topic_length == len(topic)
            and load_i32(data, at + QUEUE_ID_AT) == queue_id
        ):
            is_same = True
            for i in range(topic_length):
                if data[topic_at + i] != topic[i]:
                    is_same = False
                    break
            if is_same:
                found, number = position, load_i64(data, at + QUEUE_OFFSET_AT)
        at += size
        position += size
    return position, found, number


@kernel
def first_stored_since(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    since: int,
) -> tuple[int, int]:
    """Go from record to record, and find the first one that was stored at a time or later.

    Args:
        data: this and the next five are those of `frames.check`.
        at: index of a record.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `frames.check`.
        since: store timestamp, ms.

    Returns:
        The physical offset that was reached, and that of the record, -1 for none.
    """
    while position < file_end:
        verdict, size, timestamp_at, _, _, _, _, _ = check(
            data, at, limit, position, file_end, rules
        )
        if verdict != _RECORD:
            break
        if load_i64(data, timestamp_at) >= since:
            return position, position
        at += size
        position += size
    return position, -1
