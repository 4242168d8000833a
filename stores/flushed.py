"""How far a broker has flushed its commitlog, by its checkpoint file; and records by time.

The checkpoint has no offset but the store timestamp of a flushed record, the last one that the
flush was sure of. Others of the same millisecond may not be on disk, so only earlier ones count.
Source: RocketMQ `FlushRealTimeService`, `MappedFileQueue#flush`; docs/formats/checkpoint.md.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from formats import names, storecheckpoint
from formats.commitlog import (
    BLANK_SIZE,
    BORN_HOST,
    BORN_HOST_V6,
    HOST_V4,
    HOST_V6,
    MAGIC_AT,
    MAGIC_BLANK,
    MIN_SIZE,
    SYS_FLAG_AT,
)
from formats.memory import load_i32, load_i64
from stores.commitlog import PAD

if TYPE_CHECKING:
    from pathlib import Path

    from stores.commitlog import CommitLog

# Ends that were seen and are not flushed yet; a broker flushes at least every ten seconds.
_SEEN = 4096


class FlushedEnd:
    """Where the flushed part of one store's log ends, followed from look to look."""

    def __init__(self, store: Path) -> None:
        """Look at nothing yet.

        Args:
            store: the broker's storePathRootDir.
        """
        self._store = store
        self._flushed = -1
        self._waiting: deque[tuple[int, int]] = deque(maxlen=_SEEN)

    def before(self, log: CommitLog, end: int) -> int:
        """Return how far the log up to `end` is flushed for certain.

        A store that was closed in order is flushed as a whole.

        Args:
            log: the store's.
            end: physical offset behind a whole record.
        """
        if not (self._store / names.ABORT).exists():
            return end
        timestamp = self._timestamp()
        if self._flushed < 0 or self._flushed > end:
            # The first look, or the log was cut since.
            self._waiting.clear()
            self._flushed = first_since(log, timestamp, end)
        last = log.timestamp_before(end)
        if last and (not self._waiting or self._waiting[-1][0] < end):
            self._waiting.append((end, last))
        while self._waiting and self._waiting[0][1] < timestamp:
            self._flushed = max(self._flushed, self._waiting.popleft()[0])
        return min(self._flushed, end)

    def _timestamp(self) -> int:
        try:
            data = (self._store / names.CHECKPOINT).read_bytes()
            return storecheckpoint.unpack(data).physic_timestamp
        except (FileNotFoundError, ValueError):
            # A broker that has just started has flushed nothing.
            return 0


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
