"""Reads a range of the commitlog in blocks: parsed by several threads, handed over in log order.

A block finds its first record by itself; whether the chain of records really leads there is known
only when the block before it is done, so that is checked at the hand-over, and a block that had
begun at the wrong place (a record forged in a message's body) is parsed again from the right one.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from reput.formats.rocketmq.commitlog import Record, Verdict
from reput.stores.log.unreadable import corruption
from reput.streaming.dispatch.blocks.block import Block
from reput.streaming.dispatch.blocks.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.queues import QueueDirectory
    from reput.stores.log.commitlog import CommitLog

BLOCK_SIZE = 4 << 20
_AHEAD = 2
# Bytes that the caller's own thread parses.
_SMALL = 64 << 10


class Pipeline:
    """Parses one store's log, ahead of where the blocks are used.

    Attributes:
        parser: turns bytes into records.
        block_size: bytes; not to be changed once a block was read.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: QueueDirectory,
        settings: BrokerSettings,
        threads: int = 2,
        block_size: int = BLOCK_SIZE,
    ) -> None:
        """Begin without threads; they start with the first range.

        Args:
            log: what to read.
            queues: gives queues their numbers.
            settings: the broker's.
            threads: parsers; the caller's own thread takes the blocks.
            block_size: bytes.
        """
        self.parser = Parser(log, queues, settings)
        self._log = log
        self.block_size = block_size
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._free: list[Block] = []
        # Blocks of a backlog have been written all over, and stay in memory while they are kept.
        self._keeps_large = False

    def blocks(self, start: int, end: int) -> Generator[Block, None, None]:
        """Yield the records that start in [`start`, `end`) in blocks, in log order.

        A block is the caller's until the next one is asked for.

        Args:
            start: physical offset of a record, or of a file's beginning.
            end: physical offset; where the records in the range end is `reached` of the last
                block.

        Raises:
            FormatError: something that is not a record stands in the range.
            ReputError: a record's queue cannot have a directory.
        """
        waiting: deque[Future[Block]] = deque()
        ranges = self._ranges(start, end)
        expected = start
        is_small = end - start <= _SMALL
        if is_small and self._keeps_large:
            self._free.clear()
        # What a moment's delay has left is not a backlog: to give back and take again costs 0.2 ms.
        self._keeps_large = end - start > self.block_size or (self._keeps_large and not is_small)
        parse = self._parsed if is_small else self._submitted
        try:
            while self._has_next(waiting, ranges, start, parse):
                block = waiting.popleft().result()
                while expected < block.stop:
                    if block.start != expected or block.error is not None:
                        self.parser.parse(block, expected)
                    expected, failure = self._outcome(block)
                    # What was good before the bad record is dispatched first.
                    yield block
                    if failure is not None:
                        raise failure
                    if block.verdict == Verdict.FULL:
                        block.start = None
                self._free.append(block)
        finally:
            self._cancel(waiting)

    def _has_next(
        self,
        waiting: deque[Future[Block]],
        ranges: Iterator[tuple[int, int]],
        known: int,
        parse: Callable[..., Future[Block]],
    ) -> bool:
        """Start to parse blocks ahead; tell whether there is one to wait for."""
        while len(waiting) < self._threads + _AHEAD:
            piece = next(ranges, None)
            if piece is None:
                break
            first, stop = piece
            block = self._free.pop() if self._free else Block(self.block_size)
            is_known = first == known or first == self._log.base_of(first)
            waiting.append(parse(block, first, stop, is_known=is_known))
        return bool(waiting)

    def _cancel(self, waiting: deque[Future[Block]]) -> None:
        """Cancel blocks that are no longer asked for."""
        for future in waiting:
            future.cancel()
        for future in waiting:
            # An error in a block read ahead does not matter to a caller that stops before it.
            if not future.cancelled() and future.exception() is None:
                self._free.append(future.result())

    def _outcome(self, block: Block) -> tuple[int, Exception | None]:
        """Return where the record after the block stands, or why there is none."""
        if block.error is not None and block.reached not in self.parser.gaps:
            return block.reached, block.error
        if block.verdict == Verdict.ROLL:
            return self._log.base_of(block.reached) + self._log.file_size, None
        if block.error is not None or block.verdict not in {Verdict.RECORD, Verdict.FULL}:
            if block.reached in self.parser.gaps:
                return self.parser.gaps[block.reached], None
            return block.reached, corruption(self._log, block.reached, block.verdict)
        return block.reached, None

    def _ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut [start, end) at multiples of the block size; a file's end is one, or cuts too."""
        position = start
        while position < end:
            damage = self._log.damage_at(position)
            if damage is not None and position > start and damage.end < end:
                # The block after it does not begin where the one before ends, and says why.
                position = damage.end
                continue
            base = self._log.base_of(position)
            following = base + (position - base) // self.block_size * self.block_size
            stop = min(following + self.block_size, base + self._log.file_size, end)
            yield position, stop
            position = stop

    def _submitted(self, block: Block, first: int, stop: int, *, is_known: bool) -> Future[Block]:
        """Parse a range on a thread; see `Parser.parse_range`."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="parse")
        return self._pool.submit(self.parser.parse_range, block, first, stop, is_known=is_known)

    def _parsed(self, block: Block, first: int, stop: int, *, is_known: bool) -> Future[Block]:
        """Parse a range at once: to wake a thread for a few records takes longer."""
        done: Future[Block] = Future()
        try:
            done.set_result(self.parser.parse_range(block, first, stop, is_known=is_known))
        except Exception as error:  # noqa: BLE001 - raised where the block is used
            done.set_exception(error)
        return done

    def record_at(self, position: int, size: int) -> Record:
        """Return the record of `size` bytes at a physical offset.

        Raises:
            FormatError: it is no longer there.
        """
        return self.parser.record_at(position, size)

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
