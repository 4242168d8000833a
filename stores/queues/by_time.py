"""Finds the entry of a queue that stands at a time, as the version's `getOffsetInQueueByTime`.

From 5.1.1 on, for a time t and entries stored at t1 ≤ t2 ≤ …:

======== =================================== ==========================================
boundary entries stored at t                 none
======== =================================== ==========================================
LOWER    the first of them                   the first one stored after t, or the end
UPPER    the last of them                    the last one stored before t, or the start
======== =================================== ==========================================

The search is among the entries of one file, chosen by what its first and last entry say; what it
does where the clock went back, or where an entry's record is gone, is the broker's too. Older
brokers choose the file by its time of change, and take the nearest entry where none has the time.
Source: `ConsumeQueue#getOffsetInQueueByTime`, `binarySearchInQueueByTime`,
`MappedFileQueue#getConsumeQueueMappedFileByTime`; 4.9: `getMappedFileByTime`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE

if TYPE_CHECKING:
    from reput.stores.queues.reader import QueueReader

_NOWHERE = -1


class Boundary(StrEnum):
    """Which entry counts if several have a time, or none."""

    LOWER = "lower"
    UPPER = "upper"


def offset_by_time(queue: QueueReader, timestamp: int, boundary: Boundary) -> int:
    """Return the queue offset that stands at a time, as brokers from 5.1.1 on find it.

    Args:
        queue: the queue.
        timestamp: store time, ms.
        boundary: see the table above.
    """
    base = _file_of(queue, timestamp, boundary)
    found = 0 if base is None else _search(queue, base, timestamp, boundary)
    return min(max(found, queue.min_offset), queue.max_offset)


def _file_of(queue: QueueReader, timestamp: int, boundary: Boundary) -> int | None:
    bases = [base for base in queue.files.bases if base <= queue.end]
    if not bases:
        return None
    if boundary == Boundary.LOWER:
        size = queue.files.file_size
        for base in bases[:-1]:
            # A time that cannot be read is 'not known', -1, to the broker as well.
            if queue.stored_at(base + size - ENTRY_SIZE) >= timestamp:
                return base
        return bases[-1]
    for base in reversed(bases):
        if queue.stored_at(base) <= timestamp:
            return base
    return None


def _search(queue: QueueReader, base: int, timestamp: int, boundary: Boundary) -> int:
    is_lower = boundary == Boundary.LOWER
    stop = min(base + queue.files.file_size, queue.end)
    ceiling = stop - base - ENTRY_SIZE
    if ceiling < 0:
        return 0
    floor = max(queue.min_position - base, 0)
    if queue.stored_at(base + ceiling) < timestamp:
        return (base + ceiling) // ENTRY_SIZE + (1 if is_lower else 0)
    if queue.stored_at(base + floor) > timestamp:
        return base // ENTRY_SIZE if is_lower else 0
    low, high = floor, ceiling
    left = right = _NOWHERE
    while high >= low:
        middle = (low + high) // (2 * ENTRY_SIZE) * ENTRY_SIZE
        if queue.offset_at(base + middle) < queue.log.min_offset:
            left, low = middle, middle + ENTRY_SIZE
            continue
        stored = queue.stored_at(base + middle)
        if stored < 0:
            return 0
        if stored == timestamp:
            step = -ENTRY_SIZE if is_lower else ENTRY_SIZE
            return _last_equal(queue, base, middle, step, floor, ceiling, timestamp) // ENTRY_SIZE
        if stored > timestamp:
            right, high = middle, middle - ENTRY_SIZE
        else:
            left, low = middle, middle + ENTRY_SIZE
    return _quotient(base + (right if is_lower else left))


def _last_equal(
    queue: QueueReader, base: int, at: int, step: int, floor: int, ceiling: int, timestamp: int
) -> int:
    """Go from entry to entry while they have a time; return the last one's position."""
    while floor <= at + step <= ceiling and queue.stored_at(base + at + step) == timestamp:
        at += step
    return base + at


def _quotient(position: int) -> int:
    """Return the entry of a position; Java's division takes -1, for nowhere, to 0."""
    return max(position, 0) // ENTRY_SIZE


def nearest_offset(queue: QueueReader, timestamp: int) -> int:
    """Return the queue offset that stands at a time, as brokers before 5.1.1 find it.

    Args:
        queue: the queue.
        timestamp: store time, ms.

    Returns:
        An entry with that time, or the one nearest to it in its file; of two as near the earlier.
        Not bounded by the queue's least offset.
    """
    bases = queue.files.bases
    if not bases:
        return 0
    changed = (base for base in bases if queue.files.modified_ms(base) >= timestamp)
    base = next(changed, bases[-1])
    stop = min(base + queue.files.file_size, queue.end)
    low, high = max(queue.min_position - base, 0), stop - base - ENTRY_SIZE
    left = right = _NOWHERE
    left_time = right_time = -1
    if stop <= base:
        return 0
    while high >= low:
        middle = (low + high) // (2 * ENTRY_SIZE) * ENTRY_SIZE
        if queue.offset_at(base + middle) < queue.log.min_offset:
            left, low = middle, middle + ENTRY_SIZE
            continue
        stored = queue.stored_at(base + middle)
        if stored < 0:
            return 0
        if stored == timestamp:
            return (base + middle) // ENTRY_SIZE
        if stored > timestamp:
            right, right_time, high = middle, stored, middle - ENTRY_SIZE
        else:
            left, left_time, low = middle, stored, middle + ENTRY_SIZE
    return _quotient(base + _nearer(timestamp, (left, left_time), (right, right_time)))


def _nearer(timestamp: int, left: tuple[int, int], right: tuple[int, int]) -> int:
    """Return which of two places is nearer to a time, -1 for nowhere; of two as near the left one.

    Args:
        timestamp: ms.
        left: place and time, -1 for none.
        right: likewise.
    """
    if left[1] == -1:
        return right[0]
    if right[1] == -1:
        return left[0]
    is_right = abs(timestamp - left[1]) > abs(timestamp - right[1])
    return right[0] if is_right else left[0]
