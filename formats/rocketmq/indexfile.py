"""Index files: which records have a key, by hash. A header, slots, then items in log order.

====== ==== ================ =========================================================
offset size header field     meaning (all integers signed, big-endian)
====== ==== ================ =========================================================
     0    8 begin_timestamp  store timestamp of the first item, ms
     8    8 end_timestamp    of the last
    16    8 begin_offset     physical offset of the first item
    24    8 end_offset       of the last
    32    4 slots_used       slots that are not empty
    36    4 index_count      number of the next item: items + 1
====== ==== ================ =========================================================

====== ==== ================ =========================================================
offset size item field
====== ==== ================ =========================================================
     0    4 key_hash         abs(hash of "topic#key")
     4    8 physical_offset  of the record
    12    4 time_diff        seconds since begin_timestamp
    16    4 previous         number of the item before it in its slot's chain, 0: none
====== ==== ================ =========================================================

Slot *s* (4 bytes, at ``40 + 4 s``) holds the number of the newest item whose hash is *s* modulo
the slot count. Items count from 1. An insert is not repeatable: unlike a consume queue's entry
an item's place is where the file ends. Source: docs/formats/indexfile.md, RocketMQ
`IndexFile#putKey`, `IndexService#buildIndex`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.java import strings
from reput.formats.layout import lazy_dtype, offsets_of, struct_of

if TYPE_CHECKING:
    import numpy as np

    ITEM: np.dtype[Any]

HEADER_FIELDS = (
    ("begin_timestamp", "i8"),
    ("end_timestamp", "i8"),
    ("begin_offset", "i8"),
    ("end_offset", "i8"),
    ("slots_used", "i4"),
    ("index_count", "i4"),
)
HEADER = struct_of(HEADER_FIELDS)
HEADER_OFFSETS = offsets_of(HEADER_FIELDS)
HEADER_SIZE = HEADER.size
SLOT_SIZE = 4
ITEM_FIELDS = (
    ("key_hash", "i4"),
    ("physical_offset", "i8"),
    ("time_diff", "i4"),
    ("previous", "i4"),
)
ITEM_STRUCT = struct_of(ITEM_FIELDS)
ITEM_SIZE = ITEM_STRUCT.size
SLOTS = 5_000_000
ITEMS = 20_000_000
FIRST_ITEM = 1
NO_ITEM = 0
MAX_TIME_DIFF = 0x7FFFFFFF


__getattr__ = lazy_dtype(globals(), "ITEM", ITEM_FIELDS)


class Header(NamedTuple):
    """The 40 bytes before the slots; see the table above."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    index_count: int = 0

    def pack(self) -> bytes:
        """Return its 40 bytes."""
        return HEADER.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """Return the header that `data` begins with."""
        return cls(*HEADER.unpack_from(data))

    @property
    def next_item(self) -> int:
        """Return the number of the next item; a new file states 0 for 1 (`IndexHeader#load`)."""
        return max(self.index_count, FIRST_ITEM)


class Item(NamedTuple):
    """One item; see the table above."""

    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


def seeded(previous: Header | None) -> Header:
    """Return the header of a new file: it carries on from the one before it.

    The first item's time difference counts from that end
    (`IndexService#getAndCreateLastIndexFile`).
    """
    if previous is None:
        return Header()
    return Header(
        begin_timestamp=max(previous.end_timestamp, 0),
        end_timestamp=max(previous.end_timestamp, 0),
        begin_offset=max(previous.end_offset, 0),
        end_offset=max(previous.end_offset, 0),
    )


def file_size(slots: int = SLOTS, items: int = ITEMS) -> int:
    """Return the bytes of an index file; item 0 has its place and is never used."""
    return HEADER_SIZE + slots * SLOT_SIZE + items * ITEM_SIZE


def item_position(number: int, slots: int = SLOTS) -> int:
    """Return the byte where item `number` begins."""
    return HEADER_SIZE + slots * SLOT_SIZE + number * ITEM_SIZE


def key_hash(key: str) -> int:
    """Return the hash of "topic#key" as an item holds it (`IndexFile#indexKeyHashMethod`)."""
    value = abs(strings.hash_code(key))
    return 0 if value > strings.INT_MAX else value


def time_difference(store_timestamp: int, begin_timestamp: int) -> int:
    """Return whole seconds since the file's begin, clipped as `IndexFile#putKey` does."""
    if begin_timestamp <= 0:
        return 0
    difference = store_timestamp - begin_timestamp
    return min(max(difference, 0) // 1000, MAX_TIME_DIFF)


def index_keys(topic: str, properties: dict[str, str], *, tag_entries: bool) -> list[str]:
    """Return the keys that a record is indexed by, in the broker's order.

    Args:
        topic: the record's topic.
        properties: its properties.
        tag_entries: the broker also indexes tags (5.4.0+).
    """
    keys = []
    if properties.get("UNIQ_KEY") is not None:
        keys.append(f"{topic}#{properties['UNIQ_KEY']}")
    keys += [f"{topic}#{key}" for key in properties.get("KEYS", "").split(" ") if key]
    if tag_entries and properties.get("TAGS"):
        keys.append(f"{topic}#T#{properties['TAGS']}")
    return keys
