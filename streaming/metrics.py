"""What the job shows to Prometheus, and to whoever asks whether it is alive and keeps up.

Counters follow the batches. What can be looked up is looked up when somebody asks: where the log
ends, how far behind we are, how full the index is. The broker's own series,
`rocketmq_storage_dispatch_behind_bytes`, has the broker's meaning and a `node_type` of its own.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import platform
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

from formats import consumequeue, names
from formats.errors import ExpiredError, FormatError, KafkaError, ReputError, StoreError
from stores.broker_lock import is_held
from stores.commitlog import CommitLog, commitlog_directories
from stores.holes import HoleWatch
from stores.tail import TailWatch
from streaming import kafka_metrics
from streaming.concerned import concerned, mark
from streaming.dispatcher import PHASES
from streaming.events import NOTICE
from streaming.first_message import is_awaited
from streaming.latencies import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from checkpoints.progress import Progress
    from streaming.config import StoreConfig
    from streaming.dispatcher import Batch
    from streaming.jvm import Jvm
    from streaming.kafka_feed import KafkaState
    from streaming.space import Space

LOG = logging.getLogger("reput")
_NODE = "dispatcher"
_LABELS = ("cluster", "store", "node_type")
# What a broker's own series of its store have besides, and their values there and here.
BROKER_LABELS = ("node_id", "storage_type", "storage_medium")
_STORAGE = ("local", "disk")
_BATCH_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_MILLISECONDS = 1000
# Longer than a batch's longest silence: within a batch each block is a sign of life.
_ALIVE_SECONDS = 120.0
_CHECKPOINT_KINDS = ("physic", "logics", "index")
# What can stop a job, see `kind_of`.
ERROR_KINDS = ("corrupt", "expired", "consumequeue", "index", "store", "kafka", "io", "other")
# RocketMQ's BrokerConfig#brokerClusterName where nothing is set.
_DEFAULT_CLUSTER = "DefaultCluster"


@dataclass(frozen=True)
class State:
    """Where one store's output is, as its writer last said.

    Attributes:
        progress: see there.
        recorded_end: physical offset that is on disk and recorded.
        index_fill: of the newest index file, 0 to 1.
        waits: a record that came out of turn is waited with.
        flaw: what is wrong after the log's end, "" for nothing: the job waits there.
        kafka: where its way to Kafka is, None without one.
        space: of the output's file system, None if that is not known.
    """

    progress: Progress
    recorded_end: int
    index_fill: float = 0.0
    waits: bool = False
    kafka: KafkaState | None = None
    flaw: str = ""
    space: Space | None = None


class Metrics:
    """The series of one job, and its health."""

    def __init__(
        self,
        configs: Mapping[str, StoreConfig],
        cluster: str,
        version: str,
        *,
        skips_corrupt: bool = False,
    ) -> None:
        """Begin with zeros.

        Args:
            configs: by store name.
            cluster: what the series' `cluster` label says of all stores; "": what each store's
                broker.conf says.
            version: of this program.
            skips_corrupt: the job passes over what is corrupt, and over holes.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._cluster = cluster
        self.shows_queues = False
        # Spark's JVM, once it runs.
        self.jvm: Jvm | None = None
        self._awaited: frozenset[str] = frozenset()
        self._alive_at = time.monotonic()
        self._is_active = False
        self._configs = dict(configs)
        # By store: kinds of trouble that were counted, of what lasts and of what ends the job.
        self._lasting: dict[str, set[str]] = {name: set() for name in configs}
        self._ended_by: dict[str, set[str]] = {name: set() for name in configs}
        self._scraped = threading.Event()
        self._waits_since: float | None = None
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._stores = {
            name: _StoreMetrics(config, self, skips_corrupt=skips_corrupt)
            for name, config in configs.items()
        }
        self._counters = _Counters(self.registry, configs, self.labels)
        self._active = self._gauge("rocketmq_reput_query_active", "The streaming query runs.")
        started = self._gauge(
            "rocketmq_reput_start_timestamp_seconds", "When this process began, Unix time."
        )
        started.set_to_current_time()
        Info("rocketmq_reput_build", "What runs.", registry=self.registry).info(
            {
                "version": version,
                "python": platform.python_version(),
                "spark": importlib.metadata.version("pyspark"),
                "broker_version": ",".join(
                    sorted({config.settings.version.family for config in configs.values()})
                ),
            }
        )
        self.registry.register(self)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def labels(self, store: str) -> tuple[str, str, str]:
        """Return the values of the labels that all series of a store have."""
        named = self._configs[store].properties.get("brokerClusterName", "").strip()
        return self._cluster or named or _DEFAULT_CLUSTER, store, _NODE

    def batch(self, store: str, batch: Batch, state: State) -> None:
        """Count a batch."""
        self.alive()
        self.state(store, state)
        self._stores[store].update(batch)
        self._counters.batch(store, batch)

    def state(self, store: str, state: State) -> None:
        """Take where a store's output is, without a batch; count what is newly wrong."""
        kinds = _lasting_kinds(state)
        for kind in kinds - self._lasting[store] - self._ended_by[store]:
            self._counters.errors.labels(*self.labels(store), kind).inc()
        self._lasting[store] = kinds
        self._stores[store].state = state

    def phases(self, store: str, seconds: Mapping[str, float]) -> None:
        """Take the time of what was done between batches."""
        self._counters.phases(store, seconds)

    def error(self, store: str, error: BaseException) -> None:
        """Count what stopped a store, unless that was counted as what lasts."""
        mark(error, store)
        kind = kind_of(error, self._configs[store])
        if kind not in self._lasting[store] | self._ended_by[store]:
            self._counters.errors.labels(*self.labels(store), kind).inc()
        self._ended_by[store].add(kind)

    def failed(self, error: BaseException) -> None:
        """Take what ends the job; count it if that was not done, for the store that it is about.

        Where nothing tells which store that is, all of them have stopped by it.
        """
        self.alive(is_active=False)
        for store in concerned(error, self._configs) or list(self._configs):
            self.error(store, error)

    def scraped(self, began: float) -> None:
        """Take note that a scrape was answered.

        Args:
            began: when it came in, by the monotonic clock.
        """
        if self._waits_since is not None and began > self._waits_since:
            self._scraped.set()

    def wait_for_scrape(self, seconds: float) -> None:
        """Return when a scrape that comes in from now on was answered, or the time is over."""
        self._waits_since = time.monotonic()
        self._scraped.wait(seconds)

    def end_waiting(self) -> None:
        """Have `wait_for_scrape` return at once."""
        self._scraped.set()

    def alive(self, *, is_active: bool = True) -> None:
        """Say that the job goes on: a block was written, or it was looked for new records."""
        self._alive_at = time.monotonic()
        self._is_active = is_active
        self._active.set(float(is_active))
        self._awaited = frozenset()

    def awaits_logs(self) -> None:
        """Say that the job has not begun because a store has no first message yet.

        Raises:
            StoreError: one is no store.
        """
        self.alive(is_active=False)
        self._awaited = frozenset(n for n, config in self._configs.items() if is_awaited(config))

    def is_awaited(self, store: str) -> bool:
        """Tell whether the job has not begun because this store has no first message yet."""
        return store in self._awaited

    def sample_jvm(self) -> None:
        """Look at the JVM's memory, if there is one; called on the job's thread now and then."""
        if self.jvm is not None:
            self.jvm.sample()

    def is_alive(self) -> bool:
        """Tell whether anything was heard of the job lately."""
        return time.monotonic() - self._alive_at < _ALIVE_SECONDS

    def is_ready(self, within_bytes: int) -> bool:
        """Tell whether all is well.

        The query runs, and no store is further behind than this or waits for somebody,
        at a flaw or for Kafka; or no store has a first message yet, so there is nothing to run for.
        """
        if self._awaited:
            return self._awaited == self._stores.keys()
        return self._is_active and all(
            store.is_ready(within_bytes) for store in self._stores.values()
        )

    def collect(self) -> Iterable[Metric]:
        """Yield what is looked up when Prometheus asks."""
        families = _Families()
        for name, store in self._stores.items():
            store.collect(families, self.labels(name))
        memory = self.jvm.memory if self.jvm is not None else None
        if memory is not None:
            for name, value in memory._asdict().items():
                if value is not None:
                    families.add(_JVM_SERIES[name], (), value)
        yield from families


