"""Up to where a log may be dispatched: to its end, or to where the broker has flushed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.stores.following.flushed import FlushedEnd
from reput.stores.log.commitlog import LogChangedError
from reput.stores.log.holes import HoleWatch
from reput.stores.log.tail import find_tail

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.following.flushed import FlushSign
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.log.gaps import Gaps


class Reach:
    """All of a log may be dispatched."""

    def __init__(self, log: CommitLog, books: Books, gaps: Gaps) -> None:
        """Look at nothing yet.

        Args:
            log: the files.
            books: how far dispatch is.
            gaps: what may be passed over.
        """
        self._log = log
        self._books = books
        self._gaps = gaps

    def tail(self) -> int:
        """Return where the log ends, corrupt places passed over."""
        end = self._books.progress.end
        holes = HoleWatch(self._log) if self._gaps.are_passed_over else None
        known = end if end >= 0 else None
        return find_tail(self._log, known, skips_corrupt=True, holes=holes).end

    def end(self) -> int:
        """Return where the part of the log ends that may be dispatched."""
        return self.tail()

    def planned(self, end: int) -> int:
        """Return how much of a plan may be dispatched; it may be older than the log's last cut."""
        return end

    def waiting(self, end: int) -> int:
        """Return up to where to dispatch what had to wait, of a plan up to `end`."""
        return end

    def has_grown(self) -> bool:
        """Tell whether more may be dispatched now though nobody has planned it."""
        return False

    def has_news(self) -> bool:
        """Tell whether the broker has noted something since less was dispatched than planned."""
        return False

    def doubt(self, *, is_cut: bool) -> None:
        """Take no note of the broker on trust that may be older than a cut.

        Args:
            is_cut: the log was cut, and what was planned before may not be planned again; else
                nobody has looked at it for a while.
        """


class FlushedReach(Reach):
    """Only what the broker has flushed may be dispatched."""

    def __init__(self, log: CommitLog, books: Books, gaps: Gaps, store: Path) -> None:
        """Look at nothing yet.

        Args:
            log: the files.
            books: how far dispatch is.
            gaps: what may be passed over.
            store: the broker's storePathRootDir.
        """
        super().__init__(log, books, gaps)
        self._flushed = FlushedEnd(store)
        # What the broker had noted when less was flushed than there was to dispatch.
        self._short: FlushSign | None = None

    def end(self) -> int:
        """Return where the flushed part of the log ends."""
        floor = max(self._books.progress.end, self._log.min_offset)
        return self._flushed.before(self._log, self.tail(), floor)

    def planned(self, end: int) -> int:
        """Return how much of a plan is flushed: it may be older than the last cut of the log.

        Where that is not all of it the rest is dispatched once it is, see `has_news`.
        """
        sign = self._flushed.sign
        if self._flushed.still(self._log, end, sign) >= end:
            return end
        done = self._books.progress.end
        try:
            reach = max(self.end(), done)
        except LogChangedError:
            # The next look is at what is there then.
            reach = done
        if reach < end:
            self._short = sign
        return min(reach, end)

    def waiting(self, end: int) -> int:
        """Return up to where to dispatch what had to wait."""
        if self._short is None:
            return end
        # What was planned before says nothing of where the log ends now.
        self._short = None
        return self.tail()

    def has_grown(self) -> bool:
        """Tell whether what the broker has noted counts by now though it is still the same."""
        if self._short is None or self._flushed.is_found:
            return False
        try:
            return self.end() > self._books.progress.end
        except LogChangedError:
            return False

    def has_news(self) -> bool:
        """Tell whether the broker has flushed since less was flushed than planned."""
        return self._short is not None and self._short != self._flushed.sign

    def doubt(self, *, is_cut: bool) -> None:
        """Let the broker's note count only if the records tell that it is of after a cut."""
        known = self._books.progress
        self._flushed.go_back(known.end, known.store_timestamp)
        if is_cut:
            self._short = self._flushed.sign
