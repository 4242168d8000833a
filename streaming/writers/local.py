"""Writes stores in the job's own process, one by one, up to where they are planned."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, about
from reput.streaming.writers.base import Result
from reput.streaming.writers.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.options import WriterOptions


class LocalWriters:
    """All outputs of a job that dispatches what is there, open from construction to `close`."""

    reports_blocks = True
    cpu_seconds = None

    def __init__(
        self,
        configs: Iterable[StoreConfig],
        options: WriterOptions,
        *,
        observe: Callable[[str, Block], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Open all outputs: what is wrong with one is said before anything slow.

        Args:
            configs: the stores.
            options: how they are written.
            observe: gets each block that was written.
            is_over: tells whether to end after the block; the next start begins at our progress.

        Raises:
            ReputError: a store or an output that cannot be used.
            OSError: no permission, no space.
        """
        self._observe = observe
        self._is_over = is_over
        self._dispatchers: dict[str, StoreDispatcher] = {}
        # What stores have failed with; they are left alone from then on.
        self._failures: dict[str, BaseException] = {}
        try:
            for config in configs:
                with about(config.name):
                    self._dispatchers[config.name] = options.open(config)
        except BaseException:
            self.close()
            raise

    @property
    def dispatchers(self) -> Mapping[str, StoreDispatcher]:
        """Return the open outputs, by store."""
        return self._dispatchers

    def open(self, spark: SparkSession) -> Iterable[Result]:  # noqa: ARG002 - of `Writers`
        """Do nothing: the outputs were opened before Spark."""
        return ()

    def begin(self) -> None:
        """Do nothing: stores are dispatched as far as they are planned."""

    def end(self, store: str) -> int:
        """Return the physical offset that an output has come to; -1 for a new one."""
        return self._dispatchers[store].progress.end

    def state(self, store: str) -> State | None:
        """Return where an output stands."""
        return State.of(self._dispatchers[store])

    def failure(self, store: str) -> BaseException | None:
        """Return what a store has failed with, None while it is dispatched."""
        return self._failures.get(store)

    def seen_at(self, store: str) -> float:  # noqa: ARG002 - of `Writers`
        """Return now: what a batch does is reported block by block."""
        return time.monotonic()

    def dispatch(self, ends: Mapping[str, int]) -> Iterator[Result]:
        """Dispatch one store after another; one that has failed is left alone from then on."""
        for store, end in ends.items():
            if store not in self._failures and not self._is_over():
                yield self._dispatch(store, end)

    def _dispatch(self, store: str, end: int) -> Result:
        dispatcher = self._dispatchers[store]
        try:
            batch = dispatcher.dispatch(
                end, observe=lambda block: self._observe(store, block), is_over=self._is_over
            )
        except BaseException as error:  # noqa: BLE001 - raised by the job
            self._failures[store] = error
            return Result(store, dispatcher.take_ended(), error)
        return Result(store, [batch])

    def tend(self) -> Iterator[Result]:
        """Flush what is due and dispatch what was held back."""
        for store, dispatcher in self._dispatchers.items():
            if store in self._failures:
                continue
            result = _tended(store, dispatcher)
            if result.error is not None:
                self._failures[store] = result.error
            yield result

    def drain_kafka(self) -> Iterator[Result]:
        """Wait until Kafka has what was dispatched."""
        for store, dispatcher in self._dispatchers.items():
            if store in self._failures:
                continue
            batches: list[Batch] = []
            failure = None
            try:
                # What an interrupted job leaves undone is said at its end, with the rest of it.
                dispatcher.drain_kafka(self._is_over, says_lack=False, batches=batches)
            except (ReputError, OSError) as error:
                failure = error
            yield Result(store, batches + dispatcher.take_ended(), failure)

    def look_for_flaws(self) -> Iterator[Result]:
        """Look past each log's end for what a job that runs would wait at."""
        for store, dispatcher in self._dispatchers.items():
            with about(store):
                dispatcher.look_for_flaw()
            yield Result(store)

    def close_here(self) -> object:
        """Close all outputs: all are open in this process."""
        return self.close()

    def close(self, **_: object) -> Sequence[Result]:
        """Close all outputs, also after one that cannot be closed.

        Raises:
            ReputError, OSError: an output could not be closed in order.
        """
        opened, self._dispatchers = self._dispatchers, {}
        return close_all(opened)


def close_all(opened: dict[str, StoreDispatcher]) -> list[Result]:
    """Close outputs, also after one that cannot be closed; return how far Kafka is.

    Raises:
        ReputError, OSError: an output could not be closed in order.
    """
    for dispatcher in opened.values():
        if dispatcher.kafka is not None:
            # All threads to Kafka end at the same time: their waits do not add up.
            dispatcher.kafka.end()
    with contextlib.ExitStack() as stack:
        for store, dispatcher in reversed(opened.items()):
            stack.callback(about(store)(dispatcher.close))
    return [
        Result(store, kafka=dispatcher.kafka.state)
        for store, dispatcher in opened.items()
        if dispatcher.kafka is not None
    ]


def _tended(store: str, dispatcher: StoreDispatcher) -> Result:
    """Do what is due for one store."""
    batches: list[Batch] = []
    phases: Mapping[str, float] = {}
    failure: BaseException | None = None
    try:
        if dispatcher.flush_if_due():
            phases = dispatcher.take_phases()
        dispatcher.catch_up(batches)
    except BaseException as error:  # noqa: BLE001 - raised by the job
        failure = error
    return Result(store, batches + dispatcher.take_ended(), failure, phases=phases)
