"""Looks hashes of keys up in the index files, as a broker does: newest file first, chain by chain.

The rules are those of RocketMQ's `IndexService#queryOffset` and `IndexFile#selectPhyOffset`, odd
ones included: after a file that began before the window of time, older files do not count, and a
chain ends at an item that is older than the window. A broker knows what it has just inserted; here
a chain that begins past the header's count is followed back to what the header counts. No broker
writes chains that run in a circle, counts beyond the file, or files of other sizes and names, so
the broker has no rule for them. Here they are findings, and the answer is what was found until
then.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reput.formats.errors import FormatError
from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.indexfile import Header
from reput.stores.findings import Kind
from reput.stores.query.index_file import IndexFile, ReadFile
from reput.stores.query.open_files import OpenFiles
from reput.stores.reads import at_once, patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.reads import Steps

    Result = TypeVar("Result")

# Said of a file that is gone since the list was made, or in whose place a copy has begun.
_NOT_THAT_FILE = FileNotFoundError, FormatError
# Times of a directory are a few milliseconds apart.
_MOMENT_NS = 1_000_000_000


class Window(NamedTuple):
    """A time to look in: store timestamps in ms, both ends included."""

    begin: int = 0
    end: int = (1 << 63) - 1


ALWAYS = Window()


# What the index has for a hash: physical offsets, newest first, hits of other keys with the same
# hash among them; store timestamp (ms) and physical offset of the newest item of all, 0 without
# an index. A plain tuple: building a named one costs as much as walking a chain.
IndexHits = tuple[list[int], int, int]


class ManyHits(NamedTuple):
    """What the index has for several hashes.

    Attributes:
        offsets: by hash: physical offsets, newest first.
        last_timestamp: store timestamp of the newest item of all, ms; 0 without an index.
        last_offset: its physical offset.
    """

    offsets: list[list[int]]
    last_timestamp: int
    last_offset: int


class _Known(NamedTuple):
    """A file that was there, and what tells it from one that is put in its place."""

    inode: int
    file: IndexFile


def is_time_matched(header: Header, window: Window) -> bool:
    """Tell whether a file is looked into (`IndexFile#isTimeMatched`)."""
    begin, end = header.begin_timestamp, header.end_timestamp
    return (
        (window.begin < begin and window.end > end)
        or begin <= window.begin <= end
        or begin <= window.end <= end
    )


class IndexSearch:
    """The index files of an output; it looks again when files have come or gone.

    Attributes:
        directory: where they are.
        opened: those that are open.
        left_out: one that has another size, None where all have the right one.
    """

    def __init__(self, directory: Path, settings: BrokerSettings, report: Report) -> None:
        """Open nothing yet.

        Args:
            directory: where the index files are.
            settings: how large they are.
            report: gets what is not an index file, and broken chains.
        """
        self.directory = directory
        self._place = str(directory)
        self._settings = settings
        self._report = report
        self._files: dict[str, _Known] = {}
        self._changed = -1
        self._looked_ns = 0
        self.left_out: str | None = None
        self._said: set[tuple[str, str]] = set()
        self.opened = OpenFiles()

    def files(self) -> list[IndexFile]:
        """Return the files, oldest first.

        Raises:
            OSError: one of them, or the directory, cannot be read; those before are kept.
        """
        try:
            # Not the time that a copy may bring with it.
            changed = os.stat(self._place).st_ctime_ns  # noqa: PTH116 - twice as quick
        except (FileNotFoundError, NotADirectoryError):
            return []
        now = time.time_ns()
        # One that changes twice in a moment may have the same time for both, and a file that is
        # being copied gets its size later.
        is_settled = self._looked_ns - changed > _MOMENT_NS and self.left_out is None
        is_due = now - max(changed, self._looked_ns) > _MOMENT_NS
        if changed != self._changed or (is_due and not is_settled):
            self._look()
            self._changed, self._looked_ns = changed, now
        return [known.file for known in self._files.values()]

    def _look(self) -> None:
        found: dict[str, _Known] = {}
        self.left_out = None
        for entry in sorted(os.scandir(self.directory), key=lambda entry: entry.name):
            # It may go while we look.
            with contextlib.suppress(FileNotFoundError):
                file = self._found(entry)
                if file is not None:
                    found[entry.name] = file
        before, self._files = self._files, found
        self._take([known.file for known in found.values()])
        for name, known in before.items():
            if found.get(name) is not known:
                known.file.close()

    def _found(self, entry: os.DirEntry[str]) -> _Known | None:
        """Return an index file, None if it is none."""
        size = indexfile.file_size(self._settings.index_slots, self._settings.index_items)
        if entry.is_dir() or not names.is_index_file(entry.name):
            self._say(Kind.NAME, entry.path, 0, "not the name of an index file")
            return None
        found = entry.stat().st_size
        if found != size:
            self.left_out = entry.path
            self._say(
                Kind.SIZE,
                entry.path,
                found,
                f"the file has {found} bytes, expected {size}: it is left out. Give the "
                "broker's maxHashSlotNum and maxIndexNum in --broker-conf",
            )
            return None
        known = self._files.get(entry.name)
        if known is not None and known.inode == entry.inode():
            return known
        if known is not None:
            # Another one is in its place: what is open is the one before.
            self.opened.close(entry.path)
        return _Known(entry.inode(), self._made(entry.path))

    def _say(self, kind: Kind, path: str, position: int, detail: str) -> None:
        """Report something once, however often it is looked at."""
        if (path, detail) not in self._said:
            self._said.add((path, detail))
            self._report.add(kind, path, position, detail)

    def _made(self, path: str) -> IndexFile:
        return ReadFile(path, self._settings, self.opened)

    def _take(self, files: Sequence[IndexFile]) -> None:
        """Take over the list of files, oldest first, before others are closed."""

    def offsets_of(self, text: str, window: Window, limit: int) -> IndexHits:
        """Return where the records of "topic#key" are; see `offsets`."""
        return self.offsets(indexfile.key_hash(text), window, limit)

    def offsets_of_many(
        self, prefix: str, keys: Sequence[str], window: Window, limit: int
    ) -> ManyHits:
        """Return where the records of each of several keys are; see `offsets`.

        Args:
            prefix: what stands before each key: "topic#".
            keys: the keys.
            window: time.
            limit: hits of each key.
        """
        hits = [self.offsets_of(prefix + key, window, limit)[0] for key in keys]
        return ManyHits(hits, *self.last())

    def last(self) -> tuple[int, int]:
        """Return store timestamp (ms) and physical offset of the newest item of all, 0 without."""
        last = self._asked(_last_header)
        return last.end_timestamp, last.end_offset

    def offsets(self, hashed: int, window: Window, limit: int) -> IndexHits:
        """Return where the records of a hash are, `limit` at most (`IndexService#queryOffset`).

        Args:
            hashed: hash of topic and key.
            window: time.
            limit: hits.
        """
        return at_once(self.offset_steps(hashed, window, limit))

    def offset_steps(self, hashed: int, window: Window, limit: int) -> Steps[IndexHits]:
        """Return where the records of a hash are, in turns; see `offsets`."""
        files = yield from patiently(self.files)
        while True:
            try:
                hits = yield from self._chains(files, hashed, window, limit)
            except _NOT_THAT_FILE:
                before, files = files, self._looked_again()
                if files == before:
                    raise
                continue
            before, files = files, self.files()
            # Others may have had their turn, and closed what is no longer there.
            if files == before:
                return hits

    def _chains(
        self, files: Sequence[IndexFile], hashed: int, window: Window, limit: int
    ) -> Steps[IndexHits]:
        found: list[int] = []
        last = yield from patiently(lambda: _last_header(files))
        for file in reversed(files):
            header = yield from patiently(file.header)
            if is_time_matched(header, window):
                yield from file.select(hashed, window, limit, found, self._report)
            if header.begin_timestamp < window.begin or len(found) >= limit:
                break
        return found, last.end_timestamp, last.end_offset

    def _asked(self, question: Callable[[Sequence[IndexFile]], Result]) -> Result:
        """Return what the files say; again where they are others by then."""
        files = self.files()
        while True:
            try:
                return question(files)
            except _NOT_THAT_FILE:
                before, files = files, self._looked_again()
                if files == before:
                    raise

    def _looked_again(self) -> list[IndexFile]:
        self._changed = -1
        return self.files()

    def close(self) -> None:
        """Close the files."""
        self._take(())
        for known in self._files.values():
            known.file.close()
        self._files = {}
        self._changed = -1


def _last_header(files: Sequence[IndexFile]) -> Header:
    return files[-1].header() if files else Header()
