"""Which of a queue's next entries one pull takes, and where the next one resumes.

The twin of `stores.queues.pull`, over columns, for entries whose records all stand in the log.
RocketMQ `DefaultMessageStore#getMessage` goes from entry to entry. Before it looks at one it asks
whether the answer is full, by the size of this entry, whether its message would pass or not.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, ENTRY_STRUCT
from reput.formats.rocketmq.consumequeue_ext import MAX_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reput.stores.queues.pull import PullLimits

    Longs = NDArray[np.int64]
    Flags = NDArray[np.bool_]


# Few entries are looked at one by one: that takes less time than to begin with columns.
FEW = 96
_INT_MAX = (1 << 31) - 1


class Taken(NamedTuple):
    """What a pull takes of a queue's next entries.

    Attributes:
        seen: entries that it looks at.
        offsets: physical offsets of the messages that pass.
        sizes: their bytes.
    """

    seen: int
    offsets: Sequence[int]
    sizes: Sequence[int]


@functools.lru_cache(FEW)
def _rows(count: int) -> struct.Struct:
    return struct.Struct(">" + count * ENTRY_STRUCT.format.lstrip(">"))


def first(
    raw: bytes, codes: frozenset[int] | None, max_messages: int, limits: PullLimits
) -> Taken | None:
    """Return what a pull takes of a few entries.

    Args:
        raw: the entries, at most `FEW` and at least one; part of one more where a file was cut.
        codes: hashes of tags that pass, None for every message.
        max_messages: at most, but always one.
        limits: at most, whatever was asked for.

    Returns:
        None where that takes columns: few entries do not fill the answer, or have no hashes.
    """
    if limits.memory_from > 0:
        return None
    values = _rows(len(raw) // ENTRY_SIZE).unpack_from(raw)
    offsets, sizes = values[::3], values[1::3]
    most = max(min(max_messages, limits.messages), 1)
    if codes is None:
        fits = len(sizes) <= most and sum(sizes) <= limits.bytes
        return Taken(len(sizes), offsets, sizes) if fits else None
    hashes = values[2::3]
    if min(hashes) < -_INT_MAX - 1 or max(hashes) > _INT_MAX:
        # An address, or a time.
        return None
    passing = [number for number, code in enumerate(hashes) if code in codes][:most]
    if len(passing) < most:
        return None
    taken = [sizes[number] for number in passing]
    # The entry that is one too many, of whatever size, ends it too.
    if sum(taken) + max(sizes) > limits.bytes:
        return None
    return Taken(passing[-1] + 1, [offsets[number] for number in passing], taken)


def full_at(
    offsets: Longs, sizes: Longs, passing: Flags | None, max_messages: int, limits: PullLimits
) -> int:
    """Return how many of the entries a pull looks at before its answer is full.

    Args:
        offsets: physical offsets, shape (n,).
        sizes: bytes of the records, shape (n,).
        passing: which of the messages pass the filter, shape (n,); None for all.
        max_messages: at most, but always one.
        limits: at most, whatever was asked for.
    """
    if passing is None:
        fits = len(sizes) <= min(max_messages, limits.messages) and limits.memory_from <= 0
        if fits and sizes.sum() <= limits.bytes:
            return len(sizes)
        count = np.arange(len(sizes))
        taken = sizes
    else:
        count = np.cumsum(passing) - passing
        taken = np.where(passing, sizes, 0)
    # In front of each entry.
    transferred = np.cumsum(taken) - taken
    most: int | Longs = limits.messages
    most_bytes: int | Longs = limits.bytes
    if limits.memory_from > 0:
        is_cold = offsets < limits.memory_from
        most = np.where(is_cold, limits.disk_messages, limits.messages)
        most_bytes = np.where(is_cold, limits.disk_bytes, limits.bytes)
    is_full = (count >= np.minimum(most, max_messages)) | (transferred + sizes > most_bytes)
    is_full &= count > 0
    found = int(is_full.argmax())
    return found if is_full[found] else len(sizes)


def with_codes(tags_codes: Longs, codes: frozenset[int]) -> Flags | None:
    """Tell which entries have one of the hashes in their low 32 bits.

    Args:
        tags_codes: of entries, shape (n,).
        codes: hashes of tags.

    Returns:
        None where an entry has the address of a unit in its place.
    """
    if len(tags_codes) and int(tags_codes.min()) <= MAX_ADDRESS:
        return None
    low = tags_codes.astype(np.int32)
    passing = np.zeros(len(low), np.bool_)
    for code in codes:
        passing |= low == code
    return passing
