"""What a job says of itself, to its metrics or to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.writers.state import State


class Observer(Protocol):
    """What a job tells of itself; `streaming.observe.metrics.Metrics` shows it to Prometheus."""

    def alive(self) -> None:
        """Take note that the job makes progress."""

    def batch(self, store: str, batch: Batch, state: State) -> None:
        """Count a batch."""

    def state(self, store: str, state: State) -> None:
        """Take where a store's output stands."""

    def phases(self, store: str, seconds: Mapping[str, float]) -> None:
        """Count the time of what was done between batches."""

    def error(self, store: str, error: BaseException) -> None:
        """Count what stopped a store."""

    def seen(self, store: str, at: float, failure: BaseException | None) -> None:
        """Take when a store's writer was seen to work, and what it has failed with."""

    def unplanned(self, seconds: float) -> None:
        """Take for how long stores have been dispatched past what Spark has planned."""

    def watch_jvm(self, view: Any) -> None:
        """Begin to look at Spark's JVM; `view` is a SparkContext's `_jvm`."""

    def sample_jvm(self) -> None:
        """Look at the JVM's memory, if that is due."""


class Unobserved:
    """Takes everything and shows nothing: a job without metrics."""

    def alive(self) -> None:
        """Do nothing."""

    def batch(self, store: str, batch: Batch, state: State) -> None:
        """Do nothing."""

    def state(self, store: str, state: State) -> None:
        """Do nothing."""

    def phases(self, store: str, seconds: Mapping[str, float]) -> None:
        """Do nothing."""

    def error(self, store: str, error: BaseException) -> None:
        """Do nothing."""

    def seen(self, store: str, at: float, failure: BaseException | None) -> None:
        """Do nothing."""

    def unplanned(self, seconds: float) -> None:
        """Do nothing."""

    def watch_jvm(self, view: Any) -> None:
        """Do nothing."""

    def sample_jvm(self) -> None:
        """Do nothing."""
