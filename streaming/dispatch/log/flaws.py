"""What is wrong past the log's end: bytes that are not a record, a file that is not whole yet."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.stores.log.commitlog import LogChangedError
from reput.stores.log.holes import flaw_after
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.admission import is_broker_running
from reput.streaming.events import CORRUPT, UNFINISHED, Event

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.errors import FormatError
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.news import News
    from reput.streaming.settings.config import StoreConfig

# Seconds after a start until the bytes past the log's end are checked, once.
_NOTICE_SECONDS = 1.0


class Flaws:
    """Looks once at what follows the log's end.

    Attributes:
        looks_at: when, by a steady clock; infinite once that is done.
    """

    def __init__(
        self, config: StoreConfig, log: CommitLog, books: Books, news: News, *, skips_corrupt: bool
    ) -> None:
        """Look in a while.

        Args:
            config: the store.
            log: its log.
            books: how far dispatch is.
            news: gets what is found.
            skips_corrupt: what is not a record is passed over, so it is not a flaw.
        """
        self._config = config
        self._log = log
        self._books = books
        self._news = news
        self._skips_corrupt = skips_corrupt
        self._unfinished: Path | None = None
        # What was found, and where the log ended.
        self._flaw: tuple[int, FormatError] | None = None
        self.looks_at = time.monotonic() + _NOTICE_SECONDS

    def look_again(self) -> None:
        """Forget what was found, and look in a while: the log was cut."""
        self.looks_at = time.monotonic() + _NOTICE_SECONDS
        self._flaw = None

    def notice(self) -> None:
        """Say that a next file is not whole yet, and look past the log's end when it is time."""
        unfinished = self._log.unfinished
        if unfinished is not None and unfinished.path != self._unfinished:
            self._unfinished = unfinished.path
            text = f"{unfinished.path} at byte {unfinished.byte}: {unfinished.found}"
            self._news.notice([Event(f"{text}; waiting for the rest of it", UNFINISHED)])
        if time.monotonic() >= self.looks_at:
            self.look()

    @property
    def found(self) -> FormatError | None:
        """Return what is wrong past the log's end, as far as it was noticed; None if nothing is.

        A broker that holds the store has recovered it: what follows its log's end is cut away.
        """
        if self._flaw is None or self._flaw[0] < self._books.progress.end:
            return None
        return None if is_broker_running(self._config) else self._flaw[1]

    def look(self) -> None:
        """Look at what follows the log's end, unless that was done."""
        if self.looks_at == math.inf or self._books.progress.end < 0:
            return
        self.looks_at = math.inf
        if self._skips_corrupt and not is_broker_running(self._config):
            # It is passed over.
            return
        try:
            end = find_tail(self._log, self._books.progress.end).end
            flaw = flaw_after(self._log, end, tolerates_damage=True)
        except LogChangedError:
            # Nothing is known yet.
            self.looks_at = time.monotonic() + _NOTICE_SECONDS
            return
        except ReputError:
            # What is wrong before the log's end is said when it is dispatched.
            return
        if flaw is not None:
            self._flaw = end, flaw
            self._news.notice([Event(str(flaw), CORRUPT)])
