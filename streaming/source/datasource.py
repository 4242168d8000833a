"""The Spark data source `rocketmq`: a RocketMQ store's messages as rows, batch and streaming.

    register(spark)
    spark.read.format("rocketmq").option("path", "/data/store").load()
    spark.readStream.format("rocketmq").option("path", "/data/store").load()

===================== ========== ==============================================================
option                default    meaning
===================== ========== ==============================================================
path                             a broker's storePathRootDir; several with commas between
stores                           JSON {"name": "path"}, or {"name": {"path": …, "brokerVersion":
                                 …, "brokerConf": …, "broker": {setting: value},
                                 "commitlog": [path]}}
startingOffsets       earliest   earliest, latest, a physical offset, timestamp:MS, or JSON with
                                 one of these for each store; a stream with a checkpoint goes on
startingTimestamp                ms, or ISO 8601 with its zone; the first record stored then or
                                 later: the log is looked at up to there, unless
                                 ascendingStoreTime is true
endingOffsets         latest     batch only; the same without earliest; exclusive
endingTimestamp                  batch only; exclusive: up to the first record stored then or later
maxBytesPerTrigger               stream only; about so much log a batch (64m, 1g), one record at
                                 least, all stores together
maxBytesPerStore                 stream only; so much of each store at most
maxRecordsPerTrigger             stream only; so many records a batch at most
minPartitions                    so many tasks at least
failOnDataLoss        true       false: go on after records that expired before they were read, and
after a cut tail                  visible    flushed: not beyond what the broker has on disk by its
checkpoint onCorrupt             stop       skip: go on after what is corrupt or missing; rows are
then what
                                 is there, and each place that was passed over is logged
brokerVersion         newest     the broker's, such as 5.3.3
brokerConf                       path of its broker.conf
commitlog                        directories of the log with commas between, whatever the store and
                                 its broker.conf say
output                           where queues and index are, if not in the store: filters are read
                                 by them where that is less (`streaming.source.choosing`)
pushdown              true       false: the log is read whole, Spark alone filters
ascendingStoreTime    false      true: no clock ever went back, so filters by storeTimestamp leave
                                 parts of the log out, and times are found by bisection, as a
                                 broker does
trustIndex            false      true: the broker never cut this log, so its own index has all keys
explain               false      true: what was chosen is said on standard error too
broker.NAME                      one setting of it, such as broker.mappedFileSizeCommitLog
knownEnds                        JSON {"name": [end, offset, size, hash]}: where a log ended when
                                 its dispatcher last looked, and its last record; taken as long
                                 as nothing stands there
rows                  messages   ranges: a row (store, start, end) for each store and batch, for
                                 readers of the log itself
===================== ========== ==============================================================

Names are taken in any case; an unknown one is an error. A stream begins at `earliest`, where
Spark's Kafka source takes `latest`: a log that is dispatched or archived is wanted whole. An
offset is a physical offset for each store, {"name": offset}; a batch of a store is the records
that *start* in [start, end). A stream's offset also carries what identifies the log
up to there, {"name": {"offset": offset, "log": sum}}, so that a log that was cut is told from one
that grew. The columns are described in `streaming.source.rows`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from reput.formats.errors import ReputError, UsageError
from reput.streaming.dispatch import output_record
from reput.streaming.source.marks import Mark, marks_of
from reput.streaming.source.options import RANGES, SourceOptions, parse
from reput.streaming.source.planning import (
    LogRange,
    cap_bytes,
    cap_records,
    cap_store_bytes,
    partitions_of,
)
from reput.streaming.source.read_settings import refuse_other_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from reput.streaming.source.offsets import StoreOffsets

LOG = logging.getLogger("reput")
NAME = "rocketmq"
_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
RANGE_SCHEMA = StructType(
    [
        StructField("store", StringType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
    ]
)


def expect_the_end() -> None:
    """Have the process in which Spark plans end without a traceback where Spark ends first.

    The runner then writes to a socket that nobody reads. In any other process this does nothing.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _RUNNER:
        sys.excepthook = without_spark


