"""Keeps an output in step with its log: where the log was cut, the output is rolled back."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.formats.errors import FormatError
from reput.stores.following.identity import Comparison, compare
from reput.stores.following.known import is_old
from reput.stores.log.commitlog import LogChangedError
from reput.streaming.dispatch.resuming import truncation
from reput.streaming.dispatch.resuming.recovery import Recovery

if TYPE_CHECKING:
    from reput.formats.errors import ReputError
    from reput.stores.following.vouch import Vouch
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.listing import Stamp
    from reput.streaming.dispatch.admission import Admission
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.live_settings import LiveSettings
    from reput.streaming.dispatch.log.flaws import Flaws
    from reput.streaming.dispatch.log.gaps import Gaps
    from reput.streaming.dispatch.log.reach import Reach
    from reput.streaming.dispatch.news import News
    from reput.streaming.dispatch.output import Output
    from reput.streaming.settings.config import StoreConfig

# Seconds between checks whether an idle log was touched.
_FOLLOW_SECONDS = 0.5
# Seconds between checks of all files; in between only the directories and the last file are
# checked.
_REFRESH_SECONDS = 60.0


class Following:
    """Keeps an output in step with its log."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        books: Books,
        output: Output,
        vouch: Vouch,
        live: LiveSettings,
        admission: Admission,
        gaps: Gaps,
        reach: Reach,
        flaws: Flaws,
        news: News,
    ) -> None:
        """Take the log as it is now, which the output agrees with.

        Args:
            config: the store.
            log: its log.
            books: what was read of it.
            output: is rolled back.
            vouch: says when to compare.
            live: forgets settings of records that have expired.
            admission: forgets what waits.
            gaps: says what is lost.
            reach: doubts what the broker has noted.
            flaws: looks past another end.
            news: gets what happened, in words.
        """
        self._config, self._log = config, log
        self._books, self._output = books, output
        self._vouch = vouch
        self._live = live
        self._admission = admission
        self._gaps = gaps
        self._reach = reach
        self._flaws = flaws
        self._news = news
        self._followed_at = self._refreshed_at = time.monotonic()
        self._signs: tuple[Stamp | None, ...] = ()

    def look(self, *, is_forced: bool = False) -> bool:
        """Look at the files again; move back, or on, to where dispatch can continue in them.

        Args:
            is_forced: compare the log though nothing shows that it was touched.

        Returns:
            Whether the output was rolled back.

        Raises:
            ReputError: the log is of another store, or records expired that were not dispatched.
            OSError: the device failed.
        """
        self._log.refresh_last()
        is_cut = self._compare(is_forced=is_forced)
        if self._books.progress.end < 0:
            # Never where Spark's range begins: its checkpoint may have outlived the output.
            self._books.reach(self._log.min_offset)
        self._gaps.skip_expired()
        self._output.vouch()
        self._live.forget(self._log.min_offset, self._log.end_of_files)
        return is_cut

    def look_at_rest(self) -> bool | None:
        """Look whether the log was cut though nothing new is at its end; twice a second at most.

        Returns:
            Whether something has happened, which a batch has to tell; None if it is too early
            to look.

        Raises:
            ReputError, OSError: as `look`.
        """
        now = time.monotonic()
        if now - self._followed_at < _FOLLOW_SECONDS:
            return None
        self._followed_at = now
        signs = self._log.signs(self._books.progress.end)
        if signs != self._signs or now - self._refreshed_at >= _REFRESH_SECONDS:
            self._log.refresh()
            self._signs, self._refreshed_at = signs, now
        before = len(self._news.unsaid)
        self._compare(is_at_rest=True)
        return len(self._news.unsaid) > before

    def has_changed(self, failure: ReputError) -> bool:
        """Tell whether an error came from the log changing while it was read; follow it if so."""
        if not isinstance(failure, LogChangedError | FormatError):
            return False
        log, is_cut = self._log, False
        stamps = log.stamps
        log.refresh()
        is_touched = stamps != log.stamps
        last = log.stamps.get(log.base_of(self._books.progress.end))
        if is_touched or last is None or not is_old(last):
            is_cut = self.look(is_forced=True)
        if is_touched or is_cut or isinstance(failure, LogChangedError):
            return True
        # What was planned may lie among old bytes that a cut has left past the log's end.
        return self._reach.tail() <= self._books.progress.end

    def _compare(self, *, is_forced: bool = False, is_at_rest: bool = False) -> bool:
        """Roll back if the log is no longer the same; tell whether it was not."""
        known = progress.known_log(self._books.progress)
        if is_forced:
            seen: Comparison | None = compare(self._log, known)
        else:
            seen = self._vouch.look(known, is_at_rest=is_at_rest)
        if seen is None:
            return False
        if seen.is_same:
            events: list[str] = []
            same = truncation.still_same(self._log, self._books.progress, seen, events)
            self._books.take_over(same)
            self._news.say(events)
            return False
        self._roll_back(seen)
        return True

    def _roll_back(self, seen: Comparison) -> None:
        """Roll the output back to the last point that its log still has."""
        books, done = self._books, Recovery()
        with self._output.closed():
            before = books.progress
            common = truncation.roll_back(self._config, self._log, before, seen, done)
            again = replace(
                common,
                starts=before.starts,
                recoveries=before.recoveries,
                truncations=before.truncations + done.truncations,
            )
            books.roll_back_to(again, done)
        books.forget_files()
        self._admission.forget()
        self._flaws.look_again()
        self._news.say(done.reasons)
        self._reach.doubt(is_cut=True)
