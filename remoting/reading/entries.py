"""Which of a queue's next entries one pull takes, and where the next one resumes.

The twin of `stores.queues.pull`, over columns, for entries whose records all stand in the log.
RocketMQ `DefaultMessageStore#getMessage` goes from entry to entry. Before it looks at one it asks
whether the answer is full, by the size of this entry, whether its message would pass or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.consumequeue_ext import MAX_ADDRESS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.stores.queues.pull import PullLimits

    Longs = NDArray[np.int64]
    Flags = NDArray[np.bool_]


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
