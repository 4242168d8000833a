"""Commitlog records: layout, and the slow readable reader that the kernels are tested against.

A commitlog is one byte sequence cut into files of equal size; a record's physical offset is its
place in that sequence. Integers are signed and big-endian.

====================== ============ ==================================================
field                  bytes        meaning
====================== ============ ==================================================
size                   4            bytes of the whole record
magic                  4            V1, V2 (two-byte topic length, 5.1.0+) or BLANK
body CRC               4            CRC-32 of the body as stored, top bit cleared
queue id               4
flag                   4            the user's, opaque
queue offset           8            number of the record in its (topic, queue)
physical offset        8            where this record begins: must equal its position
sysFlag                4            compression, transaction type, host widths, batches
born timestamp         8            ms, the producer's clock
born host              8 or 20      address and port; 20 with BORN_HOST_V6
store timestamp        8            ms, the broker's clock
store host             8 or 20      20 with STORE_HOST_V6
reconsume times        4
prepared transaction   8            physical offset of the half message, or 0
body                   4 + n
topic                  1 or 2 + t   length byte is signed in V1
properties             2 + p        see `formats.rocketmq.properties`
====================== ============ ==================================================

A BLANK (size, magic, then anything) fills a file's end when the next record does not fit: at
least 8 bytes of every closed file. Source: docs/formats/commitlog.md, RocketMQ
`CommitLog#checkMessageAndReturnSize`.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.java import strings
from reput.formats.layout import lazy_dtype, offsets_of, struct_of, struct_of_some
from reput.formats.rocketmq import properties

if TYPE_CHECKING:
    import numpy as np

    HEADER: np.dtype[Any]

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
MAGIC_BLANK = -875286124
BLANK_HEAD = struct.Struct(">ii")
BLANK_SIZE = BLANK_HEAD.size
FILE_SIZE = 1 << 30
MAX_MESSAGE_SIZE = 4 << 20
# Beyond the body limit a record carries at most this much (`MessageExtEncoder`).
RECORD_OVERHEAD = 1 << 16

COMPRESSED = 0x1
TRANSACTION_TYPE = 0xC
PREPARED = 0x4
COMMIT = 0x8
ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
HOST_V4 = 8
HOST_V6 = 20

FIELDS = (
    ("size", "i4"),
    ("magic", "i4"),
    ("body_crc", "i4"),
    ("queue_id", "i4"),
    ("flag", "i4"),
    ("queue_offset", "i8"),
    ("physical_offset", "i8"),
    ("sys_flag", "i4"),
    ("born_timestamp", "i8"),
)
_HEADER = struct_of(FIELDS)
BORN_HOST = _HEADER.size
WIDE_HOSTS = BORN_HOST_V6 | STORE_HOST_V6
# Bytes of the born and of the store host, by the flags that make hosts wide.
_HOST_SIZES = {
    0: (HOST_V4, HOST_V4),
    BORN_HOST_V6: (HOST_V6, HOST_V4),
    STORE_HOST_V6: (HOST_V4, HOST_V6),
    WIDE_HOSTS: (HOST_V6, HOST_V6),
}
# From the born host to the body's length.
_MIDDLE = {
    flags: struct.Struct(f">{born}sq{stored}siqi") for flags, (born, stored) in _HOST_SIZES.items()
}


class Places(NamedTuple):
    """Bytes from a record's beginning to what follows its hosts, whose widths differ."""

    store_timestamp: int
    store_host: int
    reconsume_times: int
    body: int


