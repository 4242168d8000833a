"""The process that writes one output for a job whose work is on executors.

Spark's Python workers come and go, and a store's next task may land in any of them. So a task
writes nothing itself: it speaks to this process, which holds the `StoreDispatcher` and its lock
from the first batch to the last. It is started by the first task that does not find it.

It ends when it is told to, when the executor that last spoke to it is gone, or when nobody has
spoken to it for `SILENCE_SECONDS`, and closes the output in order each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import resource
import select
import signal
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import StoreError
from reput.streaming.settings.space import space_of
from reput.streaming.writers.protocol import (
    CLOSE,
    DISPATCH,
    LISTENING,
    SILENCE_SECONDS,
    Answer,
    Failure,
    Hello,
    Order,
    Spec,
    address_of,
    failure_of,
    is_own_user,
    receive,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.streaming.dispatch.dispatcher import Batch, StoreDispatcher

_POLL_SECONDS = 0.2
_LOCK_POLL_SECONDS = 0.5
# A task sends its order as soon as it is connected; who does not is no task.
_ORDER_SECONDS = 10.0


class Conversation(NamedTuple):
    """A connection and the order that came over it."""

    connection: socket.socket
    order: Order


class Executor:
    """The process that a writer works for, as long as it lives."""

    def __init__(self, process: int) -> None:
        """Watch a process; one that cannot be watched is taken to live."""
        self.process = process
        self._descriptor: int | None = None
        # An old kernel, or a number of another namespace: silence still ends the writer.
        with contextlib.suppress(OSError):
            self._descriptor = os.pidfd_open(process)

    @property
    def is_gone(self) -> bool:
        """Tell whether it has ended."""
        if self._descriptor is None:
            return False
        # Not select(): it cannot take a descriptor above 1,023, and ten thousand queues have those.
        watched = select.poll()
        watched.register(self._descriptor, select.POLLIN)
        return bool(watched.poll(0))

    def close(self) -> None:
        """Watch no longer."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Writer:
    """One output's writer: takes orders one by one, and does what is due between them."""

    def __init__(self, spec: Spec, listener: socket.socket, executor: int) -> None:
        """Begin to listen to tasks; the output is opened by the first order."""
        self._spec = spec
        self._listener = listener
        self._executor = Executor(executor)
        self._dispatcher: StoreDispatcher | None = None
        self._orders: queue.SimpleQueue[Conversation] = queue.SimpleQueue()
        self._spoken_at = time.monotonic()
        self._terminated = threading.Event()
        self._failure: Failure | None = None
        self._incarnation = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
        # Not seen by the job yet, and the number of the first of them.
        self._batches: list[Batch] = []
        self._first = 0
        self._state: dict[str, Any] | None = None

    def run(self) -> None:
        """Take orders until there is no reason to go on; the output is closed then.

        Raises:
            ReputError, OSError: it could not be closed in order, and nobody was there to be told.
        """
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        try:
            while not self._terminated.is_set() and not self._is_left():
                try:
                    conversation = self._orders.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    self._do_what_is_due()
                    continue
                if not self._obey(conversation):
                    return
                self._spoken_at = time.monotonic()
        finally:
            self._stop_listening()
            self._close()

    def terminate(self, *_: object) -> None:
        """Have it end after what it is doing; for signals."""
        self._terminated.set()

    def _is_left(self) -> bool:
        return self._executor.is_gone or time.monotonic() - self._spoken_at > SILENCE_SECONDS

    def _listen(self) -> None:
        """Greet at once, also while a batch is being written: others want to know whose it is."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                connection.settimeout(_ORDER_SECONDS)
                order = self._greet(connection) if is_own_user(connection) else None
            except (OSError, ValueError):
                order = None
            if order is None:
                connection.close()
            else:
                connection.settimeout(None)
                self._orders.put(Conversation(connection, order))

    def _greet(self, connection: socket.socket) -> Order | None:
        holder = f"reput, process {os.getpid()} on {socket.gethostname()},"
        hello = Hello(job=self._spec["job"], holder=holder, is_left=self._executor.is_gone)
        send(connection, json.dumps(hello).encode())
        frame = receive(connection)
        return json.loads(frame) if frame else None

    def _stop_listening(self) -> None:
        """Give the name up; who was not greeted yet finds it free, or another writer there."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _obey(self, conversation: Conversation) -> bool:
        """Do what an order says and answer it; False if this was the last one."""
        order = conversation.order
        self._watch(order["executor"])
        goes_on = order["kind"] != CLOSE
        with self._failing():
            is_new = self._dispatcher is None
            dispatcher = self._dispatcher or self._open(order["patience"])
            if is_new and self._failure is None:
                self._repeat(dispatcher, order)
            if self._failure is None and order["end"] >= 0:
                if is_new or order["kind"] == DISPATCH:
                    self._batches.append(dispatcher.dispatch(order["end"]))
        if not goes_on:
            self._stop_listening()
            with self._failing():
                self._drain()
                self._close()
        # Without an output, or with one that is closed, there is nothing more to do here.
        goes_on = goes_on and self._dispatcher is not None
        if not goes_on:
            self._stop_listening()
        with conversation.connection as connection, contextlib.suppress(OSError):
            # A task that was killed does not hear it; the next order gets the same again.
            send(connection, self._answer(order))
        return goes_on

    def _repeat(self, dispatcher: StoreDispatcher, order: Order) -> None:
        """Do again what the writer before had done and not recorded, in a batch of its own.

        What it had recorded and not reported is reported as a batch without entries.
        """
        from reput.streaming.dispatch.dispatcher import Batch  # noqa: PLC0415 - slow to import

        counted, messages = order["counted"]
        known = dispatcher.progress
        if known.end < counted < order["end"]:
            self._batches.append(dispatcher.dispatch(counted))
        elif 0 <= counted < known.end and not dispatcher.recovery.truncations:
            missed = max(known.messages - messages, 0)
            self._batches.append(Batch(counted, known.end, messages=missed))

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep an error, whatever it is: the driver has to know. The first one counts."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - told to whoever speaks next
            self._failure = self._failure or failure_of(error)
            self._report_unsaid()

    def _report_unsaid(self) -> None:
        """Report what the batch that has failed had to say, with a batch of nothing."""
        from reput.streaming.dispatch.dispatcher import Batch  # noqa: PLC0415 - slow to import

        dispatcher = self._dispatcher
        events = dispatcher.take_unsaid() if dispatcher is not None else []
        if dispatcher is not None and events:
            end = dispatcher.progress.end
            self._batches.append(Batch(end, end, events=events))

    def _watch(self, executor: int) -> None:
        """Work for the executor that spoke last: another one may have taken over on this host."""
        if executor != self._executor.process:
            self._executor.close()
            self._executor = Executor(executor)

    def _open(self, patience: float) -> StoreDispatcher:
        """Open the output; wait if another writer of it is about to end.

        Raises:
            ReputError: what is wrong with the store or the output; who has it locked.
            OSError: no permission, no space.
        """
        # Slow to import, and a name that is taken has to be known before.
        from reput.checkpoints.disk import locks  # noqa: PLC0415
        from reput.checkpoints.progress import STATE_DIRECTORY  # noqa: PLC0415
        from reput.streaming.dispatch.dispatcher import Batch, StoreDispatcher  # noqa: PLC0415
        from reput.streaming.dispatch.warm import warm_up  # noqa: PLC0415
        from reput.streaming.events import Event, kind_of_event  # noqa: PLC0415
        from reput.streaming.settings.config import FlushPolicy, store_config  # noqa: PLC0415

        spec = self._spec
        warming = warm_up()
        config = store_config(
            Path(spec["path"]),
            None if spec["in_place"] else Path(spec["output"]),
            name=spec["name"],
            broker_version=spec["version"],
            broker_conf=spec["properties"],
            in_place=spec["in_place"],
            commitlog=[Path(place) for place in spec["commitlog"]],
        )
        if spec["kafka"] is not None:
            from reput.streaming.settings.kafka import from_fields  # noqa: PLC0415 - a client few need

            config = replace(config, kafka=from_fields(spec["kafka"]))
        lock = Path(spec["output"], STATE_DIRECTORY, locks.WRITER_LOCK)
        deadline = time.monotonic() + patience
        while True:
            try:
                dispatcher = StoreDispatcher(
                    config,
                    threads=spec["threads"],
                    flush=FlushPolicy(**spec["flush"]),
                    fail_on_data_loss=spec["fail_on_data_loss"],
                    skips_corrupt=spec["skips_corrupt"],
                    removes_expired=spec["removes_expired"],
                    only_flushed=spec["only_flushed"],
                )
                break
            except StoreError:
                if time.monotonic() > deadline or not locks.is_held(lock):
                    raise
                if self._terminated.is_set() or self._executor.is_gone:
                    raise
            time.sleep(_LOCK_POLL_SECONDS)
        warming.join()
        self._dispatcher = dispatcher
        taken_back = dispatcher.recovery
        events: list[str] = [
            Event(
                f"{reason}; {taken_back.entries} entries and {taken_back.items} index items "
                "beyond its progress were taken back",
                kind_of_event(reason),
            )
            for reason in taken_back.reasons
        ]
        events += map(Event, dispatcher.warnings)
        if events:
            end = dispatcher.progress.end
            self._batches.append(Batch(end, end, events=events))
        return dispatcher

    def _do_what_is_due(self) -> None:
        """Flush, and dispatch what has waited."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._failure is not None:
            return
        with self._failing():
            dispatcher.flush_if_due()
            if (batch := dispatcher.follow()) is not None:
                self._batches.append(batch)
            if dispatcher.waits:
                self._batches.append(dispatcher.dispatch_waiting())

    def _answer(self, order: Order) -> bytes:
        incarnation, seen = order["seen"]
        if incarnation == self._incarnation:
            # What the driver has is not kept any longer.
            known = max(seen - self._first, 0)
            del self._batches[:known]
            self._first += known
        usage = resource.getrusage(resource.RUSAGE_SELF)
        if self._dispatcher is not None:
            self._state = _state_of(self._dispatcher)
        answer = Answer(
            incarnation=self._incarnation,
            first=self._first,
            batches=self._batches,
            end=self._state["progress"].end if self._state else -1,
            state=self._state,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            failure=self._failure,
        )
        return pickle.dumps(answer)

    def _drain(self) -> None:
        """Wait until Kafka has what is dispatched, where the job is to end only then."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._failure is not None or not self._spec["drains_kafka"]:
            return
        dispatcher.drain_kafka(
            lambda: self._terminated.is_set() or self._executor.is_gone, batches=self._batches
        )

    def _close(self) -> None:
        if self._dispatcher is not None:
            dispatcher, self._dispatcher = self._dispatcher, None
            try:
                dispatcher.close()
            finally:
                self._state = _state_of(dispatcher)


def _state_of(dispatcher: StoreDispatcher) -> dict[str, Any]:
    """Return the fields of a `store_metrics.State`; queues and trail, which are long, stay here."""
    return {
        "progress": replace(dispatcher.progress, queues={}, trail=()),
        "recorded_end": dispatcher.recorded_end,
        "index_fill": dispatcher.index.fill if dispatcher.index is not None else 0.0,
        "waits": dispatcher.holds,
        "flaw": dispatcher.flaw,
        "kafka": dispatcher.kafka.state if dispatcher.kafka is not None else None,
        "space": space_of(dispatcher.config.output),
    }


def main() -> int:
    """Take the name of an output, say so, and be its writer."""
    spec: Spec = json.loads(sys.stdin.readline())
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address_of(spec["output"]))
    except OSError:
        # Another task was quicker; the one that started us will find its writer.
        return 0
    listener.listen()
    writer = Writer(spec, listener, int(sys.argv[1]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, writer.terminate)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.write(sys.stdout.fileno(), LISTENING)
    # Whoever started us reads no more of it.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    writer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
