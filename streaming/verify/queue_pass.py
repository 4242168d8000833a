"""The pass over the log that compares queues: what each record gives is what its queues hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import FormatError, ReputError
from reput.formats.rocketmq.consumequeue import Entry
from reput.formats.rocketmq.further_entries import BatchPut, Own, puts_of
from reput.stores.config.deleted_topics import deleted_topics
from reput.stores.verify.batches import BatchCheck
from reput.stores.verify.extensions import ExtCheck
from reput.stores.verify.queues import QueueCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.consumequeue_ext import Unit as ExtUnit
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.verify.log_records import LogRecords
    from reput.streaming.verify.subject import Subject


class QueuePass:
    """The pass over the log that compares queues; the twin of `sinks.files.special`."""

    def __init__(
        self, subject: Subject, records: LogRecords, observe: Callable[[Block], None]
    ) -> None:
        """Open nothing yet.

        Args:
            subject: the log and the output.
            records: of the log.
            observe: called with each block once it is compared.
        """
        parts = (subject.config.output, subject.settings, subject.scope, subject.report)
        self._subject = subject
        self._observe = observe
        self._queues = subject.queues
        # In an output of ours a topic's queues stay when a broker deletes the topic.
        is_deleted = _never if subject.scope.is_ours else deleted_topics(subject.config.path)
        lost = subject.readable.lost
        self._entries = QueueCheck(*parts, records.is_record, is_deleted, lost, subject.left_out)
        self._ext = ExtCheck(*parts, lost)
        self._batches = BatchCheck(*parts, lost)

    def run(self) -> None:
        """Compare all queues with the records in the scope."""
        subject = self._subject
        for block in subject.readable.blocks(subject.scope.floor, subject.scope.end):
            columns = block.columns
            if block.count == 0:
                continue

            def expect_special(row: int, block: Block = block) -> None:
                columns = block.columns
                try:
                    if not self._expect_row(columns, row):
                        block.without_entry.add(row)
                except (ValueError, ReputError):
                    if not self._pass_over(columns, row):
                        raise
                    block.without_entry.add(row)

            self._entries.compare(columns, block.count, self._queues.names, expect_special)
            self._observe(block)
        self._entries.finish()
        self._ext.finish()
        self._batches.finish()

    def _pass_over(self, columns: Columns, row: int) -> bool:
        """Pass over a record that cannot be put into all of its queues; tell whether it cannot."""
        subject = self._subject
        start = int(columns.physical_offset[row])
        following = start + int(columns.size[row])
        try:
            subject.obstacles.require_queues(columns, row)
        except FormatError as error:
            subject.readable.pass_over(error, start, following, subject.scope.end)
            return True
        return False

    def _expect_row(self, columns: Columns, row: int) -> bool:
        """Compare what a record gives beyond one plain entry; False if that is nothing at all."""
        subject = self._subject
        position, size = int(columns.physical_offset[row]), int(columns.size[row])
        code, timestamp = int(columns.tags_code[row]), int(columns.store_timestamp[row])
        number, queue_offset = int(columns.queue[row]), int(columns.queue_offset[row])
        name = self._queues.names[number]
        record = None
        is_batch = subject.live.is_batch(name.topic, timestamp)
        if is_batch or subject.live.reads_properties or subject.settings.multi_dispatch:
            record = subject.pipeline.record_at(position, size)
        own = Own(name, queue_offset, Entry(position, size, code), timestamp)
        is_expected = False
        for put in puts_of(own, record, subject.settings, subject.live):
            is_expected = True
            if isinstance(put, BatchPut):
                self._batches.expect(put.queue, put.unit)
                continue
            entry = put.entry
            if put.is_further:
                nested = subject.settings.version.nests_queues
                number = self._queues.number(*put.queue, nested=nested)
            if put.extension is not None:
                held = self._expect_ext(number, queue_offset, position, put.extension)
                entry = entry._replace(tags_code=held)
            self._entries.expect(number, put.queue, put.queue_offset, entry)
        return is_expected

    def _expect_ext(self, number: int, queue_offset: int, position: int, unit: ExtUnit) -> int:
        """Compare a unit and return what the entry should hold."""
        name = self._queues.names[number]
        has_head = self._entries.begin(number, name, queue_offset, position)
        if self._entries.is_gone(number):
            return unit.tags_code
        found = self._entries.found(number, name, queue_offset, position)
        held = unit.tags_code if found is None else found.tags_code
        is_own = found is not None and found.physical_offset == position
        address = self._ext.expect(
            name, unit, held, has_head=has_head, position=position, is_own=is_own
        )
        return unit.tags_code if address is None else address


def _never(_topic: str) -> bool:
    return False
