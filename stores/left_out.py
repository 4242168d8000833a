"""Queues whose entries stand before the numbers that their records say, after records left out.

An output appends the next record of a queue after the last one that it has. What was passed over,
or expired before it was dispatched, is missing in between, so all later entries stand too low: a
broker has them at their queue offsets, and so has a rebuild that begins after the place. A log may
have such gaps of its own, which shift a broker's queue as well; so only a place counts that the
output is known to have left out between the queue's entries.

Or they stand too high: where all that an output has of a log has expired, nothing says whether the
log was cut before it went on. If its numbers went back there, entries of messages that are gone
stand where those of later ones belong.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from formats.consumequeue import ENTRY, ENTRY_SIZE, PRE_BLANK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stores.stored_files import StoredFiles

_PIECE = 1 << 14
_LONG_GONE = -1


class LeftOut:
    """Places of a log of which an output has no entries; false if there are none."""

    def __init__(
        self,
        passed: Iterable[tuple[int, int]] = (),
        lost: Iterable[tuple[int, int]] = (),
        vouched_from: int = 0,
    ) -> None:
        """Take them over.

        Args:
            passed: physical offsets [start, end) that were passed over.
            lost: places that expired before they were dispatched, likewise.
            vouched_from: see `checkpoints.progress.Progress`: one more, of which nothing more is
                known than where it ends; 0 for none.
        """
        breaks = list(lost)
        if vouched_from and all(end != vouched_from for _, end in breaks):
            breaks.append((vouched_from, vouched_from))
        self._breaks = sorted(end for _, end in breaks)
        self._places = sorted([*passed, *breaks])

    def __bool__(self) -> bool:
        return bool(self._places)

    def before(self, files: StoredFiles, position: int) -> tuple[int, int] | None:
        """Return the last place that may have kept records out of a queue, None for none.

        Args:
            files: the queue's.
            position: physical offset of a record with an entry; what comes after it is left aside.
        """
        places = [place for place in self._places if place[1] <= position]
        if not places or _first_record(files) >= places[-1][0]:
            return None
        return places[-1]

    def are_stale(self, files: StoredFiles, queue_offset: int, position: int) -> bool:
        """Tell whether a record's entry is missing, for one that may be stale has its number.

        That is so where the queue's last entry before the record's is one of a record before a
        place where the log may have been cut, and has its number or a higher one.

        Args:
            files: the queue's.
            queue_offset: the record's.
            position: its physical offset.
        """
        number = bisect_right(self._breaks, position)
        last = _last_before(files, position) if number else None
        return last is not None and last[0] >= queue_offset and last[1] < self._breaks[number - 1]


def _last_before(files: StoredFiles, position: int) -> tuple[int, int] | None:
    """Return number and physical offset of a queue's last entry of a record before a position."""
    fill = np.frombuffer(PRE_BLANK, ENTRY)[0]
    for base in reversed(files.bases):
        raw = files.read(base, files.file_size)
        entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
        is_before = (entries["size"] > 0) & (entries["physical_offset"] < position)
        (found,) = np.nonzero(is_before & (entries != fill))
        if len(found):
            last = int(found[-1])
            return base // ENTRY_SIZE + last, int(entries["physical_offset"][last])
    return None


def _first_record(files: StoredFiles) -> int:
    """Return the physical offset of a queue's very first record, less if it may be gone."""
    if not files.bases:
        return _LONG_GONE
    base = files.bases[0]
    fill = np.frombuffer(PRE_BLANK, ENTRY)[0]
    for start in range(0, files.file_size, _PIECE * ENTRY_SIZE):
        raw = files.read(base + start, min(_PIECE * ENTRY_SIZE, files.file_size - start))
        entries = np.frombuffer(raw[: len(raw) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
        others = np.flatnonzero(entries != fill)
        if len(others):
            has_files_before = base > 0 and start == 0 and int(others[0]) == 0
            return _LONG_GONE if has_files_before else int(entries["physical_offset"][others[0]])
    return _LONG_GONE
