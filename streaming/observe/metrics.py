"""What the job shows to Prometheus, and to health checks: whether it is alive and keeps up.

Counters follow the batches (`observe.counters`). What can be looked up is looked up at a scrape
(`observe.stores`): where the log ends, how far behind we are, how full the index is. The
broker's own series, `rocketmq_storage_dispatch_behind_bytes`, has the broker's meaning and a
`node_type` of its own.
"""

from __future__ import annotations

import importlib.metadata
import platform
import threading
import time
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from reput.formats.errors import mark
from reput.streaming.endings.concerned import concerned
from reput.streaming.observe.counters import Counters
from reput.streaming.observe.error_kinds import kind_of, lasting_kinds
from reput.streaming.observe.families import Families
from reput.streaming.observe.stores import TEXTS, StoreMetrics
from reput.streaming.spark.jvm import Jvm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.metrics_core import Metric

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.state import State

_NODE = "dispatcher"
# Longer than a writer's longest silence: each block that it writes is a sign of life.
_ALIVE_SECONDS = 120.0
# The job's main loop asks Spark five times a second; on executors an order takes some seconds.
_LOOP_SECONDS = 5.0
# RocketMQ's BrokerConfig#brokerClusterName where nothing is set.
_DEFAULT_CLUSTER = "DefaultCluster"
# Of the process, by the fields of `jvm.Memory`.
_JVM_SERIES = {
    "heap_used": "rocketmq_reput_jvm_heap_used_bytes",
    "heap_max": "rocketmq_reput_jvm_heap_max_bytes",
    "resident": "rocketmq_reput_jvm_resident_memory_bytes",
}
_UNPLANNED = "rocketmq_reput_unplanned_seconds"
_PROCESS_TEXTS = {
    "rocketmq_reput_jvm_heap_used_bytes": "Heap of Spark's JVM that is in use.",
    "rocketmq_reput_jvm_heap_max_bytes": "What the heap of Spark's JVM may grow to.",
    "rocketmq_reput_jvm_resident_memory_bytes": "Resident memory of Spark's JVM.",
    _UNPLANNED: "For how long stores have been dispatched past what Spark has planned.",
}


