"""Writes commitlog records: for the demonstration and for tests; a broker has its own.

The one place that turns a record's fields into bytes, as `MessageExtEncoder` does.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.layout import struct_of
from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    BORN_HOST_V6,
    FIELDS,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    STORE_HOST_V6,
)
from reput.formats.rocketmq.properties import PROPERTY_CRC_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

# Longer topics need the two-byte length of V2 records.
MAX_V1_TOPIC = 127
_DIGITS = 10
# A record's fields before its sysFlag.
_HEAD = struct_of(FIELDS[: [name for name, _ in FIELDS].index("sys_flag")])


class Message(NamedTuple):
    """What a producer and a broker give a record; `encode` adds the rest."""

    topic: str | bytes
    body: bytes = b""
    properties: Mapping[str, str] | bytes = {}
    queue_id: int = 0
    queue_offset: int = 0
    store_timestamp: int = 1_700_000_000_000
    born_timestamp: int = 1_700_000_000_000
    flag: int = 0
    sys_flag: int = 0
    born_host: str = "127.0.0.1"
    born_port: int = 50000
    store_host: str = "127.0.0.1"
    store_port: int = 10911
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    property_crc: bool = False


def encode(message: Message, physical_offset: int) -> bytes:
    """Return the record of a message at `physical_offset`.

    Raises:
        ValueError: a field that does not fit.
    """
    topic = message.topic.encode() if isinstance(message.topic, str) else message.topic
    properties = encode_properties(message.properties)
    if message.property_crc:
        properties += bytes(len(PROPERTY_CRC_PREFIX) + _DIGITS + 1)
    is_v2 = len(topic) > MAX_V1_TOPIC
    born, born_flag = _host(message.born_host, message.born_port, BORN_HOST_V6)
    stored, store_flag = _host(message.store_host, message.store_port, STORE_HOST_V6)
    try:
        tail = b"".join(
            (
                struct.pack(">i", message.sys_flag | born_flag | store_flag),
                struct.pack(">q", message.born_timestamp),
                born,
                struct.pack(">q", message.store_timestamp),
                stored,
                struct.pack(">iq", message.reconsume_times, message.prepared_transaction_offset),
                struct.pack(">i", len(message.body)),
                message.body,
                struct.pack(">h" if is_v2 else ">b", len(topic)),
                topic,
                struct.pack(">h", len(properties)),
                properties,
            )
        )
        head = _head(message, physical_offset, _HEAD.size + len(tail), is_v2=is_v2)
    except struct.error as error:
        raise ValueError(f"a field does not fit into a record: {error}") from error
    raw = head + tail
    return _with_property_crc(raw) if message.property_crc else raw


def _head(message: Message, physical_offset: int, size: int, *, is_v2: bool) -> bytes:
    """Return a record's bytes up to its sysFlag."""
    return _HEAD.pack(
        size,
        MAGIC_V2 if is_v2 else MAGIC_V1,
        zlib.crc32(message.body) & 0x7FFFFFFF if message.body else 0,
        message.queue_id,
        message.flag,
        message.queue_offset,
        physical_offset,
    )


def _with_property_crc(raw: bytes) -> bytes:
    room = len(PROPERTY_CRC_PREFIX) + _DIGITS + 1
    crc = zlib.crc32(raw[:-room]) & 0x7FFFFFFF
    digits = f"{crc:0{_DIGITS}d}"[::-1].encode()
    return raw[:-room] + PROPERTY_CRC_PREFIX + digits + b"\x02"


def _host(address: str, port: int, v6_flag: int) -> tuple[bytes, int]:
    parsed = ipaddress.ip_address(address)
    flag = v6_flag if parsed.version == 6 else 0
    return parsed.packed + struct.pack(">i", port), flag


def encode_properties(properties: Mapping[str, str] | bytes) -> bytes:
    """Return properties as a 5.x broker writes them; bytes are taken as they are."""
    if isinstance(properties, bytes):
        return properties
    return b"".join(f"{k}\x01{v}\x02".encode() for k, v in properties.items())


def fits(size: int, left: int) -> bool:
    """Tell whether a record goes into a file with `left` bytes: a BLANK must fit after it."""
    return size + BLANK_SIZE <= left


def encode_blank(left: int) -> bytes:
    """Return the BLANK that fills the last `left` bytes of a file."""
    return BLANK_HEAD.pack(left, MAGIC_BLANK).ljust(left, b"\0")
