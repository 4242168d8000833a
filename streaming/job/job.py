"""The streaming job: the source's ranges, batch by batch, through one dispatcher a store.

Spark plans ranges; what is dispatched and where to go on is each output's own progress. A batch
that comes twice thus changes nothing, and Spark's own record of the query is begun again each time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
import time
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException

from reput.checkpoints import progress
from reput.checkpoints.disk import locks
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import (
    BodyError,
    FileSizeError,
    FormatError,
    KafkaError,
    ReputError,
)
from reput.formats.rocketmq import names
from reput.stores.log.tail import find_tail, known_end
from reput.streaming.dispatch import damage
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.warm import try_kernels
from reput.streaming.events import kind_of_event
from reput.streaming.kafka.news import KafkaNews
from reput.streaming.observe.concerned import about, mark
from reput.streaming.observe.stores import State
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.space import space_of
from reput.streaming.source.options import FLUSHED, SKIP, STOP, VISIBLE
from reput.streaming.spark.errors import source_error
from reput.streaming.spark.jvm import Jvm
from reput.streaming.writers.placement import ExecutorWriters, UnreachableError
from reput.streaming.writers.placement_mode import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from reput.stores.log.tail import KnownEnd
    from reput.streaming.dispatch.dispatcher import Batch
    from reput.streaming.dispatch.pipeline import Block
    from reput.streaming.kafka.feed import KafkaState
    from reput.streaming.observe.metrics import Metrics
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.job_options import JobOptions
    from reput.streaming.writers.placement import Outcome

LOG = logging.getLogger("reput")

_POLL_SECONDS = 0.2
# For writers on executors that were asked to end by a signal of their own.
_CLOSING_SECONDS = 20.0

# What comes of Spark's end, and not of a store or an output.
_OF_SPARK = (Py4JError, PySparkException, ConnectionError, UnreachableError)


@dataclass
class StoreSummary:
    """What was dispatched of one store.

    Attributes:
        busy_seconds: in its batches, which end with what their flushing takes.
    """

    name: str
    messages: int = 0
    bytes: int = 0
    batches: int = 0
    busy_seconds: float = 0.0
    end: int = 0
    files: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    kafka: KafkaState | None = None


@dataclass
class Summary:
    """What a job did.

    Attributes:
        stores: each of them.
        seconds: from the first batch to everything being on disk.
        dispatch_seconds: from the first batch to the last entry; what a broker's rate is about.
        busy_seconds: in batches; the rest is waiting for the log.
        is_live: the job waits for the log: then rates are those of its batches. Else they are those
            of `seconds`, the last flush included.
        writer_cpu_seconds: processor time of the writers on executors, None without them.
    """

    stores: list[StoreSummary]
    seconds: float = 0.0
    dispatch_seconds: float = 0.0
    busy_seconds: float = 0.0
    is_live: bool = False
    writer_cpu_seconds: float | None = None

    def rate(self, store: StoreSummary | None = None) -> float:
        """Return messages a second, of one store or of all."""
        seconds = self.seconds
        if self.is_live:
            seconds = self.busy_seconds if store is None else store.busy_seconds
        counted = self.stores if store is None else [store]
        return sum(each.messages for each in counted) / seconds if seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        messages = sum(store.messages for store in self.stores)
        total = {
            "messages": messages,
            "bytes": sum(store.bytes for store in self.stores),
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.rate()),
            "dispatch_seconds": round(self.dispatch_seconds, 3),
            "busy_seconds": round(self.busy_seconds, 3),
            "files": sum(len(store.files) for store in self.stores),
        }
        if self.writer_cpu_seconds is not None:
            total["writer_cpu_seconds"] = round(self.writer_cpu_seconds, 3)
        stores = [
            {
                "name": store.name,
                "messages": store.messages,
                "bytes": store.bytes,
                "batches": store.batches,
                "end": store.end,
                "seconds": round(self.seconds, 3),
                "messages_per_second": round(self.rate(store)),
                "busy_seconds": round(store.busy_seconds, 3),
                "files": store.files,
                "events": store.events,
                **({"kafka": _kafka_dict(store.kafka)} if store.kafka is not None else {}),
            }
            for store in self.stores
        ]
        return {**total, "stores": stores}


def _kafka_dict(state: KafkaState) -> dict[str, object]:
    """Return what `--json` prints of a store's way to Kafka."""
    return {
        "end": state.end,
        "messages": state.messages,
        "arrivals": state.notices,
        "dead_letters": state.dead_letters,
        "transactions": state.transactions,
        "retries": state.retries,
        "lag_bytes": state.confirmed_lag,
        "trouble": state.trouble,
        "stopped": state.stopped,
    }


