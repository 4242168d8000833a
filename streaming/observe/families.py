"""Series that are made for one scrape, from figures that are kept elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

# What all series of a store have.
LABELS = ("cluster", "store", "node_type")
# By the name of a series: what it says, and the names of its other labels.
Texts = dict[str, tuple[str, tuple[str, ...]]]


class Families:
    """Series that are made for one scrape."""

    def __init__(self, of_stores: Texts, of_process: Mapping[str, str]) -> None:
        """Begin without any.

        Args:
            of_stores: the series that there may be of a store.
            of_process: those without labels, and what they say.
        """
        self._of_stores = of_stores
        self._of_process = of_process
        self._families: dict[str, Any] = {}

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Add a gauge, or a counter where its name ends so.

        Args:
            name: of the series.
            labels: their values; none for one of the process.
            value: of it now.
        """
        family = self._families.get(name)
        if family is None:
            names: tuple[str, ...] = ()
            if name in self._of_process:
                text = self._of_process[name]
            else:
                text, more = self._of_stores[name]
                names = (*LABELS, *more)
            family = (
                CounterMetricFamily(name.removesuffix("_total"), text, labels=names)
                if name.endswith("_total")
                else GaugeMetricFamily(name, text, labels=names)
            )
            self._families[name] = family
        family.add_metric(labels, value)

    def add_histogram(
        self,
        name: str,
        labels: tuple[str, ...],
        bounds: tuple[float, ...],
        counts: tuple[int, ...],
        total: float,
    ) -> None:
        """Add a histogram that was counted elsewhere.

        Args:
            name: of the series.
            labels: their values.
            bounds: upper bounds.
            counts: up to each bound from the one before; the last one is of those beyond.
            total: sum of what was observed.
        """
        family = self._families.get(name)
        if family is None:
            family = HistogramMetricFamily(name, self._of_stores[name][0], labels=LABELS)
            self._families[name] = family
        buckets, below = [], 0
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, below))
        family.add_metric(labels, buckets, total)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())
