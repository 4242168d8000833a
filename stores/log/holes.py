"""What stands after the last record that can be read: unwritten bytes, or good records once more.

A log ends where no record stands. If a page was lost, or garbage written into the last file,
records go on after such a place, and only a look at all that follows tells. What a broker has cut
off by its recovery looks nearly the same: it erases nothing, and its next records go over what was
there. A run of records that were left over in that way is known by its first one: that one is older
than the log's last record, or its predecessor began before the log's end, or its queue offset is no
higher than that of a record of its queue before it in the same file. If it is older, and the run
goes on with newer ones whose numbers go back, these are of another log and judged by themselves.

Certain: the records are whole, and name this very place. Suspected: that they belong to the log,
for a broker that has just recovered has cut at the same place, and writes over them with its next
message. Source: docs/formats/commitlog.md, "Holes".
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import FormatError
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
    from collections.abc import Callable

    from reput.formats.kernels import frames
    from reput.formats.kernels.memory import Bytes
    from reput.stores.log import hole_kernels
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.files import Damage, Stamp
else:
    # They bring the compiler, which is not needed if only zeros follow the log's end.
    frames = lazy_module("reput.formats.kernels.frames")
    hole_kernels = lazy_module("reput.stores.log.hole_kernels")

_SMALLEST_PIECE = 64 << 10
_LARGEST_PIECE = 4 << 20
# An end that stays for this long is looked at; a log that grows moves on before.
_REST_SECONDS = 2.0
# Records that tell whether a run goes on with another log's: of as many queues at most.
_JUDGED = 32
# Looks at a place that fills up while it is looked at.
_TRIES = 8
REMEDY = (
    "Restore the file from a replica, or pass over the place with --on-corrupt skip, which keeps a "
    "copy of its bytes."
)
HOLE_NOTE = (
    "If a broker has recovered this log it has cut it here, and its next message goes over what "
    "follows."
)


class Hole(NamedTuple):
    """Bytes that are no record, between two records that are.

    Attributes:
        start: physical offset where the records before end.
        end: physical offset where whole, newer ones go on.
    """

    start: int
    end: int


def find_hole(log: CommitLog, end: int) -> Hole | None:
    """Return the hole that begins where the log seems to end, None if nothing good follows.

    Reads what was ever written after `end`: parts of files that have no blocks on disk cost
    nothing, zeros as much as reading them. While records are written at `end` there is none.

    Args:
        log: the files.
        end: physical offset where something stands that is no record.

    Raises:
        LogChangedError: records were written, or a file went, each time that it looked.
    """
    for tries in range(_TRIES):
        try:
            found = _following(log, end)
        except LogChangedError:
            if tries == _TRIES - 1:
                # Not the same as a log that just ends.
                raise
            log.refresh()
            continue
        if found is None:
            return None
        if not _is_record(log, end):
            return Hole(end, found)
        # It was being written when the look began.
        end = _chain_end(log, end)
    return None


def hole_error(log: CommitLog, hole: Hole) -> FormatError:
    """Return the error that names a hole."""
    path, byte = log.file_of(hole.start)
    following, at = log.file_of(hole.end)
    where = f"byte {at}" if following == path else f"byte {at} of {following}"
    return FormatError(
        path,
        byte,
        f"the log goes on after a hole: {hole.end - hole.start} bytes that are no record (physical "
        f"offsets {hole.start} to {hole.end}), then whole records that are not older than the last "
        f"one before, from {where} on",
        f"{REMEDY} {HOLE_NOTE}",
    )


def damage_error(damage: Damage) -> FormatError:
    """Return the error that names a file which is missing, empty or too short."""
    return FormatError(
        damage.path,
        damage.byte,
        f"{damage.found} (physical offsets {damage.start} to {damage.end})",
        REMEDY,
    )


def flaw_after(log: CommitLog, end: int, *, tolerates_damage: bool = False) -> FormatError | None:
    """Return what is wrong after the last whole record of a log that nobody writes to.

    A file that is missing or too short; good records after a hole; records without a store time, as
    brokers with duplicationEnable=true write them. None if the log just ends.

    Args:
        log: the files.
        end: physical offset, of `find_tail`.
        tolerates_damage: files may be missing or too short.
    """
    hole = find_hole(log, end)
    if hole is not None:
        return hole_error(log, hole)
    for damage in (*log.damages, log.unfinished):
        if damage is not None and damage.end > end and not tolerates_damage:
            return damage_error(damage)
    if end < log.end_of_files and _has_no_time(log, end):
        path, byte = log.file_of(end)
        return FormatError(
            path,
            byte,
            f"{Verdict.BAD_TIMESTAMP.explanation} (physical offset {end})",
            "Brokers with duplicationEnable=true write such records; they cannot be dispatched.",
        )
    return None


class HoleWatch:
    """Finds holes after the end of a log that grows; looks at each end once.

    To look at an end takes as long as reading what is on disk of the file after it. So while the
    log grows nothing is looked at; a place that has been the end for two seconds is.
    """

    def __init__(self, log: CommitLog, is_live: Callable[[], bool] = lambda: False) -> None:
        """Look at nothing yet.

        Args:
            log: the files.
            is_live: tells whether a broker holds the store: where its log ends is its own to say.
        """
        self._log = log
        self._is_live = is_live
        self._clear: _Looks | None = None
        self._awaited: _Looks | None = None
        self._since = 0.0

    def forget(self) -> None:
        """Look at everything once more: the log was cut."""
        self._clear = None

    def find(self, end: int) -> Hole | None:
        """Return the hole at `end`, see `find_hole`; None too where it is not time to look."""
        if self._is_live():
            return None
        looks = self._looks(end)
        if looks == self._clear or not self._is_due(looks):
            return None
        try:
            hole = find_hole(self._log, end)
        except LogChangedError:
            # The next look is at what is there then.
            return None
        if hole is None:
            self._clear = looks
        return hole

    def _looks(self, end: int) -> _Looks:
        log = self._log
        later = tuple(log.stamps[base] for base in log.bases if base + log.file_size >= end)
        return _Looks(end, log.end_of_files, later)

    def _is_due(self, looks: _Looks) -> bool:
        before, now = self._clear, time.monotonic()
        if before is None or before.end_of_files != looks.end_of_files:
            return True
        if looks != self._awaited:
            self._awaited, self._since = looks, now
        return now - self._since >= _REST_SECONDS


class _Looks(NamedTuple):
    """How a log looked where it was found to end: with a touched file there may be a hole."""

    end: int
    end_of_files: int
    stamps: tuple[Stamp, ...]


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
    """Return where the first record begins after what is none, if it was not left over.

    Args:
        log: the files.
        position: physical offset where the records before end.
        stop: physical offset in the same file, or its end: a record begins before it.

    Raises:
        LogChangedError: records were written, or a file went, each time that it looked.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(LogChangedError):
            return _following_in(log, log.base_of(position), position, stop)
        log.refresh()
    return _following_in(log, log.base_of(position), position, stop)