class _Counters:
    """What is counted batch by batch."""

    def __init__(
        self,
        registry: CollectorRegistry,
        stores: Iterable[str],
        labels: Callable[[str], tuple[str, str, str]],
    ) -> None:
        self._labels = labels

        def counter(name: str, text: str, *more: str) -> Counter:
            return Counter(name, text, (*_LABELS, *more), registry=registry)

        prefix = "rocketmq_reput"
        self.messages = counter(f"{prefix}_messages", "Records dispatched.")
        self.log_bytes = counter(f"{prefix}_log_bytes", "Bytes of commitlog dispatched.")
        self.batches = counter(f"{prefix}_batches", "Batches with something in them.")
        self.entries = counter(
            "rocketmq_consumequeue_entries", "Consume queue entries by what became of them.",
            "outcome",
        )  # fmt: skip
        self.items = counter("rocketmq_index_items", "Items inserted into the index.")
        self.files = counter("rocketmq_index_files", "Index files begun.")
        self.errors = counter(f"{prefix}_errors", "What stopped the job, by kind.", "kind")
        self.seconds = Histogram(
            f"{prefix}_batch_duration_seconds",
            "Time of a batch, all of it and by what it goes to.",
            (*_LABELS, "phase"),
            buckets=_BATCH_SECONDS,
            registry=registry,
        )
        for store in stores:
            # Series that are there from the start show a first event as a step.
            values = labels(store)
            for metric in (self.messages, self.log_bytes, self.batches, self.items, self.files):
                metric.labels(*values)
            for phase in ("total", *PHASES):
                self.seconds.labels(*values, phase)
            for outcome in ("put", "repeated", "misplaced"):
                self.entries.labels(*values, outcome)
            for kind in ERROR_KINDS:
                self.errors.labels(*values, kind)

    def batch(self, store: str, batch: Batch) -> None:
        labels = self._labels(store)
        self.messages.labels(*labels).inc(batch.messages)
        self.log_bytes.labels(*labels).inc(max(batch.bytes, 0))
        self.batches.labels(*labels).inc()
        self.entries.labels(*labels, "put").inc(batch.entries)
        self.entries.labels(*labels, "repeated").inc(batch.repeated)
        self.entries.labels(*labels, "misplaced").inc(batch.misplaced)
        self.items.labels(*labels).inc(max(batch.items, 0))
        self.files.labels(*labels).inc(max(batch.index_files, 0))
        self.seconds.labels(*labels, "total").observe(batch.seconds)
        self.phases(store, batch.phases)

    def phases(self, store: str, seconds: Mapping[str, float]) -> None:
        for phase, value in seconds.items():
            self.seconds.labels(*self._labels(store), phase).observe(value)


