"""Greets the tasks that speak to a writer process, and passes their orders on."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
from typing import TYPE_CHECKING

from reput.streaming.writers.executors.protocol import (
    CLOSE,
    Hello,
    Order,
    is_own_user,
    receive,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# A task sends its order as soon as it is connected.
_ORDER_SECONDS = 10.0


class Listener:
    """Takes connections on a thread of its own, also while a batch is being written."""

    def __init__(self, listener: socket.socket, job: str, is_left: Callable[[], bool]) -> None:
        """Keep what to greet with; `start` begins to listen.

        Args:
            listener: a socket that listens on the output's name.
            job: whose writer this is.
            is_left: tells whether the writer's executor is gone.
        """
        self._listener = listener
        self._job = job
        self._is_left = is_left
        self._orders: queue.SimpleQueue[tuple[socket.socket, Order]] = queue.SimpleQueue()

    def start(self) -> None:
        """Begin to greet."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()

    @property
    def has_order(self) -> bool:
        """Tell whether an order has come that was not taken yet."""
        return not self._orders.empty()

    def next(self, seconds: float) -> tuple[socket.socket, Order] | None:
        """Return a connection and the order that came over it, None if none came in this time.

        An order whose task has gone is passed over, or a writer that stood still would do all that
        have come meanwhile before one that is waited for. The job repeats it. It does not repeat
        the last one.
        """
        with contextlib.suppress(queue.Empty):
            while True:
                connection, order = self._orders.get(timeout=seconds)
                if order.kind == CLOSE or not _is_gone(connection):
                    return connection, order
                connection.close()
        return None

    def stop(self) -> None:
        """Give the name up; a task that was not greeted yet finds it free, or another writer."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                connection.settimeout(_ORDER_SECONDS)
                order = self._greet(connection) if is_own_user(connection) else None
            except (OSError, ValueError, TypeError):
                order = None
            if order is None:
                connection.close()
            else:
                connection.settimeout(None)
                self._orders.put((connection, order))

    def _greet(self, connection: socket.socket) -> Order | None:
        holder = f"reput, process {os.getpid()} on {socket.gethostname()},"
        hello = Hello(job=self._job, holder=holder, is_left=self._is_left())
        send(connection, json.dumps(hello._asdict()).encode())
        frame = receive(connection)
        return Order.read(frame) if frame else None


def _is_gone(connection: socket.socket) -> bool:
    """Tell whether the other side, which only waits for its answer, has ended."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
