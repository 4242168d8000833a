"""How far a broker has flushed its commitlog, by its checkpoint file; and records by time.

The checkpoint has no offset but the store timestamp of a flushed record, the last one that the
flush was sure of. Others of the same millisecond may not be on disk, so only what is before counts.
Source: RocketMQ `FlushRealTimeService`, `MappedFileQueue#flush`; docs/formats/checkpoint.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats import frames, names, storecheckpoint
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
from stores.tail import next_record

if TYPE_CHECKING:
    from pathlib import Path

    from stores.commitlog import CommitLog

_STEP = 4 << 20


class FlushedEnd:
    """Where the flushed part of one store's log ends, followed from look to look.

    A broker's clock may go back, so neither an order of store times is taken for granted nor that a
    later record has a later one: flushed is what stands before the first record of exactly the time
    that the checkpoint names. To find it the first look reads the log from where the reader begins.
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
        timestamp = self._timestamp()
        if not log.min_offset <= self._flushed <= end:
            # The first look; or the log was cut, or has expired, since.
            begin = max(floor or 0, log.min_offset)
            self._flushed = self._searched = log.first_record(begin if begin <= end else 0)
        if timestamp != self._wanted:
            self._wanted, self._searched = timestamp, self._flushed
        found, reached = _search(log, self._searched, end, timestamp)
        self._searched = reached
        if found:
            self._flushed = reached
        return min(self._flushed, end)

    def _timestamp(self) -> int:
        try:
            data = (self._store / names.CHECKPOINT).read_bytes()
            return storecheckpoint.unpack(data).physic_timestamp
        except (FileNotFoundError, ValueError):
            # A broker that has just started has flushed nothing.
            return 0


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
    """Return the first record at or behind a position, past the end of its file if need be."""
    record = log.first_record(position)
    is_blank = load_i32(log.read(record, BLANK_SIZE), PAD + MAGIC_AT) == MAGIC_BLANK
    return log.base_of(record) + log.file_size if is_blank else record


def _stored_at(log: CommitLog, position: int) -> int:
    """Return the store timestamp of the record at `position`, ms."""
    data = log.read(position, MIN_SIZE)
    is_v6 = load_i32(data, PAD + SYS_FLAG_AT) & BORN_HOST_V6
    return int(load_i64(data, PAD + BORN_HOST + (HOST_V6 if is_v6 else HOST_V4)))
