"""Puts the records that are more than one plain entry: extensions, batches, several queues.

These go record by record through readable code; see docs/performance.md for what that costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.formats.rocketmq import consumequeue, consumequeue_ext, names
from reput.formats.rocketmq.further_entries import (
    BatchPut,
    batch_unit,
    further_queues,
    own_of,
    puts_of,
)
from reput.formats.rocketmq.names import QueueName
from reput.sinks.files.batchconsumequeue import BatchConsumeQueueSink
from reput.sinks.files.consumequeue_ext import ExtSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record
    from reput.formats.rocketmq.consumequeue_ext import Unit as ExtUnit
    from reput.formats.rocketmq.further_entries import TopicSettings
    from reput.sinks.files.consumequeue import ConsumeQueueSink
    from reput.sinks.files.queues import QueueDirectory


class SpecialSink:
    """Writes extensions and batches, and hands entries to the consume queues."""

    def __init__(
        self,
        root: Path,
        staging: Path,
        settings: BrokerSettings,
        queues: QueueDirectory,
        entries: ConsumeQueueSink,
        topics: TopicSettings,
    ) -> None:
        """Open nothing yet.

        Args:
            root: the output root.
            staging: see `MappedFile.create`.
            settings: the broker's.
            queues: gives queues their numbers.
            entries: where plain entries go.
            topics: types of topics, and consumers' filters.
        """
        self._settings = settings
        self._queues = queues
        self._entries = entries
        self._topics = topics
        self._unit: tuple[str, int] | None = None
        self._ext = ExtSink(root, staging, settings.ext_file_size)
        self._batches = BatchConsumeQueueSink(root, staging, settings.batch_file_size)

    def put(self, record: Record) -> bool:
        """Put a record that has an entry, in all queues that it belongs to.

        Returns:
            False for a batch that no queue takes, so that no checkpoint may name it
            (`BatchConsumeQueue#putMessagePositionInfoWrapper`).

        Raises:
            OSError: no space, no permission.
            ReputError: a queue that cannot have a directory, a property that is not a number.
        """
        try:
            is_put = self._put(record)
        except ValueError as error:
            raise ReputError(
                f"the record at physical offset {record.physical_offset}, of topic "
                f"{record.topic!r}: {error}. A broker cannot dispatch it either"
            ) from error
        self._unit = None
        return is_put

    def vouch_from(self, position: int) -> None:
        """Take a physical offset over, see `Progress.vouched_from`."""
        self._batches.vouched_from = position

    def expect_ends(self, recorded: Mapping[str, int]) -> None:
        """Take over where queues end that are opened later, see `Progress.queues`."""
        self._ext.recorded_ends = self._batches.recorded_ends = recorded

    def numbers(self, record: Record) -> Iterator[tuple[str, int, bool]]:
        """Yield the queues that a record names in properties, or by its type; puts nothing.

        Yields:
            The queue, as in `Progress.queues`, the record's number in it, and whether the queue
            goes back with it, see `ConsumeQueueSink.has_gone_back`.
        """
        if self._topics.is_batch(record.topic, record.store_timestamp):
            name = QueueName(record.topic, record.queue_id)
            base = batch_unit(own_of(record, 0), record).base_offset
            yield self._batches.directory_of(name), base, self._batches.has_gone_back(name, base)
        elif self._settings.multi_dispatch:
            for name, queue_offset in further_queues(record, self._settings):
                number = self._number(name, is_further=True)
                is_back = self._entries.has_gone_back(number, queue_offset)
                yield self._entries.directory_of(number), queue_offset, is_back

    def leftovers(self) -> dict[str, int]:
        """Return where an extension ends without the unit of a record that could not be put.

        Such a record has its unit already, and no entry that points to it.
        """
        return dict([self._unit]) if self._unit else {}

    def _put(self, record: Record) -> bool:
        code = consumequeue.tags_code(
            record.topic, record.properties, record.store_timestamp, self._settings.delays
        )
        is_put = False
        for put in puts_of(own_of(record, code), record, self._settings, self._topics):
            is_put = True
            if isinstance(put, BatchPut):
                self._batches.append(put.queue, put.unit)
                continue
            entry = put.entry
            if put.extension is not None:
                entry = entry._replace(tags_code=self._put_ext(put.queue, put.extension))
            self._entries.put_entry(
                self._number(put.queue, is_further=put.is_further), put.queue_offset, entry
            )
        return is_put

    def _put_ext(self, name: QueueName, unit: ExtUnit) -> int:
        """Put a unit; return what the entry holds: its address, or the tags code."""
        address = self._ext.append(name, unit)
        if address is None:
            return unit.tags_code
        directory = f"{names.CONSUMEQUEUE_EXT}/{name.topic}/{name.queue_id}"
        self._unit = (directory, consumequeue_ext.position(address))
        return address

    def _number(self, name: QueueName, *, is_further: bool) -> int:
        return self._queues.number(*name, nested=is_further and self._settings.version.nests_queues)

    def positions(self) -> dict[str, int]:
        """Return where the queues end that were written to, see `Progress.queues`."""
        return self._ext.positions() | self._batches.positions()

    def firsts(self) -> dict[str, int]:
        """Return where the oldest files of queues begin, see `Progress.firsts`."""
        return self._ext.firsts() | self._batches.firsts()

    def flush(self) -> None:
        """Flush everything that was put."""
        self._ext.flush()
        self._batches.flush()

    def close(self) -> None:
        """Give all maps back."""
        self._ext.close()
        self._batches.close()
