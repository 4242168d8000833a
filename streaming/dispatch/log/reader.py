"""Which block comes next: the records of a range in log order, past whatever can be overcome."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError, ReputError
from reput.sinks.files.went_back import WentBackError
from reput.stores.log.commitlog import LogChangedError
from reput.stores.log.unreadable import unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.blocks.pipeline import Pipeline
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.kafka import Kafka
    from reput.streaming.dispatch.log.following import Following
    from reput.streaming.dispatch.log.gaps import Gaps
    from reput.streaming.dispatch.log.reach import Reach
    from reput.streaming.dispatch.log.stale_numbers import StaleNumbers
    from reput.streaming.dispatch.output import Output

# Times that a log may change while one batch reads it.
_TRIES = 3


class Reader:
    """Hands out blocks to be written, and sees after each what became of it.

    Attributes:
        failure: what ended the last batch early.
    """

    def __init__(
        self,
        log: CommitLog,
        pipeline: Pipeline,
        books: Books,
        output: Output,
        kafka: Kafka,
        following: Following,
        reach: Reach,
        gaps: Gaps,
        stale_numbers: StaleNumbers,
    ) -> None:
        """Read nothing yet.

        Args:
            log: the files.
            pipeline: parses them.
            books: how far dispatch is.
            output: what blocks are written to.
            kafka: hears of long batches meanwhile.
            following: overcomes a log that changes while it is read.
            reach: where such a log ends.
            gaps: overcomes bytes that are not a record.
            stale_numbers: overcomes queues that have entries of messages that are gone.
        """
        self._log = log
        self._pipeline = pipeline
        self._books = books
        self._output = output
        self._kafka = kafka
        self._following = following
        self._reach = reach
        self._gaps = gaps
        self._stale_numbers = stale_numbers
        self.failure: ReputError | None = None

    def blocks(
        self, batch: Batch, end: int, is_over: Callable[[], bool]
    ) -> Generator[Block, None, None]:
        """Yield the blocks from a batch's end on; each is written before the next one is asked for.

        What cannot be overcome is `failure`; what was good before it has been yielded.

        Args:
            batch: moves on with the blocks.
            end: physical offset from which on records are not dispatched.
            is_over: asked after each block whether to end there.

        Raises:
            OSError: the device failed.
        """
        self.failure = None
        tries = _TRIES
        while batch.end < end:
            failure = yield from self._range(batch, end, is_over)
            if failure is None:
                return
            if isinstance(failure, WentBackError):
                self._stale_numbers.roll_back(failure, batch.end, end)
            elif tries and self._following.has_changed(failure):
                # Once more with what is there now: the rest of it, or another log.
                tries -= 1
                batch.restart_at(self._books.progress.end)
                end = min(end, self._reach.end())
            elif not self._gaps.pass_over(batch, failure):
                self.failure = failure
                return

    def _range(
        self, batch: Batch, end: int, is_over: Callable[[], bool]
    ) -> Generator[Block, None, ReputError | None]:
        """Yield the blocks of a range; return the error that ended it early."""
        books, output = self._books, self._output
        failure = unwritten = None
        with output.changing():
            with contextlib.closing(self._pipeline.blocks(batch.end, end)) as blocks:
                while True:
                    try:
                        with output.timed("parse"):
                            block = next(blocks, None)
                    except ReputError as error:
                        # The log has an end here; what was written is all before it, and stays.
                        failure = error
                        break
                    if block is None:
                        batch.end = self._log.after_blank(batch.end)
                        books.reach(batch.end)
                        break
                    yield block
                    if books.is_point_due(batch):
                        books.set_point(output.index.position)
                        self._kafka.advance(books.progress)
                    if not block.is_whole or is_over():
                        unwritten = block.failure
                        break
            books.set_point(output.index.position)
            return self._after(batch, unwritten) if unwritten is not None else failure

    def _after(self, batch: Batch, cause: ReputError) -> ReputError:
        """Remove what a record that could not be written has left; return what that means."""
        self._output.roll_back_leftovers()
        if isinstance(cause, WentBackError | LogChangedError) or (
            isinstance(cause, FormatError) and self._log.has(cause.path)
        ):
            # The record that was parsed is gone, or those before it were of another log.
            return cause
        if type(cause) is ReputError:
            # It is the record that is wrong, not a file of the output.
            return unfit(self._log, batch.end, cause)
        failure = ReputError(str(cause))
        failure.__cause__ = cause
        return failure
