"""Copies of messages, made by Spark: Parquet or JSON lines, by the filters that queries have.

Topic, queue and time go down to the source, which reads no more of the log than they need
(`streaming.source.pushdown.choosing`); tags and SQL92 are evaluated in Spark's workers, message by
message.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as f
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from reput.stores.config.message_filter import TagFilter, compile_filter
from reput.streaming.dispatch.log import damage
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.export import target as export_target
from reput.streaming.show.console import ERR
from reput.streaming.source.decompressing import DECOMPRESSED_SCHEMA, with_plain_bodies
from reput.streaming.source.rows import SCHEMA
from reput.streaming.spark.errors import naming_its_end, source_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from reput.stores.config.message_filter import MessageFilter

_GROUP = "reput export"
_LOOK_SECONDS = 0.2
# Bounds that hold whatever senders put into messages: bytes that go to Python at a time, and MiB of
# heap a task for bodies that expand to 64 MiB each (measured with Parquet: two tasks need less than
# 2 GiB).
MOST_AT_A_TIME = {"spark.sql.execution.arrow.maxBytesPerBatch": "16m"}
HEAP_A_TASK = 1024
# By default Parquet checks its size only every hundred rows; rows of 64 MiB would fill any heap.
_PARQUET = {"parquet.block.size.row.check.min": "1", "parquet.page.size.row.check.min": "1"}


@dataclass(frozen=True)
class FilterText:
    """A filter as it goes to workers: they compile it themselves."""

    expression: str
    kind: str
    mode: str
    string_operators: bool

    def compile(self) -> MessageFilter:
        """Return the filter.

        Raises:
            FilterError: the expression is refused.
        """
        return compile_filter(
            self.expression, self.kind, self.mode, string_operators=self.string_operators
        )


@dataclass(frozen=True)
class Selection:
    """Which messages are copied, and how; None means no condition.

    Attributes:
        topic: its name.
        queue_id: of a queue.
        begin: ms; stored then or later.
        end: ms; stored then or earlier.
        filter_text: tags, or SQL92.
        decompresses: bodies are as their senders had them, not as they are stored, and a column
            says why one is not.
    """

    topic: str | None = None
    queue_id: int | None = None
    begin: int | None = None
    end: int | None = None
    filter_text: FilterText | None = None
    decompresses: bool = True

    def of(self, messages: DataFrame) -> DataFrame:
        """Return the selected rows of the source's.

        Raises:
            FilterError: the expression is refused.
        """
        conditions: list[Column] = []
        if self.topic is not None:
            conditions.append(f.col("topic") == self.topic)
        if self.queue_id is not None:
            conditions.append(f.col("queueId") == self.queue_id)
        if self.begin is not None:
            conditions.append(f.col("storeTimestamp") >= f.timestamp_millis(f.lit(self.begin)))
        if self.end is not None:
            conditions.append(f.col("storeTimestamp") <= f.timestamp_millis(f.lit(self.end)))
        keep = self.filter_text.compile() if self.filter_text is not None else None
        if isinstance(keep, TagFilter) and keep.codes is not None:
            conditions.append(f.col("tags").isin(sorted(keep.tags)) if keep.tags else f.lit(False))
        for condition in conditions:
            messages = messages.where(condition)
        if keep is not None and keep.kind == "SQL92":
            messages = messages.mapInArrow(_passing(self.filter_text), SCHEMA)
        if self.decompresses:
            messages = messages.mapInArrow(with_plain_bodies, DECOMPRESSED_SCHEMA)
        return messages


def _passing(
    filter_text: FilterText | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert filter_text is not None
        keep = filter_text.compile()
        for batch in batches:
            properties = batch.column("properties").to_pylist()
            mask = [keep.matches(dict(pairs or ())) for pairs in properties]
            yield batch.filter(pa.array(mask, pa.bool_()))

    return passing


def write(messages: DataFrame, target: Path, file_format: str, *, by_day: bool) -> int:
    """Write the rows to a directory, with a bar on a terminal; return how many there were.

    Args:
        messages: rows of the source.
        target: a directory that is held; what is in it goes.
        file_format: `parquet` or `json`.
        by_day: into a directory for each day (UTC) of store time, `day=2026-11-21`.

    Raises:
        ReputError: the log cannot be read, or the files cannot be written.
    """
    observation = Observation("exported")
    messages = messages.observe(observation, f.count(f.lit(1)).alias("messages"))
    if by_day:
        messages = messages.withColumn("day", f.to_date("storeTimestamp"))
    if file_format == "json":
        # JSON has no bytes: base64, and the text beside it where it is one.
        text = f.col("body").cast("string")
        messages = messages.withColumn("bodyText", f.when(f.is_valid_utf8(text), text))
    writer = messages.write.format(file_format).mode("append")
    if file_format == "parquet":
        writer = writer.options(**_PARQUET)
    if by_day:
        writer = writer.partitionBy("day")
    spark = messages.sparkSession
    try:
        export_target.clear(target)
        with naming_its_end("Export again"), _progress(spark):
            spark.sparkContext.setJobGroup(_GROUP, f"export to {target}")
            writer.save(str(target))
            return int(observation.get["messages"])
    except (PySparkException, Py4JJavaError) as error:
        raise damage.of_export(source_error(str(error), "the export failed")) from None


@contextlib.contextmanager
def _progress(spark: SparkSession) -> Iterator[None]:
    """Show how many of the tasks are done, on a terminal."""
    if not ERR.is_terminal or not VERBOSITY.shows_bars:
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()
    columns = (TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR) as bars:
        bar = bars.add_task("tasks", total=None)

        def look() -> None:
            while not ended.wait(_LOOK_SECONDS):
                jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_GROUP)]
                stages = [
                    stage
                    for job in jobs
                    if job is not None
                    for id_ in job.stageIds
                    if (stage := tracker.getStageInfo(id_)) is not None
                ]
                if stages:
                    total = sum(stage.numTasks for stage in stages)
                    done = sum(stage.numCompletedTasks for stage in stages)
                    bars.update(bar, total=total, completed=done)

        watcher = threading.Thread(target=look, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
