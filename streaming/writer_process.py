"""The process that writes one output for a job whose work is on executors, and how to talk to it.

Spark's Python workers come and go, and a store's next task may land in any of them. So a task
writes nothing itself: it speaks to this process, which holds the `StoreDispatcher` and its lock
from the first batch to the last. It is started by the first task that does not find it.

It listens on a Unix socket in Linux's abstract namespace: one process can have a name, the name
ends with it, and who may speak is decided by the user of the other side. A conversation is three
lines of JSON: `Hello` (whose writer this is), `Order`, `Answer`.

It ends when it is told to, when the executor that last spoke to it is gone, or when nobody has
spoken to it for `SILENCE_SECONDS`, and closes the output in order each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from formats.errors import ReputError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.dispatcher import StoreDispatcher

DISPATCH, TEND, CLOSE = "dispatch", "tend", "close"
LISTENING = b"listening\n"
SILENCE_SECONDS = 30.0
_POLL_SECONDS = 0.2
_LOCK_POLL_SECONDS = 0.5
# A task sends its order as soon as it is connected; who does not is no task.
_ORDER_SECONDS = 10.0
_CREDENTIALS = struct.Struct("3i")


class Spec(TypedDict):
    """What a writer is for; plain values, for it goes through Spark and a pipe.

    Attributes:
        job: who may give orders.
        name, path, output, version, properties, in_place: the store, as `store_config` takes it.
        threads, fail_on_data_loss, skips_corrupt, removes_expired: as `StoreDispatcher` has them.
        flush: the fields of a `FlushPolicy`.
    """

    job: str
    name: str
    path: str
    output: str
    version: str
    properties: dict[str, str]
    in_place: bool
    threads: int
    fail_on_data_loss: bool
    skips_corrupt: bool
    removes_expired: bool
    flush: dict[str, Any]


class Hello(TypedDict):
    """What a writer says first.

    Attributes:
        job: whose it is.
        holder: its process, in words.
        is_left: its executor is gone, so it will end.
    """

    job: str
    holder: str
    is_left: bool


class Order(TypedDict):
    """What a writer has to do.

    Attributes:
        kind: DISPATCH up to `end`; TEND: say what is new; CLOSE the output and end.
        end: physical offset; -1: none yet. A writer that has just been started dispatches up to
            there whatever the kind, for the one before it may have died with that undone.
        starts: start a writer if there is none.
        patience: wait so long for another writer's lock, seconds.
        seen: what the job knows already: the writer's `incarnation` and how many of its events.
        executor: the process that the task runs for.
    """

    kind: str
    end: int
    starts: bool
    patience: float
    seen: tuple[str, int]
    executor: int


class Failure(TypedDict):
    """An error on its way to the driver; `kind` is the class that it is raised as there."""

    kind: str
    message: str
    errno: int | None
    filename: str | None


class Answer(TypedDict):
    """What a writer has done since it was started; a repeated order thus counts nothing twice.

    Attributes:
        incarnation: of the process; all figures begin anew with another.
        messages, bytes, batches: dispatched.
        end: where the output stands.
        seconds: wall time in dispatch.
        cpu_seconds: of the process.
        store_timestamp: of the last record, ms.
        events: for the operator, without those that the order has as seen.
        failure: what went wrong.
        host: the executor's, by Spark's name; filled in by the task.
    """

    incarnation: str
    messages: int
    bytes: int
    batches: int
    end: int
    seconds: float
    cpu_seconds: float
    store_timestamp: int
    events: list[str]
    failure: Failure | None
    host: str


class Conversation(NamedTuple):
    """A connection and the order that came over it."""

    connection: socket.socket
    order: Order


def address_of(output: str) -> bytes:
    """Return the name that the writer of an output listens on, the same for all of its paths."""
    identity = f"{os.getuid()}\0{os.path.realpath(output)}"
    return b"\0reput-" + hashlib.sha256(identity.encode()).hexdigest()[:32].encode()


def is_own_user(connection: socket.socket) -> bool:
    """Tell whether the other side runs as the same user."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(raw)[1] == os.getuid())


def send(connection: socket.socket, message: Hello | Order | Answer) -> None:
    """Send a line.

    Raises:
        OSError: the other side is gone.
    """
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> Any:
    """Return the next line's value; None where the other side has ended.

    Raises:
        OSError: it broke off, or took too long.
    """
    received = bytearray()
    while not received.endswith(b"\n"):
        # Who speaks waits for an answer before it speaks again: there is no more than one line.
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        received += piece
    return json.loads(received)


