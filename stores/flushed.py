"""How far a broker has flushed its commitlog, by its checkpoint file; and records by time.

The checkpoint has no offset but the store timestamp of a flushed record, the last one that the
flush was sure of. Others of the same millisecond may not be on disk, so only what is before counts.
Source: RocketMQ `FlushRealTimeService`, `MappedFileQueue#flush`; docs/formats/checkpoint.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats import frames, names
from formats.commitlog import (
    ACCEPT_V2,
    BLANK_SIZE,
    BORN_HOST,
    BORN_HOST_V6,
    HOST_V4,
    HOST_V6,
    MAGIC_AT,
    MAGIC_BLANK,
    MIN_SIZE,
    SYS_FLAG_AT,
    Verdict,
)
from formats.memory import load_i32, load_i64
from stores.commitlog import PAD
from stores.head_cursor import HeadCursor
from stores.identity import Known
from stores.log_files import LogChangedError
from stores.since_cut import last_flush
from stores.tail import next_record
from stores.vouch import Vouch

if TYPE_CHECKING:
    from pathlib import Path

    from stores.commitlog import CommitLog

_STEP = 4 << 20
# Files that a cut may go back into, and places that are kept in them.
_FILES = 3
_POINTS = 96


class FlushedEnd:
    """Where the flushed part of one store's log ends, followed from look to look.

    A broker's clock may go back, so neither an order of store times is taken for granted nor that a
    later record has a later one: flushed is what stands before the first record of exactly the time
    that the checkpoint names. To find it the first look reads the log from where the reader begins.
    Where the log is cut below that place, what is left of the flushed part counts, and nothing more
    until the broker flushes again.
    """

    def __init__(self, store: Path) -> None:
        """Look at nothing yet.

        Args:
            store: the broker's storePathRootDir.
        """
        self._store = store
        self._flushed = -1
        # The time that was looked for last, and up to where it was not found.
        self._wanted = 0
        self._searched = -1
        # Where the flushed part has ended so far, with what tells that the log is the same.
        self._known = Known((), (), -1, {})
        self._cursor: HeadCursor | None = None
        self._vouch: Vouch | None = None
        # The time of a flush after which the log was cut: its record may be gone.
        self._void: int | None = None

    def before(self, log: CommitLog, end: int, floor: int | None = None) -> int:
        """Return how far the log up to `end` is flushed for certain.

        A store that was closed in order is flushed as a whole.

        Args:
            log: the store's.
            end: physical offset after a whole record.
            floor: where the reader begins; what is before does not matter.
        """
        if not (self._store / names.ABORT).exists():
            return end
        timestamp = last_flush(self._store)
        begin = max(floor or 0, log.min_offset)
        if self._flushed >= 0:
            self._follow(log)
        if self._flushed > end:
            # The log was cut, and nobody knows how far.
            self._go_back(log.first_record(begin if begin <= end else 0))
        if timestamp == self._void:
            return min(self._flushed, end)
        self._void = None
        if self._flushed < log.min_offset:
            # The first look; or what was found has expired.
            self._flushed = self._searched = log.first_record(begin if begin <= end else 0)
        if timestamp != self._wanted:
            self._wanted, self._searched = timestamp, self._flushed
        found, reached = _search(log, self._searched, end, timestamp)
        self._searched = reached
        if found:
            self._flushed = reached
            self._remember(log)
        return min(self._flushed, end)

    def _follow(self, log: CommitLog) -> None:
        """Go back where the flushed part of the log is no longer the same."""
        if self._vouch is None or not self._known.files:
            return
        log.refresh()
        seen = self._vouch.look(self._known, is_at_rest=True)
        if seen is None or seen.is_same:
            return
        self._go_back(seen.common.end if seen.common is not None else log.min_offset)

    def _go_back(self, position: int) -> None:
        """Go on at a place before a cut; the flush that was looked for last does not count."""
        self._flushed = self._searched = position
        self._void = self._wanted
        self._forget()

    def _forget(self) -> None:
        self._known = Known((), (), -1, {})
        self._cursor = self._vouch = None

    def _remember(self, log: CommitLog) -> None:
        """Add up the records up to the end of the flushed part, so that a cut is noticed."""
        if self._cursor is None:
            self._cursor = HeadCursor(log, skips_corrupt=True)
        if self._vouch is None:
            self._vouch = Vouch(log, self._store)
        cursor, known, files = self._cursor, self._known, self._known.files
        try:
            if files and log.base_of(self._flushed - 1) != files[-1].base:
                # What follows the last place in that file is part of it by now.
                cursor.sum_to(files[-1].base + log.file_size)
                known = _with(known, cursor.known())
            if cursor.sum_to(self._flushed) is None:
                return
        except LogChangedError:
            # It expired, or was cut, meanwhile.
            self._forget()
            return
        self._known = _with(known, cursor.known())


def _with(known: Known, more: Known) -> Known:
    """Return what is known of a log, with more of its last file or of one after it."""
    kept = [file for file in known.files if file.base != more.files[0].base]
    return Known(
        (*kept[1 - _FILES :], *more.files),
        (*known.points, *more.points)[-_POINTS:],
        more.end,
        {**known.gaps, **more.gaps},
    )


def _search(log: CommitLog, start: int, end: int, timestamp: int) -> tuple[bool, int]:
    """Go from record to record to the first one of a store time, ms.

    Args:
        log: the files.
        start: physical offset of a record, or of something to be passed over.
        end: physical offset.
        timestamp: ms.

    Returns:
        Whether there is one before `end`; where it begins, or where to go on next time.
    """
    position, step = start, _STEP
    while position < end:
        file_end = log.base_of(position) + log.file_size
        data = log.read(position, min(step, file_end - position))
        code, reached = frames.hop_to_time(
            data, PAD, len(data) - PAD, position, file_end, log.rules & ACCEPT_V2, end, timestamp
        )
        verdict, reached = Verdict(code), int(reached)
        if verdict == Verdict.RECORD:
            return reached < end, reached
        if verdict == Verdict.ROLL:
            position = file_end
        elif verdict == Verdict.SHORT and len(data) - 2 * PAD == step:
            step = step if reached > position else step * 4
            position = reached
        else:
            # The log goes on after it, or `end` would not be there.
            position = next_record(log, reached)
    return False, position


def first_since(log: CommitLog, timestamp: int, end: int) -> int:
    """Return the first record stored at `timestamp` or later, `end` if there is none.

    Where no clock went back, bisection finds it, as it does in RocketMQ; else it finds one of
    several places: `stores.first_since` finds the first.
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
    is_blank = load_i32(log.read(record, BLANK_SIZE), PAD + MAGIC_AT) == MAGIC_BLANK
    return log.base_of(record) + log.file_size if is_blank else record


def _stored_at(log: CommitLog, position: int) -> int:
    """Return the store timestamp of the record at `position`, ms."""
    data = log.read(position, MIN_SIZE)
    is_v6 = load_i32(data, PAD + SYS_FLAG_AT) & BORN_HOST_V6
    return int(load_i64(data, PAD + BORN_HOST + (HOST_V6 if is_v6 else HOST_V4)))