@dataclass(frozen=True)
class Behind:
    """How far dispatch is behind the log's end.

    Attributes:
        bytes: of log that are not dispatched.
        seconds: store time between the log's last record and the last dispatched one.
        age: for how long the oldest record that is not dispatched has waited, seconds by this
            host's clock.
    """

    bytes: int
    seconds: float
    age: float


class _StoreMetrics:
    """What can be looked up of one store."""

    def __init__(self, config: StoreConfig, metrics: Metrics, *, skips_corrupt: bool) -> None:
        self._config = config
        self._skips_corrupt = skips_corrupt
        self._metrics = metrics
        self._log: CommitLog | None = None
        self._watch: TailWatch | None = None
        # Why the log cannot be looked at, "" if it can.
        self._trouble = ""
        # Scrapes and health checks come on threads of their own.
        self._lock = threading.Lock()
        self._log_end = 0
        self._log_timestamp = 0
        # Physical offset and store timestamp of the oldest record that is not dispatched.
        self._oldest = (-1, 0)
        self.state: State | None = None
        self._latencies = [0] * (len(BOUNDS) + 1)
        self._latency_seconds = 0.0
        self._last_batch = 0.0

    def update(self, batch: Batch) -> None:
        self._last_batch = time.time()
        self._latencies = [a + b for a, b in zip(self._latencies, batch.latencies, strict=True)]
        self._latency_seconds += batch.latency_seconds

    def is_ready(self, within_bytes: int) -> bool:
        """Tell whether it is no further behind than this, and waits for nobody."""
        state = self.state
        is_held_back = state is not None and state.kafka is not None and state.kafka.stopped
        if state is not None and (state.flaw or is_held_back):
            return False
        behind = self.behind()
        return behind is not None and behind.bytes <= within_bytes

    def behind(self) -> Behind | None:
        """Return how far behind the log's end dispatch is now, None if that cannot be told."""
        with self._lock:
            self._look()
            if self._trouble:
                return None
            state = self.state
            if state is None or self._log is None:
                return Behind(0, 0.0, 0.0)
            begin = max(state.progress.end, self._log.min_offset)
            left = max(self._log_end - begin, 0)
            if not left:
                return Behind(0, 0.0, 0.0)
            stored = self._stored_at(begin)
        last = state.progress.store_timestamp
        late = (self._log_timestamp - last) / _MILLISECONDS if last else 0.0
        # Where a damaged record is next, the one before it is the oldest that is known.
        oldest = stored or last
        age = time.time() - oldest / _MILLISECONDS if oldest else 0.0
        return Behind(left, max(late, 0.0), max(age, 0.0))

    def _stored_at(self, position: int) -> int:
        """Return the store timestamp of the record at a physical offset, 0 if it cannot be told."""
        if self._oldest[0] != position and self._log is not None:
            stored = 0
            with contextlib.suppress(ReputError, OSError):
                stored = self._log.timestamp_at(position)
            self._oldest = position, stored
        return self._oldest[1]

    def _look(self) -> None:
        try:
            self._look_at_log()
        except (ReputError, OSError) as error:
            if self._trouble != str(error):
                LOG.warning(
                    "%s: its log cannot be looked at, so how far it is behind is not known: %s",
                    self._config.name,
                    error,
                    extra={"store": self._config.name, "event": NOTICE},
                )
            self._trouble = str(error)
        else:
            self._trouble = ""

    def _look_at_log(self) -> None:
        if self._log is None or self._watch is None:
            settings, path = self._config.settings, self._config.path
            log = self._log = CommitLog(commitlog_directories(path, settings), settings, path)
            # As the job's own, so that both have one end; but a job that stops at a corrupt
            # record falls behind what follows.
            holes = HoleWatch(log, self._is_live) if self._skips_corrupt else None
            self._watch = TailWatch(log, skips_corrupt=True, holes=holes)
        end = self._watch.look().end
        if end != self._log_end:
            self._log_timestamp = self._log.timestamp_before(end)
            self._log_end = end

    def _is_live(self) -> bool:
        return not self._config.in_place and is_held(self._config.path / names.LOCK)

    def collect(self, families: _Families, labels: tuple[str, str, str]) -> None:
        behind = self.behind()
        state, log = self.state, self._log
        families.add("rocketmq_reput_last_batch_timestamp_seconds", labels, self._last_batch)
        families.add_latencies(labels, self._latencies, self._latency_seconds)
        is_awaited = self._metrics.is_awaited(self._config.name)
        families.add("rocketmq_reput_first_message_awaited", labels, float(is_awaited))
        if state is None or log is None:
            # Not zeros: neither how far behind it is nor what happened before is known yet.
            return
        if behind is not None:
            self._collect_lag(families, labels, behind, log.min_offset)
        if state.space is not None:
            families.add("rocketmq_reput_output_free_bytes", labels, state.space.free)
            families.add("rocketmq_reput_output_size_bytes", labels, state.space.size)
        progress = state.progress
        for which, value in (
            ("dispatched", progress.end),
            ("recorded", state.recorded_end),
        ):
            families.add("rocketmq_reput_offset_bytes", (*labels, which), max(value, 0))
        for kind, value in zip(_CHECKPOINT_KINDS, progress.checkpoint, strict=False):
            name = "rocketmq_checkpoint_timestamp_seconds"
            families.add(name, (*labels, kind), value / _MILLISECONDS)
        families.add("rocketmq_index_fill_ratio", labels, state.index_fill)
        families.add("rocketmq_reput_record_waiting", labels, float(state.waits))
        for name, count in (
            ("starts", progress.starts),
            ("recoveries", progress.recoveries),
            ("log_truncations", progress.truncations),
            ("corrupt_skipped", len(progress.skipped)),
            ("data_loss_gaps", len(progress.lost)),
            ("data_loss_bytes", sum(end - start for start, end in progress.lost)),
        ):
            families.add(f"rocketmq_reput_{name}_total", labels, count)
        if self._metrics.shows_queues:
            for queue, end in progress.queues.items():
                kind, _, rest = queue.partition("/")
                topic, _, number = rest.rpartition("/")
                if kind == names.CONSUMEQUEUE:
                    name = "rocketmq_consumequeue_max_offset"
                    families.add(name, (*labels, topic, number), end // consumequeue.ENTRY_SIZE)
        if state.kafka is not None:
            kafka_metrics.collect(families, labels, state.kafka, progress.store_timestamp)

    def _collect_lag(
        self, families: _Families, labels: tuple[str, str, str], behind: Behind, log_begin: int
    ) -> None:
        node = self._config.properties.get("brokerName", self._config.name)
        for unit, value in (("bytes", behind.bytes), ("seconds", behind.seconds)):
            name = f"rocketmq_storage_dispatch_behind_{unit}"
            families.add(name, (*labels, node, *_STORAGE), value)
        families.add("rocketmq_reput_oldest_undispatched_age_seconds", labels, behind.age)
        for which, offset in (("log_end", self._log_end), ("log_begin", log_begin)):
            families.add("rocketmq_reput_offset_bytes", (*labels, which), max(offset, 0))


_LATENCY = "rocketmq_reput_latency_seconds"
# Of the process, by the fields of `jvm.Memory`.
_JVM_SERIES = {
    "heap_used": "rocketmq_reput_jvm_heap_used_bytes",
    "heap_max": "rocketmq_reput_jvm_heap_max_bytes",
    "resident": "rocketmq_reput_jvm_resident_memory_bytes",
}
_JVM_TEXTS = {
    "rocketmq_reput_jvm_heap_used_bytes": "Heap of Spark's JVM that is in use.",
    "rocketmq_reput_jvm_heap_max_bytes": "What the heap of Spark's JVM may grow to.",
    "rocketmq_reput_jvm_resident_memory_bytes": "Resident memory of Spark's JVM.",
}
_TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "rocketmq_storage_dispatch_behind_bytes": (
        "Bytes of log that are not dispatched yet.",
        BROKER_LABELS,
    ),
    "rocketmq_storage_dispatch_behind_seconds": (
        "Store time between the log's last record and the last dispatched one.",
        BROKER_LABELS,
    ),
    "rocketmq_reput_oldest_undispatched_age_seconds": (
        "For how long the oldest record that is not dispatched has waited, by this host's clock.",
        (),
    ),
    "rocketmq_reput_first_message_awaited": (
        "The job has not begun: the store has no first message yet.",
        (),
    ),
    "rocketmq_reput_output_free_bytes": ("Free bytes of the output's file system.", ()),
    "rocketmq_reput_output_size_bytes": ("Size of the output's file system.", ()),
    "rocketmq_consumequeue_max_offset": (
        "Entries of a consume queue that are on disk and recorded, those that expired included.",
        ("topic", "queue_id"),
    ),
    "rocketmq_reput_offset_bytes": ("Physical offsets.", ("which",)),
    "rocketmq_checkpoint_timestamp_seconds": (
        "Store timestamps of the checkpoint file, Unix time.",
        ("kind",),
    ),
    "rocketmq_index_fill_ratio": ("How full the newest index file is.", ()),
    "rocketmq_reput_record_waiting": ("A record that came out of turn is waited with.", ()),
    "rocketmq_reput_starts_total": ("Openings of the output since it was begun.", ()),
    "rocketmq_reput_recoveries_total": ("Openings at which something was taken back.", ()),
    "rocketmq_reput_log_truncations_total": (
        "Times that the log had other records than before.",
        (),
    ),
    "rocketmq_reput_corrupt_skipped_total": ("Corrupt places passed over.", ()),
    "rocketmq_reput_data_loss_gaps_total": ("Times that records had expired.", ()),
    "rocketmq_reput_data_loss_bytes_total": ("Bytes of log that had expired.", ()),
    "rocketmq_reput_last_batch_timestamp_seconds": ("When the last batch ended, Unix time.", ()),
    _LATENCY: ("From a record's store timestamp to its entry being visible.", ()),
    **kafka_metrics.TEXTS,
}