def failure_of(error: BaseException) -> Failure:
    """Return an error as values, so that the driver can raise it as if it were its own."""
    if isinstance(error, UsageError):
        return Failure(kind="usage", message=str(error), errno=None, filename=None)
    if isinstance(error, ReputError):
        return Failure(kind="reput", message=str(error), errno=None, filename=None)
    if isinstance(error, OSError):
        name = os.fsdecode(error.filename) if error.filename is not None else None
        text = error.strerror or str(error)
        return Failure(kind="os", message=text, errno=error.errno, filename=name)
    text = "".join(traceback.format_exception(error))
    return Failure(kind="unexpected", message=text, errno=None, filename=None)


def error_of(failure: Failure) -> Exception:
    """Return the error that `failure_of` was given."""
    if failure["kind"] == "os":
        return OSError(failure["errno"], failure["message"], failure["filename"])
    kinds = {"usage": UsageError, "reput": ReputError}
    return kinds.get(failure["kind"], RuntimeError)(failure["message"])


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
        return bool(select.select([self._descriptor], [], [], 0)[0])

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
        self._events: list[str] = []
        self._events_before = 0
        self._done = Answer(
            incarnation=f"{socket.gethostname()}-{os.getpid()}-{time.monotonic_ns()}",
            messages=0,
            bytes=0,
            batches=0,
            end=-1,
            seconds=0.0,
            cpu_seconds=0.0,
            store_timestamp=0,
            events=[],
            failure=None,
            host="",
        )

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
        """Have it end behind what it is doing; for signals."""
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
        send(connection, hello)
        order: Order | None = receive(connection)
        return order

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
            if self._failure is None and order["end"] >= 0:
                if is_new or order["kind"] == DISPATCH:
                    self._dispatch(dispatcher, order["end"])
        if not goes_on:
            self._stop_listening()
            with self._failing():
                self._close()
        # Without an output, or with one that is closed, there is nothing more to do here.
        goes_on = goes_on and self._dispatcher is not None
        if not goes_on:
            self._stop_listening()
        with conversation.connection as connection, contextlib.suppress(OSError):
            # A task that was killed does not hear it; the next order gets the same again.
            send(connection, self._answer(order))
        return goes_on

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep an error, whatever it is: the driver has to know. The first one counts."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - told to whoever speaks next
            self._failure = self._failure or failure_of(error)

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
        from checkpoints import locks  # noqa: PLC0415
        from checkpoints.progress import STATE_DIRECTORY  # noqa: PLC0415
        from streaming.config import FlushPolicy, store_config  # noqa: PLC0415
        from streaming.dispatcher import StoreDispatcher  # noqa: PLC0415
        from streaming.warm import warm_up  # noqa: PLC0415

        spec = self._spec
        warming = warm_up()
        config = store_config(
            Path(spec["path"]),
            None if spec["in_place"] else Path(spec["output"]),
            name=spec["name"],
            broker_version=spec["version"],
            broker_conf=spec["properties"],
            in_place=spec["in_place"],
        )
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
        self._done["end"] = dispatcher.progress.end
        taken_back = dispatcher.recovery
        self._events += [
            f"{reason}; {taken_back.entries} entries and {taken_back.items} index items beyond "
            "its progress were taken back"
            for reason in taken_back.reasons
        ]
        self._events += dispatcher.warnings
        return dispatcher

    def _dispatch(self, dispatcher: StoreDispatcher, end: int | None) -> None:
        """Dispatch up to `end`, or what was waited with, and count it."""
        batch = dispatcher.dispatch_waiting() if end is None else dispatcher.dispatch(end)
        done = self._done
        done["messages"] += batch.messages
        done["bytes"] += batch.bytes
        done["batches"] += 1
        done["seconds"] += batch.seconds
        done["end"] = batch.end
        done["store_timestamp"] = batch.store_timestamp or done["store_timestamp"]
        self._events += batch.events

    def _do_what_is_due(self) -> None:
        """Flush, and take what was waited with."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._failure is not None:
            return
        with self._failing():
            dispatcher.flush_if_due()
            if dispatcher.waits:
                self._dispatch(dispatcher, None)

    def _answer(self, order: Order) -> Answer:
        incarnation, seen = order["seen"]
        if incarnation == self._done["incarnation"]:
            # What the driver has is not kept any longer.
            known = max(seen - self._events_before, 0)
            del self._events[:known]
            self._events_before += known
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_seconds = usage.ru_utime + usage.ru_stime
        return Answer(
            **{
                **self._done,
                "cpu_seconds": cpu_seconds,
                "events": self._events,
                "failure": self._failure,
            }
        )

    def _close(self) -> None:
        if self._dispatcher is not None:
            dispatcher, self._dispatcher = self._dispatcher, None
            dispatcher.close()


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
