"""Writes stores beside executors: a writer process for each, to which Spark's tasks carry orders.

A batch is one Spark job with a task a store. The task carries an order to the store's writer
process on its host (`process` in this room), starts it if there is none, waits and carries the
answer back: the driver handles an order and an answer a store, whatever is dispatched. Spark may
run such a task twice, or somewhere else: an order says how far, not how much, and the lock of the
output lets one writer in. `docs/adr/0013-where-stores-are-written.md` has the reasons.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.checkpoints.disk import locks
from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import StuckError, about
from reput.streaming.endings.look import Look
from reput.streaming.writers.base import Result, UnreachableError
from reput.streaming.writers.executors.known_writer import KnownWriter
from reput.streaming.writers.executors.protocol import (
    CLOSE,
    DISPATCH,
    DRAIN,
    END,
    SILENCE_SECONDS,
    TEND,
    Order,
    Spec,
    answer_of,
    error_of,
)
from reput.streaming.writers.executors.spark_job import run_tasks
from reput.streaming.writers.executors.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.executors.task import TaskResult
    from reput.streaming.writers.job_options import JobOptions
    from reput.streaming.writers.state import State

# A writer hears from the job this often while its store has nothing new.
TEND_SECONDS = SILENCE_SECONDS / 6
# The same while its store gets records: lag is shown by what was heard.
_BUSY_SECONDS = 1.0
# A job that was killed a moment ago leaves writers that are about to end.
_OPEN_PATIENCE = 10.0
# A writer on a host that Spark has given up ends by silence.
_MOVE_PATIENCE = SILENCE_SECONDS + 15.0
# For writers that were asked to end by a signal of their own, and for all that are silent.
_CLOSING_SECONDS = 20.0
_POLL_SECONDS = 0.2
# One round of asking writers that were silent, and the least of it for each: as many may hang as
# share a disk. Those that work end where they hear nothing for `SILENCE_SECONDS`.
_SILENT_SECONDS, _LEAST_SILENT_SECONDS = 5.0, 1.0
# One round of asking writers whether Kafka has everything: between two, the job may have to end.
_DRAIN_SECONDS = 2.0


class ExecutorWriters:
    """The driver's side: all stores' writers, wherever they are."""

    # A batch says nothing until it ends; Spark watches its tasks.
    reports_blocks = False

    def __init__(
        self,
        configs: Sequence[StoreConfig],
        options: JobOptions,
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Remember what the writers are for; `open` starts them.

        Args:
            configs: the stores.
            options: how they are written.
            is_over: tells whether to wait for Kafka no longer.

        Raises:
            UsageError: a value of a broker.conf is not a number.
        """
        for each in configs:
            # Each writer makes its own; a wrong value is refused before any output is opened.
            with about(each.name):
                options.flush_policy(each)
        self.dispatchers: dict[str, StoreDispatcher] = {}
        self._configs = configs
        self._options = options
        self._is_over = is_over
        self._context: SparkContext | None = None
        self._cpu_seconds_before = 0.0
        self._writers: dict[str, KnownWriter] = {}

    def open(self, spark: SparkSession) -> list[Result]:
        """Open all outputs: what is wrong with one is said before the first batch."""
        self._context = spark.sparkContext
        job = f"{self._context.applicationId}-{uuid.uuid4().hex}"
        self._writers = {
            each.name: KnownWriter(Spec.of(job, each, self._options)) for each in self._configs
        }
        return self._send(dict.fromkeys(self._writers, TEND), _OPEN_PATIENCE)

    def begin(self) -> None:
        """Do nothing: a writer begins with its first order."""

    def end(self, store: str) -> int:
        """Return the physical offset that an output has come to; -1 for a new one."""
        known = self._writers.get(store)
        return known.answer.end if known is not None and known.answer is not None else -1

    def state(self, store: str) -> State | None:
        """Return where an output stands, as last heard."""
        known = self._writers.get(store)
        return known.answer.state if known is not None and known.answer is not None else None

    def failure(self, store: str) -> BaseException | None:
        """Return what a store has failed with, None while it is dispatched."""
        known = self._writers.get(store)
        return known.failure if known is not None else None

    def seen_at(self, store: str) -> float:
        """Return when a store's writer last answered, by a steady clock."""
        known = self._writers.get(store)
        return known.answered_at if known is not None else time.monotonic()

    @property
    def cpu_seconds(self) -> float | None:
        """Return the processor time of all writers there have been, as last heard."""
        if self._context is None:
            return None
        present = (known.answer.cpu_seconds for known in self._writers.values() if known.answer)
        return self._cpu_seconds_before + sum(present)

    def dispatch(self, ends: Mapping[str, int]) -> list[Result]:
        """Dispatch every store up to its end, all at once as far as there are cores."""
        if not self._options.available_now and self._is_over():
            # CLOSE brings what is new; a writer that hangs would keep the job from its end.
            return []
        for name, end in ends.items():
            self._writers[name].wanted = end
        quiet = dict.fromkeys(self._due(), TEND)
        kinds = quiet | dict.fromkeys(ends, DISPATCH)
        if self._options.available_now:
            # One that has failed is left alone from then on.
            kinds = {n: kind for n, kind in kinds.items() if self._writers[n].failure is None}
        return self._send(kinds, _MOVE_PATIENCE)

    def tend(self) -> list[Result]:
        """Speak to the writers that have heard nothing for a while; most often to none."""
        return self._send(dict.fromkeys(self._due(), TEND), _MOVE_PATIENCE)

    def drain_kafka(self) -> Iterator[Result]:
        """Let writers wait until Kafka has what was dispatched, one short round after another."""
        waiting = {n: k for n, k in self._writers.items() if k.spec.kafka and k.failure is None}
        while waiting and not self._is_over():
            # However many there are, and however few run at a time, no round is longer.
            seconds = _DRAIN_SECONDS / len(waiting)
            quiet = {n: TEND for n in self._due() if self._writers[n].failure is None}
            kinds = quiet | dict.fromkeys(waiting, DRAIN)
            try:
                yield from self._send(kinds, _MOVE_PATIENCE, seconds=seconds)
            except UnreachableError:
                # A signal for the job may end Spark as well.
                if not self._is_over():
                    raise
            waiting = {n: k for n, k in waiting.items() if k.lacks_kafka}
        for name, known in waiting.items():
            known.is_undrained = True
            yield Result(name, kafka=known.kafka)

    def look_for_flaws(self) -> Sequence[Result]:
        """Close all outputs: a store that had failed when last heard may be well by now."""
        try:
            return self._send_close(starts=True)
        except UnreachableError:
            # A signal for the job may end Spark as well; `close` looks whether all are closed.
            if not self._is_over():
                raise
            return ()

    def close_here(self) -> object:
        """Do nothing: a writer that hears nothing for a while closes its output by itself."""

    def close(self, *, has_failed: bool, is_ending: Callable[[], bool]) -> list[Result]:
        """Close all outputs in order; after a failure, without a writer in the place of a lost one.

        Raises:
            UnreachableError: Spark could not, and the writers have not ended in order either.
        """
        try:
            return self._send_close(starts=not has_failed)
        except UnreachableError:
            if has_failed or (is_ending() and self._are_closed()):
                return []
            raise

    def _send_close(self, *, starts: bool) -> list[Result]:
        # Tasks run a few at a time: without this, the writers' waits for Kafka would add up.
        ends = {n: END for n, k in self._writers.items() if k.is_sending}
        ended = self._send(ends if len(ends) > 1 else {}, 0.0, starts=False)
        # Whether a store has failed is said as it is closed: one that had may be well by then.
        found = [replace(each, error=None) for each in ended]
        writers = self._writers.items()
        heard = {n: k for n, k in writers if not k.is_closed and (k.answer or k.is_silent)}
        found += self._send(dict.fromkeys(heard, CLOSE), _MOVE_PATIENCE, starts=starts)
        for known in heard.values():
            known.is_closed = True
        return found

    def _are_closed(self) -> bool:
        """Tell whether all writers have ended in order by themselves; they get some time.

        A disk of theirs may hang: this process, which has to end, then waits no longer either.
        """
        return bool(Look(self._wait_until_closed, _CLOSING_SECONDS).found())

    def _wait_until_closed(self) -> bool:
        until = time.monotonic() + _CLOSING_SECONDS
        while time.monotonic() < until:
            if not any(locks.holder_of(each.output / STATE_DIRECTORY) for each in self._configs):
                records = [progress.load(each.output) for each in self._configs]
                return all(record is not None and record.clean for record in records)
            time.sleep(_POLL_SECONDS)
        return False

    def _due(self) -> list[str]:
        now = time.monotonic()
        return [
            name
            for name, known in self._writers.items()
            if now - known.heard_at > (_BUSY_SECONDS if known.is_busy else TEND_SECONDS)
        ]

    def _silent_last(self, kinds: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Return the orders with those of silent writers last, and the names of these.

        Until it is to close, a silent one only has to show that it works.
        """
        silent = [n for n in kinds if self._writers[n].hangs]
        first = {n: kind for n, kind in kinds.items() if n not in silent}
        return first | {n: CLOSE if kinds[n] == CLOSE else TEND for n in silent}, silent

    def _share(self, silent: Sequence[str], *, closes: bool) -> float:
        """Return how long a silent writer is waited for, seconds, so that all take no longer."""
        if closes:
            # All are closed at the same time.
            return _CLOSING_SECONDS
        return max(_SILENT_SECONDS / max(len(silent), 1), _LEAST_SILENT_SECONDS)

    def _send(
        self,
        kinds: Mapping[str, str],
        patience: float,
        *,
        starts: bool = True,
        seconds: float = 0.0,
    ) -> list[Result]:
        """Run one Spark job that carries the orders, and return what came back.

        Raises:
            UnreachableError: Spark could not.
        """
        kinds, silent = self._silent_last(kinds)
        within = self._share(silent, closes=CLOSE in kinds.values())
        tasks = []
        for name, kind in kinds.items():
            known = self._writers[name]
            order = Order(
                kind=kind,
                end=known.wanted,
                starts=starts,
                patience=known.patience(patience),
                seen=known.answer.seen if known.answer is not None else ("", 0),
                counted=known.counted,
                seconds=seconds,
                answer_within=within if name in silent else 0.0,
            )
            tasks.append(Task(known.spec, order, known.host))
        if not tasks or self._context is None:
            return []
        began = time.monotonic()
        found = run_tasks(self._context, tasks)
        for name, known in self._writers.items():
            if name not in kinds and not known.is_silent:
                # It was not asked while others were waited for.
                known.answered_at += time.monotonic() - began
        return [self._take(*order, each) for order, each in zip(kinds.items(), found, strict=True)]

    def _take(self, name: str, kind: str, found: TaskResult) -> Result:
        known = self._writers[name]
        known.heard_at = time.monotonic()
        known.host = found.host
        error = error_of(found.failure) if found.failure is not None else None
        known.is_silent = isinstance(error, StuckError)
        if not known.is_silent:
            known.answered_at = known.heard_at
        else:
            known.is_busy = False
            if known.spec.follows and kind != CLOSE:
                # It may only be slow. `seen_at` tells for how long, and the next order asks again.
                return Result(name, kafka=known.kafka)
            # Not only as long as this order has waited.
            error = StuckError(known.spec.output, known.heard_at - known.answered_at)
        if error is not None:
            known.failure = error
            return Result(name, error=error, kafka=known.kafka)
        if not found.answer:
            return Result(name, kafka=known.kafka)
        answer = answer_of(found.answer)
        before = known.answer
        if before is not None and before.incarnation != answer.incarnation:
            self._cpu_seconds_before += before.cpu_seconds
            known.sent_before = known.sent
        if answer.state is not None and answer.state.kafka is not None:
            known.sent = answer.state.kafka.since(known.sent_before)
            answer = replace(answer, state=replace(answer.state, kafka=known.sent))
        known.answer = answer
        known.failure = error_of(answer.failure) if answer.failure else None
        known.counted = answer.counted
        known.is_busy = bool(answer.batches)
        return Result(name, answer.batches, known.failure, kafka=known.kafka)
