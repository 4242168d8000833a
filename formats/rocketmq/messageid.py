"""Message ids: the offset id that a broker gives, and the unique id that a producer makes.

=========== ======== ========================================================================
offset id   bytes    upper-case hex of all of it: 32 characters, or 56 with an IPv6 host
=========== ======== ========================================================================
host        4 or 16  the record's store host
port        4
offset      8        physical offset of the record
=========== ======== ========================================================================

=========== ======== ========================================================================
unique id   bytes    upper-case hex: 32 characters, or 56 with an IPv6 host
=========== ======== ========================================================================
host        4 or 16  the producer's address
process     2        its process id, low bits
loader      4        hash of its class loader
time        4        ms since its month began, in its own zone: not which month
counter     2
=========== ======== ========================================================================

Both have the same length. What reads as an offset id is taken for one first, and what cannot be one
(its port would be none) is a unique id: RocketMQ's tools go by that. Source:
`MessageDecoder#decodeMessageId`, `MessageClientIDSetter`, `DefaultMQAdminExtImpl#viewMessage`.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

_V4_LENGTH = 32
_V6_LENGTH = 56
_MAX_PORT = 0xFFFF
_OFFSET_TAIL = struct.Struct(">iq")
_UNIQUE_TAIL = struct.Struct(">HIIH")


class OffsetId(NamedTuple):
    """What an id says if a broker gave it."""

    host: str
    port: int
    physical_offset: int

    @property
    def store_host(self) -> str:
        """Return host and port as a record's `store_host` has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UniqueId(NamedTuple):
    """What an id says if a producer made it."""

    host: str
    process: int
    loader: int
    milliseconds: int
    counter: int


def is_message_id(text: str) -> bool:
    """Tell whether a text can be an id at all: hex digits, 32 or 56 of them."""
    return len(text) in {_V4_LENGTH, _V6_LENGTH} and all(
        c in "0123456789ABCDEFabcdef" for c in text
    )


def parse_offset_id(text: str) -> OffsetId:
    """Return the parts of an offset id.

    Raises:
        ValueError: not 32 or 56 hex digits, or no port or offset.
    """
    host, rest = _host_and_rest(text)
    port, offset = _OFFSET_TAIL.unpack(rest)
    if not 0 <= port <= _MAX_PORT:
        raise ValueError(f"as an offset id it would have port {port}")
    return OffsetId(host, port, offset)


def parse_unique_id(text: str) -> UniqueId:
    """Return the parts of a unique id of RocketMQ's own making; producers may use any other text.

    Raises:
        ValueError: not 32 or 56 hex digits.
    """
    host, rest = _host_and_rest(text)
    return UniqueId(host, *_UNIQUE_TAIL.unpack(rest))


def offset_id(store_host: str, physical_offset: int) -> str:
    """Return the id of the record at an offset (`MessageDecoder#createMessageId`).

    Args:
        store_host: address and port, as in `Record.store_host`.
        physical_offset: bytes.
    """
    host, _, port = store_host.rpartition(":")
    address = ipaddress.ip_address(host.strip("[]")).packed
    return (address + _OFFSET_TAIL.pack(int(port), physical_offset)).hex().upper()


def _host_and_rest(text: str) -> tuple[str, bytes]:
    if not is_message_id(text):
        raise ValueError(f"an id has {_V4_LENGTH} or {_V6_LENGTH} hex digits")
    raw = bytes.fromhex(text)
    size = 4 if len(text) == _V4_LENGTH else 16
    return str(ipaddress.ip_address(raw[:size])), raw[size:]
