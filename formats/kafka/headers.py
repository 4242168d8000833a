"""Headers of a Kafka record: their names, and how they are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rows.texts import Slices

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

# Names that begin with this are ours; a property's that does begins with the other one too.
OURS, RENAMED = b"rmq.", b"property."
# Headers with a number as text, in this order.
NUMBERS = ("rmq.queueOffset", "rmq.physicalOffset", "rmq.storeTimestamp", "rmq.bornTimestamp",
           "rmq.sysFlag", "rmq.reconsumeTimes")  # fmt: skip


def varint(value: int) -> bytes:
    """Return a number as a zigzag varint."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(0x80 | (left & 0x7F))
        left >>= 7
    out.append(left)
    return bytes(out)


def header(name: str, value: str) -> bytes:
    """Return one encoded header."""
    key, text = name.encode(), value.encode()
    return varint(len(key)) + key + varint(len(text)) + text


def encoded_names(*names: str) -> tuple[Bytes, Slices]:
    """Return names encoded one after another, and where each one is."""
    pieces = [varint(len(name)) + name.encode() for name in names]
    lengths = np.array([len(piece) for piece in pieces], np.int32)
    at = (np.cumsum(lengths) - lengths).astype(np.int64)
    return np.frombuffer(b"".join(pieces), np.uint8).copy(), Slices(at, lengths)


def property_name(name: str) -> str:
    """Return under what name a property is a header."""
    return RENAMED.decode() + name if name.startswith(OURS.decode()) else name
