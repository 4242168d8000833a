"""Puts the records that are more than one plain entry: extensions, batches, several queues.

These go record by record through readable code; see docs/performance.md for what that costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from reput.formats.errors import ReputError
from reput.formats.java import strings
from reput.formats.rocketmq import consumequeue, consumequeue_ext, names
from reput.formats.rocketmq.batchconsumequeue import inner_batch
from reput.formats.rocketmq.consumequeue import Entry
from reput.formats.rocketmq.consumequeue_ext import Unit as ExtUnit
from reput.formats.rocketmq.properties import MULTI_DISPATCH, MULTI_QUEUE_OFFSET
from reput.sinks.files.batchconsumequeue import BatchConsumeQueueSink, unit_of
from reput.sinks.files.consumequeue_ext import ExtSink
from reput.sinks.files.queues import QueueName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reput.formats.rocketmq.batchconsumequeue import Unit
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record
    from reput.sinks.files.consumequeue import ConsumeQueueSink
    from reput.sinks.files.queues import QueueDirectory

_LMQ_PREFIX = "%LMQ%"
_SEPARATOR = ","
_NEVER_MULTI = ("%RETRY%", "rmq_sys_")


class TopicSettings(Protocol):
    """What a broker's files say of a record's topic, see `streaming.dispatch.live_settings`."""

    def is_batch(self, topic: str, store_timestamp: int) -> bool:
        """Tell whether a record's queue is one of type BatchCQ."""

    def bitmap_for(
        self, topic: str, properties: Mapping[str, str], store_timestamp: int
    ) -> bytes | None:
        """Return the bit map of a record's extension, None for none."""


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
            ReputError: a queue that cannot have a directory, a property that is no number.
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

    def numbers(self, record: Record) -> Iterator[tuple[str, int, bool]]:
        """Yield the queues that a record names in properties, or by its type; puts nothing.

        Yields:
            The queue, as in `Progress.queues`, the record's number in it, and whether the queue
            goes back with it, see `ConsumeQueueSink.has_gone_back`.
        """
        if self._topics.is_batch(record.topic, record.store_timestamp):
            name = QueueName(record.topic, record.queue_id)
            base = self._unit_of(record, 0).base_offset
            yield self._batches.directory_of(name), base, self._batches.has_gone_back(name, base)
        elif self._settings.multi_dispatch:
            for name, queue_offset in self._further(record):
                number = self._number(name)
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
        name = QueueName(record.topic, record.queue_id)
        if self._topics.is_batch(record.topic, record.store_timestamp):
            return self._put_batch(name, record, code)
        held = code
        if self._settings.writes_ext:
            held = self._put_ext(name, record, code)
        number = self._queues.number(*name)
        entry = Entry(record.physical_offset, record.size, held)
        self._entries.put_entry(number, record.queue_offset, entry)
        if self._settings.multi_dispatch:
            self._put_multi(record, entry._replace(tags_code=code))
        return True

    def _put_batch(self, name: QueueName, record: Record, code: int) -> bool:
        unit = self._unit_of(record, code)
        is_valid = unit.base_offset >= 0 and unit.batch_size >= 0
        if is_valid:
            self._batches.append(name, unit)
        return is_valid

    @staticmethod
    def _unit_of(record: Record, code: int) -> Unit:
        return unit_of(
            record.physical_offset,
            record.size,
            code,
            record.store_timestamp,
            record.queue_offset,
            inner_batch(record.properties),
        )

    def _put_ext(self, name: QueueName, record: Record, code: int) -> int:
        bitmap = self._topics.bitmap_for(record.topic, record.properties, record.store_timestamp)
        address = self._ext.append(name, ExtUnit(code, record.store_timestamp, bitmap or b""))
        if address is None:
            return code
        directory = f"{names.CONSUMEQUEUE_EXT}/{name.topic}/{name.queue_id}"
        self._unit = (directory, consumequeue_ext.position(address))
        return address

    def _put_multi(self, record: Record, entry: Entry) -> None:
        for name, queue_offset in self._further(record):
            self._entries.put_entry(self._number(name), queue_offset, entry)

    def _further(self, record: Record) -> list[tuple[QueueName, int]]:
        settings = self._settings
        version = settings.version
        return multi_queues(
            record,
            lmq=settings.lmq,
            system=version.multi_dispatches_system,
            nested=version.nests_queues,
        )

    def _number(self, name: QueueName) -> int:
        return self._queues.number(*name, nested=self._settings.version.nests_queues)

    def positions(self) -> dict[str, int]:
        """Return where the queues end that were written to, see `Progress.queues`."""
        return self._ext.positions() | self._batches.positions()

    def firsts(self) -> dict[str, int]:
        """Return where the oldest files of queues begin, see `Progress.firsts`."""
        return self._ext.firsts() | self._batches.firsts()

    def flush(self) -> None:
        """Have everything on disk that was put."""
        self._ext.flush()
        self._batches.flush()

    def close(self) -> None:
        """Give all maps back."""
        self._ext.close()
        self._batches.close()


def multi_queues(
    record: Record, *, lmq: bool, system: bool, nested: bool
) -> list[tuple[QueueName, int]]:
    """Return the further queues of a record and its offset in each (`MultiDispatchUtils`).

    Args:
        record: the record.
        lmq: the broker's `enableLmq`.
        system: see `BrokerVersion.multi_dispatches_system`.
        nested: see `BrokerVersion.nests_queues`.

    Raises:
        ValueError: an offset is no number.
    """
    topic = record.topic
    is_system = topic.startswith(_NEVER_MULTI) or topic == consumequeue.SCHEDULE_TOPIC
    if is_system and not system:
        return []
    names = _split(record.properties.get(MULTI_DISPATCH, ""))
    offsets = _split(record.properties.get(MULTI_QUEUE_OFFSET, ""))
    if not names or len(names) != len(offsets):
        return []
    return [
        (
            QueueName(name, 0 if lmq and name.startswith(_LMQ_PREFIX) else record.queue_id),
            strings.parse_long(offset),
        )
        for name, offset in zip(names, offsets, strict=True)
        if nested or "/" not in name
    ]


def _split(text: str) -> list[str]:
    """Split as Java does, which drops empty pieces at the end."""
    if strings.is_blank(text):
        return []
    pieces = text.split(_SEPARATOR)
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces
