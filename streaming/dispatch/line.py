"""The straight line: look at the log, read blocks, admit, write, enter in the books, flush."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.streaming.dispatch.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.streaming.dispatch.admission import Admission
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.flushing import Flushing
    from reput.streaming.dispatch.kafka import Kafka
    from reput.streaming.dispatch.log.flaws import Flaws
    from reput.streaming.dispatch.log.following import Following
    from reput.streaming.dispatch.log.reach import Reach
    from reput.streaming.dispatch.log.reader import Reader
    from reput.streaming.dispatch.news import News
    from reput.streaming.dispatch.output import Output
    from reput.streaming.dispatch.stopwatch import Stopwatch


class Line:
    """Leads the records of one store from its log into its output."""

    def __init__(
        self,
        following: Following,
        reach: Reach,
        reader: Reader,
        admission: Admission,
        output: Output,
        books: Books,
        flushing: Flushing,
        flaws: Flaws,
        kafka: Kafka,
        news: News,
        stopwatch: Stopwatch,
    ) -> None:
        """Take over the parts, in the order in which a record meets them."""
        self._following = following
        self._reach = reach
        self._reader = reader
        self._admission = admission
        self._output = output
        self._books = books
        self._flushing = flushing
        self._flaws = flaws
        self._kafka = kafka
        self._news = news
        self._stopwatch = stopwatch
        # Up to where records were to be dispatched last, and whether Kafka was too far behind.
        self._wanted = 0
        self._is_capped = False
        # A batch that an error has ended, whole up to there.
        self._ended: Batch | None = None

    def dispatch(
        self, end: int, observe: Callable[[Block], None], is_over: Callable[[], bool]
    ) -> Batch:
        """Dispatch the records that start before `end` and are not dispatched yet.

        Args:
            end: physical offset.
            observe: called with each block that is written whole.
            is_over: asked after each block whether to end there.

        Raises:
            ReputError: a corrupt record, data loss, a queue that cannot have a directory.
            OSError: the output cannot be written; what it was doing counts as not done.
        """
        began = time.monotonic()
        batch, room = self._look_at_log(end)
        for block in self._reader.blocks(batch, room, is_over):
            self._admission.admit(block)
            written = self._output.write(block)
            self._books.enter(batch, block, written)
            if block.is_whole:
                observe(block)
        self._books.close_batch(batch, self._output.take_inserted(), began)
        self._ended = batch
        try:
            self.flush_if_due()
        finally:
            batch.phases, batch.seconds = self._stopwatch.take(), time.monotonic() - began
        self._tell_kafka()
        self._raise_failure()
        self._ended = None
        return batch

    def take_ended(self) -> list[Batch]:
        """Return what a batch did that ended with an error, and what there is to tell besides.

        Entries that a failed write has left count as not done: they are rolled back.
        """
        ended, self._ended = self._ended, None
        if not self._output.is_consistent:
            ended = None
        events, end = self._news.take_unsaid(), self._books.progress.end
        if ended is None and not events:
            return []
        return [replace(ended or Batch(end, end), events=events)]

    def _look_at_log(self, end: int) -> tuple[Batch, int]:
        """Follow the log; return the batch that begins, and up to where it may go.

        Args:
            end: up to where it is planned to go.
        """
        self._output.require_consistent()
        self._output.take_inserted()
        events = self._news.begin()
        if self._following.look():
            # What was planned may lie past the end that the log has now.
            end = min(end, self._reach.end())
        self._wanted = self._reach.planned(end)
        self._admission.begin()
        # Where Kafka is too far behind, dispatch resumes once it has come closer.
        room = self._kafka.room(self._wanted)
        self._is_capped = room < self._wanted
        return self._books.open_batch(events), room

    def _tell_kafka(self) -> None:
        """Let Kafka have what is dispatched, and hear of it.

        Raises:
            ReputError, OSError: what has stopped it for good.
        """
        self._kafka.advance(self._books.progress)
        self._news.say(self._kafka.take_events())
        self._kafka.check()

    def _raise_failure(self) -> None:
        """Raise what ended the batch early; where nothing did, all its events are told."""
        if self._reader.failure is not None:
            raise self._reader.failure
        self._news.take_unsaid()

    def flush_if_due(self) -> bool:
        """Flush what the policy says by now, and look at what nothing new in the log shows.

        Returns:
            Whether everything was flushed.

        Raises:
            ReputError, OSError: the device failed; or what has stopped Kafka for good.
        """
        self._admission.look_if_idle()
        self._kafka.check()
        if not self._output.is_consistent:
            return False
        self._flaws.notice()
        return self._flushing.if_due()

    @property
    def waits(self) -> bool:
        """Tell whether there is something to dispatch that no batch will come for.

        A held-back record that no broker will touch again, a filter that is known now, what the
        broker has flushed meanwhile, what Kafka was too far behind for, or something to say.
        """
        if self._is_capped:
            return self._kafka.room(self._wanted) > self._books.progress.end
        return bool(self._news.noticed) or self._reach.has_news() or self._admission.has_released

    def waiting_end(self) -> int:
        """Return up to where to dispatch what had to wait, see `waits`."""
        return self._reach.waiting(self._wanted)
