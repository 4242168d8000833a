"""Commitlog bytes written out from the format's table, with nothing of the code under test.

`record` makes one record, `log_file` the bytes of a file, `write_store` a store's directory.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
FILE_SIZE = 4096
STORED_AT = 1_700_000_000_000


class Placed(NamedTuple):
    """A record of a store and its physical offset."""

    position: int
    raw: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.raw)


def record(
    position: int = 0,
    *,
    topic: str | bytes = "topic",
    body: bytes = b"",
    properties: dict[str, str] | bytes = b"",
    queue_id: int = 0,
    queue_offset: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = STORED_AT,
    store_timestamp: int = STORED_AT,
    born_host: str = "10.0.0.9",
    born_port: int = 50001,
    store_host: str = "10.0.0.1",
    store_port: int = 10911,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    body_crc: int | None = None,
) -> bytes:
    """Return a record that stands at `position`; V2 if its topic needs it."""
    name = topic.encode() if isinstance(topic, str) else topic
    is_v2 = len(name) > 127
    if not isinstance(properties, bytes):
        properties = b"".join(f"{k}\x01{v}\x02".encode() for k, v in properties.items())
    born, stored = ipaddress.ip_address(born_host), ipaddress.ip_address(store_host)
    sys_flag |= 0x10 * (born.version == 6) | 0x20 * (stored.version == 6)
    if body_crc is None:
        body_crc = zlib.crc32(body) & 0x7FFFFFFF
    after_size = b"".join(
        [
            struct.pack(">I", MAGIC_V2 if is_v2 else MAGIC_V1),
            struct.pack(">iii", body_crc, queue_id, flag),
            struct.pack(">qqi", queue_offset, position, sys_flag),
            struct.pack(">q", born_timestamp) + born.packed + struct.pack(">i", born_port),
            struct.pack(">q", store_timestamp) + stored.packed + struct.pack(">i", store_port),
            struct.pack(">iq", reconsume_times, prepared_transaction_offset),
            struct.pack(">i", len(body)) + body,
            struct.pack(">h" if is_v2 else ">B", len(name)) + name,
            struct.pack(">h", len(properties)) + properties,
        ]
    )
    return struct.pack(">i", 4 + len(after_size)) + after_size


def blank(left: int) -> bytes:
    """Return what fills the last `left` bytes of a file."""
    return struct.pack(">iI", left, MAGIC_BLANK).ljust(left, b"\0")


def place(records: list[dict[str, Any]], file_size: int = FILE_SIZE, base: int = 0) -> list[Placed]:
    """Give records, as arguments of `record`, their places: none crosses the end of a file."""
    placed = []
    position = base
    for fields in records:
        size = len(record(**fields))
        left = file_size - position % file_size
        if size + 8 > left:
            position += left
        placed.append(Placed(position, record(position, **fields)))
        position += size
    return placed


def log_file(
    records: list[Placed], base: int, size: int = FILE_SIZE, *, is_closed: bool = False
) -> bytes:
    """Return the file at `base`: those of the records that stand in it, then BLANK or zeros."""
    raw = b"".join(r.raw for r in records if base <= r.position < base + size)
    left = size - len(raw)
    return raw + (blank(left) if is_closed else bytes(left))


def write_store(
    store: Path, records: list[dict[str, Any]], file_size: int = FILE_SIZE, base: int = 0
) -> list[Placed]:
    """Write a store with these records, its last file open, and say where they stand."""
    placed = place(records, file_size, base)
    directory = store / "commitlog"
    directory.mkdir(parents=True, exist_ok=True)
    last = placed[-1].position - placed[-1].position % file_size if placed else base
    for start in range(base, last + 1, file_size):
        raw = log_file(placed, start, file_size, is_closed=start < last)
        (directory / f"{start:020d}").write_bytes(raw)
    return placed


def overwrite(store: Path, position: int, raw: bytes, file_size: int = FILE_SIZE) -> None:
    """Write bytes at a physical offset, as a broker's mapped writes appear: into the file."""
    path = store / "commitlog" / f"{position - position % file_size:020d}"
    with path.open("r+b") as file:
        file.seek(position % file_size)
        file.write(raw)
