"""Waits, on a thread of its own and compiled, until something stands at one of several spots.

A wake of the event loop costs five times what a look of a kernel does, its sleep included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types

from reput.formats.kernels.compiled import called_with, kernel
from reput.formats.kernels.memory import load_i64
from reput.remoting.holding.spots import MOST_SPOTS
from reput.stores.query.compiled.libc import pread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.remoting.holding.spots import Spot

_PAUSE_US = 1400
# Looks of one rest: a tenth of a second.
_LOOKS = 64
# Spots of queues that one look looks at; those of logs it looks at each time.
_AT_ONCE = 8
_WORD = 8
STIRRED, TIME_IS_UP = -1, -2

# Of the C library; numba finds it by name in the process.
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))


@kernel
def rest(
    spots: NDArray[np.int64],
    logs: int,
    count: int,
    stirred: NDArray[np.int64],
    data: Bytes,
    looks: int,
) -> int:
    """Sleep until something stands at a spot.

    Args:
        spots: descriptor and position of each, those of logs first.
        logs: how many of logs.
        count: how many in all.
        stirred: its first number is not 0 once the rest shall end.
        data: scratch of eight bytes.
        looks: how many at most.

    Returns:
        The spot, `STIRRED` or `TIME_IS_UP`.
    """
    following = logs
    for _ in range(looks):
        _usleep(np.uint32(_PAUSE_US))
        if stirred[0]:
            return STIRRED
        for i in range(logs + min(_AT_ONCE, count - logs)):
            spot = i
            if i >= logs:
                spot = following
                following += 1
                if following == count:
                    following = logs
            got = pread(spots[spot, 0], data, 0, _WORD, spots[spot, 1])
            if got == _WORD and load_i64(data, 0):
                return spot
    return TIME_IS_UP


class Sentry:
    """What one store watches its spots with: the end of its log, and those of queues."""

    def __init__(self) -> None:
        """Compile the kernel, or load it."""
        self._spots = np.zeros((1 + MOST_SPOTS, 2), np.int64)
        self._stirred = np.zeros(1, np.int64)
        self._data = np.zeros(_WORD, np.uint8)
        arrays = self._stirred, self._data
        self._rest: Callable[..., Any] = called_with(rest, self._spots, 0, 0, *arrays, 0)

    def begin(self) -> None:
        """Forget that it was stirred; from now on that ends the next rest."""
        self._stirred[0] = 0

    def stir(self) -> None:
        """End the rest that is on, or the next one."""
        self._stirred[0] = 1

    def rest(self, spots: Sequence[Spot]) -> Spot | None:
        """Return a spot where something stands, None if there is none after a while.

        Args:
            spots: that of the log first, then at most `MOST_SPOTS` of queues.
        """
        logs = sum(each.key is None for each in spots)
        for number, each in enumerate(spots):
            self._spots[number] = each[:2]
        found = self._rest(self._spots, logs, len(spots), self._stirred, self._data, _LOOKS)
        return spots[found] if found >= 0 else None
