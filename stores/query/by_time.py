"""Finds records by their store time, over the whole commitlog, of any topic.

A clock that was set back leaves records out of order, and only their heads tell where. So the walk
passes all records before the wanted one. If no clock ever went back, the first record of each file
tells the file. In a file the walk goes from record to record: a place in the middle of it may look
like a record and be a message's body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq.commitlog import (
    BORN_HOST_V6,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    Record,
    Verdict,
    head_of,
)
from reput.stores.findings import Kind
from reput.stores.log.records import look_at, stored_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.stores.findings import Report
    from reput.stores.log.files import LogFiles

_STEP = 4 << 20
_MAGICS = {MAGIC_V1, MAGIC_V2}
_HEAD = head_of("size", "magic", "physical_offset", "sys_flag", "stored_v4", "stored_v6")


def first_since(
    log: LogFiles, timestamp: int, report: Report, *, ascending: bool = False
) -> int | None:
    """Return the physical offset of the first record stored at a time or later, None for none.

    Args:
        log: the commitlog.
        timestamp: ms.
        report: gets the places where records end too early.
        ascending: no clock ever went back.
    """
    bases = log.bases
    first = _first_file(log, timestamp) if ascending else 0
    for base in bases[first:]:
        for offset, stored in walk(log, base, report):
            if stored >= timestamp:
                return offset
    return None


def _first_file(log: LogFiles, timestamp: int) -> int:
    """Return which file has the record, if store times rise."""
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
    return max(low - 1, 0)


def walk(log: LogFiles, base: int, report: Report) -> Iterator[tuple[int, int]]:
    """Yield physical offset and store time of the records of one file, up to what is not one.

    Only sizes, magics and offsets are looked at. What ends them in the middle of a file is a
    finding, unless nothing was ever written there.
    """
    file_end = log.stop_of(base)
    position = base
    while position < file_end:
        data = log.bytes_at(position, min(_STEP, file_end - position))
        at, last = 0, len(data) - _HEAD.size
        while at <= last:
            size, magic, physical, flag, stored_v4, stored_v6 = _HEAD.unpack_from(data, at)
            if magic not in _MAGICS or physical != position + at:
                break
            if not MIN_SIZE <= size <= file_end - physical:
                break
            yield physical, stored_v6 if flag & BORN_HOST_V6 else stored_v4
            at += size
        position += at
        if at <= last or at == 0:
            # No record begins here.
            _report_stop(log, position, file_end, report)
            return


def _report_stop(log: LogFiles, position: int, file_end: int, report: Report) -> None:
    """Report what ends the records of a file too early, if anything does."""
    verdict, _ = look_at(log, position)
    is_end = verdict == Verdict.END and look_at(log, file_end)[0] == Verdict.END
    if not is_end and verdict != Verdict.ROLL:
        path, byte = log.file_of(position)
        report.add(Kind.WRONG_BYTES, path, byte, verdict.explanation)


def records_from(log: LogFiles, offset: int, report: Report) -> Iterator[Record]:
    """Yield the records from one on, through all files, to the end of the log.

    Args:
        log: the commitlog.
        offset: physical offset of a record.
        report: gets the place where records end too early.
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
        if verdict.name == "SHORT" and (damage := log.damage_at(following - 1)) is not None:
            # That it is missing is in the report already.
            offset = damage.end
            continue
        # Past the end of the log anything may stand.
        if verdict.name not in {"END", "ROLL"}:
            path, byte = log.file_of(offset)
            report.add(Kind.WRONG_BYTES, path, byte, verdict.explanation)
        return
