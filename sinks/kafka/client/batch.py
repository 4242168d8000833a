"""One batch for one partition, made of records that are encoded already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from reput.sinks.kafka.client.errors import RECORD_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reput.sinks.kafka.client.partition import Partition

_MAGIC = 2
_MOST_BYTES = 1 << 30
# Bytes of a batch before its first record.
BATCH_HEADER = 61


class Batch(ProducerBatch):  # type: ignore[misc]
    """One batch for one partition.

    kafka-python would split a batch that is too large into ones that nothing waits for; so it is
    told that there is nothing to split. Sequence numbers do not come from this count.

    Attributes:
        note: the caller's, to recognize what is in it.
        size: bytes of records.
        refused: records that Kafka has named as what is wrong, by their number, and why.
    """

    def __init__(
        self, partition: Partition, records: Any, note: object, size: int, count: int = 1
    ) -> None:
        super().__init__(TopicPartition(*partition), records)
        self.note = note
        self.size = size
        self.refused: dict[int, BaseException] = {}
        self._count = count
        self._reason: BaseException | None = None

    def done(
        self,
        base_offset: int | None = None,
        timestamp_ms: int | None = None,
        top_level_exception: Exception | None = None,
        record_exceptions_fn: Callable[[int], Exception] | None = None,
    ) -> bool:
        """Keep what Kafka says of its records; what it says of innocent ones is of no use."""
        if top_level_exception is not None and record_exceptions_fn is not None:
            self._reason = top_level_exception
            for number in range(self._count):
                said = record_exceptions_fn(number)
                if said is not top_level_exception and isinstance(said, RECORD_ERRORS):
                    # kafka-python says less of each of several records than of one.
                    self.refused[number] = type(top_level_exception)(*said.args)
        return bool(
            super().done(base_offset, timestamp_ms, top_level_exception, record_exceptions_fn)
        )

    @property
    def record_count(self) -> int:
        """Return 1: see the class."""
        return 1

    @property
    def failure(self) -> BaseException | None:
        """Return why it did not arrive, None if it did or is on its way."""
        if not self.is_done or self.final_state is FinalState.SUCCEEDED:
            return None
        if self._reason is not None:
            return self._reason
        *_, exception_of = self.produce_future.value
        failure: BaseException = exception_of(0)
        return failure


def batch_of(
    partition: Partition,
    records: memoryview,
    count: int,
    first_timestamp: int,
    max_timestamp: int,
    codec: int,
    note: object = None,
) -> Batch:
    """Return a batch of records that are encoded already.

    Args:
        partition: where it goes.
        records: encoded.
        count: how many.
        first_timestamp: of the first one, ms.
        max_timestamp: ms.
        codec: kafka-python's number of a compression.
        note: see `Batch`.
    """
    # Full from the start: it is sent at once.
    memory = MemoryRecordsBuilder(_MAGIC, codec, 0)
    builder = memory._builder  # noqa: SLF001 - see the producer
    builder._buffer += records  # noqa: SLF001
    builder._num_records = count  # noqa: SLF001
    builder._last_offset = count - 1  # noqa: SLF001
    builder._first_timestamp = first_timestamp  # noqa: SLF001
    builder._max_timestamp = max_timestamp  # noqa: SLF001
    memory._next_offset = count  # noqa: SLF001
    return Batch(partition, memory, note, len(records), count)


def encode_records(
    records: Iterable[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]],
) -> memoryview:
    """Return encoded records, made one by one by kafka-python: for few.

    Args:
        records: timestamp in ms, key, value and headers of each.
    """
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, _MOST_BYTES)
    for number, (timestamp, key, value, headers) in enumerate(records):
        builder.append(number, timestamp, key, value, headers)
    return memoryview(builder.build())[BATCH_HEADER:]
