"""The streaming query that Spark runs for a job: its source, its options and its checkpoint."""

from __future__ import annotations

import atexit
import json
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from reput.checkpoints.disk import changes
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import ReputError
from reput.streaming.settings.space import space_of
from reput.streaming.source.options import FLUSHED, RANGES, SKIP, STOP, VISIBLE
from reput.streaming.spark.errors import source_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from reput.stores.log.tail import KnownEnd
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.job_options import JobOptions

_FULL = "No space left on device"
# What Spark writes of a batch is far smaller.
_LEAST_ROOM = 1 << 20


def start_query(
    spark: SparkSession,
    configs: Sequence[StoreConfig],
    options: JobOptions,
    starts: Mapping[str, int],
    known: Mapping[str, KnownEnd],
    dispatch: Callable[[DataFrame, int], None],
    checkpoint: Path,
) -> StreamingQuery:
    """Start the query that hands in each store's ranges.

    Args:
        spark: a session that has the source registered.
        configs: the stores.
        options: of the job.
        starts: physical offsets to begin at, -1 for a log's beginning.
        known: where logs end, as far as that is known: the planner need not look for it then.
        dispatch: gets each batch of ranges, and its number.
        checkpoint: an empty directory for Spark's own record of the query.
    """
    cores = spark.sparkContext.defaultParallelism
    source = _source_options(configs, options, starts, known)
    frame = (
        spark.readStream.format("rocketmq")
        .options(**source)
        .option("maxBytesPerTrigger", str(options.batch_bytes(cores)))
    )
    writer = frame.load().writeStream.queryName("reput").foreachBatch(dispatch)
    writer = writer.option("checkpointLocation", str(checkpoint.resolve()))
    if options.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.trigger_seconds} seconds").start()


def error_of(query: StreamingQuery, checkpoint: Path) -> ReputError | None:
    """Return what a query that has ended has failed with, None if with nothing.

    Args:
        query: one that has ended.
        checkpoint: the directory of Spark's own record of it.
    """
    failure = query.exception()
    if failure is None:
        return None
    error = source_error(str(failure))
    room = space_of(checkpoint)
    if room is not None and room.free < _LEAST_ROOM and _FULL in str(error):
        # Java names neither the file nor what it is for.
        return ReputError(
            f"{checkpoint}: {_FULL}, for Spark's record of the job. Make room there, or name "
            "another directory by --spark-checkpoint; the outputs resume where they were"
        )
    return error


def _source_options(
    configs: Sequence[StoreConfig],
    options: JobOptions,
    starts: Mapping[str, int],
    known: Mapping[str, KnownEnd],
) -> dict[str, str]:
    """Return the options of the source, but for the cap of a batch."""
    offsets = {name: end if end >= 0 else "earliest" for name, end in starts.items()}
    ends = {
        name: (each.end, each.last.physical_offset, each.last.size, each.last.hash)
        for name, each in known.items()
    }
    found = {
        "stores": json.dumps(_stores(configs)),
        "rows": RANGES,
        "startingOffsets": json.dumps(offsets),
        "failOnDataLoss": str(options.fail_on_data_loss).lower(),
        "onCorrupt": SKIP if options.skips_corrupt else STOP,
        "tail": FLUSHED if options.only_flushed else VISIBLE,
        "knownEnds": json.dumps(ends),
    }
    if options.store_bytes is not None:
        found["maxBytesPerStore"] = str(options.store_bytes)
    return found


def fresh_checkpoint(configs: Sequence[StoreConfig], options: JobOptions) -> Path:
    """Return an empty directory for Spark's own record of the query.

    An old one is of no use, as the outputs know where they are, and would do harm: if it is ahead
    of an output, Spark sees nothing to do.
    """
    if options.checkpoint is None and len(configs) > 1:
        # In none of the outputs: where its disk is full or hangs, the others would stop too.
        apart = Path(tempfile.mkdtemp(prefix="reput-spark-"))
        atexit.register(changes.remove_tree, apart)
        return apart
    parent = options.checkpoint or configs[0].output / STATE_DIRECTORY
    parts = [config.name for config in configs]
    if options.checkpoint is not None:
        # Another job may use the same directory, for stores of the same names.
        parts += [str(config.output.resolve()) for config in configs]
    stores = "\0".join(parts)
    directory = parent / f"spark-{zlib.crc32(stores.encode()):08x}"
    changes.remove_tree(directory)
    return directory


def _stores(configs: Sequence[StoreConfig]) -> dict[str, dict[str, object]]:
    return {
        config.name: {
            # Not what links lead to: a disk may hang.
            "path": str(config.path.absolute()),
            "brokerVersion": config.settings.version.family,
            "broker": dict(config.properties),
            "commitlog": list(config.settings.commitlog_told),
        }
        for config in configs
    }
