"""Kernels that walk a commitlog: one record's frame, hops from record to record, finding one.

`check` is the compiled twin of `formats.rocketmq.commitlog.read`; every reader goes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.crc import crc32
from reput.formats.kernels.memory import load_i16, load_i32, load_i64
from reput.formats.rocketmq.commitlog import (
    ACCEPT_V2,
    BLANK_SIZE,
    BODY_CRC_AT,
    BORN_HOST_V6,
    CHECK_BODY_CRC,
    CHECK_PROPERTY_CRC,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    PLACES,
    REQUIRE_PROPERTY_CRC,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    Verdict,
)
from reput.formats.rocketmq.properties import PROPERTY_CRC, PROPERTY_CRC_PREFIX

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes, Longs

_RECORD = int(Verdict.RECORD)
_ROLL = int(Verdict.ROLL)
_END = int(Verdict.END)
_SHORT = int(Verdict.SHORT)
_NO_MAGIC = int(Verdict.NO_MAGIC)
_BAD_LENGTH = int(Verdict.BAD_LENGTH)
_BAD_OFFSET = int(Verdict.BAD_OFFSET)
_BAD_TIMESTAMP = int(Verdict.BAD_TIMESTAMP)
_BAD_BODY_CRC = int(Verdict.BAD_BODY_CRC)
_BAD_PROPERTY_CRC = int(Verdict.BAD_PROPERTY_CRC)
# `PLACES`, as kernels take them.
_STORED_AT = PLACES[0].store_timestamp
_STORED_AT_V6 = PLACES[BORN_HOST_V6].store_timestamp
_STORED_TO_BODY = PLACES[0].body - PLACES[0].store_timestamp
_STORED_TO_BODY_V6 = PLACES[STORE_HOST_V6].body - PLACES[STORE_HOST_V6].store_timestamp
_PROPERTY_CRC_SIZE = PROPERTY_CRC.size
_PROPERTY_CRC_WORD = int.from_bytes(PROPERTY_CRC_PREFIX[:8], "big")
_DIGITS = 10
_DIGITS_AT = len(PROPERTY_CRC_PREFIX)

NO_POSITION = -1
# Places of what `chain` notes.
LAST, PROVEN, STORED = 0, 1, 2
# More than any store timestamp, ms.
WENT_BACK = (1 << 63) - 1


@kernel
def _property_crc(data: Bytes, at: int, size: int) -> int:
    """Return 1 if the property CRC matches, 0 if not, -1 if there is none."""
    if size < MIN_SIZE + _PROPERTY_CRC_SIZE:
        return -1
    tail = at + size - _PROPERTY_CRC_SIZE
    if load_i64(data, tail) != _PROPERTY_CRC_WORD or data[tail + 8] != 1:
        return -1
    if data[tail + _PROPERTY_CRC_SIZE - 1] != 2:
        return -1
    expected = 0
    for i in range(_DIGITS):
        digit = int(data[tail + _DIGITS_AT + _DIGITS - 1 - i]) - 48
        if digit < 0 or digit > 9:
            return -1
        expected = expected * 10 + digit
    found = crc32(data, at, size - _PROPERTY_CRC_SIZE) & 0x7FFFFFFF
    return 1 if expected == found else 0


@kernel
def check(  # noqa: C901, PLR0912, PLR0911 - kernel
    data: Bytes, at: int, limit: int, position: int, file_end: int, rules: int
) -> tuple[int, int, int, int, int, int, int, int]:
    """Check the frame at `data[at]` and say where its parts are.

    Args:
        data: bytes of one commitlog file, or a piece of it.
        at: index of the frame's first byte.
        limit: index after the last byte that may be read.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: `CHECK_BODY_CRC`, `CHECK_PROPERTY_CRC` (if there is one),
            `REQUIRE_PROPERTY_CRC` and `ACCEPT_V2`, added.

    Returns:
        The verdict (see `commitlog.Verdict`), the size that stands there, the index of the store
        timestamp, index and length of the body, of the topic, index of the properties. Their
        length is what the size leaves.
    """
    if at + BLANK_SIZE > limit:
        return _SHORT, 0, 0, 0, 0, 0, 0, 0
    size = load_i32(data, at)
    magic = load_i32(data, at + MAGIC_AT)
    left = file_end - position
    if magic == MAGIC_BLANK:
        return (_ROLL if size == left else _BAD_LENGTH), size, 0, 0, 0, 0, 0, 0
    is_v2 = magic == MAGIC_V2 and (rules & ACCEPT_V2) != 0
    if magic != MAGIC_V1 and not is_v2:
        return (_END if size == 0 and magic == 0 else _NO_MAGIC), 0, 0, 0, 0, 0, 0, 0
    if size < MIN_SIZE or size > left:
        return _BAD_LENGTH, size, 0, 0, 0, 0, 0, 0
    if at + size > limit:
        return _SHORT, size, 0, 0, 0, 0, 0, 0
    if load_i64(data, at + PHYSICAL_OFFSET_AT) != position:
        return _BAD_OFFSET, size, 0, 0, 0, 0, 0, 0
    end = at + size
    sys_flag = load_i32(data, at + SYS_FLAG_AT)
    store_timestamp_at = at + (_STORED_AT_V6 if sys_flag & BORN_HOST_V6 else _STORED_AT)
    body_at = store_timestamp_at
    body_at += _STORED_TO_BODY_V6 if sys_flag & STORE_HOST_V6 else _STORED_TO_BODY
    if body_at > end:
        return _BAD_LENGTH, size, 0, 0, 0, 0, 0, 0
    body_length = load_i32(data, body_at - 4)
    topic_at = body_at + body_length + (2 if is_v2 else 1)
    if body_length < 0 or topic_at > end:
        return _BAD_LENGTH, size, 0, 0, 0, 0, 0, 0
    topic_length = load_i16(data, topic_at - 2) if is_v2 else int(np.int8(data[topic_at - 1]))
    properties_at = topic_at + topic_length + 2
    if topic_length < 0 or properties_at > end:
        return _BAD_LENGTH, size, 0, 0, 0, 0, 0, 0
    if properties_at + load_i16(data, properties_at - 2) != end:
        return _BAD_LENGTH, size, 0, 0, 0, 0, 0, 0
    verdict = _RECORD
    if load_i64(data, store_timestamp_at) <= 0:
        verdict = _BAD_TIMESTAMP
    elif (rules & CHECK_BODY_CRC) != 0 and body_length > 0:
        if crc32(data, body_at, body_length) & 0x7FFFFFFF != load_i32(data, at + BODY_CRC_AT):
            verdict = _BAD_BODY_CRC
    if verdict == _RECORD and (rules & (CHECK_PROPERTY_CRC | REQUIRE_PROPERTY_CRC)) != 0:
        matches = _property_crc(data, at, size)
        if matches == 0 or (matches < 0 and (rules & REQUIRE_PROPERTY_CRC) != 0):
            verdict = _BAD_PROPERTY_CRC
    return (
        verdict,
        size,
        store_timestamp_at,
        body_at,
        body_length,
        topic_at,
        topic_length,
        properties_at,
    )


@kernel
def hop(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    stop: int,
    max_records: int,
) -> tuple[int, int, int]:
    """Go from record to record until one starts at `stop` or after it, or something else stands.

    Args:
        data: see `check`.
        at: index of a record.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `check`; 0 checks lengths and offsets only.
        stop: physical offset.
        max_records: records to pass at most.

    Returns:
        The verdict of what stands at the end, its physical offset, records passed.
    """
    passed = 0
    while position < stop and passed < max_records:
        verdict, size, _, _, _, _, _, _ = check(data, at, limit, position, file_end, rules)
        if verdict != _RECORD:
            return verdict, position, passed
        at += size
        position += size
        passed += 1
    return _RECORD, position, passed


@kernel
def chain(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    stop: int,
    met: Longs,
) -> tuple[int, int]:
    """Go from record to record as `hop` does, and note which of them are proven.

    A broker writes a record only once the one before is whole. So a record is proven whole by one
    that follows it and is not older: an older one may be left over from before a cut.

    Args:
        data: see `check`.
        at: index of a record.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `check`; 0 checks lengths and offsets only.
        stop: physical offset.
        met: `LAST`: physical offset of the record that was met last, `NO_POSITION` before the
            first; `PROVEN`: physical offset up to which all records are proven; `STORED`: store
            timestamp of the record that was met last, ms. Read and written.

    Returns:
        The verdict of what stands at the end, and its physical offset.
    """
    while position < stop:
        verdict, size, timestamp_at, _, _, _, _, _ = check(
            data, at, limit, position, file_end, rules
        )
        if verdict != _RECORD:
            return verdict, position
        stored = load_i64(data, timestamp_at)
        if met[PROVEN] == met[LAST] and stored >= met[STORED]:
            met[PROVEN] = position
        met[LAST], met[STORED] = position, stored
        at += size
        position += size
    return _RECORD, position


@kernel
def hop_to_time(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    stop: int,
    timestamp: int,
    newest: int,
) -> tuple[int, int, int]:
    """Go from record to record until one has a store timestamp; else as `hop`.

    Args:
        data: see `check`.
        at: index of a record.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `check`; 0 checks lengths and offsets only.
        stop: physical offset.
        timestamp: ms.
        newest: store timestamp of the record before, ms; or `WENT_BACK`.

    Returns:
        The verdict of what stands at the end, its physical offset, and the store timestamp of the
        record that was met last: `WENT_BACK` if it, or one before, was older than the one before.
    """
    while position < stop:
        verdict, size, timestamp_at, _, _, _, _, _ = check(
            data, at, limit, position, file_end, rules
        )
        if verdict != _RECORD:
            return verdict, position, newest
        stored = load_i64(data, timestamp_at)
        newest = stored if stored >= newest else WENT_BACK
        if stored == timestamp:
            return _RECORD, position, newest
        at += size
        position += size
    return _RECORD, position, newest


@kernel
def find_record(
    data: Bytes, at: int, limit: int, position: int, file_end: int, rules: int, stop: int
) -> int:
    """Find the first index in [`at`, `stop`) where a record or a BLANK seems to stand.

    A seeming record names its own position, so one in a million of them is not what it seems
    only where somebody forged it: in a message's body, for one. Callers prove it (see
    `stores.log.commitlog`) or check that the chain of records leads there.

    Args:
        data: see `check`.
        at: index to begin at.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `check`.
        stop: index to end at.

    Returns:
        The index, `NO_POSITION` if there is none.
    """
    origin = position - at
    i = at
    last = min(stop, limit - BLANK_SIZE + 1)
    first_byte = MAGIC_V1 >> 24 & 0xFF
    blank_byte = MAGIC_BLANK >> 24 & 0xFF
    while i < last:
        byte = data[i + MAGIC_AT]
        if byte in (first_byte, blank_byte):
            verdict, _, _, _, _, _, _, _ = check(data, i, limit, origin + i, file_end, rules)
            if verdict in (_RECORD, _ROLL):
                return i
            if verdict == _SHORT and i + MIN_SIZE <= limit:
                if load_i64(data, i + PHYSICAL_OFFSET_AT) == origin + i:
                    return i
        i += 1
    return NO_POSITION
