"""Turns bytes of the commitlog into the columns of a block, by a kernel that scans records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from reput.formats.errors import ReputError
from reput.formats.kernels import frames, scan
from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.commitlog import QUEUE_ID_AT, Record, Verdict
from reput.formats.rocketmq.properties import MULTI_DISPATCH
from reput.formats.rocketmq.record_hash import hash_of
from reput.stores.log.commitlog import PAD
from reput.stores.log.unreadable import corruption, unfit
from reput.streaming.dispatch.blocks.block import OVERHANG

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.files.queues import QueueDirectory
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.blocks.block import Block


class Parser:
    """Parses one store's log; any thread may, each into a block of its own.

    Attributes:
        gaps: where to resume, by where something stands that is not a record: the operator's
            decision.
        other_tags_before: records before this physical offset have keys by the other rule for tags
            than the version has. Not to be changed while a range is read.
    """

    def __init__(self, log: CommitLog, queues: QueueDirectory, settings: BrokerSettings) -> None:
        """Read nothing yet.

        Args:
            log: what to read.
            queues: gives queues their numbers.
            settings: the broker's.
        """
        self.gaps: dict[int, int] = {}
        self.other_tags_before = 0
        self._log = log
        self._queues = queues
        self._settings = settings
        self._delays = np.array(settings.delays, np.int64)

    def parse_range(self, block: Block, first: int, stop: int, *, is_known: bool) -> Block:
        """Parse the bytes [first, stop) of a file into a block.

        Args:
            block: room for it.
            first: physical offset.
            stop: physical offset.
            is_known: a record begins at `first`; else the first one has to be found.
        """
        block.first, block.stop = first, stop
        block.start = None
        block.error = None
        data = self._read(block, first)
        start = first if is_known else self._find_start(block, data)
        if start is not None:
            self.parse(block, start, data)
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
        room = min(block.stop - position + OVERHANG, len(block.buffer) - 2 * PAD)
        got = self._log.read_into(block.buffer.data[PAD : PAD + room], position)
        # What an earlier block left after the bytes read must not be taken for the log's.
        block.buffer[PAD + got : PAD + got + PAD] = 0
        return block.buffer[: PAD + got + PAD]

    def parse(self, block: Block, start: int, data: Bytes | None = None) -> None:
        """Fill the block's columns from the record at `start` on.

        Args:
            block: is filled.
            start: physical offset.
            data: the bytes from the block's first on, if the record is in there.
        """
        block.begin(start, self._queues.generation)
        origin = start if data is None else block.first
        self._parse_all(block, self._read(block, start) if data is None else data, start, origin)
        if self.gaps and block.count:
            self._end_at_gap(block)

    def _parse_all(self, block: Block, data: Bytes, start: int, origin: int) -> None:
        """Scan records until the block ends, or one that is not good.

        Args:
            block: is filled.
            data: bytes of the log from `origin` on, between two pads.
            start: physical offset of the first record.
            origin: physical offset.
        """
        room = OVERHANG
        at = PAD + start - origin
        while True:
            verdict, at = self._scan(block, data, at, origin)
            block.verdict = verdict
            block.reached = origin + at - PAD
            if verdict == Verdict.SHORT:
                room *= 8
                longer = self._longer(data, origin, block.reached, room)
                if longer is None:
                    return
                data, at, origin = longer, PAD, block.reached
            elif verdict == Verdict.UNKNOWN_QUEUE:
                if not self._is_queue_added(block, data, at, origin):
                    return
            elif verdict in {Verdict.BAD_DELAY, Verdict.BAD_BATCH}:
                at = self._append_slowly(block, data, at, origin)
                if at < 0:
                    return
            elif verdict != Verdict.RECORD or block.reached >= block.stop:
                return

    def _longer(self, data: Bytes, origin: int, reached: int, room: int) -> Bytes | None:
        """Return the bytes from a record on that goes past the end of those read, None for none.

        Args:
            data: the bytes read.
            origin: physical offset of these.
            reached: physical offset of the record.
            room: bytes to read.
        """
        file_end = self._log.base_of(origin) + self._log.file_size
        if origin + len(data) - 2 * PAD >= file_end:
            return None
        wanted = min(room, file_end - reached)
        longer = self._log.read(reached, wanted)
        # Less than that: the file was cut under us, and there will be no more.
        return longer if len(longer) - 2 * PAD >= wanted else None

    def _is_queue_added(self, block: Block, data: Bytes, at: int, origin: int) -> bool:
        """Give the queue of a record a number; what is wrong is raised where the block is used."""
        try:
            self._add_queue(data, at, origin)
        except ReputError as error:
            block.error = unfit(self._log, block.reached, error)
        except Exception as error:  # noqa: BLE001 - as above
            block.error = error
        return block.error is None

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
            FormatError: it is no longer there.
        """
        return self.record_in(self._log.read(position, size), PAD, position)
