"""Where the log's own records resume after a place that holds none.

What follows a log's end may be records that its broker has cut away, whole, in the same file. This
module judges such runs of records; `stores.log.holes` has the rules.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import (
    BLANK_SIZE,
    MIN_SIZE,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    Verdict,
)
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, LogChangedError
from reput.stores.log.left_over import has_number, is_cut_through, start_of_last

if TYPE_CHECKING:
    from reput.formats.kernels import frames
    from reput.formats.kernels.memory import Bytes
    from reput.stores.log import hole_kernels
    from reput.stores.log.commitlog import CommitLog
else:
    # They bring the compiler, which is not needed if only zeros follow the log's end.
    frames = lazy_module("reput.formats.kernels.frames")
    hole_kernels = lazy_module("reput.stores.log.hole_kernels")

_SMALLEST_PIECE = 64 << 10
_LARGEST_PIECE = 4 << 20
# Records that tell whether a run continues with another log's: of as many queues at most.
_JUDGED = 32
# Looks at a place that fills up while it is looked at.
TRIES = 8


def newest_before(log: CommitLog, position: int) -> int:
    """Return the store timestamp of the last record before a physical offset, 0 for none, ms."""
    if position != log.base_of(position):
        return log.timestamp_before(position)
    base = position - log.file_size
    if base not in log.bases:
        return 0
    verdict, reached = log.hop(base, position, log.rules)
    return log.timestamp_before(reached) if verdict == Verdict.ROLL and reached > base else 0


def newer_within(log: CommitLog, position: int, stop: int) -> int | None:
    """Return where the first record begins after what is not one, if it was not left over.

    Args:
        log: the files.
        position: physical offset where the records before end.
        stop: physical offset in the same file, or its end: a record begins before it.

    Raises:
        LogChangedError: records were written, or a file went, each time that it looked.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(LogChangedError):
            return _first_newer_in(log, log.base_of(position), position, stop)
        log.refresh()
    return _first_newer_in(log, log.base_of(position), position, stop)


def after_left_over(log: CommitLog, position: int, first: int) -> int:
    """Return where the log's own records resume after a place that may hold another log's.

    Args:
        log: the files.
        position: physical offset where the records before the place end.
        first: physical offset in the same file: of the first whole record after it.

    Returns:
        `first`, unless it begins a run that was left over; then where newer records follow it.
    """
    newer = _other_log_in(log, first, newest_before(log, position))
    return first if newer is None else newer


def is_left_over(log: CommitLog, position: int, end: int) -> bool:
    """Tell whether a whole record stands at a physical offset that was cut away before it.

    Args:
        log: the files.
        position: physical offset.
        end: physical offset in the same file where the records before end, at `position` at most.

    Raises:
        LogChangedError: it was written over meanwhile.
    """
    if not is_record(log, position):
        return False
    return _is_left_over(log, position, end, newest_before(log, end))


def first_newer(log: CommitLog, end: int) -> int | None:
    """Return where the first run of records begins after `end` that was not left over."""
    for base in [b for b in log.bases if b + log.file_size > end]:
        found = _first_newer_in(log, base, end, base + log.file_size)
        if found is not None:
            return found
    return None


def _first_newer_in(log: CommitLog, base: int, end: int, stop: int) -> int | None:
    """Return the same of one file, and of records that begin before `stop`."""
    newest: int | None = None
    position = max(base, end)
    while position < stop:
        seeming = _next_seeming(log, position, stop)
        if seeming is None:
            return None
        position = seeming + 1
        if seeming == end or not is_record(log, seeming):
            continue
        if newest is None:
            newest = newest_before(log, end)
        if not _is_left_over(log, seeming, end, newest):
            return seeming
        # What follows it without a break is left over too, unless it is of another log: a page that
        # was lost can hold older records that line up with what was written after it.
        newer = _other_log_in(log, seeming, newest)
        if newer is not None and newer < stop and not _is_left_over(log, newer, end, newest):
            return newer
        position = end_of_run(log, seeming)
    return None


def _other_log_in(log: CommitLog, position: int, newest: int) -> int | None:
    """Return where a run of records continues with those of another log, after ones that are older.

    A clock that went back makes the later records of a run that was left over newer, too. So their
    time is not enough: one of them has a number that its queue has in the run before them.

    Args:
        log: the files.
        position: physical offset of the first of the records that follow one another in its file.
        newest: store timestamp of the last record before the place where the log ends, ms.
    """
    file_end = log.base_of(position) + log.file_size
    before, start, step = position, position, _LARGEST_PIECE
    while start < file_end:
        data = log.read(start, min(step, file_end - start))
        limit = len(data) - PAD
        reached, found = hole_kernels.first_stored_since(
            data, PAD, limit, start, file_end, log.rules, newest
        )
        if found > position and _is_of_another(log, before, int(found)):
            return int(found)
        if found >= 0:
            return None
        if reached == start:
            if step >= log.settings.max_record_size or limit - PAD < step:
                break
            step = log.settings.max_record_size
            continue
        before, start = start, int(reached)
    return None


def _is_of_another(log: CommitLog, start: int, position: int) -> bool:
    """Tell whether one of the first records at `position` has a number of one in between."""
    for _ in range(_JUDGED):
        if not is_record(log, position):
            return False
        head = _head_at(log, position)
        if has_number(head.sys_flag) and _earlier_record(log, start, position, head) is not None:
            return True
        position += head.size
    return False


