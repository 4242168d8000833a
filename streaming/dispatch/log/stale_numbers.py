"""Queues whose numbers go back: their last entries are of messages that the log no longer has.

Where all that the trail knows has expired, nothing else tells that the log was cut.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import ReputError
from reput.formats.rocketmq import consumequeue
from reput.streaming.dispatch.resuming import truncation
from reput.streaming.dispatch.resuming.recovery import Recovery

if TYPE_CHECKING:
    from reput.sinks.files.queues import QueueDirectory
    from reput.sinks.files.went_back import WentBackError
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.blocks.pipeline import Pipeline
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.live_settings import LiveSettings
    from reput.streaming.dispatch.news import News
    from reput.streaming.dispatch.output import Output
    from reput.streaming.settings.config import StoreConfig


class StaleNumbers:
    """Rolls back single queues."""

    def __init__(
        self,
        config: StoreConfig,
        books: Books,
        output: Output,
        pipeline: Pipeline,
        queues: QueueDirectory,
        live: LiveSettings,
        news: News,
    ) -> None:
        """Look at nothing yet.

        Args:
            config: the store.
            books: what is dispatched.
            output: is rolled back.
            pipeline: parses its log.
            queues: names of queues.
            live: types of topics.
            news: gets what was done, in words.
        """
        self._config = config
        self._books = books
        self._output = output
        self._pipeline = pipeline
        self._queues = queues
        self._live = live
        self._news = news

    def roll_back(self, met: WentBackError, position: int, end: int) -> None:
        """Roll back all queues whose numbers go back in a range of the log.

        All of them at once, where there may be thousands.

        Args:
            met: the record that shows it, of one queue.
            position: physical offset where dispatch continues.
            end: physical offset to look for other queues up to.
        """
        numbers = self._firsts(position, end) | {met.queue: met.queue_offset}
        books, done = self._books, Recovery()
        with self._output.closed():
            shorter = truncation.roll_back_queues(self._config, books.progress, numbers, done)
            books.roll_back_to(shorter, done)
        self._news.say(done.reasons)

    def _firsts(self, position: int, end: int) -> dict[str, int]:
        """Return the first record's queue offset of each queue that it shows to have gone back."""
        plain: dict[int, int] = {}
        special: dict[str, int | None] = {}
        # To dispatch a record that fails here fails as well, and says why. What was found before
        # it counts.
        with (
            contextlib.suppress(ReputError, ValueError),
            contextlib.closing(self._pipeline.blocks(position, end)) as blocks,
        ):
            for block in blocks:
                self._add_plain(block, plain)
                self._add_special(block, special)
        entries = self._output.entries
        gone_back = {
            entries.directory_of(number): first
            for number, first in plain.items()
            if entries.has_gone_back(number, first)
        }
        return gone_back | {queue: at for queue, at in special.items() if at is not None}

    def _add_plain(self, block: Block, firsts: dict[int, int]) -> None:
        """Add the first queue offset of each queue of a block that is not known yet."""
        columns, rows = block.columns, _with_entry(block)
        queues, at = np.unique(columns.queue[rows], return_index=True)
        for number, row in zip(queues.tolist(), rows[at].tolist(), strict=True):
            stored = int(columns.store_timestamp[row])
            if not self._live.is_batch(self._queues.names[number].topic, stored):
                firsts.setdefault(number, int(columns.queue_offset[row]))

    def _add_special(self, block: Block, firsts: dict[str, int | None]) -> None:
        """Add the queues that single records name; None for one that does not go back."""
        columns, rows = block.columns, _with_entry(block)
        for row in rows[columns.special[rows] != 0].tolist():
            place = int(columns.physical_offset[row]), int(columns.size[row])
            record = self._pipeline.record_at(*place)
            for queue, first, is_back in self._output.special.numbers(record):
                firsts.setdefault(queue, first if is_back else None)


def _with_entry(block: Block) -> np.ndarray:
    (rows,) = np.nonzero(consumequeue.with_entry(block.columns.sys_flag[: block.count]))
    return rows
