"""Finds a message by its key: through the index's chains, then the record itself.

RocketMQ `IndexService#queryOffset` and `IndexFile#selectPhyOffset`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formats import commitlog, indexfile, names
from formats.commitlog import Record
from formats.errors import FormatError
from formats.indexfile import HEADER_SIZE, ITEM, NO_ITEM, SLOT_SIZE, Header
from stores.commitlog import PAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.broker import BrokerSettings
    from stores.commitlog import CommitLog

MAX_HITS = 64


def find_by_key(root: Path, log: CommitLog, topic: str, key: str) -> list[Record]:
    """Return the records of a topic that have a key or unique id, newest first, 64 at most.

    Args:
        root: where `index/` is.
        log: the commitlog that it points into.
        topic: the topic.
        key: one word of KEYS, or the UNIQ_KEY.

    Raises:
        FormatError: an index file of a wrong size.
    """
    found: list[Record] = []
    hashed = indexfile.key_hash(f"{topic}#{key}")
    directory = root / names.INDEX
    files = sorted(directory.iterdir(), reverse=True) if directory.is_dir() else []
    for path in files:
        for offset in _offsets(path, log.settings, hashed):
            record = read_record(log, offset)
            if record is not None and _has_key(record, topic, key):
                found.append(record)
            if len(found) >= MAX_HITS:
                return found
    return found


def _offsets(path: Path, settings: BrokerSettings, hashed: int) -> Iterator[int]:
    """Yield the physical offsets on a slot's chain that have the hash, newest first."""
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    found = path.stat().st_size
    if found != size:
        raise FormatError(path, found, f"the file ends here, expected {size} bytes")
    data = np.memmap(path, np.uint8, "r")
    header = Header.unpack(data[:HEADER_SIZE].tobytes())
    slot_at = HEADER_SIZE + hashed % settings.index_slots * SLOT_SIZE
    number = int.from_bytes(data[slot_at : slot_at + SLOT_SIZE].tobytes(), "big", signed=True)
    # Each item points to an older one; anything else is damage, and would not end.
    limit = min(header.index_count, settings.index_items)
    while NO_ITEM < number < limit:
        at = indexfile.item_position(number, settings.index_slots)
        item = np.frombuffer(data[at : at + ITEM.itemsize].tobytes(), ITEM)[0]
        if int(item["key_hash"]) == hashed:
            yield int(item["physical_offset"])
        limit, number = number, int(item["previous"])


def read_record(log: CommitLog, offset: int) -> Record | None:
    """Return the record at a physical offset, None if none is there."""
    if not log.min_offset <= offset < log.end_of_files:
        return None
    size = int.from_bytes(log.read(offset, 4)[PAD : PAD + 4].tobytes(), "big", signed=True)
    base = log.base_of(offset)
    if not commitlog.MIN_SIZE <= size <= base + log.file_size - offset:
        return None
    raw = log.read(offset, size)[PAD:-PAD].tobytes()
    file_end = base + log.file_size
    _, record = commitlog.read(raw, 0, offset, file_end, log.settings.read_rules)
    return record if isinstance(record, Record) else None


def _has_key(record: Record, topic: str, key: str) -> bool:
    keys = record.properties.get("KEYS", "").split(" ")
    return record.topic == topic and (key in keys or record.properties.get("UNIQ_KEY") == key)
