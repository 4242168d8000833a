"""Tells records past a log's end that its broker has cut away from the log's own.

A broker that cuts its log erases nothing. Records that it has cut away stay past the new end,
whole, until others are written over them. Mostly they are older than the log's last record. If the
clock went back over the cut they are not. Then their queue offsets tell: the last record of the
same queue before the end has such a number already, because the broker gave it again. (An earlier
one tells nothing: a topic that was deleted and made again begins with 0.) To find that record takes
a walk through the file, so what was found is remembered.
Source: docs/formats/commitlog.md, "Holes".
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import (
    BORN_HOST,
    HOST_V4,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    PREPARED,
    ROLLBACK,
    TRANSACTION_TYPE,
    Record,
    head_of,
)
from reput.stores.log.records import read_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.stores.log.files import LogFiles

_SIZE = struct.Struct(">i")
_HEAD = head_of("size", "queue_id", "physical_offset", "sys_flag")
# The body's length in a record with short hosts: after the born host come the store time, the store
# host, reconsume times and the prepared transaction's offset. With wide hosts it stands further on.
_BODY_LENGTH_AT = BORN_HOST + HOST_V4 + 8 + HOST_V4 + 12
_PIECE = 1 << 20
# A log has one end, and little is past it that has to be judged.
_REMEMBERED = 16


class _Seen(NamedTuple):
    """The bytes of a record."""

    position: int
    size: int
    crc: int

    def is_there(self, log: LogFiles) -> bool:
        """Tell whether they are still the same."""
        return (
            log.base_of(self.position) in log.bases
            and zlib.crc32(log.bytes_at(self.position, self.size)) == self.crc
        )


def _seen(log: LogFiles, position: int) -> _Seen:
    (size,) = _SIZE.unpack(log.bytes_at(position, _SIZE.size))
    return _Seen(position, size, zlib.crc32(log.bytes_at(position, size)))


class LeftOvers:
    """Remembers which records are left over, each with the record that tells so."""

    def __init__(self) -> None:
        """Know of none."""
        self._known: dict[int, tuple[_Seen, _Seen]] = {}

    def is_known(self, log: LogFiles, position: int, end: int) -> bool:
        """Tell whether a record was found to be left over, and all that told so is still there.

        Args:
            log: the files.
            position: physical offset of the record.
            end: physical offset where the log's records end before it.
        """
        known = self._known.get(position)
        if known is None:
            return False
        record, earlier = known
        if earlier.position + earlier.size <= end and all(e.is_there(log) for e in known):
            return True
        del self._known[record.position]
        return False

    def remember(self, log: LogFiles, position: int, earlier: int) -> None:
        """Keep that a record is left over.

        Args:
            log: the files.
            position: physical offset of the record.
            earlier: physical offset of the last record of its queue before the end, which has its
                queue offset or a higher one.
        """
        while len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[position] = _seen(log, position), _seen(log, earlier)


def has_number(sys_flag: int) -> bool:
    """Tell whether a record has a number in a queue; prepared and rolled back ones do not."""
    return sys_flag & TRANSACTION_TYPE not in {PREPARED, ROLLBACK}


def start_of_last(log: LogFiles, end: int) -> int | None:
    """Return where the records of the last file before a physical offset begin, None for none."""
    start = log.base_of(end - 1)
    if end <= log.min_offset or log.damage_at(start) is not None:
        return None
    return max(start, log.min_offset)


def is_cut_through(log: LogFiles, end: int, position: int) -> bool:
    """Tell whether what stands at a log's end is the rest of a record that began before it.

    Then that record was cut away, and so was the one that follows it. Its body's length tells where
    it began, if that is still there.

    Args:
        log: the files.
        end: physical offset where the log's records end.
        position: physical offset of the first whole record after it.
    """
    if log.base_of(position) != log.base_of(end) or position - end > log.settings.max_record_size:
        return False
    data = log.bytes_at(end, position - end)
    if _begins_record(data, end):
        return False
    for at in range(min(_BODY_LENGTH_AT, len(data) - _SIZE.size)):
        topic_at = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
        if not at < topic_at < len(data) - 2:
            continue
        for width in (1, 2):
            length = int.from_bytes(data[topic_at : topic_at + width], "big")
            properties_at = topic_at + width + length
            properties = int.from_bytes(data[properties_at : properties_at + 2], "big")
            if length and properties_at + 2 + properties == len(data) > properties_at:
                return True
    return False


def _begins_record(data: bytes, position: int) -> bool:
    """Tell whether bytes that are not a whole record name their own size or place as one does."""
    if len(data) < PHYSICAL_OFFSET_AT + 8:
        return False
    place = int.from_bytes(data[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
    return _SIZE.unpack_from(data)[0] == len(data) or place == position


def earlier_record(log: LogFiles, end: int, record: Record) -> int | None:
    """Return the last record of the same queue, if it has the same or a higher queue offset.

    Reads heads in plain Python; `stores.log.hole_kernels` has the same for programs with a
    compiler.

    Args:
        log: the files.
        end: physical offset where the log's records end; one file is looked through, up to there.
        record: past the end.

    Returns:
        Its physical offset; None if there is none, or it has a lower queue offset.
    """
    start = start_of_last(log, end)
    # Their topics are looked at from the last one on.
    seeming = _of_queue_id(log, start, end, record.queue_id) if start is not None else ()
    for position in reversed(seeming):
        _, found = read_at(log, position)
        if isinstance(found, Record) and found.topic == record.topic:
            return position if found.queue_offset >= record.queue_offset else None
    return None


def _of_queue_id(log: LogFiles, start: int, end: int, queue_id: int) -> Sequence[int]:
    """Return the physical offsets of the records with a queue id in [`start`, `end`), one file.

    None at all if something damaged stands in between, that was passed over.
    """
    unpack, head = _HEAD.unpack_from, _HEAD.size
    position = start
    data = bytearray(min(_PIECE, end - position))
    seeming = array("q")
    while position < end:
        count = log.read_into(memoryview(data)[: min(len(data), end - position)], position)
        at = 0
        while at <= count - head:
            size, queue, physical, sys_flag = unpack(data, at)
            if size < MIN_SIZE or physical != position + at:
                return ()
            if queue == queue_id and has_number(sys_flag):
                seeming.append(position + at)
            at += size
        if at == 0:
            return ()
        position += at
    return seeming
