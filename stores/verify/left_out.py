"""Queues whose entries stand before the numbers that their records say, after records left out.

An output appends the next record of a queue after the last one that it has. What was passed over,
or expired before it was dispatched, is missing in between, so all later entries stand too low: a
broker has them at their queue offsets, and so has a rebuild that begins after the place. A log may
have such gaps of its own, which shift a broker's queue as well; so only a place counts that the
output is known to have left out between the queue's entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, PRE_BLANK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.stores.verify.stored_files import StoredFiles

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
