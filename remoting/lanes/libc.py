"""Calls of the C library for lanes: reads that do not wait for a device, sending, sleeping.

numba finds the functions by name in the process.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types
from numba.extending import register_jitable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_SEND_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

_preadv2: Any = types.ExternalFunction(
    "preadv2", types.intp(types.int32, types.uintp, types.int32, types.int64, types.int32)
)
_send: Any = types.ExternalFunction(
    "send", types.intp(types.int32, types.uintp, types.uintp, types.int32)
)


_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))


@register_jitable
def pause(microseconds: int) -> None:
    """Sleep."""
    _usleep(np.uint32(microseconds))


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
def send_now(descriptor: int, data: Bytes, length: int) -> int:
    """Send bytes as far as the socket takes them; return how many, below 0 for none."""
    return _send(  # type: ignore[no-any-return]
        np.int32(descriptor), np.uintp(data.ctypes.data), np.uintp(length), np.int32(_SEND_FLAGS)
    )