def _sets_of(stores: Iterable[str]) -> dict[str, set[str]]:
    return {name: set() for name in stores}


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
            cluster: the series' `cluster` label for all stores; "": by each store's broker.conf.
            version: of this program.
            skips_corrupt: the job passes over what is corrupt, and over holes.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._cluster = cluster
        self.shows_queues = False
        self.jvm: Jvm | None = None
        self._awaited: frozenset[str] = frozenset()
        # For how long nothing was planned, as the job said, and when it said so.
        self._unplanned_told = 0.0
        self._told_at = self._alive_at = time.monotonic()
        self._is_active = False
        self._configs = dict(configs)
        # By store: kinds of trouble that were counted, of what lasts and of what ends the job.
        self._lasting, self._ended_by = (_sets_of(configs) for _ in range(2))
        self._scraped = threading.Event()
        self._waits_since: float | None = None
        self._stores = {
            name: StoreMetrics(config, skips_corrupt=skips_corrupt)
            for name, config in configs.items()
        }
        self._counters = Counters(self.registry, configs, self.labels)
        self._active = self._gauge("rocketmq_reput_query_active", "The streaming query runs.")
        self._show_process(version)
        self.registry.register(self)

    def _show_process(self, version: str) -> None:
        """Show what runs, and since when."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
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
                    sorted({each.settings.version.family for each in self._configs.values()})
                ),
            }
        )

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
        kinds = lasting_kinds(state)
        for kind in kinds - self._lasting[store] - self._ended_by[store]:
            self._counters.errors.labels(*self.labels(store), kind).inc()
        self._lasting[store] = kinds
        self._stores[store].state = state

    def phases(self, store: str, seconds: Mapping[str, float]) -> None:
        """Count seconds of what was done between batches."""
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
        self._waits_since = time.monotonic()

    def scraped(self, began: float) -> None:
        """Take note that a scrape was answered.

        Args:
            began: when it came in, by the monotonic clock.
        """
        if self._waits_since is not None and began > self._waits_since:
            self._scraped.set()

    def wait_for_scrape(self, seconds: float) -> None:
        """Return when a scrape that came in after `failed` was answered, or the time is over."""
        self._scraped.wait(seconds)

    def end_waiting(self) -> None:
        """Let `wait_for_scrape` return at once."""
        self._scraped.set()

    @property
    def waits_no_longer(self) -> bool:
        """Tell whether `wait_for_scrape` returns at once."""
        return self._scraped.is_set()

    def alive(self, *, is_active: bool = True) -> None:
        """Take note that the job works: a block was written, or the log was looked at."""
        self._note_life(frozenset(), is_active=is_active)

    def _note_life(self, awaited: frozenset[str], *, is_active: bool) -> None:
        self._alive_at = time.monotonic()
        if is_active and not self._is_active:
            # Its main loop begins to speak now.
            self._told_at = self._alive_at
        self._is_active = is_active
        self._active.set(float(is_active))
        self._awaited = awaited

    def seen(self, store: str, at: float, failure: BaseException | None) -> None:
        """Take when a store's writer was seen to work, and what it has failed with."""
        self._stores[store].silence = max(time.monotonic() - at, 0.0)
        self._stores[store].failure = failure
        if failure is None:
            # It may fail again, which is then counted again.
            self._ended_by[store].clear()

    def unplanned(self, seconds: float) -> None:
        """Take for how long stores have been dispatched past what Spark has planned."""
        self._unplanned_told, self._told_at = seconds, time.monotonic()

    @property
    def unplanned_seconds(self) -> float:
        """Return for how long nothing was planned.

        If the job's main loop has not spoken for a while, it waits for Spark's JVM: that time
        counts too.
        """
        unheard = time.monotonic() - self._told_at if self._is_active else 0.0
        return self._unplanned_told + (unheard if unheard > _LOOP_SECONDS else 0.0)

    def awaits_logs(self, stores: Iterable[str]) -> None:
        """Take note that the job has not begun because these have no first message yet.

        One that cannot be looked at is not awaited: its writer tells what is wrong with it.
        """
        self._note_life(frozenset(stores), is_active=False)

    def is_awaited(self, store: str) -> bool:
        """Tell whether the job has not begun because this store has no first message yet."""
        return store in self._awaited

    def watch_jvm(self, view: Any) -> None:
        """Begin to look at Spark's JVM; `view` is a SparkContext's `_jvm`."""
        self.jvm = Jvm(view)

    def sample_jvm(self) -> None:
        """Look at the JVM's memory, if there is one; the job's thread calls this now and then."""
        if self.jvm is not None:
            self.jvm.sample()

    def is_alive(self) -> bool:
        """Tell whether the job works: it, a store and Spark's planner were heard of lately.

        One store that hangs or has failed does not count: to end the job would stop the others as
        well.
        """
        silence = min((store.silence for store in self._stores.values()), default=0.0)
        is_heard = time.monotonic() - self._alive_at < _ALIVE_SECONDS
        return is_heard and max(silence, self.unplanned_seconds) < _ALIVE_SECONDS

    def is_ready(self, within_bytes: int) -> bool:
        """Tell whether all is well.

        The query runs; no store has failed, is silent or further behind than this; and none waits
        for an operator at a flaw or for Kafka. Or no store has a first message yet, so there is
        nothing to run for.
        """
        if self._awaited:
            return self._awaited == self._stores.keys()
        return self._is_active and all(
            store.is_ready(within_bytes) for store in self._stores.values()
        )

    def collect(self) -> Iterable[Metric]:
        """Yield what is looked up at a scrape."""
        families = Families(TEXTS, _PROCESS_TEXTS)
        # All at the same time: the waits for disks that hang do not add up.
        looks = {name: store.begin() for name, store in self._stores.items()}
        for name, store in self._stores.items():
            store.collect(
                families,
                self.labels(name),
                looks[name].found(),
                is_awaited=self.is_awaited(name),
                shows_queues=self.shows_queues,
            )
        memory = self.jvm.memory if self.jvm is not None else None
        if memory is not None:
            for name, value in memory._asdict().items():
                if value is not None:
                    families.add(_JVM_SERIES[name], (), value)
        families.add(_UNPLANNED, (), self.unplanned_seconds)
        yield from families
