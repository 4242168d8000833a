"""What a job asks of its stores' writers, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from reput.formats.errors import ReputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.kafka.state import KafkaState
    from reput.streaming.writers.state import State


class UnreachableError(ReputError):
    """Spark has ended, or could not run the tasks that carry orders to writers."""


@dataclass(frozen=True)
class Result:
    """What came back from a store's writer.

    Attributes:
        store: its name.
        batches: since the last time.
        error: what went wrong.
        events: what an operator should know of besides, in words.
        phases: seconds by what was done between batches.
        kafka: how far its messages were sent when its output was closed.
    """

    store: str
    batches: Sequence[Batch] = ()
    error: BaseException | None = None
    events: Sequence[str] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    kafka: KafkaState | None = None


class Writers(Protocol):
    """All stores' writers of a job.

    A result carries the error of its store where the other stores are still to be asked. What
    keeps all stores from being written is raised, as is an error of closing or of a last look.
    """

    @property
    def dispatchers(self) -> Mapping[str, StoreDispatcher]:
        """Return the outputs that are open in this process, by store."""

    @property
    def reports_blocks(self) -> bool:
        """Tell whether blocks are reported while a batch is being written."""

    @property
    def cpu_seconds(self) -> float | None:
        """Return the processor time of other processes that write, None without any."""

    def open(self, spark: SparkSession) -> Iterable[Result]:
        """Open the outputs that are not open yet, once there is a session."""

    def begin(self) -> None:
        """Follow live stores from now on, as far as that does not take an order."""

    def end(self, store: str) -> int:
        """Return the physical offset that an output has come to; -1 for a new one."""

    def state(self, store: str) -> State | None:
        """Return where an output stands, None while its writer has not said so."""

    def failure(self, store: str) -> BaseException | None:
        """Return what a store has failed with, None while it is dispatched."""

    def seen_at(self, store: str) -> float:
        """Return when a store's writer was last seen to work, by a steady clock."""

    def dispatch(self, ends: Mapping[str, int]) -> Iterable[Result]:
        """Dispatch each store up to its physical offset; a live job's stores are then followed."""

    def tend(self) -> Iterable[Result]:
        """Return what live stores have done; of a rebuild, flush what is due.

        On executors, speak to the writers that have heard nothing for a while.
        """

    def drain_kafka(self) -> Iterable[Result]:
        """Wait until Kafka has what was dispatched, or the job is to end.

        A store that Kafka does not take keeps no other store waiting.
        """

    def look_for_flaws(self) -> Iterable[Result]:
        """Look for damage past each log's end, if the writers do not do so themselves."""

    def close_here(self) -> object:
        """Close what is open in this process, as Spark does not answer."""

    def close(self, *, has_failed: bool, is_ending: Callable[[], bool]) -> Iterable[Result]:
        """Close all outputs, also after one that cannot be closed.

        Args:
            has_failed: the job ends with an error.
            is_ending: asked when Spark is gone: was the job asked to end, as Spark was then?
        """
