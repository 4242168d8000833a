"""Kafka records out of commitlog records: the records of a batch, format v2, encoded in one pass.

A batch's header (producer, sequence, checksum, compression) is the client's; this makes follows
it. Numbers of variable length are zigzag varints.

====================== ============ ==================================================
field                  bytes        meaning
====================== ============ ==================================================
length                 varint       bytes that follow
attributes             1            0
timestamp delta        varint       ms after the batch's first record
offset delta           varint       number in the batch
key                    varint + k   -1 for none
value                  varint + v
headers                varint       how many; each a key and a value, varint and bytes
====================== ============ ==================================================

A message becomes: key as chosen; value its body; headers `rmq.…` with where it stood, then its
properties under their own names; but a name that begins with `rmq.` gets `property.` before it, so
no producer can say for us where a message stood. An arrival notice becomes: key `topic@queue id`;
value JSON with what a broker's message-arriving listener gets. The slow twin is kafka-python's own
record builder, see tests/formats/kafka/test_records.py. Source: Kafka's "Record Batch" in its
protocol guide; RocketMQ `DefaultMessageStore#notifyMessageArriveIfNecessary`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kafka.headers import NUMBERS, OURS, RENAMED, encoded_names
from reput.formats.kernels.compiled import inlined_kernel, kernel
from reput.formats.kernels.java import hash_utf8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rows.columns import RowColumns
    from reput.formats.rows.texts import Slices

NO_KEY, KEYS_KEY, UNIQ_KEY_KEY = 0, 1, 2
# Bytes of a record that are neither body nor key, properties or route: an upper bound.
_FIXED = 320
_VARINT = 5
_PROPERTY = 2 * _VARINT
_OURS = np.frombuffer(OURS, np.uint8).copy()
_RENAMED = np.frombuffer(RENAMED, np.uint8).copy()
_NO_VALUE = 1


_NUMBER_BYTES, _NUMBER_SLICES = encoded_names(*NUMBERS)
_NUMBER_AT, _NUMBER_LENGTH = _NUMBER_SLICES
_TAGS_CODE = np.frombuffer(b',"tagsCode":', np.uint8).copy()
_STORED = np.frombuffer(b',"storeTimestamp":', np.uint8).copy()
_CLOSE = np.frombuffer(b"}", np.uint8).copy()


class RoutePieces(NamedTuple):
    """What is the same for all messages of a route, ready to be copied; rows have route numbers.

    Attributes:
        headers: encoded headers.
        header_count: how many these are.
        notice_key: `topic@queue id`.
        notice_head: JSON up to the queue offset.
        data: what these are slices of.
    """

    headers: Slices
    header_count: int
    notice_key: Slices
    notice_head: Slices
    data: Bytes


class Encoded(NamedTuple):
    """What a call has made of rows.

    Attributes:
        following: number of the next row to encode.
        length: bytes written; if no row fits, what one needs, negative.
        records: how many.
        first_timestamp: ms, of the first record.
        max_timestamp: ms.
    """

    following: int
    length: int
    records: int
    first_timestamp: int
    max_timestamp: int


@inlined_kernel
def _put_varint(out: Bytes, at: int, value: int) -> int:
    left = np.uint64((value << 1) ^ (value >> 63))
    while left > np.uint64(0x7F):
        out[at] = np.uint8((left & np.uint64(0x7F)) | np.uint64(0x80))
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@kernel
def _put_bytes(out: Bytes, at: int, data: Bytes, start: int, length: int) -> int:
    for i in range(length):
        out[at + i] = data[start + i]
    return at + length


@kernel
def _begins_like_ours(data: Bytes, start: int, length: int) -> bool:
    if length < len(_OURS):
        return False
    for i in range(len(_OURS)):  # noqa: SIM110 - numba knows no generators
        if data[start + i] != _OURS[i]:
            return False
    return True


@kernel
def _put_digits(out: Bytes, at: int, value: int) -> int:
    """Write a number as decimal text."""
    if value < 0:
        out[at] = 45
        at += 1
        left = np.uint64(-(value + 1)) + np.uint64(1)
    else:
        left = np.uint64(value)
    digits = 1
    rest = left // np.uint64(10)
    while rest > np.uint64(0):
        digits += 1
        rest //= np.uint64(10)
    for i in range(at + digits - 1, at - 1, -1):
        out[i] = np.uint8(np.uint64(48) + left % np.uint64(10))
        left //= np.uint64(10)
    return at + digits


@kernel
def _put_sized_digits(out: Bytes, at: int, value: int) -> int:
    """Write a number as decimal text after its length, which takes one byte."""
    end = _put_digits(out, at + 1, value)
    _put_varint(out, at, end - at - 1)
    return end


@kernel
def _close_record(out: Bytes, at: int, begin: int, end: int) -> int:
    """Put a record's length, at `at`, right before what was written from `begin` on."""
    start = _put_varint(out, at, end - begin)
    if start != begin:
        for i in range(end - begin):
            out[start + i] = out[begin + i]
    return start + end - begin


