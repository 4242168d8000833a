"""What stands past the place where a log's records break off: its own records, or stale ones."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from reput.formats.rocketmq.commitlog import MIN_SIZE, Record, Verdict
from reput.stores.following.head_chain import (
    HEAD_SIZE,
    MAGICS,
    is_blank,
    last_byte,
    seeming_records,
    stored_in,
)
from reput.stores.following.passed_over import passed_over
from reput.stores.log.left_over import earlier_record, has_number, is_cut_through
from reput.stores.log.records import read_at

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.following.log_end import EndedLog

# Bytes compared after the end, to tell whether it has changed; all of what may be a record.
_COMPARED = 128
# A record is copied in microseconds; its writer may be interrupted in between.
_SETTLE_SECONDS = 0.002


def bytes_after(log: EndedLog, end: int, *, has_next: bool) -> bytes:
    """Return what stands past the log's end; it changes where a record is written there.

    Args:
        log: whose end.
        end: physical offset.
        has_next: there is a file after the one of the end.
    """
    if end >= log.end_of_files:
        return b""
    end_of_file = log.base_of(end) + log.file_size
    if has_next and is_blank(log, end, end_of_file):
        # A BLANK is the end only as long as there is no next file.
        end, end_of_file = end_of_file, end_of_file + log.file_size
    here = log.bytes_at(end, _COMPARED)
    size = int.from_bytes(here[:4], "big", signed=True) if len(here) >= 4 else 0
    if not MIN_SIZE <= size < end_of_file - end:
        return here
    # A record that is being copied differs from the whole one in any of its bytes. What is not one
    # stays as it is when a record is written after it.
    copied = log.bytes_at(end, size) if size <= log.settings.max_record_size else here
    return here + zlib.crc32(copied).to_bytes(4, "big") + log.bytes_at(end + size, _COMPARED)


def is_torn(log: EndedLog, start: int, size: int) -> bool:
    """Tell whether the last record may not be whole yet; see `stores.log.tail`."""
    before = log.bytes_at(start, size)
    time.sleep(_SETTLE_SECONDS)
    is_moving = log.bytes_at(start, size) != before
    return is_moving or (last_byte(before) == 0 and not log.is_at_rest())


def newer_record(log: EndedLog, position: int, last: tuple[int, int] | None) -> int | None:
    """Return where the next whole record begins, close after bytes that are not one; else None.

    Past a cut there are whole records, but they are left over; see `stores.log.left_over`.
    """
    if position >= log.end_of_files or read_at(log, position)[0] == Verdict.END:
        return None
    newest = stored_in(log.bytes_at(last[0], HEAD_SIZE), 0) if last is not None else 0
    window = min(2 * log.settings.max_record_size, log.base_of(position) + log.file_size - position)
    data = log.bytes_at(position, window)
    judged = position
    for at in seeming_records(data, position, MAGICS[log.settings.read_rules.accepts_v2]):
        place = position + at
        if place < judged:
            continue
        _, record = read_at(log, place)
        if not isinstance(record, Record):
            continue
        if not _is_left_over(log, record, place, position, newest):
            return place
        # All that follows without a break was written before it was cut away, too.
        judged = log.chain(place).position
    return None


def resumes_at(
    log: EndedLog, output: Path | None, position: int, last: tuple[int, int] | None
) -> int | None:
    """Return where the log resumes after a hole that dispatch has passed over, None if nowhere.

    While a broker holds the store, the broker decides where its log ends, as for dispatch.
    """
    if output is None or position >= log.end_of_files or log.is_held():
        return None
    end = passed_over(output).get(position, -1)
    if not position < end < log.end_of_files:
        return None
    _, record = read_at(log, end)
    newest = stored_in(log.bytes_at(last[0], HEAD_SIZE), 0) if last is not None else 0
    if not isinstance(record, Record) or _is_left_over(log, record, end, position, newest):
        return None
    return end


def _is_left_over(log: EndedLog, record: Record, place: int, end: int, newest: int) -> bool:
    """Tell whether a record past the end was cut away; see `stores.log.left_over`."""
    if record.store_timestamp < newest or is_cut_through(log, end, place):
        return True
    if log.left_overs.is_known(log, place, end):
        return True
    earlier = earlier_record(log, end, record) if has_number(record.sys_flag) else None
    if earlier is None:
        return False
    log.left_overs.remember(log, place, earlier)
    return True