class _Families:
    """Series that are made for one scrape."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        family = self._families.get(name)
        if family is None:
            made = _counter_family if name.endswith("_total") else GaugeMetricFamily
            if name in _JVM_TEXTS:
                family = made(name, _JVM_TEXTS[name], labels=())
            else:
                text, more = _TEXTS[name]
                family = made(name, text, labels=(*_LABELS, *more))
            self._families[name] = family
        family.add_metric(labels, value)

    def add_latencies(self, labels: tuple[str, ...], counts: list[int], total: float) -> None:
        self.add_histogram(_LATENCY, labels, BOUNDS, tuple(counts), total)

    def add_histogram(
        self,
        name: str,
        labels: tuple[str, ...],
        bounds: tuple[float, ...],
        counts: tuple[int, ...],
        total: float,
    ) -> None:
        """Add a histogram that somebody else has counted.

        Args:
            name: of the series.
            labels: their values.
            bounds: upper bounds.
            counts: up to each bound from the one before; the last one is of those beyond.
            total: sum of what was observed.
        """
        family = self._families.get(name)
        if family is None:
            family = HistogramMetricFamily(name, _TEXTS[name][0], labels=_LABELS)
            self._families[name] = family
        buckets, below = [], 0
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, below))
        family.add_metric(labels, buckets, total)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


def _counter_family(name: str, text: str, labels: tuple[str, ...]) -> Any:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 - used here only

    return CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)


def _lasting_kinds(state: State) -> set[str]:
    """Return the kinds of trouble that a store's job lives with until somebody acts."""
    is_held_back = state.kafka is not None and state.kafka.stopped
    return {kind for kind, lasts in (("corrupt", state.flaw), ("kafka", is_held_back)) if lasts}


