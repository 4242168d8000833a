"""Finds what stands after the last record that can be read: unwritten bytes, or good records.

A log ends where no record stands. If a page was lost, or garbage written into the last file,
records resume after such a place, and only a look at all that follows tells. What a broker has cut
away by its recovery looks nearly the same: it erases nothing, and its next records go over what was
there. A run of records that were left over in that way is known by its first one: that one is older
than the log's last record, or its predecessor began before the log's end, or its queue offset is no
higher than that of a record of its queue before it in the same file. If it is older, and the run
continues with newer ones whose numbers go back, these are of another log and judged by themselves.

Certain: the records are whole, and name this very place. Suspected: that they belong to the log,
as a broker that has just recovered has cut at the same place, and writes over them with its next
message. Source: docs/formats/commitlog.md, "Holes".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import FormatError
from reput.formats.rocketmq.commitlog import (
    BLANK_SIZE,
    Verdict,
)
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, LogChangedError
from reput.stores.log.runs import TRIES, end_of_run, first_newer, is_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.formats.kernels import frames
    from reput.stores.log import hole_kernels
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.listing import Damage, Stamp
else:
    # They bring the compiler, which is not needed if only zeros follow the log's end.
    frames = lazy_module("reput.formats.kernels.frames")
    hole_kernels = lazy_module("reput.stores.log.hole_kernels")

# An end that stays for this long is looked at; a log that grows moves on before.
_REST_SECONDS = 2.0
REMEDY = (
    "Restore the file from a replica, or pass over the place with --on-corrupt skip, which keeps a "
    "copy of its bytes."
)
HOLE_NOTE = (
    "If a broker has recovered this log it has cut it here, and its next message goes over what "
    "follows."
)


class Hole(NamedTuple):
    """Bytes that are not a record, between two records.

    Attributes:
        start: physical offset where the records before end.
        end: physical offset where whole, newer ones resume.
    """

    start: int
    end: int


def find_hole(log: CommitLog, end: int) -> Hole | None:
    """Return the hole that begins where the log seems to end, None if nothing good follows.

    Reads what was ever written after `end`: parts of files that have no blocks on disk cost
    nothing, zeros as much as reading them. While records are written at `end` there is none.

    Args:
        log: the files.
        end: physical offset where something stands that is not a record.

    Raises:
        LogChangedError: records were written, or a file went, each time that it looked.
    """
    for tries in range(TRIES):
        try:
            found = first_newer(log, end)
        except LogChangedError:
            if tries == TRIES - 1:
                # Not the same as a log that just ends.
                raise
            log.refresh()
            continue
        if found is None:
            return None
        if not is_record(log, end):
            return Hole(end, found)
        # It was being written when the look began.
        end = end_of_run(log, end)
    return None


def hole_error(log: CommitLog, hole: Hole) -> FormatError:
    """Return the error that names a hole."""
    path, byte = log.file_of(hole.start)
    following, at = log.file_of(hole.end)
    where = f"byte {at}" if following == path else f"byte {at} of {following}"
    return FormatError(
        path,
        byte,
        f"the log continues after a hole: {hole.end - hole.start} bytes that are not a record "
        f"(physical offsets {hole.start} to {hole.end}), then whole records that are not older "
        f"than the last one before, from {where} on",
        f"{REMEDY} {HOLE_NOTE}",
        HOLE_NOTE,
    )


def damage_error(damage: Damage) -> FormatError:
    """Return the error that names a file which is missing, empty or too short."""
    return FormatError(
        damage.path,
        damage.byte,
        f"{damage.found} (physical offsets {damage.start} to {damage.end})",
        REMEDY,
        "",
    )


def flaw_after(log: CommitLog, end: int, *, tolerates_damage: bool = False) -> FormatError | None:
    """Return what is wrong after the last whole record of a log at rest.

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
