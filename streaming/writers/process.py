"""The process that writes one output for a job whose work is on executors.

Spark's Python workers come and go, and a store's next task may land in any of them. So a task
writes nothing itself: it speaks to this process, which holds the `StoreDispatcher` and its lock
from the first batch to the last. The first task that does not find it starts it.

It ends when it is told to, when the executor that last spoke to it is gone, or when it has heard
nothing for `SILENCE_SECONDS`, and closes the output in order each time.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from reput.streaming.writers.executor_process import Executor
from reput.streaming.writers.listening import Listener
from reput.streaming.writers.protocol import (
    CLOSE,
    DISPATCH,
    LISTENING,
    SILENCE_SECONDS,
    Answer,
    Failure,
    Order,
    Spec,
    address_of,
    failure_of,
    send,
)
from reput.streaming.writers.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.dispatcher import StoreDispatcher

_POLL_SECONDS = 0.2


class Writer:
    """One output's writer: takes orders one by one, and does what is due between them."""

    def __init__(self, spec: Spec, listener: socket.socket, executor: int) -> None:
        """Make ready to listen to tasks; the first order opens the output."""
        self._spec = spec
        self._executor = Executor(executor)
        self._listener = Listener(listener, spec.job, lambda: self._executor.is_gone)
        self._dispatcher: StoreDispatcher | None = None
        self._spoken_at = time.monotonic()
        self._terminated = threading.Event()
        self._failure: Failure | None = None
        self._incarnation = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
        # Not seen by the job yet, and the number of the first of them.
        self._batches: list[Batch] = []
        self._first = 0
        self._state: State | None = None

    def run(self) -> None:
        """Take orders until the process has to end; closes the output then.

        Raises:
            ReputError, OSError: it could not be closed in order, and no order was there to answer.
        """
        self._listener.start()
        try:
            while not self._terminated.is_set() and not self._is_left():
                came = self._listener.next(_POLL_SECONDS)
                if came is None:
                    self._do_what_is_due()
                    continue
                if not self._obey(*came):
                    return
                self._spoken_at = time.monotonic()
        finally:
            self._listener.stop()
            self._close()

    def terminate(self, *_: object) -> None:
        """Let it end after what it is doing; for signals."""
        self._terminated.set()

    def _is_left(self) -> bool:
        return self._executor.is_gone or time.monotonic() - self._spoken_at > SILENCE_SECONDS

    def _is_over(self) -> bool:
        return self._terminated.is_set() or self._executor.is_gone

    def _obey(self, connection: socket.socket, order: Order) -> bool:
        """Do what an order says and answer it; False if this was the last one."""
        self._watch(order.executor)
        with self._failing():
            self._dispatch(order)
        if order.kind == CLOSE:
            self._listener.stop()
            with self._failing():
                self._drain()
                self._close()
        # Without an output, or with one that is closed, there is nothing more to do here.
        # A closing order is the last one even if Kafka does not have everything: `run` closes then.
        goes_on = order.kind != CLOSE and self._dispatcher is not None
        if not goes_on:
            self._listener.stop()
        with connection, contextlib.suppress(OSError):
            # A task that was killed does not hear it; the next order gets the same again.
            send(connection, self._answer(order))
        return goes_on

    def _dispatch(self, order: Order) -> None:
        """Dispatch up to where an order says, which opens the output if it is not open."""
        is_new = self._dispatcher is None
        dispatcher = self._dispatcher or self._open(order.patience)
        if self._failure is not None:
            return
        if is_new:
            self._repeat(dispatcher, order)
        if order.end >= 0 and (is_new or order.kind == DISPATCH):
            self._batches.append(dispatcher.dispatch(order.end))

    def _open(self, patience: float) -> StoreDispatcher:
        # Slow to import, and a name that is taken has to be known before.
        from reput.streaming.writers.opening import events_of, open_output  # noqa: PLC0415

        dispatcher = open_output(self._spec, patience, self._is_over)
        self._dispatcher = dispatcher
        self._report(dispatcher, events_of(dispatcher))
        return dispatcher

    def _repeat(self, dispatcher: StoreDispatcher, order: Order) -> None:
        """Do again what the writer before had done and not recorded, in a batch of its own.

        What it had recorded and not reported is reported as a batch without entries.
        """
        from reput.streaming.dispatch.batch import Batch  # noqa: PLC0415 - slow to import

        counted, messages = order.counted
        known = dispatcher.progress
        if known.end < counted < order.end:
            self._batches.append(dispatcher.dispatch(counted))
        elif 0 <= counted < known.end and not dispatcher.recovery.truncations:
            missed = max(known.messages - messages, 0)
            self._batches.append(Batch(counted, known.end, messages=missed))

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep an error, whatever it is: the driver has to know. The first one counts."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - goes out with the next answer
            self._failure = self._failure or failure_of(error)
            if self._dispatcher is not None:
                # The batch that has failed does not report it.
                self._report(self._dispatcher, self._dispatcher.take_unsaid())

    def _report(self, dispatcher: StoreDispatcher, events: list[str]) -> None:
        """Report events, if there are any, with a batch of nothing."""
        from reput.streaming.dispatch.batch import Batch  # noqa: PLC0415 - slow to import

        if events:
            end = dispatcher.progress.end
            self._batches.append(Batch(end, end, events=events))

    def _watch(self, executor: int) -> None:
        """Work for the executor that spoke last: another one may have taken over on this host."""
        if executor != self._executor.process:
            self._executor.close()
            self._executor = Executor(executor)

    def _do_what_is_due(self) -> None:
        """Flush, and dispatch what was held back."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._failure is not None:
            return
        with self._failing():
            dispatcher.flush_if_due()
            dispatcher.catch_up(self._batches)

    def _answer(self, order: Order) -> bytes:
        incarnation, seen = order.seen
        if incarnation == self._incarnation:
            # What the driver has is not kept any longer.
            known = max(seen - self._first, 0)
            del self._batches[:known]
            self._first += known
        usage = resource.getrusage(resource.RUSAGE_SELF)
        if self._dispatcher is not None:
            self._state = State.of(self._dispatcher)
        answer = Answer(
            incarnation=self._incarnation,
            first=self._first,
            batches=self._batches,
            state=self._state.to_send() if self._state is not None else None,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            failure=self._failure,
        )
        return pickle.dumps(answer)

    def _drain(self) -> None:
        """Wait until Kafka has what is dispatched, if the job is to end only then."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._failure is not None or not self._spec.drains_kafka:
            return
        dispatcher.drain_kafka(self._is_over, batches=self._batches)

    def _close(self) -> None:
        if self._dispatcher is not None:
            dispatcher, self._dispatcher = self._dispatcher, None
            try:
                dispatcher.close()
            finally:
                self._state = State.of(dispatcher)


def main() -> int:
    """Take the name of an output, say so, and be its writer."""
    spec = Spec.read(sys.stdin.readline())
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address_of(spec.output))
    except OSError:
        # Another task was quicker; the one that started us will find its writer.
        return 0
    listener.listen()
    writer = Writer(spec, listener, int(sys.argv[1]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, writer.terminate)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.write(sys.stdout.fileno(), LISTENING)
    # The task that started us reads no more of it.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    writer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
