"""Memory that ends where it says: arrays with a page on either side that nobody may touch.

Kernels are compiled without bounds checks, so a byte too many is normally read or written without
a word. Next to a guard page it is a SIGSEGV, which the runner sees as the death of a worker.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from importlib import import_module
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
# No kernels in these: what a kernel calls `np` has to be numpy itself.
_GUARDED_MODULES = (
    "reput.stores.log.commitlog",
    "reput.stores.verify.index.reader",
    "reput.stores.verify.index.replay",
    "reput.stores.verify.entry_windows",
    "reput.sinks.files.queue_files",
    "reput.streaming.dispatch.blocks.block",
    "reput.streaming.dispatch.blocks.parser",
)


def _pages(size: int) -> mmap.mmap:
    """Return memory for `size` bytes after its first page, the page after them guarded as well."""
    inside = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, inside + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    for guard in (address, address + PAGE + inside):
        if _LIBC.mprotect(guard, PAGE, _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return memory


def zeros(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Return what `np.zeros` does, its last byte being the last one before a guard page."""
    kind = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else int(shape)
    if count == 0:
        return np.zeros(shape, kind)
    size = count * kind.itemsize
    memory = _pages(size)
    offset = len(memory) - PAGE - size
    return np.frombuffer(memory, kind, count, offset).reshape(shape)


class Arena:
    """Room that is used again and again, for bytes that touch the guard before or after it."""

    def __init__(self, size: int) -> None:
        self._memory = _pages(size)
        self._inside = np.frombuffer(
            self._memory, np.uint8, len(self._memory) - 2 * PAGE, offset=PAGE
        )

    def hold(self, raw: bytes, *, at_end: bool = True) -> Any:
        """Return an array of these bytes whose end (or beginning) is at the guard."""
        size = len(raw)
        array = self._inside[len(self._inside) - size :] if at_end else self._inside[:size]
        array[:] = np.frombuffer(raw, np.uint8)
        return array


class _GuardedNumpy:
    """numpy, but for the functions that make arrays for kernels."""

    zeros = staticmethod(zeros)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def full(shape: int, value: Any, dtype: Any = None) -> Any:
        made = zeros(shape, np.asarray(value).dtype if dtype is None else dtype)
        made[...] = value
        return made

    @staticmethod
    def concatenate(arrays: Any) -> Any:
        joined = np.concatenate(arrays)
        made = zeros(joined.shape, joined.dtype)
        made[...] = joined
        return made


def install() -> None:
    """Guard the reader of the log, the parsers' blocks, queues and verification."""
    guarded = _GuardedNumpy()
    for name in _GUARDED_MODULES:
        vars(import_module(name))["np"] = guarded
    scan = import_module("reput.formats.kernels.scan")

    def of(cls: Any, records: int, keys: int) -> Any:
        columns = vars(scan)["_plain_of"](records, keys)
        return cls(*(zeros(len(column), column.dtype) for column in columns))

    if "_plain_of" not in vars(scan):
        vars(scan)["_plain_of"] = scan.Columns.of
        scan.Columns.of = classmethod(of)