def after_left_over(log: CommitLog, position: int, first: int) -> int:
    """Return where the log's own records go on after a place that may hold another log's.

    Args:
        log: the files.
        position: physical offset where the records before the place end.
        first: physical offset in the same file: of the first whole record after it.

    Returns:
        `first`, but where it begins a run that was left over and goes on with newer records.
    """
    newer = _other_log_in(log, first, newest_before(log, position))
    return first if newer is None else newer


def is_left_over(log: CommitLog, position: int, end: int) -> bool:
    """Tell whether a whole record stands at a physical offset that was cut off before it.

    Args:
        log: the files.
        position: physical offset.
        end: physical offset in the same file where the records before end, at `position` at most.

    Raises:
        LogChangedError: it was written over meanwhile.
    """
    if not _is_record(log, position):
        return False
    return _is_left_over(log, position, end, newest_before(log, end))


def _following(log: CommitLog, end: int) -> int | None:
    """Return where the first run of records begins after `end` that was not left over."""
    for base in [b for b in log.bases if b + log.file_size > end]:
        found = _following_in(log, base, end, base + log.file_size)
        if found is not None:
            return found
    return None


def _following_in(log: CommitLog, base: int, end: int, stop: int) -> int | None:
    """Return the same of one file, and of records that begin before `stop`."""
    newest: int | None = None
    position = max(base, end)
    while position < stop:
        seeming = _next_seeming(log, position, stop)
        if seeming is None:
            return None
        position = seeming + 1
        if seeming == end or not _is_record(log, seeming):
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
        position = _chain_end(log, seeming)
    return None


def _other_log_in(log: CommitLog, position: int, newest: int) -> int | None:
    """Return where a run of records goes on with those of another log, after ones that are older.

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
        if not _is_record(log, position):
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
    """Return where bytes on disk go on at or after `position`, the file's end if nowhere."""
    base = log.base_of(position)
    descriptor = log.open_file(base)
    try:
        return max(base + os.lseek(descriptor, position - base, os.SEEK_DATA), position)
    except OSError as error:
        # ENXIO: nothing more. Otherwise the file system cannot tell.
        return base + log.file_size if error.errno == errno.ENXIO else position
    finally:
        os.close(descriptor)


def _is_record(log: CommitLog, position: int) -> bool:
    verdict, reached = log.hop(position, position + 1, log.rules)
    return verdict == Verdict.RECORD and reached > position


def _chain_end(log: CommitLog, position: int) -> int:
    """Return where the records end that follow one another from `position` on, in its file."""
    file_end = log.base_of(position) + log.file_size
    verdict, reached = log.hop(position, file_end, log.rules)
    return file_end if verdict == Verdict.ROLL else max(reached, position + 1)


def _is_left_over(log: CommitLog, position: int, end: int, newest: int) -> bool:
    """Tell whether the run of records that begins at `position` was cut off before `end`.

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


def _has_no_time(log: CommitLog, position: int) -> bool:
    """Tell whether a record without a store time stands here, and another one after it."""
    if not log.bytes_at(position, BLANK_SIZE).strip(b"\0"):
        return False
    file_end = log.base_of(position) + log.file_size
    for _ in range(2):
        data = log.read(position, min(log.settings.max_record_size, file_end - position))
        limit = len(data) - PAD
        verdict, size, *_ = frames.check(data, PAD, limit, position, file_end, log.rules)
        if verdict != Verdict.BAD_TIMESTAMP:
            return False
        position += int(size)
        if position >= file_end:
            break
    return True