def kind_of(error: BaseException, config: StoreConfig) -> str:
    """Return the `kind` label of an error, by the file that it names.

    Returns:
        "corrupt": the log; "expired": records are gone; "consumequeue", "index": a file of the
        output that is written, or is not what was recorded; "store": store and output do not go
        together; "kafka"; "io"; "other".
    """
    if isinstance(error, ExpiredError):
        return "expired"
    path = error.filename if isinstance(error, OSError) else getattr(error, "path", None)
    place = _below(config.output, path)
    if place == names.INDEX:
        return "index"
    if place in names.DISPATCHED:
        return "consumequeue"
    if isinstance(error, FormatError):
        # A file of the log; the rest of what has a format is the output's own state.
        return "corrupt" if place in {None, names.COMMITLOG} else "other"
    if isinstance(error, StoreError):
        return "store"
    if isinstance(error, KafkaError):
        return "kafka"
    return "io" if isinstance(error, OSError) else "other"


def _below(root: Path, path: object) -> str | None:
    """Return the first name of a path below a directory, None if it is not there."""
    if not isinstance(path, str | bytes):
        # The number of an open file, or none.
        return None
    try:
        parts = Path(os.fsdecode(path)).absolute().relative_to(root.absolute()).parts
    except ValueError:
        return None
    return parts[0] if parts else None
