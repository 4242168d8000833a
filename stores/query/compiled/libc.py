"""Calls of the C library for kernels: bytes of a file, and the clock.

A kernel that finds out by itself where a record stands reads it without going back to Python, which
takes as long as the reading; and one that is called a million times a second looks at the clock in
a fraction of what Python takes. numba finds the functions by name in the process.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WILL_NEED = os.POSIX_FADV_WILLNEED
_SECOND_NS = 1_000_000_000
# numba has no types for it.
_cgutils: Any = cgutils

_pread: Any = types.ExternalFunction(
    "pread", types.intp(types.int32, types.uintp, types.uintp, types.int64)
)

_posix_fadvise: Any = types.ExternalFunction(
    "posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32)
)


def pread(descriptor: int, data: Bytes, at: int, length: int, position: int) -> int:
    """Read bytes of a file in one go.

    Args:
        descriptor: the file.
        data: where they are put.
        at: index of the first.
        length: how many at most; `data` has room for them.
        position: of the first in the file.

    Returns:
        How many came, 0 at the file's end; below 0 if the file cannot be read.
    """
    try:
        return os.preadv(descriptor, [data[at : at + length].data], position)
    except OSError:
        return -1


def will_need(descriptor: int, position: int, length: int) -> int:
    """Start reading bytes of a file into memory, and do not wait; 0 unless it is refused."""
    try:
        os.posix_fadvise(descriptor, position, length, _WILL_NEED)
    except OSError as error:
        return error.errno or -1
    return 0


def monotonic_ns() -> int:
    """Return what `time.monotonic_ns` does."""
    return time.monotonic_ns()


@intrinsic
def _monotonic_ns(_context: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        # struct timespec: seconds, nanoseconds.
        room = _cgutils.alloca_once(builder, ir.ArrayType(_I64, 2))
        kind = ir.FunctionType(_I32, [_I32, room.type])
        function = _cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(function, [ir.Constant(_I32, time.CLOCK_MONOTONIC), room])
        seconds, nanoseconds = (builder.extract_value(builder.load(room), i) for i in range(2))
        return builder.add(builder.mul(seconds, ir.Constant(_I64, _SECOND_NS)), nanoseconds)

    return types.int64(), generate


# numba wants the typing function to have the very parameters of the implementation.
overload(pread)(
    lambda descriptor, data, at, length, position: (
        lambda descriptor, data, at, length, position: _pread(
            np.int32(descriptor), np.uintp(data.ctypes.data + at), np.uintp(length), position
        )
    )
)
overload(will_need)(
    lambda descriptor, position, length: (
        lambda descriptor, position, length: _posix_fadvise(
            np.int32(descriptor), position, length, np.int32(_WILL_NEED)
        )
    )
)
overload(monotonic_ns)(lambda: lambda: _monotonic_ns())  # type: ignore[call-arg]  # noqa: PLW0108
