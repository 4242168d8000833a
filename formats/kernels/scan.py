"""From records to the columns that dispatch needs, one pass over the bytes.

`scan` is the kernel; `describe` is its slow twin for one record. A block of columns is filled by
any thread; the sinks take blocks in commitlog order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.frames import check
from reput.formats.kernels.heads import record_hash
from reput.formats.kernels.java import hash_ascii, hash_utf8
from reput.formats.kernels.memory import load_i32, load_i64, match64, trailing_zeros
from reput.formats.kernels.properties import MASK_WIDTH, find, has_plain_batch
from reput.formats.kernels.routes import SCHEDULE, SPECIAL, lookup
from reput.formats.rocketmq import consumequeue, indexfile
from reput.formats.rocketmq.batchconsumequeue import inner_batch
from reput.formats.rocketmq.commitlog import (
    PARSE_BATCHES,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    Record,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

# Bytes that must be readable after a block's last record: kernels load whole vectors.
PADDING = MASK_WIDTH + 16
_SPACE = 32
_ONE = np.uint64(1)

_RECORD = int(Verdict.RECORD)
_BAD_DELAY = int(Verdict.BAD_DELAY)
_BAD_BATCH = int(Verdict.BAD_BATCH)
_UNKNOWN_QUEUE = int(Verdict.UNKNOWN_QUEUE)
_FULL = int(Verdict.FULL)


class Columns(NamedTuple):
    """One block of records for the sinks; row *i* of each of the first ten is record *i*.

    Attributes:
        physical_offset: bytes.
        size: bytes.
        queue: dense number of the (topic, queue id).
        queue_offset: entries.
        tags_code: as a consume queue has it.
        store_timestamp: ms.
        sys_flag: see `formats.rocketmq.commitlog`.
        special: 1 where the slow path has to look at the record itself.
        head_hash: of all but the body, see `formats.rocketmq.record_hash`.
        key_end: number of the record's last index key + 1; keys are numbered through.
        key_hash: by key.
    """

    physical_offset: NDArray[np.int64]
    size: NDArray[np.int32]
    queue: NDArray[np.int32]
    queue_offset: NDArray[np.int64]
    tags_code: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    sys_flag: NDArray[np.int32]
    special: NDArray[np.uint8]
    head_hash: NDArray[np.uint64]
    key_end: NDArray[np.int32]
    key_hash: NDArray[np.int32]

    @classmethod
    def of(cls, records: int, keys: int) -> Columns:
        """Return columns with room for `records` and `keys`."""
        return cls(
            np.zeros(records, np.int64),
            np.zeros(records, np.int32),
            np.zeros(records, np.int32),
            np.zeros(records, np.int64),
            np.zeros(records, np.int64),
            np.zeros(records, np.int64),
            np.zeros(records, np.int32),
            np.zeros(records, np.uint8),
            np.zeros(records, np.uint64),
            np.zeros(records, np.int32),
            np.zeros(keys, np.int32),
        )


class Row(NamedTuple):
    """What `scan` says of one record, from the slow twin."""

    physical_offset: int
    size: int
    queue_offset: int
    tags_code: int
    store_timestamp: int
    sys_flag: int
    key_hashes: list[int]


def describe(
    record: Record, delays: Sequence[int], *, tag_entries: bool, parses_batches: bool = False
) -> Row:
    """Return the columns of one record but its head's hash, the slow and readable way.

    Args:
        record: the record.
        delays: ms by level, level 1 first.
        tag_entries: hash the tags as keys too.
        parses_batches: see `commitlog.ReadRules`.

    Raises:
        ValueError: a delayed record whose DELAY is not a number, a batch whose INNER_BASE or
            INNER_NUM is not.
    """
    if parses_batches:
        inner_batch(record.properties)
    keys = indexfile.index_keys(record.topic, record.properties, tag_entries=tag_entries)
    return Row(
        record.physical_offset,
        record.size,
        record.queue_offset,
        consumequeue.tags_code(record.topic, record.properties, record.store_timestamp, delays),
        record.store_timestamp,
        record.sys_flag,
        [indexfile.key_hash(key) for key in keys],
    )


@kernel
def _hash(state: np.uint32, data: Bytes, at: int, length: int, ascii_only: int) -> np.uint32:
    if ascii_only == 0:
        return hash_utf8(state, data, at, length)
    return hash_ascii(state, data, at, length)


@kernel
def _key_hash(state: np.uint32) -> np.int32:
    value = np.int32(state)
    if value < 0:
        value = np.int32(-value)
    # The lowest integer has no opposite; Java's abs leaves it negative, RocketMQ takes 0.
    return value if value >= 0 else np.int32(0)


@kernel
def _delay_level(data: Bytes, at: int, length: int) -> int:
    """Return the level that plain digits state, -1 for the slow path to judge."""
    if length > 9:
        return -1
    level = 0
    for i in range(length):
        digit = int(data[at + i]) - 48
        if digit < 0 or digit > 9:
            return -1
        level = level * 10 + digit
    return level


@kernel
def scan(  # noqa: C901, PLR0912, PLR0915 - kernel
    data: Bytes,
    at: int,
    stop: int,
    limit: int,
    origin: int,
    file_end: int,
    rules: int,
    first: int,
    slots: NDArray[np.int32],
    topic_at: NDArray[np.int64],
    topic_length: NDArray[np.int32],
    topics: Bytes,
    queue_ids: NDArray[np.int32],
    queues: NDArray[np.int32],
    key_prefix: NDArray[np.uint32],
    tag_prefix: NDArray[np.uint32],
    kind: NDArray[np.uint8],
    delays: NDArray[np.int64],
    index_keys: bool,  # noqa: FBT001 - kernel
    tag_entries: bool,  # noqa: FBT001 - kernel
    multi_dispatch: bool,  # noqa: FBT001 - kernel
    physical_offset: NDArray[np.int64],
    size: NDArray[np.int32],
    queue: NDArray[np.int32],
    queue_offset: NDArray[np.int64],
    tags_code: NDArray[np.int64],
    store_timestamp: NDArray[np.int64],
    sys_flag: NDArray[np.int32],
    special: NDArray[np.uint8],
    head_hash: NDArray[np.uint64],
    key_end: NDArray[np.int32],
    key_hash: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Fill columns from the records that start in [`at`, `stop`).

    Args:
        data: bytes of one commitlog file from physical offset `origin` on, with `PADDING`
            readable bytes before and after (before: part of the array, see `origin`).
        at: index of a record.
        stop: index.
        limit: index after the last byte of the file that is at hand.
        origin: physical offset of `data[0]`.
        file_end: physical offset of the file's end.
        rules: see `frames.check`; with `PARSE_BATCHES` the numbers of inner batches are checked.
        first: rows that are filled already (a continued scan).
        slots: see `routes.RouteArrays`.
        topic_at: by route.
        topic_length: by route.
        topics: bytes.
        queue_ids: by route.
        queues: by route.
        key_prefix: by route.
        tag_prefix: by route.
        kind: by route.
        delays: ms by level, level 1 first.
        index_keys: hash the keys.
        tag_entries: hash the tags as keys too.
        multi_dispatch: records with INNER_ properties are special.
        physical_offset: see `Columns`; written, like all below.
        size: by record.
        queue: by record.
        queue_offset: by record.
        tags_code: by record.
        store_timestamp: by record.
        sys_flag: by record.
        special: by record.
        head_hash: by record.
        key_end: by record.
        key_hash: by key.

    Returns:
        The verdict of what stands where it ended (RECORD: `stop` is reached), the index of that,
        rows filled.
    """
    rows = first
    keys = np.int64(key_end[rows - 1] if rows > 0 else 0)
    capacity = len(physical_offset)
    key_capacity = len(key_hash)
    while at < stop:
        verdict, length, timestamp_at, body_at, body_length, name_at, name_length, properties_at = (
            check(data, at, limit, origin + at, file_end, rules)
        )
        if verdict != _RECORD:
            return verdict, at, rows
        # A record of p bytes of properties has at most p / 2 keys, its id and its tag.
        properties_length = at + length - properties_at
        if rows >= capacity or keys + properties_length // 2 + 2 > key_capacity:
            return _FULL, at, rows
        queue_id = load_i32(data, at + QUEUE_ID_AT)
        route = lookup(
            data, name_at, name_length, queue_id, slots, topic_at, topic_length, topics, queue_ids
        )
        if route < 0:
            return _UNKNOWN_QUEUE, at, rows
        (
            tags_at,
            tags_length,
            keys_at,
            keys_length,
            uniq_at,
            uniq_length,
            delay_at,
            delay_length,
            inner,
            ascii_only,
        ) = find(data, properties_at, properties_length)
        if inner != 0 and (rules & PARSE_BATCHES) != 0:
            if not has_plain_batch(data, properties_at, properties_length):
                return _BAD_BATCH, at, rows
        flags = load_i32(data, at + SYS_FLAG_AT)
        timestamp = load_i64(data, timestamp_at)
        code = np.int64(0)
        if tags_length > 0:
            code = np.int64(np.int32(_hash(np.uint32(0), data, tags_at, tags_length, ascii_only)))
        is_special = (kind[route] & SPECIAL) != 0 or (multi_dispatch and inner != 0)
        if delay_length > 0 and (kind[route] & SCHEDULE) != 0:
            level = _delay_level(data, delay_at, delay_length)
            if level < 0:
                return _BAD_DELAY, at, rows
            level = min(level, len(delays))
            if level > 0:
                code = timestamp + delays[level - 1]
        physical_offset[rows] = origin + at
        size[rows] = length
        queue[rows] = queues[route]
        queue_offset[rows] = load_i64(data, at + QUEUE_OFFSET_AT)
        tags_code[rows] = code
        store_timestamp[rows] = timestamp
        sys_flag[rows] = flags
        special[rows] = 1 if is_special else 0
        head_hash[rows] = record_hash(data, at, length, body_at, body_length)
        if index_keys:
            prefix = key_prefix[route]
            if uniq_length > 0:
                key_hash[keys] = _key_hash(_hash(prefix, data, uniq_at, uniq_length, ascii_only))
                keys += 1
            part = base = keys_at
            keys_end = keys_at + keys_length
            while base < keys_end:
                spaces = match64(data, base, _SPACE)
                if keys_end - base < MASK_WIDTH:
                    # The end closes the last key as a space would.
                    end = _ONE << np.uint64(keys_end - base)
                    spaces = (spaces & (end - _ONE)) | end
                while spaces != np.uint64(0):
                    i = base + trailing_zeros(spaces)
                    spaces &= spaces - _ONE
                    if i > part:
                        hashed = _hash(prefix, data, part, i - part, ascii_only)
                        key_hash[keys] = _key_hash(hashed)
                        keys += 1
                    part = i + 1
                base += MASK_WIDTH
            if part < keys_end:
                # They end with a whole mask.
                hashed = _hash(prefix, data, part, keys_end - part, ascii_only)
                key_hash[keys] = _key_hash(hashed)
                keys += 1
            if tag_entries and tags_length > 0:
                hashed = _hash(tag_prefix[route], data, tags_at, tags_length, ascii_only)
                key_hash[keys] = _key_hash(hashed)
                keys += 1
        key_end[rows] = keys
        rows += 1
        at += length
    return _RECORD, at, rows
