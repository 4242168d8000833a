"""What a task does if stores are written on executors: it carries an order to a writer.

The writer (`process` in this room) is on the task's host, and started from here if there is none. A
task that is repeated says the same again, and the writer knows what it has done.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError, StoreError, StuckError
from reput.streaming.writers.executors.executor_process import executor
from reput.streaming.writers.executors.protocol import (
    CLOSE,
    END,
    LISTENING,
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
    from collections.abc import Sequence

# Another job's writer that has lost its executor finishes its batch first; else it is refused.
_LEFT_PATIENCE = 300.0
_FOREIGN_PATIENCE = 2.0
_RETRY_SECONDS = 0.2
# A writer greets by a thread of its own.
_GREETING_SECONDS = 5.0
# One that follows its log answers between two blocks, and closes after one. A writer that takes
# longer hangs: no other store hears of the job meanwhile, and a task has no end of its own.
_ANSWER_SECONDS = 10.0
_CLOSING_SECONDS = 20.0
# One that is busy for longer hears that sending is to end with the order to close.
_ENDING_SECONDS = 2.0
# One that was just started has also as long as it may wait for a lock; with the answer's time that
# has to be less than `SILENCE_SECONDS`, after which other stores' writers end.
_OPENING_SECONDS = 10.0
# What kills a writer this often, such as the kernel for its memory, will kill the next one too.
_MOST_DEATHS = 3

_started: list[subprocess.Popen[bytes]] = []
_starting = threading.Lock()


class Task(NamedTuple):
    """What a task takes along, and the host that it had best run on."""

    spec: Spec
    order: Order
    host: str


class TaskResult(NamedTuple):
    """What a task brings back.

    Attributes:
        host: the executor's, by Spark's name.
        answer: pickled, as only the driver has a use for what is in it; empty: there is no
            writer, and none was wanted.
        failure: why there is no answer.
    """

    host: str
    answer: bytes
    failure: Failure | None = None


def carry_all(tasks: Sequence[Task]) -> list[TaskResult]:
    """Take orders to their writers on this host, all at the same time; see `carry`."""
    with ThreadPoolExecutor(len(tasks)) as threads:
        return list(threads.map(carry, tasks))


def carry(task: Task) -> TaskResult:
    """Take an order to a store's writer and bring its answer.

    Errors come back as values: Spark would repeat a task that raises, and wrap what it says.
    """
    process, host = executor()
    began = time.monotonic()
    try:
        return TaskResult(host, _speak(task.spec, task.order._replace(executor=process)))
    except TimeoutError:
        stuck = StuckError(task.spec.output, time.monotonic() - began)
        return TaskResult(host, b"", failure_of(stuck))
    except Exception as error:  # noqa: BLE001 - whatever it is, the driver has to know
        return TaskResult(host, b"", failure_of(error))


def _speak(spec: Spec, order: Order) -> bytes:
    """Speak to the writer of an output until it has answered; see `TaskResult.answer`.

    Raises:
        ReputError: another job's writer is there; ours cannot be started, or dies each time.
        TimeoutError: one is there, and hangs.
    """
    deaths = 0
    is_new = False
    began = time.monotonic()
    # No step takes longer than an answer may.
    usual = _limit(spec, order, is_new=False)
    greeting = min(_GREETING_SECONDS, usual or _GREETING_SECONDS)
    while True:
        connection = _connect(spec, greeting)
        if connection is None:
            if not order.starts:
                return b""
            _start(spec, order.executor)
            is_new = True
            continue
        with connection:
            hello = _hear(connection)
            if hello is not None and hello.job == spec.job:
                connection.settimeout(_limit(spec, order, is_new=is_new))
                answer = _ask(connection, order)
                if answer:
                    return answer
                deaths += 1
                if deaths == _MOST_DEATHS:
                    raise ReputError(
                        f"{spec.output}: its writer process has died {deaths} times in this "
                        "batch; look for the reason in the kernel's log (memory) and the "
                        "executor's standard error, then start the job again: it resumes"
                    )
            elif hello is not None:
                _look_at_foreign(spec, order, hello, time.monotonic() - began)
        time.sleep(_RETRY_SECONDS)


def _limit(spec: Spec, order: Order, *, is_new: bool) -> float | None:
    """Return how long to wait for an answer, seconds; None: as long as it takes.

    Args:
        spec: what the writer is for; a rebuild's has no other work to be kept from.
        order: what it is to do.
        is_new: it was just started, so it opens the output first.
    """
    if not spec.follows:
        return None
    usual = {CLOSE: _CLOSING_SECONDS, END: _ENDING_SECONDS}.get(order.kind, _ANSWER_SECONDS)
    return (order.answer_within or usual) + (
        min(order.patience, _OPENING_SECONDS) if is_new else 0.0
    )


def _look_at_foreign(spec: Spec, order: Order, hello: Hello, waited: float) -> None:
    """Return if another job's writer may still end by itself.

    Raises:
        StoreError: it does not.
        TimeoutError: it has to, and hangs; a live job has other stores to speak to.
    """
    if hello.is_left and spec.follows and waited > (order.answer_within or _ANSWER_SECONDS):
        raise TimeoutError
    if waited > (_LEFT_PATIENCE if hello.is_left else _FOREIGN_PATIENCE):
        raise StoreError(
            spec.output,
            f"{hello.holder} is writing to this output for another job",
            "Stop it first, or give another --output; two writers would corrupt the files",
        )


def _connect(spec: Spec, greeting: float) -> socket.socket | None:
    """Return a connection to the process that has the output's name, None if there is none.

    Args:
        spec: names the output.
        greeting: seconds that its greeting may take.

    Raises:
        ReputError: it is another user's.
        TimeoutError: it has not greeted anyone for so long that no more can wait for it.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(greeting)
    try:
        connection.connect(address_of(spec.output))
    except ConnectionError:
        connection.close()
        return None
    except BlockingIOError as error:
        connection.close()
        raise TimeoutError from error
    if not is_own_user(connection):
        connection.close()
        raise ReputError(f"{spec.output}: a process of another user has its writer's name")
    return connection


def _hear(connection: socket.socket) -> Hello | None:
    """Return a writer's greeting, None if it was about to end."""
    with contextlib.suppress(ConnectionError):
        frame = receive(connection)
        return Hello.read(frame) if frame else None
    return None


def _ask(connection: socket.socket, order: Order) -> bytes:
    """Return a writer's answer, nothing if it died meanwhile.

    Raises:
        TimeoutError: it has not answered for as long as the connection waits.
    """
    with contextlib.suppress(ConnectionError):
        send(connection, json.dumps(order._asdict()).encode())
        return receive(connection)
    return b""


def _start(spec: Spec, executor_process: int) -> None:
    """Start a writer process and return when it listens, or another one does.

    Raises:
        ReputError: it ended before that.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHON_WORKER_FACTORY_SECRET"}
    # What the job was given to import, by whatever way it came to this worker.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-m", "reput.streaming.writers.executors.process", str(executor_process)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        # Spark ends its workers by their group; this one outlives them.
        start_new_session=True,
    )
    with _starting:
        # A process that has ended leaves nothing once it is asked for.
        _started[:] = [*(each for each in _started if each.poll() is None), process]
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a pipe was asked for")
    with process.stdin, process.stdout:
        process.stdin.write(spec.written)
        process.stdin.close()
        is_listening = process.stdout.readline() == LISTENING
    if not is_listening and process.wait() != 0:
        raise ReputError(
            f"{spec.output}: its writer process ended at once with code {process.returncode}; "
            "the executor's standard error says why"
        )