def without_spark(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Stay silent about a socket that Spark has closed; show any other error as Python does."""
    if not isinstance(error, ConnectionError):
        sys.__excepthook__(kind, error, trace)


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a session, and let its queries hand filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(RocketMQDataSource)


class RocketMQDataSource(DataSource):
    """What Spark makes of `format("rocketmq")` and its options."""

    def __init__(self, options: dict[str, str]) -> None:
        """Read the options and look at the stores: what is wrong with them is said at load().

        Raises:
            ReputError: the option or the directory that is wrong.
        """
        super().__init__(options)
        try:
            self.parsed = parse(options)
        except UsageError as error:
            # Spark prints the frames, and what is wrong after them.
            raise error.with_traceback(None) from None

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns, after a look at the stores.

        Raises:
            ReputError: a store is not there, or is none.
        """
        if self.parsed.rows != RANGES:
            # Who takes ranges has looked at them, and starts without what that needs.
            open_stores(self.parsed)
            for store in self.parsed.stores:
                if self.parsed.pushes_down and store.output is not None:
                    record = output_record.read(store.output)
                    refuse_other_sizes(store.output, store.settings, record)
        return self._columns

    @property
    def _columns(self) -> StructType:
        if self.parsed.rows == RANGES:
            return RANGE_SCHEMA
        from reput.streaming.source.rows import SCHEMA  # noqa: PLC0415 - brings Arrow and the compiler

        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch DataFrame."""
        self._require_own(schema)
        if self.parsed.pushes_down and self.parsed.rows != RANGES:
            from reput.streaming.source.filtered import FilteringReader  # noqa: PLC0415 - as above

            return FilteringReader(self.parsed)
        return BatchReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads a stream of messages.

        Raises:
            PySparkNotImplementedError: it is ranges that are wanted, which takes Spark to
                `simpleStreamReader`.
        """
        self._require_own(schema)
        if self.parsed.rows == RANGES:
            return super().streamReader(schema)
        return StreamReader(self.parsed)

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        """Return what reads a stream of ranges."""
        self._require_own(schema)
        return RangeReader(self.parsed)

    def _require_own(self, schema: StructType) -> None:
        """Refuse columns of the user's own: rows are read by Spark as exactly these."""
        own = self._columns.fieldNames()
        if schema.fieldNames() != own:
            raise UsageError(
                f"schema: the columns are {', '.join(own)}; leave schema() out and select from them"
            )


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
        with naming_the_option(self._options):
            stores = open_stores(self._options)
            starts, ends = self.bounds(stores)
            return partitions_of(stores, self._options, starts, ends)

    def bounds(self, stores: dict[str, StoreOffsets]) -> tuple[dict[str, int], dict[str, int]]:
        """Return where to begin and to end in each store."""
        loss = self._options.fail_on_data_loss
        starts, ends = {}, {}
        for store in self._options.stores:
            offsets = stores[store.name]
            starts[store.name] = offsets.resolve(store.starting, fail_on_data_loss=loss)
            ends[store.name] = offsets.resolve(store.ending, fail_on_data_loss=loss)
            if ends[store.name] == offsets.end():
                log = offsets.log()
                flaw = offsets.error or (offsets.flaw(log) if log is not None else None)
                if flaw is not None:
                    raise flaw
        return starts, ends

    def read(
        self, partition: InputPartition
    ) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
        """Return the rows of a range."""
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads batches; one object plans all of them, each task reads by its own copy."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; nothing is opened yet."""
        expect_the_end()
        self._options = options
        self._offsets: dict[str, StoreOffsets] | None = None
        self._latest: dict[str, int] | None = None
        # What was planned last, and so compared.
        self._planned: dict[str, Mark] = {}
        # What was found to be of another log, and said to be.
        self._told: dict[str, Mark] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to tasks: they open what they need themselves."""
        return {
            "_options": self._options,
            "_offsets": None,
            "_latest": None,
            "_planned": {},
            "_told": {},
        }

    @property
    def _stores(self) -> dict[str, StoreOffsets]:
        if self._offsets is None:
            self._offsets = open_stores(self._options)
        return self._offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, so the next ones
        """Return where a query without a checkpoint begins.

        Raises:
            ReputError: at an offset that is not there.
        """
        loss = self._options.fail_on_data_loss
        return self._offset(
            {
                store.name: self._stores[store.name].resolve(
                    store.starting,
                    fail_on_data_loss=loss,
                    is_known=self._options.rows == RANGES,
                )
                for store in self._options.stores
            }
        )

    def _offset(self, places: Mapping[str, int]) -> dict[str, Any]:
        """Return an offset of these places, with what identifies the logs up to there."""
        if self._options.rows == RANGES:
            # A reader of ranges follows the log itself.
            return dict(places)
        self._planned = {name: self._stores[name].mark(at) for name, at in places.items()}
        return {name: mark.as_json() for name, mark in self._planned.items()}

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

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the batch that begins at `start`.

        Raises:
            ReputError: a corrupt record is next; the log was cut since it was read; other stores
                than those of the checkpoint.
        """
        with naming_the_option(self._options):
            return self._latest_offset(start, limit)

    def _latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        marks = marks_of(start)
        self._require_same_stores(marks)
        self._latest = {name: offsets.end() for name, offsets in self._stores.items()}
        self._require_same_logs(marks)
        places = {name: mark.position for name, mark in marks.items()}
        ends = {name: self._end_of(name, places[name]) for name in self._stores}
        if self._options.max_store_bytes is not None:
            ends = cap_store_bytes(self._stores, places, ends, self._options.max_store_bytes)
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if isinstance(limit, ReadMaxRows):
            # Spark's limits do not add up, so the smaller one is found here.
            max_bytes = self._options.max_bytes
        if max_bytes is not None:
            ends = cap_bytes(self._stores, places, ends, max_bytes)
        if isinstance(limit, ReadMaxRows):
            ends = cap_records(self._stores, places, ends, limit.max_rows)
        return self._offset(ends) | {
            # Spark has to see the very same offset if nothing is new.
            name: start[name]
            for name, end in ends.items()
            if end == places[name]
        }

    def _require_same_logs(self, marks: Mapping[str, Mark]) -> None:
        """Compare the logs with what is known of them.

        Raises:
            ReputError: one was cut since, and that must not be.
        """
        for name, mark in marks.items():
            if self._options.rows == RANGES or self._told.get(name) == mark:
                continue
            if self._stores[name].is_same(mark):
                continue
            message = (
                f"store {name}: the commitlog is not the one that was read up to the query's "
                f"offset {mark.position}: it has been cut before there and written again. Records "
                "that were delivered are no longer in it, and others have taken their place"
            )
            if self._options.fail_on_data_loss:
                raise ReputError(
                    f"{message}. Begin with a new checkpoint, or go on at the offset without those "
                    "with the option failOnDataLoss=false"
                )
            LOG.warning("%s; going on at the offset (failOnDataLoss=false)", message)
            # Until something is appended, Spark asks with the same offset again and again.
            self._told[name] = mark

    def _end_of(self, name: str, start: int) -> int:
        """Return where a store's log ends, behind `start` or there."""
        offsets, end = self._stores[name], (self._latest or {})[name]
        if start >= end and offsets.error is not None:
            raise offsets.error
        if start <= end or self._options.rows == RANGES:
            # A reader of ranges finds out itself that the log was cut, and where.
            return end
        if offsets.reaches(end, start):
            # Compared just now, and the same: its last record was whole while no broker ran, and
            # may seem to be half written while one does. It is decided by what comes after it.
            return start
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

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Return the ends of the logs as last seen, for the query's progress."""
        return self._latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch.

        Raises:
            ReputError: records have expired before they were read; a batch that is repeated is
                no longer in the log.
        """
        starts, ends = marks_of(start), marks_of(end)
        self._require_same_stores(starts)
        # A batch that an earlier process planned has not been compared yet.
        self._require_same_logs(
            {name: mark for name, mark in ends.items() if self._planned.get(name) != mark}
        )
        with naming_the_option(self._options):
            return partitions_of(
                self._stores,
                self._options,
                {name: mark.position for name, mark in starts.items()},
                {name: mark.position for name, mark in ends.items()},
            )

    def _require_same_stores(self, start: Mapping[str, Mark]) -> None:
        if set(start) != set(self._stores):
            then, now = ", ".join(sorted(start)), ", ".join(sorted(self._stores))
            raise UsageError(
                f"path: the query's checkpoint is of the stores {then}; the options name {now}. "
                "Use the same stores, or begin with a new checkpoint"
            )

    def read(
        self, partition: InputPartition
    ) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
        """Return the rows of a range."""
        return _read(self._options, partition)


class RangeReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches and hands their ranges over with the plan.

    They go to Spark from the process that plans, so no other Python has to start for them: that
    is two seconds at the start of a job, and a tenth of one in each of its batches.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options; nothing is opened yet."""
        self._planner = StreamReader(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, so the next ones
        """Return where a query without a checkpoint begins.

        Raises:
            ReputError: at an offset that is not there.
        """
        return self._planner.initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Have all logs end where they end now."""
        self._planner.prepareForTriggerAvailableNow()

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        """Return the ranges of the batch that begins at `start`, and its end.

        Raises:
            ReputError: see `StreamReader.latestOffset`.
        """
        end = self._planner.latestOffset(start, self._planner.getDefaultReadLimit())
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[Any, ...]]:
        """Return the ranges of a batch that is known.

        Raises:
            ReputError: other stores than those of the checkpoint.
        """
        ranges = self._planner.partitions(start, end)
        return iter([(r.store, r.start, r.end) for r in ranges if isinstance(r, LogRange)])


def naming_the_option(options: SourceOptions) -> contextlib.AbstractContextManager[None]:
    """Have errors at a place of a log name the option of a DataFrame, but for a job's ranges."""
    if options.rows == RANGES:
        return contextlib.nullcontext()
    from reput.streaming.dispatch import damage  # noqa: PLC0415 - brings what reads logs

    return damage.naming_the_option()


def rows_naming_the_option(
    options: SourceOptions, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield rows; errors while they are read name the option of a DataFrame."""
    with naming_the_option(options):
        yield from rows


def open_stores(options: SourceOptions) -> dict[str, StoreOffsets]:
    """Return the offsets of each store that the options name.

    Raises:
        StoreError: one is not there, or is none.
    """
    from reput.streaming.source.offsets import StoreOffsets  # noqa: PLC0415 - brings the compiler

    return {
        store.name: StoreOffsets(
            store,
            skips_corrupt=options.skips_corrupt,
            only_flushed=options.only_flushed,
            ascending_time=options.ascending_store_time,
        )
        for store in options.stores
    }


def _read(
    options: SourceOptions, partition: InputPartition
) -> Iterator[tuple[Any, ...]] | Iterator[pa.RecordBatch]:
    if not isinstance(partition, LogRange):
        # What Spark hands in where there is nothing to read.
        return iter(())
    if options.rows == RANGES:
        return iter([(partition.store, partition.start, partition.end)])
    from reput.streaming.source.rows import read_batches  # noqa: PLC0415 - as above

    store = next(store for store in options.stores if store.name == partition.store)
    rows = read_batches(
        store,
        partition.start,
        partition.end,
        fail_on_data_loss=options.fail_on_data_loss,
        skips_corrupt=options.skips_corrupt,
        is_record=partition.is_record,
    )
    return rows_naming_the_option(options, rows)
