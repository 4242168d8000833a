"""Messages as rows: the columns of the source, and reading them from a range of the log.

Names are those of rocketmq-spark where it has the column (topic, flag, body, properties,
brokerName, queueId, queueOffset, bornTimestamp, storeTimestamp), else RocketMQ's. What is absent is
null. Texts that are not UTF-8 become what Java makes of them, as a consumer of RocketMQ sees them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from reput.formats.rocketmq.commitlog import Verdict
from reput.formats.rows import columns as rows
from reput.formats.rows.columns import RowColumns
from reput.formats.rows.malformed import with_decoded_rows
from reput.formats.rows.texts import Slices
from reput.stores.log.commitlog import PAD, CommitLog, commitlog_directories
from reput.stores.log.unreadable import corruption, first_readable, next_record
from reput.streaming.source import arrow
from reput.streaming.source.planning import skip_expired

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.streaming.source.options import Store
    from reput.streaming.source.pushdown.wanted import Wanted

# Timestamps are rocketmq-spark's TimestampType; one beyond the years 1 to 9999, which Spark cannot
# show, is null. `body` is as stored: compressed where sysFlag says so.
SCHEMA = StructType(
    [
        StructField("brokerName", StringType()),
        StructField("topic", StringType()),
        StructField("queueId", IntegerType()),
        StructField("queueOffset", LongType()),
        StructField("physicalOffset", LongType()),
        StructField("size", IntegerType()),
        StructField("tags", StringType()),
        StructField("keys", StringType()),
        StructField("uniqKey", StringType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("body", BinaryType()),
        StructField("flag", IntegerType()),
        StructField("sysFlag", IntegerType()),
        StructField("bodyCrc", IntegerType()),
        StructField("bornTimestamp", TimestampType()),
        StructField("storeTimestamp", TimestampType()),
        StructField("bornHost", StringType()),
        StructField("storeHost", StringType()),
        StructField("reconsumeTimes", IntegerType()),
        StructField("preparedTransactionOffset", LongType()),
        StructField("msgId", StringType()),
        StructField("offsetMsgId", StringType()),
    ]
)
# As Spark's worker makes it, which refuses batches of any other.
ARROW_SCHEMA = to_arrow_schema(SCHEMA, timezone="UTC")
LOG = logging.getLogger("reput")
ROWS = 20_000
BLOCK_BYTES = 4 << 20
_SMALLEST_BLOCK = 4 << 10
_PROPERTIES = 16 * ROWS


def read_batches(
    store: Store,
    start: int,
    end: int,
    *,
    fail_on_data_loss: bool,
    skips_corrupt: bool = False,
    is_record: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that start in [`start`, `end`), at most `ROWS` or `BLOCK_BYTES` a time.

    Args:
        store: what to read.
        start: physical offset.
        end: physical offset.
        fail_on_data_loss: or continue after what has expired.
        skips_corrupt: continue after bytes that are not a record, and log what they are.
        is_record: a record is known to begin at `start`.

    Raises:
        FormatError: something that is not a record stands in the range.
        ReputError: the range has expired, and that must not be.
    """
    return read_wanted(
        store,
        [(start, end)],
        fail_on_data_loss=fail_on_data_loss,
        skips_corrupt=skips_corrupt,
        is_record=is_record,
    )


