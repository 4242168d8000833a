"""Has ids of messages lead to this server: the host in records that leave becomes its own.

A client makes a message's offset id of the record's store host and its physical offset, and tools
ask that host for it. The host of a broker that is dead answers nobody. The body's CRC does not
cover it; the properties' own CRC, which brokers of 5.x may add, is made again.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import PLACES, STORE_HOST_V6, SYS_FLAG_AT, WIDE_HOSTS
from reput.formats.rocketmq.properties import PROPERTY_CRC, PROPERTY_CRC_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

_INT = struct.Struct(">i")


class Host(NamedTuple):
    """A broker's address, as records have it."""

    address: str
    port: int

    @property
    def packed(self) -> bytes:
        """Return its bytes in a record: 8, or 20 of an IPv6 address."""
        return ipaddress.ip_address(self.address).packed + _INT.pack(self.port)


def address_of(text: str) -> Host:
    """Return the parts of "127.0.0.1:10911" and "[::1]:10911"."""
    host, _, port = text.rpartition(":")
    return Host(host.strip("[]"), int(port))


def with_host(pieces: Sequence[memoryview], host: Host) -> list[memoryview]:
    """Return copies of records in which the store host is another one.

    A record whose store host is of the other family keeps it: the new one has another length.

    Args:
        pieces: whole records, one after the other.
        host: the new one.
    """
    packed = host.packed
    return [memoryview(_with_host(bytearray(piece), packed)) for piece in pieces]


def _with_host(data: bytearray, packed: bytes) -> bytearray:
    is_wide = len(packed) > PLACES[0].reconsume_times - PLACES[0].store_host
    at = 0
    while at < len(data):
        (size,) = _INT.unpack_from(data, at)
        (sys_flag,) = _INT.unpack_from(data, at + SYS_FLAG_AT)
        if bool(sys_flag & STORE_HOST_V6) == is_wide:
            place = at + PLACES[sys_flag & WIDE_HOSTS].store_host
            data[place : place + len(packed)] = packed
            _renew_crc(data, at, at + size)
        at += size
    return data


def _renew_crc(data: bytearray, start: int, end: int) -> None:
    covered = end - PROPERTY_CRC.size
    if covered > start and data.startswith(PROPERTY_CRC_PREFIX, covered):
        crc = zlib.crc32(memoryview(data)[start:covered]) & 0x7FFFFFFF
        at = covered + len(PROPERTY_CRC_PREFIX)
        data[at : at + 10] = f"{crc:010d}"[::-1].encode()
