"""Reads a range of the commitlog in blocks: parsed by several threads, handed over in log order.

A block finds its first record by itself; whether the chain of records really leads there is known
only when the block before it is done, so that is checked at the hand-over, and a block that had
begun at the wrong place (a record forged in a message's body) is parsed again from the right one.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from reput.formats.errors import ReputError
from reput.formats.kernels import frames, scan
from reput.formats.kernels.scan import Columns
from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.commitlog import QUEUE_ID_AT, Record, Verdict
from reput.formats.rocketmq.properties import MULTI_DISPATCH
from reput.formats.rocketmq.record_hash import hash_of
from reput.stores.log.commitlog import PAD
from reput.stores.log.unreadable import corruption, unfit

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.queues import QueueDirectory
    from reput.stores.log.commitlog import CommitLog

BLOCK_SIZE = 4 << 20
_AHEAD = 2
# A block's last record ends behind the block; nearly all do within this.
_OVERHANG = 64 << 10
_BYTES_A_RECORD = 128
_BYTES_A_KEY = 24


class Block:
    """Room for one block: its bytes, its columns, and what parsing them gave.

    Attributes:
        columns: rows [0, `count`) are filled.
        count: records.
        start: physical offset of the first record, None if none starts in the block.
        reached: physical offset of what stands where parsing ended.
        verdict: what that is; RECORD: the end of the block.
        error: what registering a queue raised; counts only if `start` is right.
        generation: see `QueueDirectory`, when it was parsed.
        without_entry: rows of batches that no queue takes; filled by whoever puts the block.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.columns = Columns.of(size // _BYTES_A_RECORD + 64, size // _BYTES_A_KEY + (1 << 16))
        self.buffer: Bytes = np.zeros(PAD + size + _OVERHANG + PAD, np.uint8)
        self.first = self.stop = 0
        self.count = 0
        self.start: int | None = None
        self.reached = 0
        self.verdict = Verdict.RECORD
        self.error: Exception | None = None
        # Rows that turned out to have no entry when they were put.
        self.without_entry: set[int] = set()
        self.generation = 0


class Pipeline:
    """Parses one store's log."""

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
        self._log = log
        self._queues = queues
        self._settings = settings
        self._block_size = block_size
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._free: list[Block] = []
        self._delays = np.array(settings.delays, np.int64)
        # Where something stands that is no record, and where to go on: decided by the operator.
        self.gaps: dict[int, int] = {}
        # Records before this physical offset have keys by the other rule for tags than the version
        # has. Not to be changed while a range is read.
        self.other_tags_before = 0

    def blocks(self, start: int, end: int) -> Generator[Block, None, None]:
        """Yield the records that start in [`start`, `end`) in blocks, in log order.

        A block is the caller's until he asks for the next one.

        Args:
            start: physical offset of a record, or of a file's beginning.
            end: physical offset; where the records in the range end is `reached` of the last
                block.

        Raises:
            FormatError: something that is no record stands in the range.
            ReputError: a record's queue cannot have a directory.
        """
        waiting: deque[Future[Block]] = deque()
        ranges = self._ranges(start, end)
        expected = start
        try:
            while True:
                while len(waiting) < self._threads + _AHEAD:
                    piece = next(ranges, None)
                    if piece is None:
                        break
                    waiting.append(self._submit(*piece, known=start))
                if not waiting:
                    return
                block = waiting.popleft().result()
                while expected < block.stop:
                    if block.start != expected or block.error is not None:
                        self._parse(block, expected)
                    expected, failure = self._outcome(block)
                    # What was good before the bad record is dispatched first.
                    yield block
                    if failure is not None:
                        raise failure
                    if block.verdict == Verdict.FULL:
                        block.start = None
                self._free.append(block)
        finally:
            for future in waiting:
                future.cancel()
            for future in waiting:
                # An error in a block read ahead does not matter to a caller that stops before it.
                if not future.cancelled() and future.exception() is None:
                    self._free.append(future.result())

    def _outcome(self, block: Block) -> tuple[int, Exception | None]:
        """Return where the record after the block stands, or why there is none."""
        if block.error is not None and block.reached not in self.gaps:
            return block.reached, block.error
        if block.verdict == Verdict.ROLL:
            return self._log.base_of(block.reached) + self._log.file_size, None
        if block.error is not None or block.verdict not in {Verdict.RECORD, Verdict.FULL}:
            if block.reached in self.gaps:
                return self.gaps[block.reached], None
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
            following = base + (position - base) // self._block_size * self._block_size
            stop = min(following + self._block_size, base + self._log.file_size, end)
            yield position, stop
            position = stop

    def _submit(self, first: int, stop: int, known: int) -> Future[Block]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="parse")
        block = self._free.pop() if self._free else Block(self._block_size)
        is_known = first == known or first == self._log.base_of(first)
        return self._pool.submit(self._parse_range, block, first, stop, is_known)

    def _parse_range(self, block: Block, first: int, stop: int, is_known: bool) -> Block:
        """Parse a range in a thread, from its first record if that has to be found."""
        block.first, block.stop = first, stop
        block.start = None
        block.error = None
        data = self._read(block, first)
        start = first if is_known else self._find_start(block, data)
        if start is not None:
            self._parse(block, start, data)
        return block

    def _end_at_gap(self, block: Block) -> None:
        """End a block before a record that is passed over though it can be read."""
        rows = block.columns.physical_offset[: block.count]
        for row in np.flatnonzero(np.isin(rows, list(self.gaps))).tolist()[:1]:
            block.count, block.reached, block.error = row, int(rows[row]), None
            block.verdict = Verdict.BAD_LENGTH

    def _find_start(self, block: Block, data: Bytes) -> int | None:
        at = frames.find_record(
            data,
            PAD,
            len(data) - PAD,
            block.first,
            self._log.base_of(block.first) + self._log.file_size,
            self._log.rules,
            PAD + block.stop - block.first,
        )
        return None if at == frames.NO_POSITION else block.first + int(at) - PAD

    def _read(self, block: Block, position: int) -> Bytes:
        """Read from `position` to the block's end and an overhang, into the block's buffer."""
        room = min(block.stop - position + _OVERHANG, len(block.buffer) - 2 * PAD)
        got = self._log.read_into(block.buffer.data[PAD : PAD + room], position)
        # What an earlier block left after the bytes read must not be taken for the log's.
        block.buffer[PAD + got : PAD + got + PAD] = 0
        return block.buffer[: PAD + got + PAD]

    def _parse(self, block: Block, start: int, data: Bytes | None = None) -> None:
        """Fill the block's columns from the record at `start` on; see `_parse_all`."""
        self._parse_all(block, start, data)
        if self.gaps and block.count:
            self._end_at_gap(block)

    def _parse_all(self, block: Block, start: int, data: Bytes | None) -> None:
        """Fill the block's columns from the record at `start` on.

        Args:
            block: is filled.
            start: physical offset.
            data: what `_read` gave for the block's first byte, if the record is in there.
        """
        block.start = start
        block.count = 0
        block.error = None
        block.without_entry.clear()
        block.generation = self._queues.generation
        origin = start if data is None else block.first
        if data is None:
            data = self._read(block, start)
        overhang = _OVERHANG
        at = PAD + start - origin
        while True:
            verdict, at = self._scan(block, data, at, origin)
            block.verdict = verdict
            block.reached = origin + at - PAD
            if verdict == Verdict.SHORT:
                file_end = self._log.base_of(start) + self._log.file_size
                if origin + len(data) - 2 * PAD >= file_end:
                    return
                overhang *= 8
                origin = block.reached
                wanted = min(overhang, file_end - origin)
                data = self._log.read(origin, wanted)
                at = PAD
                # The file was cut under us: there will be no more.
                if len(data) - 2 * PAD < wanted:
                    return
            elif verdict == Verdict.UNKNOWN_QUEUE:
                try:
                    self._add_queue(data, at, origin)
                except ReputError as error:
                    # Raised where the block is used.
                    block.error = unfit(self._log, block.reached, error)
                    return
                except Exception as error:  # noqa: BLE001 - as above
                    block.error = error
                    return
            elif verdict in {Verdict.BAD_DELAY, Verdict.BAD_BATCH}:
                at = self._append_slowly(block, data, at, origin)
                if at < 0:
                    return
            elif verdict != Verdict.RECORD or block.reached >= block.stop:
                return

    def _scan(self, block: Block, data: Bytes, at: int, origin: int) -> tuple[Verdict, int]:
        table = self._queues.routes.arrays
        settings = self._settings
        stop = block.stop
        if origin + at - PAD < self.other_tags_before:
            stop = min(stop, self.other_tags_before)
        verdict, at, block.count = scan.scan(
            data,
            at,
            PAD + stop - origin,
            len(data) - PAD,
            origin - PAD,
            self._log.base_of(origin) + self._log.file_size,
            self._log.rules,
            block.count,
            *table,
            self._delays,
            settings.writes_index,
            self._tag_entries(origin + at - PAD),
            settings.multi_dispatch,
            *cast("tuple[Any, ...]", block.columns),
        )
        return Verdict(verdict), int(at)

    def _tag_entries(self, position: int) -> bool:
        """Tell whether the tag of the record at a physical offset is a key."""
        return self._settings.version.indexes_tags != (position < self.other_tags_before)

    def _add_queue(self, data: Bytes, at: int, origin: int) -> None:
        parts = frames.check(
            data,
            at,
            len(data) - PAD,
            origin + at - PAD,
            self._log.base_of(origin) + self._log.file_size,
            self._log.rules,
        )
        topic_at, topic_length = int(parts[5]), int(parts[6])
        topic = data[topic_at : topic_at + topic_length].tobytes()
        raw_id = data[at + QUEUE_ID_AT : at + QUEUE_ID_AT + 4].tobytes()
        self._queues.add_route(topic, int.from_bytes(raw_id, "big", signed=True))

    def _append_slowly(self, block: Block, data: Bytes, at: int, origin: int) -> int:
        """Append a record with a number that is not plain digits; -1 if Java cannot parse it.

        That is what a broker cannot read (`CommitLog#checkMessageAndReturnSize`).
        """
        record = self.record_in(data, at, origin)
        try:
            row = scan.describe(
                record,
                self._settings.delays,
                tag_entries=self._tag_entries(origin + at - PAD),
                parses_batches=self._settings.read_rules.parses_batches,
            )
        except ValueError:
            return -1
        columns, i = block.columns, block.count
        hashes = row.key_hashes if self._settings.writes_index else []
        keys = int(columns.key_end[i - 1]) if i else 0
        columns.physical_offset[i] = row.physical_offset
        columns.size[i] = row.size
        columns.queue[i] = self._queues.number(record.topic, record.queue_id)
        columns.queue_offset[i] = row.queue_offset
        columns.tags_code[i] = row.tags_code
        columns.store_timestamp[i] = row.store_timestamp
        columns.sys_flag[i] = row.sys_flag
        is_multi = self._settings.multi_dispatch and MULTI_DISPATCH in record.properties
        columns.special[i] = int(is_multi or self._queues.is_special(record.topic))
        columns.head_hash[i] = hash_of(data[at : at + row.size].tobytes())
        columns.key_hash[keys : keys + len(hashes)] = hashes
        columns.key_end[i] = keys + len(hashes)
        block.count += 1
        return at + row.size

    def record_in(self, data: Bytes, at: int, origin: int) -> Record:
        """Return the record at an index, read the slow way."""
        size = int.from_bytes(data[at : at + 4].tobytes(), "big")
        position = origin + at - PAD
        verdict, record = commitlog.read(
            data[at : at + size].tobytes(),
            0,
            position,
            self._log.base_of(position) + self._log.file_size,
            self._settings.read_rules,
        )
        if not isinstance(record, Record):
            raise corruption(self._log, position, verdict)
        return record

    def record_at(self, position: int, size: int) -> Record:
        """Return the record of `size` bytes at a physical offset.

        Raises:
            FormatError: it is not there any more.
        """
        return self.record_in(self._log.read(position, size), PAD, position)

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
