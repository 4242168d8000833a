"""ConsumeQueue files: one fixed-size entry for every message of a (topic, queue).

Entry *n* of a queue starts at byte ``n * ENTRY_SIZE`` of that queue's files laid end to end. A
queue offset is therefore an address, and writing an entry twice is harmless.

====== ==== =============== ==============================================================
offset size field           meaning (all integers signed, big-endian)
====== ==== =============== ==============================================================
     0    8 physical_offset first byte of the record in the commitlog
     8    4 size            bytes of the whole record
    12    8 tags_code       Java hash of the tag, 0 for none; delayed: the due time in ms;
                            with ConsumeQueueExt: the address of its unit (below -2**31)
====== ==== =============== ==============================================================

A queue whose first message is not its number 0 (older files have expired) begins inside its
first file; the entries before it are `PRE_BLANK`. Source: docs/formats/consumequeue.md,
RocketMQ `ConsumeQueue#putMessagePositionInfo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.java import strings
from reput.formats.layout import lazy_dtype, struct_of
from reput.formats.rocketmq.commitlog import COMMIT, TRANSACTION_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    ENTRY: np.dtype[Any]

FIELDS = (
    ("physical_offset", "i8"),
    ("size", "i4"),
    ("tags_code", "i8"),
)
ENTRY_STRUCT = struct_of(FIELDS)
ENTRY_SIZE = ENTRY_STRUCT.size
# Which record it is; a unit of a batch queue begins with the same fields.
HEAD = struct_of(FIELDS[:2])
FILE_SIZE = 300_000 * ENTRY_SIZE
PRE_BLANK_RECORD_SIZE = 0x7FFFFFFF
PRE_BLANK = ENTRY_STRUCT.pack(0, PRE_BLANK_RECORD_SIZE, 0)
NEVER = -1

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_U64 = (1 << 64) - 1
_INT64_MAX = _U64 >> 1


__getattr__ = lazy_dtype(globals(), "ENTRY", FIELDS)


class Entry(NamedTuple):
    """One entry; see the table above."""

    physical_offset: int
    size: int
    tags_code: int

    @classmethod
    def of(cls, raw: bytes) -> Entry:
        """Return what its 20 bytes say."""
        return cls(*ENTRY_STRUCT.unpack(raw))

    def pack(self) -> bytes:
        """Return its 20 bytes."""
        return ENTRY_STRUCT.pack(*self)


def head_of(raw: bytes) -> tuple[int, int]:
    """Return the physical offset and size that an entry, or a batch queue's unit, begins with.

    Args:
        raw: from its beginning on; zeros stand for what is not there.
    """
    position, size = HEAD.unpack_from(raw.ljust(HEAD.size, b"\0"))
    return position, size


class Place(NamedTuple):
    """Where an entry lives: the file, named by its first byte, and its number inside it."""

    base_offset: int
    entry: int


def locate(queue_offset: int, file_size: int = FILE_SIZE) -> Place:
    """Return the place of `queue_offset` (an entry number, not a byte position)."""
    position = queue_offset * ENTRY_SIZE
    return Place(position - position % file_size, position % file_size // ENTRY_SIZE)


def round_file_size(size: int) -> int:
    """Return `size` as the broker's getter gives it: rounded up to whole entries."""
    return -(-size // ENTRY_SIZE) * ENTRY_SIZE


def has_entry(sys_flag: int) -> bool:
    """Tell whether a record of this sysFlag is put into its queue: plain and committed ones."""
    return sys_flag & TRANSACTION_TYPE in {0, COMMIT}


def count_entries(sys_flags: NDArray[np.int32]) -> int:
    """Return how many of these records are put into their queue, see `has_entry`."""
    return int(with_entry(sys_flags).sum())


def with_entry(sys_flags: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which of these records are put into their queue, see `has_entry`; shape (n,)."""
    kinds = sys_flags & TRANSACTION_TYPE
    found: NDArray[np.bool_] = (kinds == 0) | (kinds == COMMIT)
    return found


def tags_code(
    topic: str, properties: dict[str, str], store_timestamp: int, delays: Sequence[int]
) -> int:
    """Return the tags code of a record (`CommitLog#checkMessageAndReturnSize`).

    Args:
        topic: the record's topic.
        properties: its properties.
        store_timestamp: ms.
        delays: ms to wait by delay level, level 1 first.

    Raises:
        ValueError: the record waits in the schedule topic and its DELAY is not a number.
    """
    level_text = properties.get("DELAY")
    if topic == SCHEDULE_TOPIC and level_text is not None:
        level = min(strings.parse_int(level_text), len(delays))
        if level > 0:
            # Java's sum of two longs wraps around.
            due = (store_timestamp + delays[level - 1]) & _U64
            return due - (_U64 + 1) if due > _INT64_MAX else due
    tags = properties.get("TAGS")
    return strings.hash_code(tags) if tags else 0