class Job:
    """One streaming query over any number of stores; open it, run it, close it."""

    def __init__(self, configs: Sequence[StoreConfig], options: JobOptions) -> None:
        """Open all outputs, before anything slow: what is wrong with one is said at once.

        Raises:
            ReputError: a store or an output that cannot be used.
            OSError: no permission, no space.
        """
        self.options = options
        self.configs = list(configs)
        self.dispatchers: dict[str, StoreDispatcher] = {}
        self.error: BaseException | None = None
        self.summary = Summary(
            [StoreSummary(config.name) for config in configs], is_live=not options.available_now
        )
        self.on_block: Callable[[str, Block], None] | None = None
        self.metrics: Metrics | None = None
        self._writers: ExecutorWriters | None = None
        self._stopping = threading.Event()
        self._batch_lock = threading.Lock()
        self._news = KafkaNews()
        self._ends: dict[str, KnownEnd] = {}
        # Both are over unless `prepare` begins them.
        self._has_looked, self._is_warm = threading.Event(), threading.Event()
        self._has_looked.set()
        self._is_warm.set()
        self._began: float | None = None
        # Physical offsets up to which Spark has planned; whether only Kafka is waited for.
        self._planned: dict[str, int] = {}
        self._waits_for_kafka = False
        if options.placement == Placement.EXECUTORS:
            # Once there are executors: `run`.
            return
        try:
            for config in configs:
                with about(config.name):
                    self.dispatchers[config.name] = StoreDispatcher(
                        config,
                        threads=options.threads,
                        flush=self._flush_policy(config),
                        fail_on_data_loss=options.fail_on_data_loss,
                        skips_corrupt=options.skips_corrupt,
                        removes_expired=options.removes_expired,
                        only_flushed=options.only_flushed,
                    )
        except BaseException:
            self._close()
            raise
        for store in self.summary.stores:
            store.end = max(self.dispatchers[store.name].progress.end, 0)

    def _flush_policy(self, config: StoreConfig) -> FlushPolicy:
        policy = FlushPolicy.of(config.properties)
        seconds = self.options.flush_seconds
        return replace(
            policy,
            thorough_seconds=policy.thorough_seconds if seconds is None else seconds,
            is_sync=self.options.sync_flush,
        )

    def prepare(self) -> None:
        """Begin with what the first batch needs, while Spark starts: ends of logs, kernels."""
        self._has_looked.clear()
        self._is_warm.clear()
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()

    def _prepare(self) -> None:
        try:
            for name, dispatcher in self.dispatchers.items():
                start = dispatcher.progress.end
                # What is wrong with a log is said by the planner, after all that is right before.
                with contextlib.suppress(ReputError, OSError):
                    end = known_end(
                        dispatcher.log,
                        start if start >= 0 else None,
                        skips_corrupt=self.options.skips_corrupt,
                    )
                    if end is not None:
                        self._ends[name] = end
        finally:
            self._has_looked.set()
        try:
            if self.dispatchers:
                try_kernels()
        finally:
            self._is_warm.set()

    def end_of_log(self, store: str) -> int:
        """Return where a store's log ends, or has ended when `prepare` looked.

        Raises:
            FormatError: a corrupt record, with good ones after it.
        """
        self._has_looked.wait()
        known = self._ends.get(store)
        return known.end if known is not None else find_tail(self.dispatchers[store].log).end

    def run(self, spark: SparkSession) -> Summary:
        """Dispatch until there is no more, or until `stop`.

        Args:
            spark: a session that has the source registered.

        Raises:
            ReputError: what stopped it; what was dispatched before stays.
        """
        if self.metrics is not None:
            self.metrics.jvm = Jvm(spark.sparkContext._jvm)  # noqa: SLF001
        try:
            if self.options.placement == Placement.EXECUTORS:
                self._open_writers(spark)
            with self._ending_without_spark():
                query = self._start(spark)
                try:
                    self._wait(query)
                finally:
                    query.stop()
            if self.options.available_now:
                self._waits_for_kafka = self.error is None
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
        self._finish()
        return self.summary

    @contextlib.contextmanager
    def _ending_without_spark(self) -> Iterator[None]:
        """Take it for the end that was asked for where Spark ends before us.

        A signal for all processes of a group, or of a service, reaches Spark's as well.
        """
        try:
            yield
        except _OF_SPARK as error:
            if not self._stopping.is_set():
                raise
            LOG.info("Spark has ended already: %s", type(error).__name__)

    def _is_of_spark_s_end(self, error: BaseException) -> bool:
        return isinstance(error, _OF_SPARK) and self._stopping.is_set()

    def _are_closed(self) -> bool:
        """Tell whether all writers have ended in order by themselves; they get some time."""
        until = time.monotonic() + _CLOSING_SECONDS
        while time.monotonic() < until:
            if not any(locks.holder_of(each.output / STATE_DIRECTORY) for each in self.configs):
                records = [progress.load(each.output) for each in self.configs]
                return all(record is not None and record.clean for record in records)
            time.sleep(_POLL_SECONDS)
        return False

    def _explained(self, error: BaseException) -> BaseException:
        """Return an error at a place of a log with what it means, and what can be done."""
        is_of_log = not isinstance(error, BodyError | FileSizeError)
        if isinstance(error, FormatError) and is_of_log and not self.options.skips_corrupt:
            for config in self.configs:
                if (said := damage.explained(error, config)) is not None:
                    return said
        return error

    def report_to(self, metrics: Metrics) -> None:
        """Have what is done counted from now on."""
        self.metrics = metrics
        for store in self.dispatchers:
            if (state := self._state(store)) is not None:
                metrics.state(store, state)

    def stop(self) -> None:
        """Ask it to end after its block, on executors after its batch; returns at once."""
        self._stopping.set()

    def abandon(self) -> Summary:
        """Close all outputs without a batch; return what is in them.

        Raises:
            ReputError, OSError: an output cannot be closed.
        """
        # What still reads the logs has to end before they are closed.
        self._has_looked.wait()
        self._close()
        for config, store in zip(self.configs, self.summary.stores, strict=True):
            # Of an output that its writer has not opened, its record tells where it stands.
            known = progress.load(config.output)
            store.end = max(known.end, 0) if known is not None else 0
        self._finish()
        return self.summary

    @property
    def has_dispatched_all(self) -> bool:
        """Tell whether consume queues and index have all that was planned."""
        return all(store.end >= self._planned.get(store.name, 0) for store in self.summary.stores)

    def done_before(self, error: BaseException) -> Summary | None:
        """Return what was done if a job has ended for Kafka and all else of it was over, else None.

        Args:
            error: what `run` has raised.
        """
        # A message that Kafka refuses is one at a place of the log.
        if not (self._waits_for_kafka and isinstance(error, KafkaError | FormatError)):
            return None
        self._finish()
        return self.summary

    @property
    def known_ends(self) -> dict[str, int]:
        """Return the physical offsets where logs ended when `prepare` looked, as far as it did."""
        self._has_looked.wait()
        return {name: known.end for name, known in self._ends.items()}

    def _open_writers(self, spark: SparkSession) -> None:
        stores = [(config, self._flush_policy(config)) for config in self.configs]
        self._writers = ExecutorWriters(spark.sparkContext, stores, self.options)
        self._take(self._writers.open(), None)
        for store in self.summary.stores:
            store.end = max(self._writers.end(store.name), 0)

    def _start(self, spark: SparkSession) -> StreamingQuery:
        options = self.options
        cores = spark.sparkContext.defaultParallelism
        checkpoint = self.fresh_checkpoint()
        frame = (
            spark.readStream.format("rocketmq")
            .option("stores", json.dumps(self._stores()))
            .option("rows", "ranges")
            .option("startingOffsets", json.dumps(self._starting_offsets()))
            .option("maxBytesPerTrigger", str(options.batch_bytes(cores)))
            .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
            .option("onCorrupt", SKIP if options.skips_corrupt else STOP)
            .option("tail", FLUSHED if options.only_flushed else VISIBLE)
            .option("knownEnds", json.dumps(self._known_ends()))
        )
        if options.store_bytes is not None:
            frame = frame.option("maxBytesPerStore", str(options.store_bytes))
        writer = frame.load().writeStream.queryName("reput").foreachBatch(self._dispatch_batch)
        writer = writer.option("checkpointLocation", str(checkpoint.resolve()))
        if options.available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{options.trigger_seconds} seconds")
        return writer.start()

    def fresh_checkpoint(self) -> Path:
        """Return an empty directory for Spark's own record of the query.

        An old one is of no use, the outputs know where they are, and would do harm: where it is
        ahead of an output, Spark sees nothing to do.
        """
        parent = self.options.checkpoint or self.configs[0].output / STATE_DIRECTORY
        parts = [config.name for config in self.configs]
        if self.options.checkpoint is not None:
            # Another job may use the same directory, for stores of the same names.
            parts += [str(config.output.resolve()) for config in self.configs]
        stores = "\0".join(parts)
        directory = parent / f"spark-{zlib.crc32(stores.encode()):08x}"
        if directory.exists():
            shutil.rmtree(directory)
        return directory

    def _stores(self) -> dict[str, dict[str, object]]:
        return {
            config.name: {
                "path": str(config.path.resolve()),
                "brokerVersion": config.settings.version.family,
                "broker": dict(config.properties),
                "commitlog": list(config.settings.commitlog_told),
            }
            for config in self.configs
        }

    def _known_ends(self) -> dict[str, tuple[int, ...]]:
        """Return where logs end as far as that was looked for: Spark's planner need not then."""
        self._has_looked.wait()
        return {
            name: (known.end, known.last.physical_offset, known.last.size, known.last.hash)
            for name, known in self._ends.items()
        }

    def _starting_offsets(self) -> dict[str, object]:
        """Return where Spark begins if it has no checkpoint: where the outputs stand."""
        ends = {name: dispatcher.progress.end for name, dispatcher in self.dispatchers.items()}
        if self._writers is not None:
            ends = {config.name: self._writers.end(config.name) for config in self.configs}
        return {name: end if end >= 0 else "earliest" for name, end in ends.items()}

    def _dispatch_batch(self, ranges: DataFrame, batch_id: int) -> None:
        """Play ReputMessageService: what `foreachBatch` calls, on Spark's thread."""
        with self._batch_turn() as is_ours:
            if not is_ours:
                # Not dispatched, but Spark will think so: the next start begins at our progress.
                return
            try:
                planned = ranges.collect()
                self._is_warm.wait()
                # The first rows bring up Spark's Python workers: start-up, not dispatch.
                began = time.monotonic()
                self._began = self._began or began
                try:
                    self._dispatch_all(planned, batch_id)
                finally:
                    self.summary.busy_seconds += time.monotonic() - began
            except BaseException as error:
                if not self._is_of_spark_s_end(error):
                    self.error = error
                raise

    def _dispatch_all(self, planned: Sequence[Any], batch_id: int) -> None:
        self._planned.update({store: end for store, _, end in planned})
        if self._writers is not None:
            ends = {store: end for store, _, end in planned}
            self._take(self._writers.dispatch(ends), batch_id)
            return
        for store, _, end in planned:
            self._dispatch(store, end, batch_id)

    @property
    def began(self) -> float | None:
        """Return when the first batch began, by `time.monotonic`; None before."""
        return self._began

    @contextlib.contextmanager
    def _batch_turn(self) -> Iterator[bool]:
        """Hold the lock of a batch; yield False, with or without it, if the job is to end.

        Who ends the query holds the lock, and Spark waits for this very call then: waiting for the
        lock here as well would be for ever.
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
        """Say that the batch goes on."""
        if self.metrics is not None:
            self.metrics.alive()
        if self.on_block is not None:
            self.on_block(store, block)

    def _dispatch(self, store: str, end: int, batch_id: int) -> None:
        dispatcher = self.dispatchers[store]
        try:
            batch = dispatcher.dispatch(
                end,
                observe=lambda block: self._observe(store, block),
                # Where that is in a batch does not matter: the next start begins at our progress.
                is_over=self._stopping.is_set,
            )
        except BaseException as error:
            mark(error, store)
            self._say(store, dispatcher.take_unsaid())
            if self.metrics is not None:
                self.metrics.error(store, error)
                # What was dispatched before it is kept.
                if (state := self._state(store)) is not None:
                    self.metrics.state(store, state)
            raise
        self._account(store, batch)
        self._log(store, batch, batch_id)

    def _take(self, outcomes: Sequence[Outcome], batch_id: int | None) -> None:
        """Count what all writers have done, then raise the first error of one."""
        failure = None
        for store, batches, error in outcomes:
            for batch in batches:
                self._account(store, batch)
                if batch_id is not None:
                    self._log(store, batch, batch_id)
            if (state := self._state(store)) is not None and self.metrics is not None:
                self.metrics.state(store, state)
            if error is not None:
                mark(error, store)
                if self.metrics is not None:
                    self.metrics.error(store, error)
            failure = failure or error
        if failure is not None:
            self.error = self.error or failure
            raise failure

    def _log(self, store: str, batch: Batch, batch_id: int) -> None:
        LOG.info(
            "batch %d of %s: %d messages, %d bytes in %.3f s, at %d",
            batch_id,
            store,
            batch.messages,
            batch.bytes,
            batch.seconds,
            batch.end,
            extra={
                "batch": batch_id,
                "store": store,
                "messages": batch.messages,
                "bytes": batch.bytes,
                "seconds": round(batch.seconds, 3),
                "end": batch.end,
            },
        )

    def _account(self, store: str, batch: Batch) -> None:
        summary = next(s for s in self.summary.stores if s.name == store)
        summary.messages += batch.messages
        summary.bytes += batch.bytes
        summary.batches += 1
        summary.busy_seconds += batch.seconds
        summary.end = batch.end
        if batch.messages and self._began is not None:
            since = batch.seconds - batch.dispatch_seconds
            self.summary.dispatch_seconds = time.monotonic() - since - self._began
        self._say(store, batch.events)
        if self.metrics is not None and (state := self._state(store)) is not None:
            self.metrics.batch(store, batch, state)

    def _say(self, store: str, events: Sequence[str]) -> None:
        summary = next(s for s in self.summary.stores if s.name == store)
        summary.events += events
        for event in events:
            kind = kind_of_event(event)
            LOG.warning("%s: %s", store, event, extra={"store": store, "event": kind})

    def _state(self, store: str) -> State | None:
        """Return where a store's output is, None while its writer has not said so."""
        found = self._found_state(store)
        if found is not None:
            self._news.say(store, found.kafka)
        return found

    def _found_state(self, store: str) -> State | None:
        if self._writers is not None:
            state = self._writers.state(store)
            return State(**state) if state is not None else None
        dispatcher = self.dispatchers[store]
        return State(
            progress=dispatcher.progress,
            recorded_end=dispatcher.recorded_end,
            index_fill=dispatcher.index.fill if dispatcher.index is not None else 0.0,
            waits=dispatcher.holds,
            flaw=dispatcher.flaw,
            kafka=dispatcher.kafka.state if dispatcher.kafka is not None else None,
            space=space_of(dispatcher.config.output),
        )

    def _tend(self) -> None:
        """Do what is due while no batch comes: flush, and dispatch what has waited."""
        try:
            if self._writers is not None:
                # They do that themselves.
                self._take(self._writers.tend(), None)
            for store, dispatcher in self.dispatchers.items():
                try:
                    with about(store):
                        self._tend_store(store, dispatcher)
                finally:
                    self._say(store, dispatcher.take_unsaid())
            if self.metrics is not None:
                self.metrics.alive()
        except BaseException as error:
            if not self._is_of_spark_s_end(error):
                self.error = error
            raise

    def _tend_store(self, store: str, dispatcher: StoreDispatcher) -> None:
        if dispatcher.flush_if_due() and self.metrics is not None:
            self.metrics.phases(store, dispatcher.take_phases())
        if (batch := dispatcher.follow()) is not None:
            self._account(store, batch)
        if dispatcher.waits:
            self._account(store, dispatcher.dispatch_waiting())
        if (state := self._state(store)) is not None and self.metrics is not None:
            self.metrics.state(store, state)

    def _wait(self, query: StreamingQuery) -> None:
        while query.isActive:
            if self._batch_lock.acquire(blocking=False):
                try:
                    self._tend()
                finally:
                    self._batch_lock.release()
            elif self._writers is not None and self.metrics is not None:
                # A batch on executors says nothing until it ends; Spark watches its tasks.
                self.metrics.alive()
            if self.metrics is not None:
                self.metrics.sample_jvm()
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

    def _drain_kafka(self) -> None:
        """Wait until Kafka has what was dispatched; writers on executors do so as they close.

        A store whose way to Kafka is held back does not keep the others from theirs.
        """
        if self.error is not None:
            return
        for store, dispatcher in self.dispatchers.items():
            try:
                # What an interrupted job leaves undone is said at its end, with the rest of it.
                batches: list[Batch] = []
                try:
                    dispatcher.drain_kafka(self._stopping.is_set, says_lack=False, batches=batches)
                finally:
                    for batch in batches:
                        self._account(store, batch)
            except (ReputError, OSError) as error:
                self.error = self.error or error
                mark(error, store)
                if self.metrics is not None:
                    self.metrics.error(store, error)

    def _end_at_flaws(self) -> None:
        """End with what is wrong after a log's end: a job that runs waits there.

        What is planned to be dispatched up to a log's end is looked at when that is planned.
        """
        for config in self.configs:
            dispatcher = self.dispatchers.get(config.name)
            if dispatcher is not None:
                with about(config.name):
                    dispatcher.look_for_flaw()
            state = self._state(config.name)
            if state is None:
                continue
            if self.metrics is not None:
                self.metrics.state(config.name, state)
            if state.kafka is not None and state.kafka.stopped:
                # Said when it happened; the end of the job is not to hide it.
                self._ends_with(config.name, KafkaError(f"{config.name}: {state.kafka.stopped}"))
            if state.flaw is not None:
                self._ends_with(config.name, state.flaw)

    def _ends_with(self, store: str, error: BaseException) -> None:
        """Have the job end with a store's error, unless there is an earlier one."""
        mark(error, store)
        self.error = self.error or error

    def _finish(self) -> None:
        self.summary.seconds = time.monotonic() - self._began if self._began else 0.0
        for config, store in zip(self.configs, self.summary.stores, strict=True):
            store.files = sorted(
                str(path.relative_to(config.output))
                for kind in names.DISPATCHED
                for path in (config.output / kind).rglob("*")
                if path.is_file()
            )

    def _close(self) -> None:
        """Close all outputs, also after one that cannot be; the first error is raised."""
        opened = self.dispatchers
        for dispatcher in opened.values():
            if dispatcher.kafka is not None:
                # What each waits for Kafka is waited for once.
                dispatcher.kafka.end()
        with contextlib.ExitStack() as stack:
            for name, dispatcher in reversed(opened.items()):
                stack.callback(about(name)(dispatcher.close))
            self.dispatchers = {}
        for store in self.summary.stores:
            kafka = opened[store.name].kafka if store.name in opened else None
            store.kafka = kafka.state if kafka is not None else store.kafka
        if self._writers is not None:
            self._close_writers(self._writers)

    def _close_writers(self, writers: ExecutorWriters) -> None:
        """Close all outputs; an error counts if it is the first one."""
        failure = self.error
        try:
            self._take(writers.close(has_failed=failure is not None), None)
        except UnreachableError:
            if failure is None and not (self._stopping.is_set() and self._are_closed()):
                raise
        except (ReputError, OSError):
            if failure is None:
                raise
        self.summary.writer_cpu_seconds = writers.cpu_seconds
