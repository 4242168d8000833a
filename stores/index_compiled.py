"""Has the kernels look into mapped index files: for programs that ask thousands of times."""

from __future__ import annotations

import mmap
from itertools import pairwise
from time import monotonic as _now
from typing import TYPE_CHECKING

import numpy as np

from formats import indexfile
from formats.compiled import called_with
from stores import index_search_kernels as kernels
from stores.index_search import IndexSearch, ManyHits
from stores.index_search_kernels import (
    DAMAGED,
    FIRST_HIT,
    LANES,
    LAST_OFFSET,
    LAST_TIMESTAMP,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from formats.broker import BrokerSettings
    from stores.findings import Report
    from stores.index_search import IndexFileMap, IndexHits, Window

_LOOK_SECONDS = 0.01
_ROOM = 64
# Keys that one call of the kernel is for, and hits of all of them.
_KEYS = 256
_HITS = 1 << 18


class CompiledSearch(IndexSearch):
    """`IndexSearch` by kernels; what a kernel finds damaged is looked at by the readable twin.

    Attributes:
        ADVICE: after some hundred keys what was read around the others' pages pays.
    """

    ADVICE = mmap.MADV_NORMAL

    def __init__(self, directory: Path, settings: BrokerSettings, report: Report) -> None:
        """Open nothing yet; see `IndexSearch`."""
        super().__init__(directory, settings, report)
        self._look_at = 0.0
        self._views: list[np.ndarray] = []
        self._take(())
        self._room = 0
        self._make_room(_ROOM)
        self._hashes = np.zeros(_KEYS, np.int64)
        self._lanes = np.zeros(2 * LANES, np.int64)
        self._count = np.zeros(_KEYS, np.int64)
        self._select = called_with(kernels.select, b"", 0, 0, 0, self._index, self._found)

    def _take(self, files: Sequence[IndexFileMap]) -> None:
        # A map that something refers to cannot be closed.
        self._views = [np.frombuffer(file.data, np.uint8) for file in reversed(files)]
        index = [self._settings.index_slots, self._settings.index_items, len(files)]
        index += [view.ctypes.data for view in self._views]
        self._index = np.array(index, np.int64)

    def _make_room(self, hits: int) -> None:
        self._room = hits
        self._found = np.zeros(FIRST_HIT + hits, np.int64)
        # One value of a memoryview is read in half the time of one of an array.
        self._seen = self._found.data

    def _look_again(self) -> None:
        # Looking for new files takes as long as looking a key up.
        self.files()
        self._look_at = _now() + _LOOK_SECONDS

    def offsets_of(self, text: str, window: Window, limit: int) -> IndexHits:
        """Return where the records of "topic#key" are; see `offsets`."""
        if _now() >= self._look_at:
            self._look_again()
        if limit > self._room:
            self._make_room(limit)
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8, and another hash than what stands for it.
            return super().offsets_of(text, window, limit)
        begin, end = window
        count = self._select(raw, begin, end, limit, self._index, self._found)
        seen = self._seen
        if count == 1:
            hits = [seen[FIRST_HIT]]
        elif count >= 0:
            hits = seen[FIRST_HIT : FIRST_HIT + count].tolist()
        else:
            return super().offsets_of(text, window, limit)
        return hits, seen[LAST_TIMESTAMP], seen[LAST_OFFSET]

    def offsets_of_many(
        self, prefix: str, keys: Sequence[str], window: Window, limit: int
    ) -> ManyHits:
        """Return where the records of each of several keys are; see `IndexSearch`."""
        if limit > _HITS:
            return super().offsets_of_many(prefix, keys, window, limit)
        self._look_again()
        last = self.last()
        if not self._views:
            return ManyHits([[] for _ in keys], *last)
        together = min(_KEYS, _HITS // limit)
        hits: list[list[int]] = []
        for first in range(0, len(keys), together):
            hits += self._some(prefix, keys[first : first + together], window, limit)
        return ManyHits(hits, *last)

    def _some(
        self, prefix: str, keys: Sequence[str], window: Window, limit: int
    ) -> list[list[int]]:
        """Return the offsets of so many keys as one call of the kernel is for."""
        joined = "".join(keys)
        try:
            start, raw = prefix.encode(), joined.encode()
            lengths = map(len, keys) if len(raw) == len(joined) else map(len, map(str.encode, keys))
            key_end = np.fromiter(lengths, np.int64, len(keys)).cumsum() + len(start)
        except UnicodeEncodeError:
            return super().offsets_of_many(prefix, keys, window, limit).offsets
        if limit * len(keys) > self._room:
            self._make_room(limit * len(keys))
        begin, end = window
        kernels.select_many(
            start + raw,
            key_end,
            len(start),
            begin,
            end,
            limit,
            self._index,
            self._hashes,
            self._lanes,
            self._count,
            self._found,
        )
        count = self._count[: len(keys)]
        hit_end = np.maximum(count, 0).cumsum().tolist()
        found = self._seen[FIRST_HIT : FIRST_HIT + hit_end[-1]].tolist()
        hits = [found[at:end] for at, end in pairwise([0, *hit_end])]
        for number in np.nonzero(count == DAMAGED)[0].tolist():
            hashed = indexfile.key_hash(prefix + keys[number])
            hits[number], _, _ = self.offsets(hashed, window, limit)
        return hits