@kernel
def encode_messages(  # noqa: C901, PLR0912, PLR0915 - kernel
    data: Bytes,
    columns: RowColumns,
    rows: NDArray[np.int64],
    first: int,
    most: int,
    routes: NDArray[np.int32],
    pieces: RoutePieces,
    key: int,
    coordinates: bool,  # noqa: FBT001 - kernel
    properties: bool,  # noqa: FBT001 - kernel
    out: Bytes,
) -> tuple[int, int, int, int, int]:
    """Encode messages as long as they fit.

    Args:
        data: the bytes that the columns have slices of.
        columns: see `formats.rows.columns`.
        rows: numbers of rows that go into one partition, in log order.
        first: number of the first one of `rows` to encode.
        most: encode at most this many.
        routes: by row, number of its route.
        pieces: of routes.
        key: `NO_KEY`, `KEYS_KEY` or `UNIQ_KEY_KEY`.
        coordinates: write headers that say where it stood.
        properties: write properties as headers.
        out: written.

    Returns:
        The fields of `Encoded`.
    """
    at = 0
    count = 0
    base = max_timestamp = columns.store_timestamp[rows[first]]
    number = first
    while number < len(rows) and count < most:
        row = rows[number]
        route = routes[row]
        begin_property = columns.property_end[row - 1] if row > 0 else 0
        property_count = columns.property_end[row] - begin_property
        slices = columns.keys if key == KEYS_KEY else columns.uniq_key
        key_length = slices.length[row] if key != NO_KEY else 0
        body_length = columns.body.length[row]
        bound = _FIXED + body_length + key_length + pieces.headers.length[route]
        if properties:
            bound += property_count * (_PROPERTY + len(_RENAMED))
            for i in range(begin_property, begin_property + property_count):
                bound += columns.names.length[i] + columns.values.length[i]
        if at + bound > len(out):
            if count == 0:
                return number, -bound, 0, base, base
            break
        timestamp = columns.store_timestamp[row]
        # Most records need two bytes for their length, or three.
        begin = at + (2 if bound < 8192 else 3 if bound < 1 << 20 else _VARINT)
        end = begin
        out[end] = 0
        end = _put_varint(out, end + 1, timestamp - base)
        end = _put_varint(out, end, count)
        if key_length > 0:
            end = _put_varint(out, end, key_length)
            end = _put_bytes(out, end, data, slices.at[row], key_length)
        else:
            out[end] = _NO_VALUE
            end += 1
        end = _put_varint(out, end, body_length)
        end = _put_bytes(out, end, data, columns.body.at[row], body_length)
        header_count = 0
        if coordinates:
            header_count += pieces.header_count + len(_NUMBER_AT)
        if properties:
            header_count += property_count
        end = _put_varint(out, end, header_count)
        if coordinates:
            length = pieces.headers.length[route]
            end = _put_bytes(out, end, pieces.data, pieces.headers.at[route], length)
            for i in range(len(_NUMBER_AT)):
                end = _put_bytes(out, end, _NUMBER_BYTES, _NUMBER_AT[i], _NUMBER_LENGTH[i])
                if i == 0:
                    value = columns.queue_offset[row]
                elif i == 1:
                    value = columns.physical_offset[row]
                elif i == 2:
                    value = timestamp
                elif i == 3:
                    value = columns.born_timestamp[row]
                elif i == 4:
                    value = np.int64(columns.sys_flag[row])
                else:
                    value = np.int64(columns.reconsume_times[row])
                end = _put_sized_digits(out, end, value)
        if properties:
            for i in range(begin_property, begin_property + property_count):
                if _begins_like_ours(data, columns.names.at[i], columns.names.length[i]):
                    end = _put_varint(out, end, columns.names.length[i] + len(_RENAMED))
                    end = _put_bytes(out, end, _RENAMED, 0, len(_RENAMED))
                else:
                    end = _put_varint(out, end, columns.names.length[i])
                end = _put_bytes(out, end, data, columns.names.at[i], columns.names.length[i])
                end = _put_varint(out, end, columns.values.length[i])
                end = _put_bytes(out, end, data, columns.values.at[i], columns.values.length[i])
        at = _close_record(out, at, begin, end)
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
        number += 1
    return number, at, count, base, max_timestamp


@kernel
def encode_notices(
    data: Bytes,
    columns: RowColumns,
    rows: NDArray[np.int64],
    first: int,
    most: int,
    routes: NDArray[np.int32],
    pieces: RoutePieces,
    out: Bytes,
) -> tuple[int, int, int, int, int]:
    """Encode arrival notices as long as they fit; arguments and result as of `encode_messages`."""
    at = 0
    count = 0
    base = max_timestamp = columns.store_timestamp[rows[first]]
    number = first
    while number < len(rows) and count < most:
        row = rows[number]
        route = routes[row]
        key_length = pieces.notice_key.length[route]
        head_length = pieces.notice_head.length[route]
        bound = _FIXED + key_length + head_length
        if at + bound > len(out):
            if count == 0:
                return number, -bound, 0, base, base
            break
        timestamp = columns.store_timestamp[row]
        tags = hash_utf8(np.uint32(0), data, columns.tags.at[row], columns.tags.length[row])
        begin = at + _VARINT
        end = begin
        out[end] = 0
        end = _put_varint(out, end + 1, timestamp - base)
        end = _put_varint(out, end, count)
        end = _put_varint(out, end, key_length)
        end = _put_bytes(out, end, pieces.data, pieces.notice_key.at[route], key_length)
        # The value's length is known after it; room for the longest that there is.
        value_at = end + _VARINT
        value = value_at
        value = _put_bytes(out, value, pieces.data, pieces.notice_head.at[route], head_length)
        value = _put_digits(out, value, columns.queue_offset[row] + 1)
        value = _put_bytes(out, value, _TAGS_CODE, 0, len(_TAGS_CODE))
        value = _put_digits(out, value, int(np.int32(tags)))
        value = _put_bytes(out, value, _STORED, 0, len(_STORED))
        value = _put_digits(out, value, timestamp)
        value = _put_bytes(out, value, _CLOSE, 0, len(_CLOSE))
        end = _close_record(out, end, value_at, value)
        out[end] = 0
        at = _close_record(out, at, begin, end + 1)
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
        number += 1
    return number, at, count, base, max_timestamp
