"""The Spark data source `rocketmq`: a RocketMQ store's messages as rows, batch and streaming.

    register(spark)
    spark.read.format("rocketmq").option("path", "/data/store").load()
    spark.readStream.format("rocketmq").option("path", "/data/store").load()

===================== ========== ==============================================================
option                default    meaning
===================== ========== ==============================================================
path                             a broker's storePathRootDir; several with commas between
stores                           JSON {"name": "path"}, or {"name": {"path": …, "brokerVersion":
                                 …, "brokerConf": …, "broker": {setting: value}}}
startingOffsets       earliest   earliest, latest, a physical offset, timestamp:MS, or JSON with
                                 one of these for each store; a stream with a checkpoint goes on
startingTimestamp                ms or ISO 8601; the first record stored then or later
endingOffsets         latest     batch only; the same without earliest; exclusive
endingTimestamp                  batch only; exclusive
maxBytesPerTrigger               stream only; about so much log a batch (64m, 1g), one record at
                                 least, all stores together
maxRecordsPerTrigger             stream only; so many records a batch at most
minPartitions                    so many tasks at least
failOnDataLoss        true       false: go on behind records that expired before they were read
brokerVersion         newest     the broker's, such as 5.3.3
brokerConf                       path of its broker.conf
broker.NAME                      one setting of it, such as broker.mappedFileSizeCommitLog
rows                  messages   ranges: a row (store, start, end) for each store and batch, for
                                 who reads the log himself
===================== ========== ==============================================================

Names are taken in any case; an unknown one is an error. A stream begins at `earliest`, where
Spark's Kafka source takes `latest`: a log that is dispatched or archived is wanted whole. An
offset is a physical offset for each store, {"name": offset}; a batch of a store is the records
that *start* in [start, end). The columns are described in `streaming.rows`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from formats.errors import ReputError, UsageError
from streaming.options import RANGES, SourceOptions, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from streaming.offsets import StoreOffsets

NAME = "rocketmq"
RANGE_SCHEMA = "store string, start long, end long"
# A task of about a second, so that many of them share the work evenly.
PARTITION_BYTES = 128 << 20


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a session."""
    spark.dataSource.register(RocketMQDataSource)


@dataclass
class LogRange(InputPartition):
    """What one task reads: the records of a store that start in [`start`, `end`)."""

    store: str
    start: int
    end: int


class RocketMQDataSource(DataSource):
    """What Spark makes of `format("rocketmq")` and its options."""

    def __init__(self, options: dict[str, str]) -> None:
        """Read the options and look at the stores: what is wrong with them is said at load().

        Raises:
            ReputError: the option or the directory that is wrong.
        """
        super().__init__(options)
        self.parsed = parse(options)

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return NAME

    def schema(self) -> StructType | str:
        """Return the columns, after a look at the stores.

        Raises:
            ReputError: a store is not there, or is none.
        """
        # Workers that only hand ranges on never pay for the imports of who reads.
        from streaming.offsets import StoreOffsets  # noqa: PLC0415

        for store in self.parsed.stores:
            StoreOffsets(store)
        if self.parsed.rows == RANGES:
            return RANGE_SCHEMA
        from streaming.rows import SCHEMA  # noqa: PLC0415

        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return what reads a batch DataFrame."""
        return BatchReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Return what reads a stream."""
        return StreamReader(self.parsed)


