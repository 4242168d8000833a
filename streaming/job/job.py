"""The streaming job: the source's ranges, batch by batch, through the stores' writers.

Spark plans ranges; what is dispatched, and where to resume, is each output's own progress. A batch
that comes twice thus changes nothing, and Spark's own record of the query is made new each time.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from reput.checkpoints import progress
from reput.formats.errors import BodyError, FileSizeError, FormatError, KafkaError, mark
from reput.streaming.dispatch.log import damage
from reput.streaming.job.accounts import Accounts
from reput.streaming.job.preparation import Preparation
from reput.streaming.job.query import start_query
from reput.streaming.settings.model.choices import Placement
from reput.streaming.spark.errors import SPARK_ERRORS, source_error
from reput.streaming.writers.base import UnreachableError
from reput.streaming.writers.executors import ExecutorWriters
from reput.streaming.writers.local import LocalWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.job.summary import Summary
    from reput.streaming.observe.observer import Observer
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.base import Writers
    from reput.streaming.writers.job_options import JobOptions

LOG = logging.getLogger("reput")

_POLL_SECONDS = 0.2
# What comes of Spark's end, and not of a store or an output.
_OF_SPARK = (*SPARK_ERRORS, UnreachableError)


class Job:
    """One streaming query over any number of stores; open it, run it, close it."""

    def __init__(self, configs: Sequence[StoreConfig], options: JobOptions) -> None:
        """Open the outputs that this process writes, before anything slow.

        Raises:
            ReputError: a store or an output that cannot be used.
            OSError: no permission, no space.
        """
        self.options = options
        self.configs = list(configs)
        self.error: BaseException | None = None
        self.on_block: Callable[[str, Block], None] | None = None
        self._stopping = threading.Event()
        self._batch_lock = threading.Lock()
        # Physical offsets up to which Spark has planned; whether only Kafka is waited for.
        self._planned: dict[str, int] = {}
        self._waits_for_kafka = False
        self._writers = self._make_writers()
        self._accounts = Accounts(self._writers, self.configs, is_live=not options.available_now)
        self._accounts.note_ends()
        self._preparation = Preparation(
            self._writers.dispatchers, skips_corrupt=options.skips_corrupt
        )

    def _make_writers(self) -> Writers:
        if self.options.placement == Placement.EXECUTORS:
            return ExecutorWriters(self.configs, self.options)
        return LocalWriters(
            self.configs, self.options, observe=self._observe, is_over=self._stopping.is_set
        )

    @property
    def dispatchers(self) -> Mapping[str, StoreDispatcher]:
        """Return the outputs that are open in this process, by store."""
        return self._writers.dispatchers

    @property
    def summary(self) -> Summary:
        """Return what was done so far."""
        return self._accounts.summary

    @property
    def began(self) -> float | None:
        """Return when the first batch began, by `time.monotonic`; None before."""
        return self._accounts.began

    @property
    def known_ends(self) -> dict[str, int]:
        """Return the physical offsets where logs ended when `prepare` looked, as far as it did."""
        return {name: known.end for name, known in self._preparation.ends.items()}

    @property
    def has_dispatched_all(self) -> bool:
        """Tell whether consume queues and index have all that was planned."""
        return all(store.end >= self._planned.get(store.name, 0) for store in self.summary.stores)

    def report_to(self, metrics: Observer) -> None:
        """Count what is done from now on."""
        self._accounts.metrics = metrics
        for config in self.configs:
            self._accounts.look(config.name)

    def prepare(self) -> None:
        """Begin with what the first batch needs, while Spark starts: ends of logs, kernels."""
        self._preparation.begin()

    def end_of_log(self, store: str) -> int:
        """Return where a store's log ends, or has ended when `prepare` looked.

        Raises:
            FormatError: a corrupt record, with good ones after it.
        """
        return self._preparation.end_of_log(store)

    def stop(self) -> None:
        """Ask it to end after its block, on executors after its batch; returns at once."""
        self._stopping.set()

    def run(self, spark: SparkSession) -> Summary:
        """Dispatch until there is no more, or until `stop`.

        Args:
            spark: a session that has the source registered.

        Raises:
            ReputError: what stopped it; what was dispatched before stays.
        """
        self._accounts.metrics.watch_jvm(spark.sparkContext._jvm)  # noqa: SLF001
        try:
            self._raise(self._accounts.take(self._writers.open(spark)))
            self._accounts.note_ends()
            with self._ending_without_spark():
                query = self._start(spark)
                try:
                    self._wait(query)
                finally:
                    query.stop()
            if self.options.available_now:
                self._drain_kafka()
            else:
                self._end_at_flaws()
        finally:
            self._close()
        if self.error is not None:
            said = self._explained(self.error)
            if said is not self.error:
                raise said from self.error
            raise said
        return self._accounts.finish()

    def abandon(self) -> Summary:
        """Close all outputs without a batch; return what is in them.

        Raises:
            ReputError, OSError: an output cannot be closed.
        """
        # What still reads the logs has to end before they are closed.
        _ = self._preparation.ends
        self._close()
        for config, store in zip(self.configs, self.summary.stores, strict=True):
            # While its writer has not opened an output, the output's record tells where it stands.
            known = progress.load(config.output)
            store.end = max(known.end, 0) if known is not None else 0
        return self._accounts.finish()

    def done_before(self, error: BaseException) -> Summary | None:
        """Return what was done if a job has ended for Kafka and all else of it was over, else None.

        Args:
            error: what `run` has raised.
        """
        # A message that Kafka refuses is one at a place of the log.
        if not (self._waits_for_kafka and isinstance(error, KafkaError | FormatError)):
            return None
        return self._accounts.finish()

    def _start(self, spark: SparkSession) -> StreamingQuery:
        starts = {config.name: self._writers.end(config.name) for config in self.configs}
        return start_query(
            spark, self.configs, self.options, starts, self._preparation.ends, self._dispatch_batch
        )

    def _dispatch_batch(self, ranges: DataFrame, batch_id: int) -> None:
        """Play ReputMessageService: what `foreachBatch` calls, on Spark's thread."""
        with self._batch_turn() as is_ours:
            if not is_ours:
                # Not dispatched, but Spark will think so: the next start begins at our progress.
                return
            with self._keeping_error():
                planned = ranges.collect()
                self._preparation.wait_for_kernels()
                # The first rows bring up Spark's Python workers: start-up, not dispatch.
                began = time.monotonic()
                self._accounts.began = self._accounts.began or began
                try:
                    self._dispatch(planned, batch_id)
                finally:
                    self.summary.busy_seconds += time.monotonic() - began

    def _dispatch(self, planned: Sequence[Any], batch_id: int) -> None:
        ends = {store: end for store, _, end in planned}
        self._planned.update(ends)
        self._raise(self._accounts.take(self._writers.dispatch(ends), batch_id))

    @contextlib.contextmanager
    def _batch_turn(self) -> Iterator[bool]:
        """Hold the lock of a batch; yield False, with or without it, if the job is to end.

        The thread that ends the query holds the lock, and Spark waits for this very call then: if
        this call waited for the lock, neither would end.
        """
        while not self._batch_lock.acquire(timeout=_POLL_SECONDS):
            if self._stopping.is_set():
                yield False
                return
        try:
            yield not self._stopping.is_set()
        finally:
            self._batch_lock.release()

    def _observe(self, store: str, block: Block) -> None:
        """Say that the batch makes progress."""
        self._accounts.metrics.alive()
        if self.on_block is not None:
            self.on_block(store, block)

    def _wait(self, query: StreamingQuery) -> None:
        while query.isActive:
            if self._batch_lock.acquire(blocking=False):
                try:
                    self._tend()
                finally:
                    self._batch_lock.release()
            elif not self._writers.reports_blocks:
                self._accounts.metrics.alive()
            self._accounts.metrics.sample_jvm()
            # What it ended with is asked for below.
            with contextlib.suppress(StreamingQueryException):
                query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type] # in fact any number
            if self._stopping.is_set():
                # Between batches only: a query that is stopped while Python runs for it may die
                # with an error of Spark's own.
                with self._batch_lock:
                    query.stop()
                return
        failure = query.exception()
        if failure is not None and self.error is None:
            error = source_error(str(failure))
            # What the log is like counts in any case; Spark's own end does not, once it is asked.
            if isinstance(error, FormatError) or not self._stopping.is_set():
                self.error = error

    def _tend(self) -> None:
        """Do what is due while no batch comes: flush, and dispatch what was held back."""
        with self._keeping_error():
            self._raise(self._accounts.take(self._writers.tend()))
            self._accounts.metrics.alive()

    def _drain_kafka(self) -> None:
        """Wait until Kafka has what was dispatched, unless the job has failed."""
        self._waits_for_kafka = self.error is None
        if self._waits_for_kafka:
            self.error = self._accounts.take(self._writers.drain_kafka())

    def _end_at_flaws(self) -> None:
        """End with what is wrong past a log's end: a job that runs waits there.

        What is wrong before the end is found when a batch is planned.
        """
        self._raise(self._accounts.take(self._writers.look_for_flaws()))
        for config in self.configs:
            state = self._accounts.look(config.name)
            if state is None:
                continue
            if state.kafka is not None and state.kafka.stopped:
                # Said when it happened; the end of the job is not to hide it.
                self._ends_with(config.name, KafkaError(f"{config.name}: {state.kafka.stopped}"))
            if state.flaw is not None:
                self._ends_with(config.name, state.flaw)

    def _ends_with(self, store: str, error: BaseException) -> None:
        """Take a store's error as the job's, unless there is an earlier one."""
        mark(error, store)
        self.error = self.error or error

    def _close(self) -> None:
        """Close all outputs, also after one that cannot be closed.

        Raises:
            ReputError, OSError: a writer's error; of one on an executor, only if nothing failed
                before.
        """
        has_failed = self.error is not None
        failure = self._accounts.take(
            self._writers.close(has_failed=has_failed, is_ending=self._stopping.is_set)
        )
        self.summary.writer_cpu_seconds = self._writers.cpu_seconds
        if not has_failed:
            self._raise(failure)

    @contextlib.contextmanager
    def _keeping_error(self) -> Iterator[None]:
        """Keep an error as what the job ends with, unless it comes of Spark's end."""
        try:
            yield
        except BaseException as error:
            if not (isinstance(error, _OF_SPARK) and self._stopping.is_set()):
                self.error = error
            raise

    @contextlib.contextmanager
    def _ending_without_spark(self) -> Iterator[None]:
        """Accept that Spark ends before us, if the job was asked to end.

        A signal for all processes of a group, or of a service, reaches Spark's as well.
        """
        try:
            yield
        except _OF_SPARK as error:
            if not self._stopping.is_set():
                raise
            LOG.info("Spark has ended already: %s", type(error).__name__)

    def _raise(self, failure: BaseException | None) -> None:
        """Raise a store's error, which is what the job ends with if it is the first."""
        if failure is not None:
            self.error = self.error or failure
            raise failure

    def _explained(self, error: BaseException) -> BaseException:
        """Return an error at a place of a log with what it means, and what can be done."""
        is_of_log = not isinstance(error, BodyError | FileSizeError)
        if isinstance(error, FormatError) and is_of_log and not self.options.skips_corrupt:
            for config in self.configs:
                if (said := damage.explained(error, config)) is not None:
                    return said
        return error
