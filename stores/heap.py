"""Gives memory back: what a process has freed does not stay with it."""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_LARGE = 256 << 10


def give_back_large() -> bool:
    """Let large pieces of memory go back to the system as soon as they are free.

    glibc does so from a size on, which grows to that of the largest piece that was ever freed, up
    to 32 MiB. Smaller pieces then lie between others in its heaps, one for each thread, and a
    process that runs for long grows. A size that was set does not grow.

    Returns:
        Whether the C library has such a size; others have none that grows.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, _LARGE) == 1
