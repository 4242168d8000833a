"""From records to the columns of a DataFrame, one pass over the bytes.

`read_rows` is the kernel, `describe` its slow twin for one record. The kernel says where in the
bytes each text stands, see `formats.rows.texts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.frames import check
from reput.formats.kernels.memory import load_i32, load_i64, match64, negative64, trailing_zeros
from reput.formats.kernels.properties import MASK_WIDTH
from reput.formats.rocketmq.commitlog import (
    BODY_CRC_AT,
    BORN_HOST,
    BORN_TIMESTAMP_AT,
    FLAG_AT,
    PLACES,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    WIDE_HOSTS,
    Record,
    Verdict,
)
from reput.formats.rocketmq.properties import KEYS, NAME_END, TAGS, UNIQ_KEY, VALUE_END
from reput.formats.rows.texts import Slices, is_utf8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

# With more properties, comparing each name with each other does not pay.
MANY_PROPERTIES = 64
_BYTES_A_PROPERTY = 4
# From the store timestamp to the store host, and from that one's end to the body.
_STORE_HOST = PLACES[0].store_host - PLACES[0].store_timestamp
_AFTER_STORE_HOST = PLACES[0].body - PLACES[0].reconsume_times
_TAGS_WORD = int.from_bytes(b"TAGS", "big")
_KEYS_WORD = int.from_bytes(b"KEYS", "big")
_UNIQ_KEY_WORD = int.from_bytes(b"UNIQ_KEY", "big")

_RECORD = int(Verdict.RECORD)
_FULL = int(Verdict.FULL)


class RowColumns(NamedTuple):
    """Records as columns; integers are native, texts are slices of the bytes that were read.

    Attributes:
        physical_offset: bytes.
        size: bytes.
        queue_id: as stored, like all whole numbers below.
        queue_offset: entries.
        flag: the user's.
        sys_flag: see `formats.rocketmq.commitlog`.
        body_crc: CRC-32 of the body, top bit cleared.
        born_timestamp: ms.
        store_timestamp: ms.
        reconsume_times: times.
        prepared_transaction_offset: physical offset.
        needs_decoding: 1 where slices cannot show the texts: malformed UTF-8, or very many
            properties.
        property_end: number of the record's last property + 1; they are numbered through.
        born_host: address and port, 8 or 20 bytes.
        store_host: likewise.
        body: as stored.
        topic: UTF-8, like all texts below.
        raw_properties: all of them, as stored.
        tags: value of TAGS.
        keys: value of KEYS.
        uniq_key: value of UNIQ_KEY.
        names: of properties, by their number.
        values: likewise.
    """

    physical_offset: NDArray[np.int64]
    size: NDArray[np.int32]
    queue_id: NDArray[np.int32]
    queue_offset: NDArray[np.int64]
    flag: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    body_crc: NDArray[np.int32]
    born_timestamp: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    reconsume_times: NDArray[np.int32]
    prepared_transaction_offset: NDArray[np.int64]
    needs_decoding: NDArray[np.uint8]
    property_end: NDArray[np.int32]
    born_host: Slices
    store_host: Slices
    body: Slices
    topic: Slices
    raw_properties: Slices
    tags: Slices
    keys: Slices
    uniq_key: Slices
    names: Slices
    values: Slices

    @classmethod
    def of(cls, rows: int, properties: int) -> RowColumns:
        """Return room for `rows` records and `properties` of them all together."""
        return cls(
            physical_offset=np.zeros(rows, np.int64),
            size=np.zeros(rows, np.int32),
            queue_id=np.zeros(rows, np.int32),
            queue_offset=np.zeros(rows, np.int64),
            flag=np.zeros(rows, np.int32),
            sys_flag=np.zeros(rows, np.int32),
            body_crc=np.zeros(rows, np.int32),
            born_timestamp=np.zeros(rows, np.int64),
            store_timestamp=np.zeros(rows, np.int64),
            reconsume_times=np.zeros(rows, np.int32),
            prepared_transaction_offset=np.zeros(rows, np.int64),
            needs_decoding=np.zeros(rows, np.uint8),
            property_end=np.zeros(rows, np.int32),
            born_host=Slices.of(rows),
            store_host=Slices.of(rows),
            body=Slices.of(rows),
            topic=Slices.of(rows),
            raw_properties=Slices.of(rows),
            tags=Slices.of(rows),
            keys=Slices.of(rows),
            uniq_key=Slices.of(rows),
            names=Slices.of(properties),
            values=Slices.of(properties),
        )


class Row(NamedTuple):
    """One record as `streaming.source.rows` shows it, by the slow twin; texts as Java has them."""

    record: Record
    body_crc: int
    tags: str | None
    keys: str | None
    uniq_key: str | None
    message_id: str
    offset_message_id: str


def describe(record: Record, raw: bytes) -> Row:
    """Return the row of one record, the slow and readable way.

    Args:
        record: the record.
        raw: its bytes.
    """
    places = PLACES[record.sys_flag & WIDE_HOSTS]
    host = raw[places.store_host : places.reconsume_times]
    offset_message_id = (host + record.physical_offset.to_bytes(8, "big")).hex().upper()
    uniq_key = record.properties.get(UNIQ_KEY)
    return Row(
        record=record,
        body_crc=int.from_bytes(raw[BODY_CRC_AT : BODY_CRC_AT + 4], "big", signed=True),
        tags=record.properties.get(TAGS),
        keys=record.properties.get(KEYS),
        uniq_key=uniq_key,
        message_id=uniq_key or offset_message_id,
        offset_message_id=offset_message_id,
    )


@kernel
def _same(data: Bytes, a: int, b: int, length: int) -> bool:
    for i in range(length):  # noqa: SIM110 - numba knows no generators
        if data[a + i] != data[b + i]:
            return False
    return True


@kernel
def split_properties(  # noqa: C901 - kernel
    data: Bytes, at: int, length: int, first: int, names: Slices, values: Slices
) -> tuple[int, bool]:
    """Write the slices of a record's properties from number `first` on.

    Returns:
        The number after the last one; whether all bytes are below 0x80. Past
        `MANY_PROPERTIES` it gives up: -1.
    """
    name_at, name_length = names
    value_at, value_length = values
    count = first
    above = np.uint64(0)
    one = np.uint64(1)
    piece, name_end = at, -1
    end = at + length
    base = at
    while base <= end:
        ends_of_names = match64(data, base, NAME_END)
        ends_of_values = match64(data, base, VALUE_END)
        high = negative64(data, base)
        left = end - base
        if left < MASK_WIDTH:
            valid = (one << np.uint64(left)) - one
            ends_of_names &= valid
            high &= valid
            # The end of the properties closes the last piece, written or not.
            ends_of_values = (ends_of_values & valid) | (one << np.uint64(left))
        above |= high
        marks = ends_of_names | ends_of_values
        while marks != np.uint64(0):
            bit = marks & (~marks + one)
            here = base + trailing_zeros(marks)
            marks ^= bit
            if bit & ends_of_names:
                if name_end < 0:
                    name_end = here
                continue
            if name_end > piece and here > name_end + 1:
                number = count
                for i in range(first, count):
                    if name_length[i] == name_end - piece:
                        if _same(data, name_at[i], piece, name_end - piece):
                            # Java's map keeps the place of the first; the value is the last one's.
                            number = i
                            break
                if number == count:
                    if count - first >= MANY_PROPERTIES:
                        return -1, False
                    name_at[count] = piece
                    name_length[count] = name_end - piece
                    count += 1
                value_at[number] = name_end + 1
                value_length[number] = here - name_end - 1
            piece = here + 1
            name_end = -1
        base += MASK_WIDTH
    return count, above == np.uint64(0)


@kernel
def _put(slices: Slices, row: int, at: int, length: int) -> None:
    slices[0][row] = at
    slices[1][row] = length


@kernel
def read_rows(  # noqa: PLR0915 - kernel
    data: Bytes,
    at: int,
    stop: int,
    limit: int,
    origin: int,
    file_end: int,
    rules: int,
    columns: RowColumns,
) -> tuple[int, int, int]:
    """Fill columns from the records that start in [`at`, `stop`).

    Args:
        data: bytes of one commitlog file from physical offset `origin` on, with `MASK_WIDTH`
            readable bytes after `limit`.
        at: index of a record.
        stop: index.
        limit: index after the last byte of the file that is at hand.
        origin: physical offset of `data[0]`.
        file_end: physical offset of the file's end.
        rules: see `frames.check`.
        columns: written from row 0 on; rows that need decoding have no properties.

    Returns:
        The verdict of what stands where it ended (RECORD: `stop` is reached), the index of that,
        rows filled.
    """
    rows = 0
    properties = 0
    capacity = len(columns.size)
    property_capacity = len(columns.names.length)
    while at < stop:
        verdict, size, timestamp_at, body_at, body_length, topic_at, topic_length, properties_at = (
            check(data, at, limit, origin + at, file_end, rules)
        )
        if verdict != _RECORD:
            return verdict, at, rows
        length = at + size - properties_at
        needed = min(length // _BYTES_A_PROPERTY, MANY_PROPERTIES) + 1
        if rows >= capacity or properties + needed > property_capacity:
            return _FULL, at, rows
        flags = load_i32(data, at + SYS_FLAG_AT)
        host_at = timestamp_at + _STORE_HOST
        host_end = body_at - _AFTER_STORE_HOST
        columns.physical_offset[rows] = origin + at
        columns.size[rows] = size
        columns.queue_id[rows] = load_i32(data, at + QUEUE_ID_AT)
        columns.queue_offset[rows] = load_i64(data, at + QUEUE_OFFSET_AT)
        columns.flag[rows] = load_i32(data, at + FLAG_AT)
        columns.sys_flag[rows] = flags
        columns.body_crc[rows] = load_i32(data, at + BODY_CRC_AT)
        columns.born_timestamp[rows] = load_i64(data, at + BORN_TIMESTAMP_AT)
        columns.store_timestamp[rows] = load_i64(data, timestamp_at)
        columns.reconsume_times[rows] = load_i32(data, host_end)
        columns.prepared_transaction_offset[rows] = load_i64(data, host_end + 4)
        _put(columns.born_host, rows, at + BORN_HOST, timestamp_at - at - BORN_HOST)
        _put(columns.store_host, rows, host_at, host_end - host_at)
        _put(columns.body, rows, body_at, body_length)
        _put(columns.topic, rows, topic_at, topic_length)
        _put(columns.raw_properties, rows, properties_at, length)
        _put(columns.tags, rows, 0, 0)
        _put(columns.keys, rows, 0, 0)
        _put(columns.uniq_key, rows, 0, 0)
        end, is_ascii = split_properties(
            data, properties_at, length, properties, columns.names, columns.values
        )
        decodes = end < 0 or not (is_ascii or is_utf8(data, properties_at, length))
        decodes = decodes or not is_utf8(data, topic_at, topic_length)
        if not decodes:
            for i in range(properties, end):
                name_at, name_length = columns.names.at[i], columns.names.length[i]
                value_at, value_length = columns.values.at[i], columns.values.length[i]
                if name_length == 4:
                    word = load_i32(data, name_at)
                    if word == _TAGS_WORD:
                        _put(columns.tags, rows, value_at, value_length)
                    elif word == _KEYS_WORD:
                        _put(columns.keys, rows, value_at, value_length)
                elif name_length == 8 and load_i64(data, name_at) == _UNIQ_KEY_WORD:
                    _put(columns.uniq_key, rows, value_at, value_length)
            properties = end
        columns.needs_decoding[rows] = 1 if decodes else 0
        columns.property_end[rows] = properties
        rows += 1
        at += size
    return _RECORD, at, rows
