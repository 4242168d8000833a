"""Has the kernel look into mapped index files: for programs that ask thousands of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stores.index_search_kernels import DAMAGED, select

if TYPE_CHECKING:
    from collections.abc import Sequence
    from mmap import mmap

    from formats.broker import BrokerSettings
    from stores.index_search import Window

_ROOM = 64


class CompiledSearch:
    """The maps of an output's index files, as the kernel wants them."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Know no file yet.

        Args:
            settings: how large the files are.
        """
        self._slots, self._items = settings.index_slots, settings.index_items
        self._views: list[np.ndarray] = []
        self._addresses = np.zeros(0, np.int64)
        self._found = np.zeros(_ROOM, np.int64)

    def take(self, maps: Sequence[mmap]) -> None:
        """Look into these from now on, oldest first; the ones before may be closed after."""
        # A map that something refers to cannot be closed.
        self._views = [np.frombuffer(data, np.uint8) for data in reversed(maps)]
        self._addresses = np.array([view.ctypes.data for view in self._views], np.int64)

    def offsets(self, text: str, window: Window, limit: int) -> list[int] | None:
        """Return the offsets of "topic#key", newest first; None where the readable twin has to."""
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8, and another hash than what stands for it.
            return None
        if limit > len(self._found):
            self._found = np.zeros(limit, np.int64)
        count = select(
            np.frombuffer(raw, np.uint8),
            self._addresses,
            window.begin,
            window.end,
            limit,
            self._slots,
            self._items,
            self._found,
        )
        return None if count == DAMAGED else self._found[:count].tolist()
