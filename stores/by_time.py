"""Records by their store time, over the whole commitlog, whatever topic they are of.

A broker stores in the order of its clock, so the file is found by the first record of each, and the
place in it by going from record to record: a place in the middle of a file may look like a record
and be a message's body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    BORN_HOST,
    BORN_HOST_V6,
    HOST_V4,
    HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    SYS_FLAG_AT,
    Record,
)
from stores.findings import Kind
from stores.records import look_at, stored_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.findings import Report
    from stores.log_files import LogFiles

_STEP = 4 << 20
_MAGICS = {MAGIC_V1, MAGIC_V2}


def first_since(log: LogFiles, timestamp: int) -> int | None:
    """Return the physical offset of the first record stored at a time or later, None for none.

    Args:
        log: the commitlog.
        timestamp: ms.
    """
    bases = log.bases
    low, high = 0, len(bases)
    # The first file that begins at that time or later; the record may be in the one before it.
    while low < high:
        middle = (low + high) // 2
        stored = stored_at(log, bases[middle], MIN_SIZE)
        if stored < 0 or stored >= timestamp:
            high = middle
        else:
            low = middle + 1
    for base in bases[max(low - 1, 0) :]:
        for offset, stored in walk(log, base):
            if stored >= timestamp:
                return offset
    return None


def walk(log: LogFiles, base: int) -> Iterator[tuple[int, int]]:
    """Yield physical offset and store time of the records of one file, to the first that is none.

    Only sizes, magics and offsets are looked at.
    """
    file_end = base + log.file_size
    position = base
    while position < file_end:
        data = log.bytes_at(position, min(_STEP, file_end - position))
        at = 0
        while at + BLANK_SIZE <= len(data):
            size, magic = BLANK_HEAD.unpack_from(data, at)
            if magic == MAGIC_BLANK or magic not in _MAGICS or size < MIN_SIZE:
                return
            if at + MIN_SIZE > len(data):
                break
            if int.from_bytes(data[at + PHYSICAL_OFFSET_AT : at + SYS_FLAG_AT]) != position + at:
                return
            born = HOST_V6 if data[at + SYS_FLAG_AT + 3] & BORN_HOST_V6 else HOST_V4
            stored_position = at + BORN_HOST + born
            yield position + at, int.from_bytes(data[stored_position : stored_position + 8])
            at += size
        if at == 0:
            return
        position += at


def records_from(log: LogFiles, offset: int, report: Report) -> Iterator[Record]:
    """Yield the records from one on, through all files, to the end of the log.

    Args:
        log: the commitlog.
        offset: physical offset of a record.
        report: gets the place where records end that should not.
    """
    while offset < log.end_of_files:
        verdict, record = look_at(log, offset)
        if isinstance(record, Record):
            yield record
            offset += record.size
            continue
        base = log.base_of(offset)
        following = base + log.file_size
        if verdict.name == "ROLL" and following < log.end_of_files:
            offset = following
            continue
        if verdict.name not in {"END", "ROLL"}:
            path, byte = log.file_of(offset)
            report.add(Kind.WRONG_BYTES, path, byte, verdict.explanation)
        return
