"""Marks of one log: taken as a stream is planned, and compared before it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.stores.following.head_cursor import HeadCursor
from reput.stores.following.vouch import Vouch
from reput.stores.log.commitlog import LogChangedError
from reput.streaming.source.marks import Mark

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.log.commitlog import CommitLog


class LogMarks:
    """Sums the log up to places; remembers the newest mark, which is cheap to compare again."""

    def __init__(self, log: CommitLog, store: Path, *, skips_corrupt: bool) -> None:
        """Read nothing yet.

        Args:
            log: the log.
            store: the root of its store.
            skips_corrupt: continue after what is corrupt.
        """
        self._log = log
        self._store = store
        self._cursor: HeadCursor | None = None
        self._skips_corrupt = skips_corrupt
        self._marked: Mark | None = None
        self._vouch: Vouch | None = None

    def mark(self, position: int) -> Mark:
        """Return the mark of a place: it tells later that the log up to there is the same."""
        if position <= self._log.min_offset:
            return Mark(position)
        if self._cursor is None:
            self._cursor = HeadCursor(self._log, skips_corrupt=self._skips_corrupt)
        if self._vouch is None:
            self._vouch = Vouch(self._log, self._store)
        try:
            total = self._cursor.sum_to(position)
        except LogChangedError:
            # It expired meanwhile: then there is nothing left to compare.
            return Mark(position)
        found = Mark(position, None if total is None else f"{total:016x}")
        self._marked = found
        return found

    def is_same(self, mark: Mark) -> bool:
        """Tell whether the log up to a mark is the one that it was taken of, or has expired."""
        log = self._log
        log.refresh()
        if mark.position <= log.min_offset:
            return True
        if mark == self._marked and self._cursor is not None and self._vouch is not None:
            seen = self._vouch.look(self._cursor.known(), is_at_rest=True)
            if seen is None or seen.is_same:
                return True
        if self._cursor is not None:
            self._cursor.forget()
        self._vouch = Vouch(log, self._store)
        if self.mark(mark.position) == mark:
            return True
        # Its file may have expired while it was read.
        log.refresh()
        return mark.position <= log.min_offset
