"""ConsumeQueueExt files: what a filter needs to know of a message beyond its tag.

Units of varying size stand one after another; the consume queue's entry holds a unit's address
in place of the tags code. A file keeps 4 bytes spare: where the next unit does not fit before
them, an int16 -1 ends the file.

====== ==== =============== ========================================================
offset size field           meaning (all integers signed, big-endian)
====== ==== =============== ========================================================
     0    2 size            bytes of the whole unit, 20 and more
     2    8 tags_code       what the entry would hold without this file
    10    8 store_timestamp ms
    18    2 bitmap_size     bytes of the bit map, 0 for none
    20    n bitmap          bloom filter bits of the consumers that match
====== ==== =============== ========================================================

Source: docs/formats/consumequeue_ext.md, RocketMQ `ConsumeQueueExt`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

UNIT = struct.Struct(">hqqh")
# Each unit begins with its size, and so does the mark of a file's end.
SIZE = struct.Struct(">h")
MAX_UNIT_SIZE = 0x7FFF
FILE_SIZE = 48 << 20
SPARE = 4
# Files in which a broker looks for room for a unit.
TRIES = 3
ENDED = -1
END_MARK = SIZE.pack(ENDED)
# An address is a byte position plus the lowest long; a tag's hash is never as low as this.
ADDRESS_BASE = -(1 << 63)
MAX_ADDRESS = -(1 << 31) - 1


class Unit(NamedTuple):
    """One unit; see the table above."""

    tags_code: int
    store_timestamp: int
    bitmap: bytes = b""

    @property
    def size(self) -> int:
        """Return the bytes of the whole unit."""
        return UNIT.size + len(self.bitmap)

    def pack(self) -> bytes:
        """Return its bytes."""
        head = UNIT.pack(self.size, self.tags_code, self.store_timestamp, len(self.bitmap))
        return head + self.bitmap


def size_of(raw: bytes) -> int:
    """Return the size that bytes begin with: of a unit, `ENDED`, or 0 where nothing is there."""
    (size,) = SIZE.unpack_from(raw.ljust(SIZE.size, b"\0"))
    return int(size)


def unpack(data: bytes, at: int) -> Unit | None:
    """Return the unit at `at`, None where none is written or the file's end is marked.

    Raises:
        ValueError: the sizes do not add up.
    """
    if at + SIZE.size > len(data):
        return None
    (size,) = SIZE.unpack_from(data, at)
    if size in {0, ENDED}:
        return None
    if size < UNIT.size or at + size > len(data):
        raise ValueError(f"unit of {size} bytes")
    _, tags_code, store_timestamp, bitmap_size = UNIT.unpack_from(data, at)
    if bitmap_size != size - UNIT.size:
        raise ValueError(f"bit map of {bitmap_size} bytes in a unit of {size}")
    return Unit(tags_code, store_timestamp, data[at + UNIT.size : at + size])


def address(position: int) -> int:
    """Return what an entry holds for the unit at byte `position` of the queue's ext files."""
    return position + ADDRESS_BASE


def is_address(tags_code: int) -> bool:
    """Tell whether an entry's tags code is an address (`ConsumeQueueExt#isExtAddr`)."""
    return tags_code <= MAX_ADDRESS


def position(tags_code: int) -> int:
    """Return the byte position that an address stands for."""
    return tags_code - ADDRESS_BASE