# By the flags that make hosts wide; `sys_flag & WIDE_HOSTS` are a record's.
PLACES = {
    flags: Places(
        store_timestamp=BORN_HOST + born,
        store_host=BORN_HOST + born + 8,
        reconsume_times=BORN_HOST + born + 8 + stored,
        body=BORN_HOST + _MIDDLE[flags].size,
    )
    for flags, (born, stored) in _HOST_SIZES.items()
}
_BYTE, _SHORT = struct.Struct(">b"), struct.Struct(">h")
# Bytes of a V1 record with IPv4 hosts and nothing in it.
MIN_SIZE = PLACES[0].body + 1 + 2
(
    SIZE_AT,
    MAGIC_AT,
    BODY_CRC_AT,
    QUEUE_ID_AT,
    FLAG_AT,
    QUEUE_OFFSET_AT,
    PHYSICAL_OFFSET_AT,
    SYS_FLAG_AT,
    BORN_TIMESTAMP_AT,
) = offsets_of(FIELDS)
# The store timestamp is one of the last two: after an IPv4 or an IPv6 host.
_FIELDS_AND_TIMES = (
    *FIELDS,
    ("born_host", f"x{HOST_V4}"),
    ("stored_v4", "i8"),
    ("wide", f"x{HOST_V6 - HOST_V4 - 8}"),
    ("stored_v6", "i8"),
)


def head_of(*wanted: str) -> struct.Struct:
    """Return what unpacks some fields from a record's beginning, in their order there.

    Args:
        wanted: of `FIELDS`, and `stored_v4` or `stored_v6`: what is the store timestamp if the born
            host is narrow, or wide.
    """
    return struct_of_some(_FIELDS_AND_TIMES, wanted)


__getattr__ = lazy_dtype(globals(), "HEADER", FIELDS)


class Verdict(IntEnum):
    """What a reader finds at a position; the numbers are those that kernels return."""

    RECORD = 0
    ROLL = 1  # a BLANK: continue with the next file
    END = 2  # zeros: nothing was written here yet
    SHORT = 3  # the bytes at hand end inside the record
    NO_MAGIC = 4
    BAD_LENGTH = 5
    BAD_OFFSET = 6
    BAD_TIMESTAMP = 7
    BAD_BODY_CRC = 8
    BAD_PROPERTY_CRC = 9
    BAD_DELAY = 10
    UNKNOWN_QUEUE = 11  # not an error: the kernel's caller has to register the queue
    FULL = 12  # not an error: the caller's columns are full
    BAD_BATCH = 13

    @property
    def explanation(self) -> str:
        """Return what to print for it."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Verdict.RECORD: "a record",
    Verdict.ROLL: "the end of the file",
    Verdict.END: "nothing written",
    Verdict.SHORT: "a record that ends beyond the bytes at hand",
    Verdict.NO_MAGIC: "not a record: its magic number is not RocketMQ's",
    Verdict.BAD_LENGTH: "a record whose lengths do not add up",
    Verdict.BAD_OFFSET: "a record that names another physical offset",
    Verdict.BAD_TIMESTAMP: "a record without a store timestamp",
    Verdict.BAD_BODY_CRC: "a record whose body does not match its CRC",
    Verdict.BAD_PROPERTY_CRC: "a record that does not match its property CRC",
    Verdict.BAD_DELAY: "a delayed record whose DELAY is not a number",
    Verdict.BAD_BATCH: "a record whose INNER_BASE or INNER_NUM is not a number that fits",
    Verdict.UNKNOWN_QUEUE: "a queue that is not known yet",
    Verdict.FULL: "more records than fit",
}


CHECK_BODY_CRC = 1
CHECK_PROPERTY_CRC = 2
ACCEPT_V2 = 4
REQUIRE_PROPERTY_CRC = 8
PARSE_BATCHES = 16


class ReadRules(NamedTuple):
    """What the broker's version and settings change in reading a record."""

    accepts_v2: bool = True
    checks_body_crc: bool = True
    checks_property_crc: bool = False
    requires_property_crc: bool = False
    # See `BrokerVersion.parses_batches`.
    parses_batches: bool = False

    @property
    def bits(self) -> int:
        """Return them as kernels take them: a bit each."""
        return (
            CHECK_BODY_CRC * self.checks_body_crc
            | CHECK_PROPERTY_CRC * self.checks_property_crc
            | REQUIRE_PROPERTY_CRC * self.requires_property_crc
            | ACCEPT_V2 * self.accepts_v2
            | PARSE_BATCHES * self.parses_batches
        )


DEFAULT_RULES = ReadRules()


class Record(NamedTuple):
    """One record, its fields by RocketMQ's names; texts as Java would decode them."""

    physical_offset: int
    size: int
    queue_id: int
    flag: int
    queue_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties: dict[str, str]


