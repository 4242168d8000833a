"""Gives memory back: what a process has freed does not stay with it."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 256 << 10
# glibc's own.
_KEPT = 128 << 10


def give_back_large(large: int = _LARGE, kept: int = _KEPT) -> bool:
    """Let large pieces of memory go back to the system as soon as they are free.

    glibc does so from a size on, which grows to that of the largest piece that was ever freed, up
    to 32 MiB. Smaller pieces then lie between others in its heaps, one for each thread, and a
    process that runs for long grows. A size that was set does not grow.

    Args:
        large: bytes of the smallest piece that goes back by itself.
        kept: bytes at the end of a heap that stay there, though they are free.

    Returns:
        Whether the C library has such sizes; others have none that grows.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, large)) and bool(mallopt(_M_TRIM_THRESHOLD, kept))
