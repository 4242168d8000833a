"""Writes the stores of a live job in its own process: each on a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, StuckError, UsageError, mark
from reput.stores.heap import give_back_large
from reput.streaming.endings.interruptions import leave_at_once
from reput.streaming.writers.base import Result
from reput.streaming.writers.sentry import Sentry
from reput.streaming.writers.store_thread import Shared, StoreThread
from reput.streaming.writers.turnstile import Turnstile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.options import WriterOptions
    from reput.streaming.writers.state import State

# A store that takes longer to open than this keeps the others waiting no longer.
_OPENING_SECONDS = 10.0
# For what a thread is doing when the job ends: a block, a flush of everything, and closing.
_ENDING_SECONDS = 20.0


class LiveWriters:
    """All outputs of a job that runs until it is stopped."""

    reports_blocks = True
    cpu_seconds = None

    def __init__(
        self,
        configs: Iterable[StoreConfig],
        options: WriterOptions,
        *,
        observe: Callable[[str, Block], None],
        most_bytes: int | None = None,
    ) -> None:
        """Open all outputs; one that cannot be opened is tried again, unless none can be.

        Args:
            configs: the stores.
            options: how they are written.
            observe: gets each block that was written.
            most_bytes: of log that a turn of a store takes, None for the usual.

        Raises:
            UsageError: a setting that is wrong.
            ReputError: no store or output can be used.
            OSError: no permission, no space.
        """
        give_back_large()
        self._sentry = Sentry()
        shared = Shared(self._sentry, Turnstile())
        self._threads = {
            config.name: StoreThread(config, options, observe, most_bytes, shared)
            for config in configs
        }
        # Stores whose thread does not end.
        self._stuck: set[str] = set()
        self._closing = threading.Lock()
        self._open_all()

    def _open_all(self) -> None:
        """Open all outputs.

        Raises:
            ReputError, OSError: what keeps all of them from being opened, or a wrong setting.
        """
        self._sentry.start()
        for thread in self._threads.values():
            thread.start()
        until = time.monotonic() + _OPENING_SECONDS
        opened = [
            thread
            for thread in self._threads.values()
            if thread.wait_until_open(0.0 if thread.is_in_doubt else until - time.monotonic())
        ]
        failures = [error for thread in opened if (error := thread.failure) is not None]
        wrong = [error for error in failures if not _may_pass(error)]
        if wrong or len(failures) == len(self._threads):
            self.close()
            raise (wrong or failures)[0]
        for thread in opened:
            thread.told()

    @property
    def dispatchers(self) -> Mapping[str, StoreDispatcher]:
        """Return the outputs that are open, by store."""
        found = {store: each.dispatcher for store, each in self._threads.items()}
        return {store: each for store, each in found.items() if each is not None}

    def open(self, spark: SparkSession) -> Iterable[Result]:  # noqa: ARG002 - of `Writers`
        """Do nothing: the outputs were opened before Spark."""
        return ()

    def end(self, store: str) -> int:
        """Return the physical offset that an output has come to; -1 for a new one."""
        thread = self._threads[store]
        # Its thread may close the output meanwhile.
        dispatcher = thread.dispatcher
        if dispatcher is not None:
            return dispatcher.progress.end
        return thread.state.progress.end if thread.state is not None else -1

    def state(self, store: str) -> State | None:
        """Return where an output stood a moment ago."""
        return self._threads[store].state

    def failure(self, store: str) -> BaseException | None:
        """Return what a store has failed with and waits after, None while it is dispatched."""
        return self._threads[store].failure

    def seen_at(self, store: str) -> float:
        """Return when a store's writer was last seen to work, by a steady clock."""
        return self._threads[store].seen_at

    def begin(self) -> None:
        """Let all stores be followed from now on."""
        for thread in self._threads.values():
            thread.follow()

    def dispatch(self, ends: Mapping[str, int]) -> Iterator[Result]:  # noqa: ARG002 - of `Writers`
        """Return what is done: stores are followed past what was planned."""
        return self.tend()

    def tend(self) -> Iterator[Result]:
        """Return what the stores' threads have done since the last time."""
        for thread in self._threads.values():
            yield thread.take()

    def drain_kafka(self) -> Sequence[Result]:
        """Do nothing: a live job does not wait for Kafka."""
        return ()

    def look_for_flaws(self) -> Iterator[Result]:
        """End all stores; look past each log's end for what the job has waited at."""
        yield from self._end_threads(looks_for_flaw=True)
        for thread in self._threads.values():
            yield thread.take()

    def _end_threads(self, *, looks_for_flaw: bool = False) -> Iterator[Result]:
        """Let all threads close their outputs and end; yield the stores whose thread does not."""
        self._sentry.end()
        for thread in self._threads.values():
            thread.end(looks_for_flaw=looks_for_flaw)
        until = time.monotonic() + _ENDING_SECONDS
        for store, thread in self._threads.items():
            if store in self._stuck or thread.join(max(until - time.monotonic(), 0.0)):
                continue
            self._stuck.add(store)
            # Its thread does not end, and the process has to.
            leave_at_once()
            error = StuckError(thread.output, time.monotonic() - thread.seen_at)
            mark(error, store)
            yield Result(store, error=error)

    def close_here(self) -> object:
        """Close all outputs: all are open in this process."""
        return self.close()

    def close(self, **_: object) -> Sequence[Result]:
        """Close all outputs, also after one that cannot be closed; a stuck one is left as it is.

        Raises:
            ReputError, OSError: an output could not be closed in order.
        """
        # Also the last resort closes: it has to wait until all is closed, or stuck.
        with self._closing:
            told = list(self._end_threads())
        for thread in self._threads.values():
            error, thread.unclosed = thread.unclosed, None
            if error is not None:
                raise error
        kafkas = {store: thread.kafka for store, thread in self._threads.items()}
        return told + [Result(store, kafka=kafka) for store, kafka in kafkas.items() if kafka]


def _may_pass(error: BaseException) -> bool:
    """Tell whether an error may go by itself, or by what an operator does to a store."""
    return isinstance(error, ReputError | OSError) and not isinstance(error, UsageError)
