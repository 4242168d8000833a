"""Where a live commitlog ends: the last record that is whole, and what stands behind it.

A broker is writing while we read. Its mapped writes have no order that another process could
rely on, so a record counts only when everything in it adds up, its body's CRC included. What does
not is a torn tail, which is no error: it is looked at again next time. Only where good records
follow, of this log and not older than the last good one, something is corrupt.
Source: docs/formats/commitlog.md, "End of the log".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formats import frames
from formats.commitlog import BLANK_SIZE, Verdict
from formats.errors import FormatError
from stores.commitlog import PAD

if TYPE_CHECKING:
    from stores.commitlog import CommitLog

# A record is copied in microseconds; its writer may be interrupted in between.
_SETTLE_SECONDS = 0.002
# Bytes of the length before a record's properties.
_LENGTH = 2
_HEX_BYTES = 32
_PAGE = 4096


class Tail(NamedTuple):
    """The end of the log: `end` is exclusive; `reason` tells what stands there."""

    end: int
    reason: Verdict


def find_tail(log: CommitLog, known: int | None = None) -> Tail:
    """Return the end of the whole records.

    Args:
        log: the files; looked at anew.
        known: the beginning of a record, or the end that was found last.

    Raises:
        FormatError: a corrupt record, with good ones behind it.
    """
    log.refresh()
    active = _active_file(log)
    position = active if known is None else max(known, active)
    while True:
        verdict, reached = log.hop(position, log.base_of(position) + log.file_size, log.rules)
        if verdict == Verdict.ROLL:
            position = log.base_of(reached) + log.file_size
            if position >= log.end_of_files:
                return Tail(position, Verdict.END)
            continue
        if verdict not in {Verdict.END, Verdict.RECORD} and _goes_on(log, reached):
            raise corruption(log, reached, verdict)
        if reached > position and (torn := _torn_last(log, reached)) is not None:
            return Tail(torn, Verdict.SHORT)
        return Tail(reached, Verdict.END if verdict == Verdict.RECORD else verdict)


def _torn_last(log: CommitLog, end: int) -> int | None:
    """Return where the last record begins if it may not be whole yet, None if it is.

    A body has a CRC; topic and properties have none, and are what a broker copies last. So a
    record that ends with a zero, which neither of them does, or that changes while we look, has
    to wait until it does not, or until another one follows it.
    """
    start = log.record_before(end)
    if start is None:
        return None
    before = log.read(start, end - start)
    time.sleep(_SETTLE_SECONDS)
    after = log.read(start, end - start)
    limit = len(before) - PAD
    file_end = log.base_of(start) + log.file_size
    *_, properties_at = frames.check(before, PAD, limit, start, file_end, log.rules)
    # Without properties their length is the end, two zeros; then the topic comes last.
    last = before[limit - 1 if properties_at < limit else properties_at - _LENGTH - 1]
    return None if last != 0 and np.array_equal(before, after) else start


def _active_file(log: CommitLog) -> int:
    """Return the beginning of the last file with anything in it: brokers make files ahead."""
    for base in reversed(log.bases):
        if log.read(base, BLANK_SIZE)[PAD : PAD + BLANK_SIZE].any():
            return base
    return log.min_offset


def _goes_on(log: CommitLog, position: int) -> bool:
    """Tell whether a whole record stands close behind what cannot be read.

    A broker that has recovered leaves what was behind its cut and writes over it: such records are
    whole, but older than the one before the place.
    """
    newest = log.timestamp_before(position)
    base = log.base_of(position)
    file_end = base + log.file_size
    length = min(2 * log.settings.max_record_size, file_end - position)
    data = log.read(position, length)
    limit = len(data) - PAD
    at = PAD + 1
    while True:
        at = int(
            frames.find_record(data, at, limit, position + at - PAD, file_end, log.rules, limit)
        )
        if at == frames.NO_POSITION:
            return False
        verdict, _, timestamp_at, *_ = frames.check(
            data, at, limit, position + at - PAD, file_end, log.rules
        )
        if verdict == Verdict.RECORD:
            timestamp = int.from_bytes(data[timestamp_at : timestamp_at + 8].tobytes(), "big")
            if timestamp >= newest:
                return True
        at += 1


def corruption(log: CommitLog, position: int, verdict: Verdict) -> FormatError:
    """Return the error for what stands at a physical offset, with the bytes around it."""
    path, byte = log.file_of(position)
    data = log.read(position, _HEX_BYTES)[PAD:-PAD]
    return FormatError(
        path,
        byte,
        f"{verdict.explanation} (physical offset {position}, bytes {bytes_of(data)})",
        "Restore the file from a replica.",
    )


def bytes_of(data: np.ndarray) -> str:
    """Return bytes as hex, four at a time."""
    return data.tobytes().hex(" ", 4) or "none"
