"""Answers connections that have something to read, several of them by one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.kernels.compiled import kernel
from reput.remoting.lanes import places as p
from reput.remoting.lanes.kernels import serve
from reput.remoting.lanes.libc import EVENT_SOCKET, ready_now, receive_now

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes


@kernel
def answer_ready(
    epoll: int,
    data: Bytes,
    events: NDArray[np.int32],
    moved: Bytes,
    arrays: p.Arrays,
) -> tuple[int, int, int, int, int, int]:
    """Read from sockets that are ready, and answer what they ask as far as lanes can.

    It ends with the first one that Python has to look at, when none is ready, or once there are
    `ROUND` answers or more. Sockets are asked for one by one: epoll then puts one that was served
    after those that wait.

    Args:
        epoll: watches the sockets.
        data: gets what is read of one.
        events: scratch, of one event.
        moved: gets a one by the socket of each from which something came.
        arrays: see `places`; `out` gets the answers of one socket, `commits` has those of all.

    Returns:
        The socket that Python has to look at, below 0 for none; where its first request stands
        that is not answered; where what it sent ends; what was sent of its answers, and where
        these end; how many answers there are in all.
    """
    answers = 0
    while answers < p.ROUND and ready_now(epoll, events) > 0:
        socket = events[EVENT_SOCKET]
        size = receive_now(socket, data)
        if size < 1:
            return socket, 0, 0, 0, 0, answers
        moved[socket] = 1
        at, why, _, sent, filled, turn = serve(data, 0, size, socket, answers, arrays)
        answers += turn
        if why != p.DONE or sent < filled:
            return socket, at, size, sent, filled, answers
    return -1, 0, 0, 0, 0, answers
