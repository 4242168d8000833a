"""The streaming job: the source's ranges, batch by batch, through the stores' writers.

Spark plans ranges; what is dispatched, and where to resume, is each output's own progress. A batch
that comes twice thus changes nothing, and Spark's own record of the query is made new each time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from reput.formats.errors import FormatError, KafkaError
from reput.streaming.job.accounts import Accounts
from reput.streaming.job.last_resort import LastResort
from reput.streaming.job.outcome import Outcome
from reput.streaming.job.plan import Plan
from reput.streaming.job.preparation import Preparation
from reput.streaming.job.query import error_of, fresh_checkpoint, start_query
from reput.streaming.job.reach import recorded_ends
from reput.streaming.job.turns import Turns
from reput.streaming.settings.model.choices import Placement
from reput.streaming.writers.executors.orders import ExecutorWriters
from reput.streaming.writers.live import LiveWriters
from reput.streaming.writers.local import LocalWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.job.summary import Summary
    from reput.streaming.observe.observer import Observer
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.base import Result, Writers
    from reput.streaming.writers.job_options import JobOptions

_POLL_SECONDS = 0.2


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
        self.on_block: Callable[[str, Block], None] | None = None
        self._stopping = threading.Event()
        self._outcome = Outcome(self._stopping.is_set)
        self._turns = Turns()
        # What a store has failed with that is not tried again.
        self._lasting: BaseException | None = None
        # Spark plans once a batch, which begins at a trigger and then follows the logs.
        self._plan = Plan(max(options.trigger_seconds, options.follow_seconds))
        # Whether only Kafka is waited for.
        self._waits_for_kafka = False
        self._writers = self._make_writers()
        self._accounts = Accounts(self._writers, self.configs, is_live=not options.available_now)
        self._accounts.note_ends()
        self._last_resort = LastResort(self._writers.close_here)
        self._preparation = Preparation(
            self._writers.dispatchers,
            skips_corrupt=options.skips_corrupt,
            is_live=not options.available_now,
        )

    def _make_writers(self) -> Writers:
        if self.options.placement == Placement.EXECUTORS:
            return ExecutorWriters(self.configs, self.options, is_over=self._stopping.is_set)
        if not self.options.available_now:
            most = self.options.max_batch_bytes
            return LiveWriters(self.configs, self.options, observe=self._observe, most_bytes=most)
        return LocalWriters(
            self.configs, self.options, observe=self._observe, is_over=self._stopping.is_set
        )

    @property
    def error(self) -> BaseException | None:
        """Return what the job ends with, None as long as all is well."""
        return self._outcome.error

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
        return all(store.end >= self._plan.end(store.name) for store in self.summary.stores)

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
        """Ask it to end: each writer does so after its block or turn; returns at once."""
        self._stopping.set()
        self._turns.ending.set()
        if not self.options.available_now:
            self._last_resort.begin()

    def run(self, spark: SparkSession) -> Summary:
        """Dispatch until there is no more, or until `stop`.

        Args:
            spark: a session that has the source registered.

        Raises:
            ReputError: what stopped it; what was dispatched before stays.
        """
        self._accounts.metrics.watch_jvm(spark.sparkContext._jvm)  # noqa: SLF001
        with self._outcome.explaining(self.configs, skips_corrupt=self.options.skips_corrupt):
            try:
                self._dispatch_all(spark)
            finally:
                self._last_resort.end()
                self._close()
        return self._accounts.finish()

    def _dispatch_all(self, spark: SparkSession) -> None:
        self._open(spark)
        self._accounts.note_ends()
        with self._outcome.ending_without_spark():
            self._run_query(spark)
        if self.options.available_now:
            self._drain_kafka()
            self._outcome.look_at_settings(self.configs)
        else:
            self._end_at_flaws()

    def _open(self, spark: SparkSession) -> None:
        """Open the outputs that are not open yet; of a live job, one at least."""
        results = self._writers.open(spark)
        if self.options.available_now:
            self._outcome.end_with(self._accounts.take(results))
        else:
            self._take(results)

    def abandon(self) -> Summary:
        """Close all outputs without a batch; return what is in them.

        Raises:
            ReputError, OSError: an output cannot be closed, or its disk hangs.
        """
        self._last_resort.end()
        self._close()
        # While its writer has not opened an output, the output's record tells where it stands.
        for store, end in zip(self.summary.stores, recorded_ends(self.configs), strict=True):
            store.end = end
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

    def _start(self, spark: SparkSession, checkpoint: Path) -> StreamingQuery:
        configs, options, ends = self.configs, self.options, self._preparation.ends
        starts = {config.name: self._writers.end(config.name) for config in configs}
        self._plan.begin(starts)
        return start_query(spark, configs, options, starts, ends, self._dispatch_batch, checkpoint)

    def _dispatch_batch(self, ranges: DataFrame, batch_id: int) -> None:
        """Play ReputMessageService: what `foreachBatch` calls, on Spark's thread.

        A live job's stores are followed whatever Spark plans. A call gives Spark its turn: it lasts
        a while, so that Spark plans and commits every few seconds.
        """
        with self._turns.batch() as is_ours:
            if not is_ours:
                # Not dispatched, but Spark will think so: the next start begins at our progress.
                return
            with self._outcome.keeping():
                planned = ranges.collect()
                self._preparation.wait_for_kernels()
                # The first rows bring up Spark's Python workers: start-up, not dispatch.
                self._accounts.began = self._accounts.began or time.monotonic()
                with self._turns.talk:
                    self._dispatch({store: end for store, _, end in planned}, batch_id)
                if not self.options.available_now:
                    self._turns.ending.wait(self.options.follow_seconds)
                    with self._turns.talk:
                        self._accounts.log_batch(batch_id)

    def _dispatch(self, ends: Mapping[str, int], batch_id: int) -> None:
        began = time.monotonic()
        self._plan.take(ends)
        try:
            self._take(self._writers.dispatch(ends))
        finally:
            if self.options.available_now:
                self.summary.busy_seconds += time.monotonic() - began
                self._accounts.log_batch(batch_id)

    def _observe(self, store: str, block: Block) -> None:
        """Say that the batch makes progress."""
        self._accounts.metrics.alive()
        if self.on_block is not None:
            self.on_block(store, block)

    def _run_query(self, spark: SparkSession) -> None:
        """Start the query, and tend the stores until it ends or the job is asked to.

        Raises:
            ReputError, OSError: the error that ends the job: no store can be dispatched any longer.
        """
        checkpoint = fresh_checkpoint(self.configs, self.options)
        query = self._start(spark, checkpoint)
        try:
            self._preparation.wait_for_kernels()
            self._writers.begin()
            while query.isActive and not self._stopping.is_set():
                if self._turns.talk.acquire(blocking=False):
                    try:
                        self._tend()
                    finally:
                        self._turns.talk.release()
                elif not self._writers.reports_blocks:
                    self._accounts.metrics.alive()
                self._accounts.metrics.sample_jvm()
                # What it ended with is asked for below.
                with contextlib.suppress(StreamingQueryException):
                    query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type] # in fact any number
        finally:
            # Between batches only: a query that is stopped while Python runs for it may die with
            # an error of Spark's own.
            with self._turns.after_last_batch():
                error = error_of(query, checkpoint)
                query.stop()
            self._last_resort.end()
        if error is not None and self.error is None:
            # What the log is like counts in any case; Spark's own end does not, once it is asked.
            if isinstance(error, FormatError) or not self._stopping.is_set():
                self._outcome.take(error)

    def _tend(self) -> None:
        """Hear of the stores and show it; a rebuild's outputs are flushed when that is due."""
        with self._outcome.keeping():
            self._take(self._writers.tend())
            self._accounts.metrics.unplanned(self._plan.silence(self._accounts.ends()))
            self._accounts.metrics.alive()

    def _take(self, results: Iterable[Result]) -> None:
        """Count what the writers have done, and take note of stores that have failed.

        Raises:
            ReputError, OSError: the first store's error, where no store is left to dispatch.
        """
        failure = self._accounts.take(results)
        if self.options.available_now:
            self._lasting = self._lasting or failure
        failures = [self._accounts.look_at_failure(config.name) for config in self.configs]
        if None not in failures:
            first = self._writers.failure(self._accounts.failed_stores()[0])
            self._outcome.end_with(self._lasting or first)

    def _drain_kafka(self) -> None:
        """Wait until Kafka has what was dispatched, unless the job has failed."""
        if self.error is None:
            self._waits_for_kafka = self._lasting is None
            self._outcome.take(self._lasting)
            self._outcome.take(self._accounts.take(self._writers.drain_kafka()))

    def _end_at_flaws(self) -> None:
        """End with what stores have failed with, or wait at past their logs' ends."""
        first = self._accounts.failed_stores()
        found = self._accounts.take(self._writers.look_for_flaws())
        for store in (*first, *(config.name for config in self.configs)):
            self._outcome.take(self._writers.failure(store), store)
        self._outcome.take(found)
        for config in self.configs:
            state = self._accounts.look(config.name)
            if state is None:
                continue
            if state.kafka is not None and state.kafka.stopped:
                # Said when it happened; the end of the job is not to hide it.
                held = KafkaError(f"{config.name}: {state.kafka.stopped}")
                self._outcome.take(held, config.name)
            if state.flaw is not None:
                self._outcome.take(state.flaw, config.name)

    def _close(self) -> None:
        """Close all outputs, also after one that cannot be closed.

        Raises:
            ReputError, OSError: a writer's error; of one on an executor, only if nothing failed
                before.
        """
        has_failed = self.error is not None
        try:
            failure = self._accounts.take(
                self._writers.close(has_failed=has_failed, is_ending=self._stopping.is_set)
            )
        finally:
            self._accounts.log_rest()
        self.summary.writer_cpu_seconds = self._writers.cpu_seconds
        if not has_failed:
            self._outcome.end_with(failure)
