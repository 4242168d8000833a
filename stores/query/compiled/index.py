"""Has the kernels look into mapped index files: for programs that ask thousands of times."""

from __future__ import annotations

import contextlib
import mmap
from itertools import pairwise
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kernels.compiled import called_with
from reput.formats.rocketmq import indexfile
from reput.stores.query.compiled import index_kernels as kernels
from reput.stores.query.compiled.index_kernels import (
    BEGIN,
    DAMAGED,
    FIRST_FILE,
    KNOWN_UNTIL,
    LANES,
    LIMIT,
    OUTDATED,
)
from reput.stores.query.index_file import IndexFile
from reput.stores.query.index_search import ALWAYS, IndexSearch, ManyHits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.query.index_search import IndexHits, Window

_LOOK_NS = 10_000_000
# Keys that one call of the kernel is for, hits that there is room for at first, and at most.
KEYS = 256
_ROOM = 64
_HITS = 1 << 18


class AskedKeys(NamedTuple):
    """Keys of a topic as kernels get them.

    Attributes:
        raw: "topic#" in UTF-8, and the keys, one after the other.
        prefix: bytes before the first key.
        key_end: by key: index into `raw` after it.
    """

    raw: bytes
    prefix: int
    key_end: NDArray[np.int64]


def asked_keys(prefix: str, keys: Sequence[str]) -> AskedKeys | None:
    """Return keys as kernels get them.

    Half a surrogate pair has no UTF-8, and another hash than what stands for it.

    Returns:
        None where there is such a half.
    """
    joined = "".join(keys)
    try:
        start, raw = prefix.encode(), joined.encode()
        lengths = map(len, keys) if len(raw) == len(joined) else map(len, map(str.encode, keys))
        key_end = np.fromiter(lengths, np.int64, len(keys)).cumsum() + len(start)
    except UnicodeEncodeError:
        return None
    return AskedKeys(start + raw, len(start), key_end)


class _MappedFile(IndexFile):
    """One index file, mapped, for a process that waits for its disk anyway."""

    def __init__(self, path: str, settings: BrokerSettings) -> None:
        """Map it, in large pages and with what a disk reads around each key.

        A chain leads all over its file, and with pages of 4 KiB the processor looks up where each
        of them is, which takes as long as reading it. After some hundred keys all of the file is in
        memory anyway. Where a file system has no large pages, things are as without.

        Raises:
            OSError: it cannot be read.
        """
        super().__init__(path, settings)
        with open(path, "rb") as file:  # noqa: PTH123 - a text
            # It has a descriptor of its own.
            self.data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        # A kernel may have been built without them.
        with contextlib.suppress(OSError):
            self.data.madvise(mmap.MADV_HUGEPAGE)

    def _read(self, position: int, length: int) -> bytes:
        return self.data[position : position + length]

    def close(self) -> None:
        """Unmap it."""
        self.data.close()


