"""BatchConsumeQueue files (5.0.0+): one unit for each inner batch of a topic of type BatchCQ.

Units stand in the order of their records, not at an address made of the queue offset; a reader
searches `base_offset`.

====== ==== ================ ====================================================
offset size field            meaning (all integers signed, big-endian)
====== ==== ================ ====================================================
     0    8 physical_offset  first byte of the record in the commitlog
     8    4 size             bytes of the whole record
    12    8 tags_code        as in a consume queue
    20    8 store_timestamp  ms
    28    8 base_offset      queue offset of the batch's first message
    36    2 batch_size       messages in it
    38    4 compacted_offset -1
    42    4 reserved         0
====== ==== ================ ====================================================

Source: docs/formats/batchconsumequeue.md, RocketMQ `BatchConsumeQueue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.java import strings
from reput.formats.layout import lazy_dtype, struct_of
from reput.formats.rocketmq.properties import INNER_BASE, INNER_NUM

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    UNIT: np.dtype[Any]

FIELDS = (
    ("physical_offset", "i8"),
    ("size", "i4"),
    ("tags_code", "i8"),
    ("store_timestamp", "i8"),
    ("base_offset", "i8"),
    ("batch_size", "i2"),
    ("compacted_offset", "i4"),
    ("reserved", "i4"),
)
UNIT_STRUCT = struct_of(FIELDS)
UNIT_SIZE = UNIT_STRUCT.size
FILE_SIZE = 300_000 * UNIT_SIZE
QUEUE_TYPE = "BatchCQ"


__getattr__ = lazy_dtype(globals(), "UNIT", FIELDS)


def inner_batch(properties: Mapping[str, str]) -> tuple[int, int] | None:
    """Return first queue offset and size of an inner batch, None for an ordinary record.

    A broker from 5.0 on does this with every record that it reads from its log
    (`CommitLog#setBatchSizeIfNeeded`).

    Raises:
        ValueError: they are not numbers (the broker then takes the record for unreadable).
    """
    base, number = properties.get(INNER_BASE), properties.get(INNER_NUM)
    if base is None or number is None:
        return None
    first = strings.parse_long(base)
    size = strings.parse_int(number)
    if not -(1 << 15) <= size < 1 << 15:
        raise ValueError(f"beyond 16 bits: {number!r}")
    return first, size


class Unit(NamedTuple):
    """One unit; see the table above."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base_offset: int
    batch_size: int
    compacted_offset: int = -1
    reserved: int = 0

    def pack(self) -> bytes:
        """Return its 46 bytes."""
        return UNIT_STRUCT.pack(*self)
