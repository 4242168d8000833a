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
                                 one of these for each store; a stream with a checkpoint resumes
startingTimestamp                ms, or ISO 8601 with its zone; the first record stored then or
                                 later: the log is looked at up to there, unless
                                 ascendingStoreTime is true
endingOffsets         latest     batch only; the same without earliest; exclusive
endingTimestamp                  batch only; exclusive: up to the first record stored then or later
maxBytesPerTrigger               stream only; about this much log per batch (64m, 1g), at least one
                                 record, all stores together
maxBytesPerStore                 stream only; at most this much of each store
maxRecordsPerTrigger             stream only; at most this many records per batch
minPartitions                    at least this many tasks
failOnDataLoss        true       false: continue after records that expired before they were read,
                                 and after a cut
tail                  visible    flushed: not beyond what the broker has on disk by its checkpoint
onCorrupt             stop       skip: continue after what is corrupt or missing; rows are then what
                                 is there, and each place that was passed over is logged
brokerVersion         newest     the broker's, such as 5.3.3
brokerConf                       path of its broker.conf
commitlog                        directories of the log with commas between, whatever the store and
                                 its broker.conf say
output                           where queues and index are, if not in the store: filters are read
                                 by them where that is less (`streaming.source.pushdown.choosing`)
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

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from reput.checkpoints import output_record
from reput.formats.errors import UsageError
from reput.streaming.source.opening import naming_the_option, open_stores, read_range
from reput.streaming.source.options import RANGES, SourceOptions, parse
from reput.streaming.source.planning import (
    partitions_of,
)
from reput.streaming.source.ranges.reader import RangeReader
from reput.streaming.source.read_settings import refuse_other_sizes
from reput.streaming.source.stream import StreamReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from reput.streaming.source.offsets import StoreOffsets

NAME = "rocketmq"
RANGE_SCHEMA = StructType(
    [
        StructField("store", StringType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
    ]
)


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a session, and let its queries push filters down."""
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
            ReputError: a store is missing, or is not one.
        """
        if self.parsed.rows != RANGES:
            # A job has looked at them already, and starts without what that needs.
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
            from reput.streaming.source.pushdown.filtered import FilteringReader  # noqa: PLC0415 - as above

            return FilteringReader(self.parsed)
        return BatchReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads a stream of messages.

        Raises:
            PySparkNotImplementedError: the rows are ranges; Spark then asks
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
        return read_range(self._options, partition)