def read_wanted(
    store: Store,
    ranges: Iterable[tuple[int, int]],
    *,
    fail_on_data_loss: bool,
    skips_corrupt: bool = False,
    is_record: bool = False,
    wanted: Wanted | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that start in some ranges, without those that are not wanted.

    Args:
        store: what to read.
        ranges: start and end, physical offsets.
        fail_on_data_loss: or continue after what has expired.
        skips_corrupt: see `read_batches`.
        is_record: a record is known to begin at the first start, as at all others.
        wanted: what may be left out; None for nothing.

    Raises:
        FormatError: something that is not a record stands in a range.
        ReputError: a range has expired, and that must not be.
    """
    log = CommitLog(commitlog_directories(store.path, store.settings), store.settings)
    columns = RowColumns.of(ROWS, _PROPERTIES)
    try:
        for start, end in ranges:
            position = skip_expired(log, store.name, start, fail_on_data_loss=fail_on_data_loss)
            if not is_record:
                position = first_readable(log, position, skips_corrupt=skips_corrupt)
            is_record = True
            for data, count in _read_range(log, position, end, columns, skips=skips_corrupt):
                rows_wanted = wanted.rows(data, columns, count) if wanted is not None else None
                if rows_wanted is None:
                    yield to_batch(store.shown_name, data, columns, count)
                elif rows_wanted.any():
                    kept = _taken(columns, np.flatnonzero(rows_wanted))
                    yield to_batch(store.shown_name, data, kept, len(kept.size))
    finally:
        log.close()


def _read_range(
    log: CommitLog, position: int, end: int, columns: RowColumns, *, skips: bool
) -> Iterator[tuple[Bytes, int]]:
    """Fill the columns again and again; yield the bytes that they point into, and their rows."""
    # If a few records stand alone, no whole block is read for them.
    block = min(BLOCK_BYTES, max(_SMALLEST_BLOCK, end - position))
    length = block
    while position < end:
        file_end = log.base_of(position) + log.file_size
        data = log.read(position, min(length, file_end - position))
        verdict, reached = Verdict.FULL, position
        while verdict == Verdict.FULL:
            verdict, reached, count = _parse(log, data, position, reached, end, columns)
            if count:
                yield data, count
        if verdict == Verdict.ROLL:
            position = file_end
        elif verdict == Verdict.SHORT and position + length < file_end:
            # A record that is longer than the block, or only its last one.
            length = length * 2 if reached == position else block
            position = reached
        elif verdict == Verdict.RECORD:
            position = reached
        elif skips:
            position = next_record(log, reached)
            error = corruption(log, reached, verdict)
            LOG.warning(
                "%s at byte %d: %s. Skipped %d bytes, physical offsets %d to %d",
                error.path,
                error.position,
                error.problem,
                position - reached,
                reached,
                position,
            )
        else:
            raise corruption(log, reached, verdict)


def _parse(
    log: CommitLog, data: Bytes, position: int, reached: int, end: int, columns: RowColumns
) -> tuple[Verdict, int, int]:
    """Fill the columns from the record at `reached` on.

    Args:
        log: the log.
        data: bytes of it.
        position: physical offset of their first one.
        reached: physical offset of a record in them.
        end: physical offset.
        columns: written.
    """
    file_end = log.base_of(position) + log.file_size
    verdict, at, count = rows.read_rows(
        data,
        PAD + reached - position,
        PAD + min(end, file_end) - position,
        len(data) - PAD,
        position - PAD,
        file_end,
        log.rules,
        columns,
    )
    return Verdict(verdict), int(at) - PAD + position, int(count)


def to_batch(name: str, data: Bytes, columns: RowColumns, count: int) -> pa.RecordBatch:
    """Return the first `count` rows as Spark wants them.

    Args:
        name: the store's.
        data: the bytes that the columns have slices of.
        columns: see `formats.rows.columns`.
        count: rows.
    """
    columns = _first(columns, count)
    if columns.needs_decoding.any():
        data, columns = with_decoded_rows(data, columns)
    uniq_key = arrow.texts(data, columns.uniq_key, nulls=True)
    offset_id = arrow.offset_message_ids(data, columns)
    arrays = [
        pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), [name]).cast(pa.string()),
        arrow.repeated(arrow.binaries(data, columns.topic), bytes.decode),
        pa.array(columns.queue_id),
        pa.array(columns.queue_offset),
        pa.array(columns.physical_offset),
        pa.array(columns.size),
        arrow.texts(data, columns.tags, nulls=True),
        arrow.texts(data, columns.keys, nulls=True),
        uniq_key,
        arrow.maps(data, columns),
        arrow.binaries(data, columns.body),
        pa.array(columns.flag),
        pa.array(columns.sys_flag),
        pa.array(columns.body_crc),
        arrow.timestamps(columns.born_timestamp),
        arrow.timestamps(columns.store_timestamp),
        arrow.repeated(arrow.binaries(data, columns.born_host), arrow.host_text),
        arrow.repeated(arrow.binaries(data, columns.store_host), arrow.host_text),
        pa.array(columns.reconsume_times),
        pa.array(columns.prepared_transaction_offset),
        pc.coalesce(uniq_key, offset_id),
        offset_id,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _taken(columns: RowColumns, rows: NDArray[np.int64]) -> RowColumns:
    """Return the columns of some rows, and the properties of these: texts cost more than rows."""
    ends = columns.property_end[rows].astype(np.int64)
    begins = np.where(rows > 0, columns.property_end[rows - 1], 0).astype(np.int64)
    lengths = ends - begins
    property_end = np.cumsum(lengths)
    shifts = np.repeat(begins - (property_end - lengths), lengths)
    properties = np.arange(len(shifts)) + shifts

    def take(name: str, column: NDArray[np.generic] | Slices) -> NDArray[np.generic] | Slices:
        chosen = properties if name in {"names", "values"} else rows
        if isinstance(column, Slices):
            return Slices(column.at[chosen], column.length[chosen])
        return column[chosen]

    taken = RowColumns(*map(take, columns._fields, columns))  # type: ignore[arg-type]
    return taken._replace(property_end=property_end.astype(np.int32))


def _first(columns: RowColumns, count: int) -> RowColumns:
    """Return the columns cut to their first rows, and to the properties of these."""
    total = int(columns.property_end[count - 1])

    def cut(name: str, column: NDArray[np.generic] | Slices) -> NDArray[np.generic] | Slices:
        length = total if name in {"names", "values"} else count
        if isinstance(column, Slices):
            return Slices(column.at[:length], column.length[:length])
        return column[:length]

    return RowColumns(*map(cut, columns._fields, columns))  # type: ignore[arg-type]
