"""What is left out of an output: records that expired, and bytes that are not a record."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from reput.checkpoints import quarantine
from reput.formats.errors import ExpiredError, FormatError
from reput.stores.log.unreadable import next_record
from reput.streaming.dispatch.log import passed
from reput.streaming.dispatch.resuming import truncation
from reput.streaming.events import CORRUPT, GAP, Event

if TYPE_CHECKING:
    from reput.formats.errors import ReputError
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.pipeline import Pipeline
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.live_settings import LiveSettings
    from reput.streaming.dispatch.news import News
    from reput.streaming.settings.config import StoreConfig


class Gaps:
    """Decides whether dispatch may resume after something that it cannot dispatch.

    Attributes:
        known_places: physical offsets [start, end) that are passed over without being asked: an
            output that is repaired lacks them already.
        skips_corrupt: pass over what is not a record, and keep a copy; else stop there.
    """

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        books: Books,
        pipeline: Pipeline,
        news: News,
        *,
        fail_on_data_loss: bool,
        skips_corrupt: bool,
    ) -> None:
        """Leave out what the books say, and nothing else yet.

        Args:
            config: the store.
            log: its log.
            books: get what is left out.
            pipeline: parses past it.
            news: gets what is left out, in words.
            fail_on_data_loss: stop where the log's next record has expired.
            skips_corrupt: see the attribute.
        """
        self.known_places: tuple[tuple[int, int], ...] = ()
        self.skips_corrupt = skips_corrupt
        self._config = config
        self._log = log
        self._books = books
        self._pipeline = pipeline
        self._news = news
        self._fail_on_data_loss = fail_on_data_loss

    @property
    def are_passed_over(self) -> bool:
        """Tell whether there may be records past bytes that are not one."""
        return self.skips_corrupt or bool(self.known_places)

    def say_readable(self, live: LiveSettings) -> None:
        """Say which of the places that were passed over can be read by now."""
        log = self._log
        with contextlib.closing(passed.Obstacles(log, live, self._config.settings)) as obstacles:
            places = passed.readable(log, self._books.progress.skipped, obstacles)
        for start, end in places:
            text = (
                f"{log.file_of(max(start, log.min_offset))[0]}: physical offsets {start} "
                f"to {end} were passed over; {passed.READABLE}"
            )
            self._news.notice([Event(text)])

    def skip_expired(self) -> None:
        """Resume at the log's beginning if it has moved on, and say what is lost by that.

        Raises:
            ExpiredError: something is lost, and that is to be an error.
        """
        gap = (self._books.progress.end, self._log.min_offset)
        if gap[0] >= gap[1]:
            return
        lost = f"physical offsets {gap[0]} to {gap[1]}"
        if self._fail_on_data_loss:
            raise ExpiredError(
                f"{self._config.path}: {lost} have expired before they were "
                "dispatched. Restore the files, or resume after the gap with "
                "--no-fail-on-data-loss"
            )
        text = f"{lost} are lost: they expired before they were dispatched"
        self._news.say([Event(text, GAP)])
        self._books.lose(gap)
        self._books.take_over(truncation.with_nothing_vouched(self._books.progress, self._log))

    def pass_over(self, batch: Batch, failure: ReputError) -> bool:
        """Resume after bytes that are not a record, keeping a copy; False if not asked to."""
        if not isinstance(failure, FormatError):
            return False
        start = batch.end
        end = passed.next_after(self._log, self.known_places, start)
        if end is None:
            if not self.skips_corrupt:
                return False
            end = next_record(self._log, start)
        batch.end = end
        batch.skipped += 1
        self._news.say([Event(self._quarantine(start, end, failure.problem), CORRUPT)])
        self._books.pass_over(start, end)
        self._pipeline.parser.gaps[start] = end
        return True

    def _quarantine(self, start: int, end: int, problem: str) -> str:
        """Keep a copy of the bytes of a place; return what is left out, in words."""
        path, byte = self._log.file_of(start)
        place = quarantine.Skipped(self._config.name, str(path), byte, start, end, problem)
        copy = quarantine.keep(self._config.output, place, self._log.pieces(start, end))
        kept = f"copied to {copy}" if copy is not None else "none of them are in a file"
        return (
            f"{path} at byte {byte}: {problem}. Skipped {end - start} bytes, physical "
            f"offsets {start} to {end}: {kept}"
        )
