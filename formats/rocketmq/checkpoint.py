"""The broker's `checkpoint` file: how far what is on disk, as timestamps. 4096 bytes.

====== ====================== ======== ==============================================
offset field                  since    meaning
====== ====================== ======== ==============================================
     0 physic_timestamp       4.0      store timestamp of the last flushed commitlog record
     8 logics_timestamp       4.0      of the last record in the flushed consume queues
    16 index_timestamp        4.0      end timestamp of the last full index file
    24 master_flushed_offset  5.0.0    replication
    32 confirm_offset         5.1.1    replication; last record's start at a recovery
    40 logics_offset          5.5.0    start of the last record in the flushed queues
====== ====================== ======== ==============================================

All are int64, big-endian; the rest is zero. Source: docs/formats/checkpoint.md, RocketMQ
`StoreCheckpoint`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

FILE_SIZE = 4096


class StoreCheckpoint(NamedTuple):
    """The longs of the file; see the table above."""

    physic_timestamp: int = 0
    logics_timestamp: int = 0
    index_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    logics_offset: int = 0

    def pack(self, fields: int) -> bytes:
        """Return the 4096 bytes, with the first `fields` longs that the broker version knows."""
        return struct.pack(f">{fields}q", *self[:fields]).ljust(FILE_SIZE, b"\0")


def unpack(data: bytes) -> StoreCheckpoint:
    """Return the longs of a checkpoint file, later ones 0 when the version has none.

    Raises:
        ValueError: fewer bytes than the longs need.
    """
    layout = struct.Struct(f">{len(StoreCheckpoint._fields)}q")
    if len(data) < layout.size:
        raise ValueError(f"{len(data)} bytes, expected {FILE_SIZE}")
    return StoreCheckpoint(*layout.unpack_from(data))