def _next_seeming(log: CommitLog, position: int, stop: int) -> int | None:
    """Return the first place in [`position`, `stop`), one file, where a record seems to stand."""
    file_end = log.base_of(position) + log.file_size
    step = _SMALLEST_PIECE
    while position < stop:
        position = _next_data(log, position)
        if position >= stop:
            return None
        wanted = min(step, stop - position)
        data = log.read(position, wanted)
        limit = len(data) - PAD
        got = limit - PAD
        if got < MIN_SIZE:
            return None
        step = min(step * 4, _LARGEST_PIECE)
        if not data[PAD:limit].any():
            # A record's size may end the piece: its first bytes are zeros.
            position += got - BLANK_SIZE if got == wanted < stop - position else got
            continue
        at = int(frames.find_record(data, PAD, limit, position, file_end, log.rules, limit))
        if at != frames.NO_POSITION:
            return position + at - PAD
        # What begins in the last bytes of the piece is found with the next one.
        position += max(got - MIN_SIZE, 1)
    return None


def _next_data(log: CommitLog, position: int) -> int:
    """Return where bytes on disk resume at or after `position`, the file's end if nowhere."""
    base = log.base_of(position)
    descriptor = log.open_file(base)
    try:
        return max(base + os.lseek(descriptor, position - base, os.SEEK_DATA), position)
    except OSError as error:
        # ENXIO: nothing more. Otherwise the file system cannot tell.
        return base + log.file_size if error.errno == errno.ENXIO else position
    finally:
        os.close(descriptor)


def is_record(log: CommitLog, position: int) -> bool:
    """Tell whether a whole record begins at a physical offset."""
    verdict, reached = log.hop(position, position + 1, log.rules)
    return verdict == Verdict.RECORD and reached > position


def end_of_run(log: CommitLog, position: int) -> int:
    """Return where the records end that follow one another from `position` on, in its file."""
    file_end = log.base_of(position) + log.file_size
    verdict, reached = log.hop(position, file_end, log.rules)
    return file_end if verdict == Verdict.ROLL else max(reached, position + 1)


def _is_left_over(log: CommitLog, position: int, end: int, newest: int) -> bool:
    """Tell whether the run of records that begins at `position` was cut away before `end`.

    Args:
        log: the files.
        position: physical offset of a whole record.
        end: physical offset where the records before end.
        newest: store timestamp of the last one of these, ms.
    """
    head = _head_at(log, position)
    if head.store_timestamp < newest:
        return True
    if is_cut_through(log, end, position):
        return True
    if log.left_overs.is_known(log, position, end):
        return True
    start = start_of_last(log, end)
    if not has_number(head.sys_flag) or start is None:
        return False
    earlier = _earlier_record(log, start, end, head)
    if earlier is None:
        return False
    log.left_overs.remember(log, position, earlier)
    return True


class _Head(NamedTuple):
    """What tells records of one log from those of another.

    Attributes:
        size: bytes of the record.
        store_timestamp: ms.
        sys_flag: see `formats.rocketmq.commitlog`.
        topic: as it stands in records.
        queue_id: the queue's id.
        queue_offset: the record's number in its queue.
    """

    size: int
    store_timestamp: int
    sys_flag: int
    topic: Bytes
    queue_id: int
    queue_offset: int


def _head_at(log: CommitLog, position: int) -> _Head:
    """Return it of a whole record at a physical offset.

    Raises:
        LogChangedError: it was written over meanwhile.
    """
    size = int.from_bytes(log.bytes_at(position, 4))
    data = log.read(position, size)
    file_end = log.base_of(position) + log.file_size
    parts = frames.check(data, PAD, len(data) - PAD, position, file_end, log.rules)
    verdict, _, timestamp_at, _, _, topic_at, topic_length, _ = parts
    if verdict != Verdict.RECORD:
        raise LogChangedError(f"physical offset {position}: {Verdict(verdict).explanation} now")
    return _Head(
        size,
        _whole(data, timestamp_at, 8),
        _whole(data, PAD + SYS_FLAG_AT, 4),
        data[topic_at : topic_at + topic_length].copy(),
        _whole(data, PAD + QUEUE_ID_AT, 4),
        _whole(data, PAD + QUEUE_OFFSET_AT, 8),
    )


def _whole(data: Bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size].tobytes(), "big", signed=True)


def _earlier_record(log: CommitLog, start: int, end: int, head: _Head) -> int | None:
    """Return the last record of a queue in [`start`, `end`), see `left_over.earlier_record`.

    Args:
        log: the files.
        start: physical offset of a record.
        end: physical offset in the same file, or its end.
        head: of the record with the number.

    Returns:
        Its physical offset; None if there is none, or it has a lower queue offset.
    """
    file_end = log.base_of(start) + log.file_size
    step = _LARGEST_PIECE
    last, number = -1, -1
    while start < end:
        data = log.read(start, min(step, file_end - start))
        limit = len(data) - PAD
        reached, found, its_number = hole_kernels.last_of_queue(
            data, PAD, limit, start, file_end, log.rules, end, head.topic, head.queue_id
        )
        if found >= 0:
            last, number = int(found), int(its_number)
        if reached == start:
            if step >= log.settings.max_record_size or limit - PAD < step:
                break
            step = log.settings.max_record_size
            continue
        start = int(reached)
    return last if number >= head.queue_offset else None
