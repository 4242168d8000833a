"""Calls of the C library for lanes: reads that do not wait, copies of mapped bytes, and sockets.

numba finds the functions by name in the process.
"""

from __future__ import annotations

import mmap
import os
import platform
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types
from numba.extending import register_jitable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

PAGE = mmap.PAGESIZE
_NOWAIT = os.RWF_NOWAIT
_SEND_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_RECEIVE_FLAGS = int(socket.MSG_DONTWAIT)
# `struct epoll_event` in words of four bytes: it has no gap where it is packed.
EVENT_WORDS = 3 if platform.machine() in {"x86_64", "AMD64", "i686"} else 4
EVENT_SOCKET = EVENT_WORDS - 2

_preadv2: Any = types.ExternalFunction(
    "preadv2", types.intp(types.int32, types.uintp, types.int32, types.int64, types.int32)
)
_pwritev: Any = types.ExternalFunction(
    "pwritev", types.intp(types.int32, types.uintp, types.int32, types.int64)
)
_mincore: Any = types.ExternalFunction(
    "mincore", types.int32(types.uintp, types.uintp, types.uintp)
)
_send: Any = types.ExternalFunction(
    "send", types.intp(types.int32, types.uintp, types.uintp, types.int32)
)

_recv: Any = types.ExternalFunction(
    "recv", types.intp(types.int32, types.uintp, types.uintp, types.int32)
)
_epoll_wait: Any = types.ExternalFunction(
    "epoll_wait", types.int32(types.int32, types.uintp, types.int32, types.int32)
)


@register_jitable
def preadv_now(descriptor: int, vectors: NDArray[np.int64], count: int, position: int) -> int:
    """Read bytes of a file that are in memory.

    Args:
        descriptor: the file.
        vectors: address and length of each place, in turn.
        count: how many places.
        position: of the first byte.

    Returns:
        How many came; fewer where one is not in memory, below 0 where the first is not, or where
        the file system cannot tell.
    """
    return _preadv2(  # type: ignore[no-any-return]
        np.int32(descriptor),
        np.uintp(vectors.ctypes.data),
        np.int32(count),
        np.int64(position),
        np.int32(_NOWAIT),
    )


@register_jitable
def write_vectors(descriptor: int, vectors: NDArray[np.int64], count: int, position: int) -> int:
    """Write what stands in several places of memory to a file.

    Args:
        descriptor: the file.
        vectors: address and length of each place, in turn.
        count: how many places.
        position: of the first byte.

    Returns:
        How many were written; fewer where a place cannot be read, below 0 where the first cannot.
    """
    return _pwritev(  # type: ignore[no-any-return]
        np.int32(descriptor),
        np.uintp(vectors.ctypes.data),
        np.int32(count),
        np.int64(position),
    )


@register_jitable
def is_resident(address: int, length: int, told: Bytes, at: int) -> bool:
    """Tell whether mapped bytes are in memory.

    Args:
        address: of the first one.
        length: how many.
        told: scratch, a byte for each page from `at` on.
        at: where it begins.
    """
    begin = address // PAGE * PAGE
    pages = (address + length - begin + PAGE - 1) // PAGE
    if at + pages > len(told) or _mincore(
        np.uintp(begin), np.uintp(pages * PAGE), np.uintp(told.ctypes.data + at)
    ):
        return False
    for page in range(pages):  # noqa: SIM110 - kernel
        if not told[at + page] & 1:
            return False
    return True


@register_jitable
def send_now(descriptor: int, data: Bytes, length: int) -> int:
    """Send bytes as far as the socket takes them; return how many, below 0 for none."""
    return _send(  # type: ignore[no-any-return]
        np.int32(descriptor), np.uintp(data.ctypes.data), np.uintp(length), np.int32(_SEND_FLAGS)
    )


@register_jitable
def receive_now(descriptor: int, data: Bytes) -> int:
    """Receive what has come; return how many bytes, 0 at the end, below 0 for none."""
    return _recv(  # type: ignore[no-any-return]
        np.int32(descriptor),
        np.uintp(data.ctypes.data),
        np.uintp(len(data)),
        np.int32(_RECEIVE_FLAGS),
    )


@register_jitable
def ready_now(epoll: int, events: NDArray[np.int32]) -> int:
    """Look which sockets can be read.

    Args:
        epoll: that watches them.
        events: gets an event each `EVENT_WORDS`; the socket is its word `EVENT_SOCKET`.

    Returns:
        How many; below 1 for none.
    """
    return _epoll_wait(  # type: ignore[no-any-return]
        np.int32(epoll),
        np.uintp(events.ctypes.data),
        np.int32(len(events) // EVENT_WORDS),
        np.int32(0),
    )
