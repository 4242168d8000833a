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
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.streaming.writers.backoff import Backoff
from reput.streaming.writers.counted import Counted
from reput.streaming.writers.executors.executor_process import Executor
from reput.streaming.writers.executors.listening import Listener
from reput.streaming.writers.executors.protocol import (
    CLOSE,
    DISPATCH,
    DRAIN,
    END,
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
from reput.streaming.writers.executors.untold import Untold
from reput.streaming.writers.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.kafka.state import KafkaState
    from reput.streaming.writers.follower import Follower

_POLL_SECONDS = 0.2
# A task waits for its answer.
_BATCH_SECONDS = 3.0


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
        # What follows the log by itself, once that was asked for; when a failed store is due.
        self._follower: Follower | None = None
        self._is_following = False
        self._backoff = Backoff()
        self._again_at = 0.0
        # To Kafka, until the output was closed last.
        self._sent: KafkaState | None = None
        self._counted, self._untold = Counted(), Untold()
        self._state: State | None = None

    def run(self) -> None:
        """Take orders until the process has to end; closes the output then.

        Raises:
            ReputError, OSError: it could not be closed in order, and no order was there to answer.
        """
        self._listener.start()
        try:
            while not self._terminated.is_set() and not self._is_left():
                came = self._listener.next(self._pause())
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

    def _pause(self) -> float:
        """Return how long to wait for an order before doing what is due."""
        return _POLL_SECONDS if self._follower is None else self._follower.pause()

    def _is_wanted(self) -> bool:
        """Tell whether to leave the log for a moment: there is an order, or the process ends."""
        return self._is_over() or self._listener.has_order

    def _is_over(self) -> bool:
        return self._terminated.is_set() or self._executor.is_gone

    def _obey(self, connection: socket.socket, order: Order) -> bool:
        """Do what an order says and answer it; False if this was the last one."""
        self._watch(order.executor)
        if self._counted.mark.end < 0:
            # What the writer before has done.
            self._counted.mark = order.counted
        is_drained = False
        with self._failing():
            self._dispatch(order)
            is_drained = order.kind == DRAIN and self._drain(order.seconds)
        if order.kind == CLOSE:
            self._listener.stop()
            with self._failing():
                if self._close() and self._spec.follows:
                    self._failure = None
        # Without an output, or with one that is closed, there is nothing more to do here.
        goes_on = order.kind != CLOSE and (self._dispatcher is not None or self._spec.follows)
        if not goes_on:
            self._listener.stop()
        with connection, contextlib.suppress(OSError):
            # A task that was killed does not hear it; the next order gets the same again.
            send(connection, self._answer(order, is_drained=is_drained))
        return goes_on

    def _dispatch(self, order: Order) -> None:
        """Dispatch up to where an order says, which opens the output if it is not open."""
        self._is_following = self._is_following or (self._spec.follows and order.end >= 0)
        if self._failure is not None and self._spec.follows and self._dispatcher is None:
            if self._state is not None or order.kind == CLOSE:
                # It is tried again when it is due.
                return
            # It was never open: the order may have the patience to wait for another writer.
            self._failure = None
        is_new = self._dispatcher is None
        dispatcher = self._dispatcher or self._open(order.patience)
        if self._failure is not None and not self._spec.follows:
            return
        if is_new:
            self._untold.fresh += self._counted.begin(dispatcher)
        if order.end >= 0 and (is_new or order.kind == DISPATCH):
            end, is_over = self._first_end(dispatcher, order.end), self._ends_soon()
            if self._follower is not None:
                self._follower.dispatch(self._untold.fresh, end, is_over)
            else:
                with self._counting(dispatcher) as done:
                    for each in self._counted.ends(dispatcher.progress.end, end):
                        done.append(dispatcher.dispatch(each, is_over=is_over))
        self._follow(dispatcher)
        if order.kind == END and dispatcher.kafka is not None:
            dispatcher.kafka.end()

    def _first_end(self, dispatcher: StoreDispatcher, end: int) -> int:
        """Return up to where an order is done at once: a turn's worth of what is followed."""
        begin = max(dispatcher.progress.end, dispatcher.log.min_offset)
        most = self._spec.turn_bytes if self._spec.follows else None
        return end if most is None else min(end, begin + most)

    def _ends_soon(self) -> Callable[[], bool]:
        """Return what ends a batch: of one that is followed anyway, the rest comes in a moment."""
        return self._over_in(_BATCH_SECONDS) if self._spec.follows else self._is_over

    def _over_in(self, seconds: float) -> Callable[[], bool]:
        """Return what ends a piece of work after some seconds, or when the process ends."""
        until = time.monotonic() + seconds
        return lambda: self._is_over() or time.monotonic() > until

    def _follow(self, dispatcher: StoreDispatcher) -> None:
        """Follow the log from now on, if Spark has planned a first range of it."""
        from reput.streaming.writers.follower import Follower  # noqa: PLC0415 - slow to import

        if self._is_following and self._follower is None:
            skips, most = self._spec.options.skips_corrupt, self._spec.turn_bytes
            self._follower = Follower(
                dispatcher, skips_corrupt=skips, most_bytes=most, counted=self._counted
            )

    def _open(self, patience: float) -> StoreDispatcher:
        # Slow to import, and a name that is taken has to be known before.
        from reput.streaming.writers.opening import events_of, open_output  # noqa: PLC0415

        dispatcher = open_output(self._spec, patience, self._is_over)
        self._dispatcher = dispatcher
        self._backoff.begin(dispatcher.recorded_end)
        self._untold.report(dispatcher.progress.end, events_of(dispatcher))
        return dispatcher

    @contextlib.contextmanager
    def _counting(self, dispatcher: StoreDispatcher) -> Iterator[list[Batch]]:
        """Yield a list for batches; what of them is to be counted is reported."""
        done: list[Batch] = []
        try:
            yield done
        finally:
            self._untold.fresh += self._counted.take(done, dispatcher.progress)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep an error, whatever it is: the driver has to know.

        The first one counts; of a store that is tried again, the last one.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - goes out with the next answer
            if self._failure is None or self._spec.follows:
                self._failure = failure_of(error)
            if self._dispatcher is not None:
                # The batch that has failed does not report it.
                with self._counting(self._dispatcher) as done:
                    done.extend(self._dispatcher.take_ended())
            if self._spec.follows:
                self._give_up()

    def _give_up(self) -> None:
        """Close an output that has failed; it is opened again in a while."""
        self._follower = None
        self._again_at = time.monotonic() + self._backoff.next()
        # It is left as that of a killed writer; what it has failed with is known.
        with contextlib.suppress(ReputError, OSError):
            self._close()

    def _watch(self, executor: int) -> None:
        """Work for the executor that spoke last: another one may have taken over on this host."""
        if executor != self._executor.process:
            self._executor.close()
            self._executor = Executor(executor)

    def _do_what_is_due(self) -> None:
        """Dispatch what is new, flush, and try again where the store has failed a while ago."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            self._try_again()
            return
        if self._failure is not None and not self._spec.follows:
            return
        with self._failing():
            if self._follower is None:
                dispatcher.flush_if_due()
                with self._counting(dispatcher) as done:
                    dispatcher.catch_up(done)
                return
            self._follower.turn(self._untold.fresh, _ignore, self._is_wanted)
            if self._failure is not None and self._backoff.is_well(dispatcher):
                self._failure = None
            self._untold.put_together()

    def _try_again(self) -> None:
        """Open the output of a failed store once more, when it is due."""
        is_due = self._failure is not None and time.monotonic() >= self._again_at
        if not (self._spec.follows and is_due) or self._is_over():
            return
        with self._failing():
            dispatcher = self._open(0.0)
            self._untold.fresh += self._counted.begin(dispatcher)
            self._follow(dispatcher)
            if self._follower is not None:
                if dispatcher.progress.end < self._counted.mark.end:
                    end, is_over = self._counted.mark.end, self._ends_soon()
                    self._follower.dispatch(self._untold.fresh, end, is_over)
                self._follower.turn(self._untold.fresh, _ignore, self._is_wanted)

    def _answer(self, order: Order, *, is_drained: bool) -> bytes:
        incarnation, seen = order.seen
        if incarnation == self._incarnation:
            self._untold.forget(seen)
        self._untold.put_apart()
        if self._dispatcher is not None:
            self._state = State.of(self._dispatcher, self._sent)
        answer = Answer(
            incarnation=self._incarnation,
            first=self._untold.first,
            batches=self._untold.batches,
            state=self._state.to_send() if self._state is not None else None,
            cpu_seconds=time.process_time(),
            counted=self._counted.mark,
            failure=self._failure,
            is_drained=is_drained,
        )
        return pickle.dumps(answer)

    def _drain(self, seconds: float) -> bool:
        """Wait for a while until Kafka has what is dispatched; tell whether it has."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._failure is not None:
            return False
        with self._counting(dispatcher) as done:
            return dispatcher.drain_kafka(self._over_in(seconds), says_lack=False, batches=done)

    def _close(self) -> bool:
        """Close the output; tell whether a store that had failed is well by that."""
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is None:
            return False
        try:
            dispatcher.close()
        finally:
            self._state = State.of(dispatcher, self._sent)
            self._sent = self._state.kafka
        return self._backoff.has_ended_well(dispatcher)


def _ignore(_block: Block) -> None:
    """Take no notice of a block: an answer says what was done."""


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
