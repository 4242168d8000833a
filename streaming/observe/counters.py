"""What a job counts batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

from reput.streaming.dispatch.stopwatch import PHASES
from reput.streaming.observe.error_kinds import ERROR_KINDS
from reput.streaming.observe.families import LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reput.streaming.dispatch.batch import Batch

_BATCH_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Counters:
    """What is counted batch by batch."""

    def __init__(
        self,
        registry: CollectorRegistry,
        stores: Iterable[str],
        labels: Callable[[str], tuple[str, str, str]],
    ) -> None:
        """Begin with zeros.

        Args:
            registry: gets the series.
            stores: their names.
            labels: gives the labels that all series of a store have.
        """
        self._labels = labels

        def counter(name: str, text: str, *more: str) -> Counter:
            return Counter(name, text, (*LABELS, *more), registry=registry)

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
            (*LABELS, "phase"),
            buckets=_BATCH_SECONDS,
            registry=registry,
        )
        for store in stores:
            self._begin(labels(store))

    def _begin(self, values: tuple[str, str, str]) -> None:
        """Begin a store's series with zeros, which show a first event as a step."""
        for metric in (self.messages, self.log_bytes, self.batches, self.items, self.files):
            metric.labels(*values)
        for phase in ("total", *PHASES):
            self.seconds.labels(*values, phase)
        for outcome in ("put", "repeated", "misplaced"):
            self.entries.labels(*values, outcome)
        for kind in ERROR_KINDS:
            self.errors.labels(*values, kind)

    def batch(self, store: str, batch: Batch) -> None:
        """Count a store's batch."""
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
        """Count seconds by phase."""
        for phase, value in seconds.items():
            self.seconds.labels(*self._labels(store), phase).observe(value)