def read(
    data: bytes, at: int, position: int, file_end: int, rules: ReadRules = DEFAULT_RULES
) -> tuple[Verdict, Record | int]:
    """Read what stands at `data[at]`, whose physical offset is `position`.

    Args:
        data: bytes of one file, or a piece of it.
        at: index into them.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `ReadRules`.

    Returns:
        RECORD with the record, or another verdict with the size that stands there (or 0).
    """
    if len(data) - at < BLANK_SIZE:
        return Verdict.SHORT, 0
    size, magic = struct.unpack_from(">ii", data, at)
    left = file_end - position
    if magic == MAGIC_BLANK:
        return (Verdict.ROLL if size == left else Verdict.BAD_LENGTH), size
    if magic != MAGIC_V1 and not (magic == MAGIC_V2 and rules.accepts_v2):
        return (Verdict.END if size == 0 and magic == 0 else Verdict.NO_MAGIC), 0
    if size < MIN_SIZE or size > left:
        return Verdict.BAD_LENGTH, size
    if len(data) - at < size:
        return Verdict.SHORT, size
    return _read_record(data[at : at + size], position, rules)


def _read_record(raw: bytes, position: int, rules: ReadRules) -> tuple[Verdict, Record | int]:  # noqa: PLR0911 - a verdict for each thing that can be wrong
    header = _HEADER.unpack_from(raw)
    _, magic, body_crc, queue_id, flag, queue_offset, physical, sys_flag, born = header
    if physical != position:
        return Verdict.BAD_OFFSET, len(raw)
    middle = _MIDDLE[sys_flag & WIDE_HOSTS]
    topic_size = _SHORT if magic == MAGIC_V2 else _BYTE
    try:
        born_host, store_timestamp, store_host, reconsume_times, prepared, body_length = (
            middle.unpack_from(raw, BORN_HOST)
        )
        body_at = BORN_HOST + middle.size
        body_end = _end(raw, body_at, body_length)
        (topic_length,) = topic_size.unpack_from(raw, body_end)
        topic_at = body_end + topic_size.size
        topic_end = _end(raw, topic_at, topic_length)
        (properties_length,) = _SHORT.unpack_from(raw, topic_end)
        properties_at = topic_end + _SHORT.size
    except (struct.error, ValueError):
        return Verdict.BAD_LENGTH, len(raw)
    if properties_at + properties_length != len(raw):
        return Verdict.BAD_LENGTH, len(raw)
    body = raw[body_at:body_end]
    if store_timestamp <= 0:
        return Verdict.BAD_TIMESTAMP, len(raw)
    if rules.checks_body_crc and body and zlib.crc32(body) & 0x7FFFFFFF != body_crc:
        return Verdict.BAD_BODY_CRC, len(raw)
    wants_crc = rules.checks_property_crc or rules.requires_property_crc
    crc_matches = properties.crc_matches(raw, MIN_SIZE) if wants_crc else None
    if crc_matches is False or (crc_matches is None and rules.requires_property_crc):
        return Verdict.BAD_PROPERTY_CRC, len(raw)
    record = Record(
        physical,
        len(raw),
        queue_id,
        flag,
        queue_offset,
        sys_flag,
        born,
        _host(born_host),
        store_timestamp,
        _host(store_host),
        reconsume_times,
        prepared,
        body,
        strings.decode(raw[topic_at:topic_end]),
        properties.parse(raw[properties_at:]),
    )
    return Verdict.RECORD, record


def _end(raw: bytes, at: int, length: int) -> int:
    """Return where a part of a record ends.

    Raises:
        ValueError: beyond the record, or before the part begins.
    """
    end = at + length
    if not at <= end <= len(raw):
        raise ValueError(length)
    return end


@functools.lru_cache(maxsize=4096)
def _host(raw: bytes) -> str:
    """Return an address and a port as text; a store has few of them, many times."""
    address, port = raw[:-4], int.from_bytes(raw[-4:], "big", signed=True)
    if len(raw) == HOST_V6:
        return f"[{ipaddress.IPv6Address(address)}]:{port}"
    return f"{socket.inet_ntoa(address)}:{port}"
