"""Finds the first record stored at a time or later: by reading all before it, or by bisection.

Brokers bisect, which finds that record only if store times rise along the log. A clock that was set
back leaves records before the place that bisection finds. Only their heads tell whether there are
any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import FormatError
from reput.formats.rocketmq.commitlog import (
    ACCEPT_V2,
    BLANK_SIZE,
    MAGIC_AT,
    MAGIC_BLANK,
    MIN_SIZE,
    PLACES,
    SYS_FLAG_AT,
    WIDE_HOSTS,
    Verdict,
)
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, LogChangedError
from reput.stores.log.unreadable import corruption, next_record

if TYPE_CHECKING:
    from reput.formats.kernels import record_times
    from reput.formats.kernels.memory import Bytes
    from reput.stores.log.commitlog import CommitLog
else:
    # It brings the compiler.
    record_times = lazy_module("reput.formats.kernels.record_times")

_STEP = 4 << 20


class Passed(NamedTuple):
    """All records before `position` were stored before `timestamp`.

    Attributes:
        timestamp: ms.
        position: physical offset of a record, or of the log's end.
        end: where the log ended then.
    """

    timestamp: int
    position: int
    end: int


def first_since(
    log: CommitLog,
    timestamp: int,
    end: int,
    *,
    passed: Passed | None = None,
    skips_corrupt: bool = False,
) -> int:
    """Return the first record stored at `timestamp` or later, `end` if there is none.

    Args:
        log: the commitlog.
        timestamp: ms.
        end: physical offset after the last record.
        passed: what an earlier look found; it counts if the log ended there then too.
        skips_corrupt: resume after what is corrupt.

    Raises:
        FormatError: something that is not a record stands before it.
    """
    step, position = _STEP, log.min_offset
    if passed is not None and passed.timestamp <= timestamp and passed.end == end:
        position = max(position, passed.position)
    while position < end:
        found = _pass_older(log, position, step, end, timestamp)
        if found is None:
            position = log.min_offset
            continue
        verdict, reached = found
        if verdict == Verdict.RECORD and reached < end:
            return reached
        if verdict == Verdict.SHORT and position + step < log.base_of(position) + log.file_size:
            # A record does not fit the step: longer than it, or just the last one in it.
            step = step * 2 if reached == position else _STEP
            position = reached
        elif verdict == Verdict.RECORD:
            position = reached
        else:
            position = _resume(log, reached, verdict, skips_corrupt=skips_corrupt)
    return end


def _resume(log: CommitLog, position: int, verdict: Verdict, *, skips_corrupt: bool) -> int:
    """Return where records resume after what is not one: a BLANK, or something corrupt."""
    if verdict == Verdict.ROLL:
        return log.base_of(position) + log.file_size
    if not skips_corrupt:
        raise _unreadable(corruption(log, position, verdict))
    return next_record(log, position)


def _pass_older(
    log: CommitLog, position: int, step: int, end: int, timestamp: int
) -> tuple[Verdict, int] | None:
    """Return what stands where the records end that are older, in the next `step` bytes.

    None if they have expired.
    """
    file_end = log.base_of(position) + log.file_size
    try:
        data = log.read(position, min(step, file_end - position))
    except LogChangedError:
        log.refresh()
        if position >= log.min_offset:
            raise
        return None
    verdict, reached = record_times.pass_older(
        data, PAD, len(data) - PAD, position, file_end, log.rules & ACCEPT_V2, end, timestamp
    )
    return Verdict(verdict), int(reached)


def _unreadable(error: FormatError) -> FormatError:
    """Return the error with its other remedies: reading by time begins before the place."""
    return FormatError(
        error.path,
        error.position,
        error.problem,
        "Records before a time are looked at from the log's beginning on: restore the file, give a "
        "physical offset after this place, or ascendingStoreTime=true if no clock went back.",
    )


def first_since_by_bisection(log: CommitLog, timestamp: int, end: int) -> int:
    """Return the first record stored at `timestamp` or later, `end` if there is none.

    If no clock went back, bisection finds it, as it does in RocketMQ. Otherwise it finds one of
    several places; `first_since` finds the first.

    Args:
        log: the files.
        timestamp: ms.
        end: physical offset where the log ends.
    """
    low, high = log.min_offset, end
    while low < high:
        middle = (low + high) // 2
        record = _record_from(log, middle)
        if record >= end or _stored_at(log, record) >= timestamp:
            high = middle
        else:
            low = record + 1
    return min(_record_from(log, low), end) if low < end else end


def _record_from(log: CommitLog, position: int) -> int:
    """Return the first record at or after a position, past the end of its file if need be."""
    record = log.first_record(position)
    head = log.read(record, BLANK_SIZE)
    is_blank = _whole(head, MAGIC_AT, 4) == MAGIC_BLANK
    return log.base_of(record) + log.file_size if is_blank else record


def _stored_at(log: CommitLog, position: int) -> int:
    """Return the store timestamp of the record at `position`, ms."""
    head = log.read(position, MIN_SIZE)
    sys_flag = _whole(head, SYS_FLAG_AT, 4)
    return _whole(head, PLACES[sys_flag & WIDE_HOSTS].store_timestamp, 8)


def _whole(head: Bytes, at: int, size: int) -> int:
    # Not by `formats.kernels.memory`: that brings the compiler.
    return int.from_bytes(head[PAD + at : PAD + at + size].tobytes(), "big", signed=True)
