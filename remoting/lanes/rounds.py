"""Rounds: connections whose pulls are all like others before are read and answered by a kernel.

A kernel answers a pull in a fraction of the time that the event loop takes to hand over what has
come. So a connection that only sent such pulls for a while *joins the rounds*. The loop stops
reading it, and watches an epoll of ours. One call of a kernel reads and answers all connections
that are ready. With the first thing that is anything else a connection leaves, and it leaves before
anything else is sent to it; the loop then reads it as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reput.formats.kernels.compiled import called_with
from reput.remoting.lanes import places as p
from reput.remoting.lanes import ready
from reput.remoting.lanes.libc import EVENT_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from reput.remoting.lanes.lanes import Lanes

LOG = logging.getLogger("reput")

# What one read of a socket may bring.
_DATA = 8 << 10
# Sockets with higher numbers stay with the loop.
_SOCKETS = 1 << 16
# Calls before the loop has its turn, where each ends with a connection that Python looks at.
_CALLS = 8


class Rider(Protocol):
    """A connection as rounds see it.

    Attributes:
        active_at: when it last sent or received, by the loop's clock.
    """

    active_at: float

    @property
    def outlet(self) -> int:
        """Return the socket."""

    def left(self) -> None:
        """Read from the socket again."""

    def abort(self) -> None:
        """Close it at once."""

    def write(self, data: bytes) -> None:
        """Send bytes after those that were sent before."""

    def data_received(self, data: bytes) -> None:
        """Take what has come."""


def _arrays() -> tuple[NDArray[Any], ...]:
    return (
        np.zeros(_DATA, np.uint8),
        np.zeros(EVENT_WORDS, np.int32),
        np.zeros(_SOCKETS, np.uint8),
    )


def compiled(arrays: p.Arrays, own: tuple[NDArray[Any], ...] | None = None) -> Callable[..., Any]:
    """Return the kernel, compiled or loaded, for arrays of `places`."""
    return called_with(ready.answer_ready, -1, *(_arrays() if own is None else own), arrays)


class Rounds:
    """The connections of one store's lanes that a kernel reads."""

    def __init__(self, lanes: Lanes) -> None:
        """Begin without any.

        Args:
            lanes: answer them.
        """
        self._lanes = lanes
        self._own = _arrays()
        self._data, self._moved = self._own[0].data, self._own[2]
        self._answer = compiled(lanes.arrays, self._own)
        self._out = lanes.arrays.out.data
        self._riders: dict[int, Rider] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._epoll: select.epoll | None = None

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._riders)

    def join(self, rider: Rider) -> bool:
        """Take a connection over from the loop, which stops reading it; False where it cannot be.

        All that it sent has been answered, and all answers are out.
        """
        socket = rider.outlet
        if not 0 <= socket < _SOCKETS or not self._lanes.may_pass(rider):
            return False
        try:
            self._watched().register(socket, select.EPOLLIN)
        except OSError as error:
            # No descriptor for it, or no room: the loop reads on.
            LOG.debug("a connection stays with the loop: %s", error)
            return False
        self._riders[socket] = rider
        return True

    def _watched(self) -> select.epoll:
        if self._epoll is None:
            found = select.epoll()
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(found.fileno(), self._run)
            self._epoll = found
        return self._epoll

    def leave(self, rider: Rider, socket: int) -> None:
        """Give a connection back to the loop.

        Args:
            rider: the connection.
            socket: that it joined with.
        """
        if self._epoll is not None and self._riders.get(socket) is rider:
            del self._riders[socket]
            # It may be closed by now, which took it out of the epoll.
            with contextlib.suppress(OSError):
                self._epoll.unregister(socket)
            rider.left()

    def _leave_all(self) -> None:
        for socket, rider in tuple(self._riders.items()):
            self.leave(rider, socket)

    def _run(self) -> None:
        """Answer those that are ready."""
        assert self._epoll is not None
        total = 0
        for _ in range(_CALLS):
            if not self._lanes.begin():
                self._leave_all()
                return
            socket, at, size, sent, filled, answers = self._answer(
                self._epoll.fileno(), *self._own, self._lanes.arrays
            )
            if answers:
                self._lanes.take_commits(answers)
            if socket < 0:
                return
            total += answers
            self._look_at(socket, bytes(self._data[at:size]), bytes(self._out[sent:filled]))
            if total >= p.ROUND:
                return

    def _look_at(self, socket: int, rest: bytes, unsent: bytes) -> None:
        """Take what a kernel has left of a connection.

        Args:
            socket: of the connection.
            rest: requests that came, not answered.
            unsent: answers that the socket does not take.
        """
        rider = self._riders[socket]
        if rest and not unsent:
            # A file has to be opened, or a lane be made; it can stay then.
            try:
                rest = self._lanes.take(rest, rider)
            except Exception:
                # What it asked would never be answered.
                rider.abort()
                raise
            if not rest:
                return
        self.leave(rider, socket)
        if unsent:
            rider.write(unsent)
        if rest:
            rider.data_received(rest)

    def tick(self) -> None:
        """Tell connections that they were active, and let those go that may not pass now."""
        if self._loop is None:
            return
        now = self._loop.time()
        for socket, rider in tuple(self._riders.items()):
            if self._moved[socket]:
                self._moved[socket] = 0
                rider.active_at = now
            if not self._lanes.may_pass(rider):
                self.leave(rider, socket)

    def close(self) -> None:
        """Give all back, and take no more."""
        self._leave_all()
        if self._epoll is not None and self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