class CompiledSearch(IndexSearch):
    """`IndexSearch` by kernels; what a kernel finds damaged is looked at by the readable twin."""

    def __init__(self, directory: Path, settings: BrokerSettings, report: Report) -> None:
        """Open nothing yet; see `IndexSearch`."""
        super().__init__(directory, settings, report)
        self._known_until = 0
        self._views: list[np.ndarray] = []
        self.window, self.limit, self._room = ALWAYS, _ROOM, _ROOM
        self._arrange()
        self._hashes = np.zeros(KEYS, np.int64)
        self._lanes = np.zeros(2 * LANES, np.int64)
        self._count = np.zeros(KEYS, np.int64)
        self._select = called_with(kernels.select, b"", self.search)

    def _made(self, path: str) -> IndexFile:
        return _MappedFile(path, self._settings)

    def _take(self, files: Sequence[IndexFile]) -> None:
        # A map that something refers to cannot be closed.
        mapped = [file for file in reversed(files) if isinstance(file, _MappedFile)]
        self._views = [np.frombuffer(file.data, np.uint8) for file in mapped]
        self._arrange()

    def _arrange(self) -> None:
        """Make the array that kernels know all by, and what of it is read here."""
        self.first_hit = FIRST_FILE + len(self._views)
        asked = [*self.window, self.limit, self.first_hit]
        sizes = [self._settings.index_slots, self._settings.index_items, len(self._views)]
        addresses = [view.ctypes.data for view in self._views]
        self.search = np.zeros(self.first_hit + self._room, np.int64)
        self.search[: self.first_hit] = [*asked, *sizes, self._known_until, *addresses]
        # One value of a memoryview is read in half the time of one of an array.
        self.seen = self.search.data

    def is_asked(self, window: Window, limit: int, keys: int = 1) -> bool:
        """Put into `search` what is asked next.

        Args:
            window: time.
            limit: hits of a key.
            keys: how many keys.

        Returns:
            Whether there is room for the hits.
        """
        # Where no key is asked for there is room for one: the next one may find all as it wants it.
        hits = limit * max(keys, 1)
        if hits > _HITS:
            return False
        self.window, self.limit = window, limit
        if hits > self._room:
            self._room = hits
            self._arrange()
        self.search[BEGIN : LIMIT + 1] = [*window, limit]
        return True

    def look_again(self) -> None:
        """Look for files that have come or gone, which takes as long as looking a key up."""
        self.files()
        self._known_until = monotonic_ns() + _LOOK_NS
        self.search[KNOWN_UNTIL] = self._known_until

    def offsets_of(self, text: str, window: Window, limit: int) -> IndexHits:
        """Return where the records of "topic#key" are; see `offsets`."""
        if (window is not self.window or limit != self.limit) and not self.is_asked(window, limit):
            return super().offsets_of(text, window, limit)
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            # See `asked_keys`.
            return super().offsets_of(text, window, limit)
        count, first, last_timestamp, last_offset = self._select(raw, self.search)
        while count == OUTDATED:
            self.look_again()
            count, first, last_timestamp, last_offset = self._select(raw, self.search)
        if count == 1:
            return [first], last_timestamp, last_offset
        if count < 0:
            return super().offsets_of(text, window, limit)
        return self.hits(count), last_timestamp, last_offset

    def hits(self, count: int) -> list[int]:
        """Return the first `count` physical offsets that a kernel has found."""
        return self.seen[self.first_hit : self.first_hit + count].tolist()

    def offsets_of_many(
        self, prefix: str, keys: Sequence[str], window: Window, limit: int
    ) -> ManyHits:
        """Return where the records of each of several keys are; see `IndexSearch`."""
        if not self.is_asked(window, limit, min(len(keys), KEYS)):
            return super().offsets_of_many(prefix, keys, window, limit)
        last = self.last()
        hits: list[list[int]] = []
        for first in range(0, len(keys), KEYS):
            some = keys[first : first + KEYS]
            asked = asked_keys(prefix, some)
            if asked is None:
                return super().offsets_of_many(prefix, keys, window, limit)
            hits += self.hits_of(prefix, some, self.select_many(asked))
        return ManyHits(hits, *last)

    def select_many(self, asked: AskedKeys) -> NDArray[np.int64]:
        """Find the physical offsets of `KEYS` keys at most, after `is_asked` and `last`.

        Returns:
            By key: how many, `DAMAGED` where the twin has to look; the offsets are in `search`.
        """
        count = self._count[: len(asked.key_end)]
        if self._views:
            kernels.select_many(
                asked.raw,
                asked.key_end,
                asked.prefix,
                self.search,
                self._hashes,
                self._lanes,
                count,
            )
        else:
            count[:] = 0
        return count

    def hits_of(
        self, prefix: str, keys: Sequence[str], count: NDArray[np.int64]
    ) -> list[list[int]]:
        """Return by key what `select_many` has found, or the twin where it has found damage."""
        hit_end = np.maximum(count, 0).cumsum().tolist()
        found = self.hits(hit_end[-1])
        hits = [found[at:end] for at, end in pairwise([0, *hit_end])]
        for number in np.nonzero(count == DAMAGED)[0].tolist():
            hashed = indexfile.key_hash(prefix + keys[number])
            hits[number], _, _ = self.offsets(hashed, self.window, self.limit)
        return hits
