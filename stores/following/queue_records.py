"""Tells whether the log holds a record of one queue between two places: by heads, in plain Python.

The next entry of a queue names the queue's next record in the log. So an entry whose record has a
higher queue offset than the entry's own place is right where no record of the queue stands between
that record and the one before it: those with the numbers in between never came into the queue.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    head_of,
)
from reput.stores.log.records import read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.log.files import LogFiles

_STEP = 1 << 20
_MAGICS = (MAGIC_V1, MAGIC_V2)
_HEAD = head_of("size", "magic", "queue_id", "queue_offset", "physical_offset")
_INT = struct.Struct(">i")
_MAGIC_AT = 4


def has_record(
    log: LogFiles,
    between: tuple[int, int],
    queue: tuple[str, int],
    numbers: tuple[int, int],
    left_out: Sequence[tuple[int, int]] = (),
) -> bool:
    """Tell whether a whole record of a queue begins in a part of the log.

    Args:
        log: the commitlog.
        between: physical offsets [start, end); a record need not begin at the first one.
        queue: topic and queue id.
        numbers: queue offsets [first, end) that count.
        left_out: physical offsets [start, end) whose records do not count.
    """
    position, end = max(between[0], log.min_offset), min(between[1], log.end_of_files)
    while position < end:
        passed = next((gap[1] for gap in left_out if gap[0] <= position < gap[1]), None)
        damage = log.damage_at(position)
        if passed is not None or damage is not None:
            position = max(passed or 0, damage.end if damage is not None else 0)
            continue
        file_end = log.base_of(position) + log.file_size
        # A head may reach past the end of the part.
        data = log.bytes_at(position, min(_STEP, file_end - position))
        last = min(len(data) - _HEAD.size, end - position - 1)
        seeming, at = _seeming_in(data, position, last, queue[1], numbers)
        for physical in seeming:
            is_left_out = any(gap[0] <= physical < gap[1] for gap in left_out)
            if not is_left_out and _is_of(log, physical, queue):
                return True
        if at > last and at > 0:
            position = min(position + at, file_end)
        else:
            position = _past_other(data, position, at, file_end)
    return False


def _past_other(data: bytes, position: int, at: int, file_end: int) -> int:
    """Return where to look for heads again after what is not one, physical offset.

    Args:
        data: bytes of one file.
        position: physical offset of the first of them.
        at: index of what is not a head.
        file_end: physical offset.
    """
    if data[at : at + BLANK_SIZE] == BLANK_HEAD.pack(file_end - position - at, MAGIC_BLANK):
        return file_end
    found = _next_head(data, position, at + 1)
    # A head may stand across the end of what was read.
    last_head = len(data) - _HEAD.size + 1
    position = found if found is not None else position + max(last_head, at + 1)
    return file_end if position + _HEAD.size > file_end else position


def _seeming_in(
    data: bytes, position: int, last: int, queue_id: int, numbers: tuple[int, int]
) -> tuple[list[int], int]:
    """Go over heads that follow one another; return records of a queue id, and where heads end.

    Args:
        data: bytes of one file.
        position: physical offset of the first of them.
        last: index of the last place where a head may begin.
        queue_id: of the queue; the topic is not looked at.
        numbers: queue offsets [first, end) that count.

    Returns:
        Physical offsets, and the index of what is not a head, or past `last`.
    """
    first, stop = numbers
    found = []
    at = 0
    while at <= last:
        size, magic, its_queue, number, physical = _HEAD.unpack_from(data, at)
        if magic not in _MAGICS or physical != position + at or size < MIN_SIZE:
            break
        if its_queue == queue_id and first <= number < stop:
            found.append(physical)
        at += size
    return found, at


def _is_of(log: LogFiles, position: int, queue: tuple[str, int]) -> bool:
    record = read_record(log, position)
    return record is not None and (record.topic, record.queue_id) == queue


def _next_head(data: bytes, position: int, start: int) -> int | None:
    """Return the physical offset of the next place that claims to be a record, None for none."""
    found = None
    for magic in map(_INT.pack, _MAGICS):
        at = data.find(magic, start + _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + _HEAD.size <= len(data):
            place = at - _MAGIC_AT
            if found is not None and position + place >= found:
                break
            if _HEAD.unpack_from(data, place)[4] == position + place:
                found = position + place
                break
            at = data.find(magic, at + 1)
    return found