class BatchReader(DataSourceReader):
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; nothing is opened yet."""
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read.

        Raises:
            ReputError: a store that cannot be read, or offsets that are not there.
        """
        stores = _open(self._options)
        loss = self._options.fail_on_data_loss
        starts, ends = {}, {}
        for store in self._options.stores:
            offsets = stores[store.name]
            starts[store.name] = offsets.resolve(store.starting, fail_on_data_loss=loss)
            ends[store.name] = offsets.resolve(store.ending, fail_on_data_loss=loss)
            if offsets.error is not None and ends[store.name] == offsets.end():
                raise offsets.error
        return _partitions(stores, self._options, starts, ends)

    def read(
        self, partition: InputPartition
    ) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
        """Return the rows of a range."""
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads batches; one object plans all of them, each task reads by its own copy."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; nothing is opened yet."""
        self._options = options
        self._offsets: dict[str, StoreOffsets] | None = None
        self._latest: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to tasks: they open what they need themselves."""
        return {"_options": self._options, "_offsets": None, "_latest": None}

    @property
    def _stores(self) -> dict[str, StoreOffsets]:
        if self._offsets is None:
            self._offsets = _open(self._options)
        return self._offsets

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name, so the next ones
        """Return where a query without a checkpoint begins.

        Raises:
            ReputError: at an offset that is not there.
        """
        loss = self._options.fail_on_data_loss
        return {
            store.name: self._stores[store.name].resolve(store.starting, fail_on_data_loss=loss)
            for store in self._options.stores
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Have all logs end where they end now."""
        for offsets in self._stores.values():
            offsets.freeze()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options; of two, the records' (`latestOffset` knows both)."""
        if self._options.max_records is not None:
            return ReadMaxRows(self._options.max_records)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the batch that begins at `start`.

        Raises:
            ReputError: a corrupt record is next; the log ends before `start`; other stores than
                those of the checkpoint.
        """
        self._require_same_stores(start)
        self._latest = {name: offsets.end() for name, offsets in self._stores.items()}
        ends = {name: self._end_of(name, start[name]) for name in self._stores}
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if isinstance(limit, ReadMaxRows):
            # Spark's limits do not add up, so the smaller one is found here.
            max_bytes = self._options.max_bytes
        if max_bytes is not None:
            ends = self._cap_bytes(start, ends, max_bytes)
        if isinstance(limit, ReadMaxRows):
            ends = self._cap_records(start, ends, limit.max_rows)
        return ends

    def _end_of(self, name: str, start: int) -> int:
        """Return where a store's log ends, behind `start` or there."""
        offsets, end = self._stores[name], (self._latest or {})[name]
        if start >= end and offsets.error is not None:
            raise offsets.error
        if start <= end:
            return end
        message = (
            f"store {name}: the commitlog ends at {end}, before the query's offset {start}: it has "
            "been cut or replaced"
        )
        if self._options.fail_on_data_loss:
            raise ReputError(
                f"{message}. Begin with a new checkpoint, or go on at the log's end with the "
                "option failOnDataLoss=false"
            )
        return end

    def _cap_bytes(
        self, start: Mapping[str, int], ends: dict[str, int], budget: int
    ) -> dict[str, int]:
        """Share a number of bytes out: stores with little to read leave theirs to the others."""
        capped = dict(ends)
        waiting = _by_lag(start, ends)
        for number, name in enumerate(waiting):
            share = budget // (len(waiting) - number)
            if share < ends[name] - start[name]:
                capped[name] = self._stores[name].after_bytes(start[name], share, ends[name])
            budget = max(0, budget - (capped[name] - start[name]))
        return capped

    def _cap_records(
        self, start: Mapping[str, int], ends: dict[str, int], budget: int
    ) -> dict[str, int]:
        """Share a number of records out likewise."""
        capped = dict(ends)
        waiting = _by_lag(start, ends)
        for number, name in enumerate(waiting):
            share = budget // (len(waiting) - number)
            capped[name], records = self._stores[name].after_records(start[name], share, ends[name])
            budget -= records
        return capped

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Return the ends of the logs as last seen, for the query's progress."""
        return self._latest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the ranges of a batch.

        Raises:
            ReputError: records have expired before they were read.
        """
        self._require_same_stores(start)
        return _partitions(self._stores, self._options, start, end)

    def _require_same_stores(self, start: Mapping[str, int]) -> None:
        added = sorted(set(self._stores) - set(start))
        missing = sorted(set(start) - set(self._stores))
        if added or missing:
            what = f"has no store {added[0]!r}" if added else f"has a store {missing[0]!r}"
            raise UsageError(
                f"path: the query's checkpoint {what}, the options say "
                f"{', '.join(sorted(self._stores))}. Use the stores it began with, or begin with "
                "a new checkpoint"
            )

    def read(
        self, partition: InputPartition
    ) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
        """Return the rows of a range."""
        return _read(self._options, partition)


def _by_lag(start: Mapping[str, int], ends: Mapping[str, int]) -> list[str]:
    """Return the stores that have something to read, the one with least first."""
    waiting = [name for name in ends if ends[name] > start[name]]
    return sorted(waiting, key=lambda name: (ends[name] - start[name], name))


def _open(options: SourceOptions) -> dict[str, StoreOffsets]:
    from streaming.offsets import StoreOffsets  # noqa: PLC0415 - see `RocketMQDataSource.schema`

    return {store.name: StoreOffsets(store) for store in options.stores}


def _partitions(
    stores: Mapping[str, StoreOffsets],
    options: SourceOptions,
    start: Mapping[str, int],
    end: Mapping[str, int],
) -> list[InputPartition]:
    """Cut the ranges of a batch: at files' beginnings, and into pieces that are not too large."""
    ranges = []
    for name, offsets in stores.items():
        # Who takes ranges knows himself how far he is, and so what he has lost.
        loss = options.fail_on_data_loss and options.rows != RANGES
        if start[name] < end[name]:
            begin = offsets.existing(start[name], fail_on_data_loss=loss)
            if begin < end[name]:
                ranges.append(LogRange(name, begin, end[name]))
    if options.rows == RANGES:
        return list(ranges)
    total = sum(r.end - r.start for r in ranges)
    piece = min(PARTITION_BYTES, max(1, total // (options.min_partitions or 1)))
    sizes = {store.name: store.settings.commitlog_file_size for store in options.stores}
    return [part for r in ranges for part in _cut(r, sizes[r.store], piece)]


def _cut(whole: LogRange, file_size: int, piece: int) -> Iterator[LogRange]:
    position = whole.start
    while position < whole.end:
        stop = min(position - position % file_size + file_size, whole.end)
        parts = math.ceil((stop - position) / piece)
        length = stop - position
        for number in range(parts):
            first = position + length * number // parts
            last = position + length * (number + 1) // parts
            yield LogRange(whole.store, first, last)
        position = stop


def _read(
    options: SourceOptions, partition: InputPartition
) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
    if not isinstance(partition, LogRange):
        # What Spark hands in where there is nothing to read.
        return iter(())
    if options.rows == RANGES:
        return iter([(partition.store, partition.start, partition.end)])
    from streaming.rows import read_batches  # noqa: PLC0415 - see `RocketMQDataSource.schema`

    store = next(store for store in options.stores if store.name == partition.store)
    return read_batches(store, partition.start, partition.end, options.fail_on_data_loss)
