"""Looks hashes of keys up in the index files, as a broker does: newest file first, chain by chain.

The rules are those of RocketMQ's `IndexService#queryOffset` and `IndexFile#selectPhyOffset`, odd
ones included: after a file that began before the window of time, older files do not count, and a
chain ends at an item that is older than the window. No broker writes chains that run in a circle,
counts beyond the file, or files of other sizes and names, so the broker has no rule for them. Here
they are findings, and the answer is what was found until then.

Files are read, not mapped: a page of a map that a disk does not bring stops all threads of Python,
and a read stops its own one, or none (`stores.reads`).
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reput.formats.errors import FormatError
from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.indexfile import (
    FIRST_ITEM,
    HEADER_SIZE,
    ITEM_SIZE,
    NO_ITEM,
    SLOT_SIZE,
    Header,
)
from reput.stores import reads
from reput.stores.findings import Kind
from reput.stores.query.open_files import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report

    Result = TypeVar("Result")

_ITEM = indexfile.ITEM_STRUCT
_SLOT = struct.Struct(">i")
# Times of a directory are a few milliseconds apart.
_MOMENT_NS = 1_000_000_000
_CUT = "Put the whole file back, or rebuild queues and index into a new --output"


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


class IndexFile(ABC):
    """One index file: brokers remove these files but never cut them."""

    def __init__(self, path: str, settings: BrokerSettings) -> None:
        """Open nothing yet."""
        self.path = path
        self.slots = settings.index_slots
        self.items = settings.index_items

    def header(self) -> Header:
        """Return the header as it stands there now, its count as a broker takes it."""
        header = Header.unpack(self._read(0, HEADER_SIZE))
        return header._replace(index_count=header.next_item)

    def select(
        self, hashed: int, window: Window, limit: int, found: list[int], report: Report
    ) -> None:
        """Add the offsets of a hash in a window, newest first, until there are `limit`.

        Args:
            hashed: hash of topic and key.
            window: time.
            limit: of `found`, including what is in it already.
            found: physical offsets.
            report: gets what is damaged.
        """
        header = self.header()
        count, begin_timestamp = header.index_count, header.begin_timestamp
        number = self._first_item(hashed, count)
        if number == NO_ITEM:
            return
        items_at = indexfile.item_position(0, self.slots)
        # A circle is noticed when an item comes again that was remembered 2, 4, 8 … items ago.
        remembered, steps, remember_at = NO_ITEM, 0, 2
        while len(found) < limit:
            if number >= self.items:
                self._damaged_slot(report, hashed, number)
                return
            at = items_at + number * ITEM_SIZE
            key_hash, offset, seconds, previous = _ITEM.unpack(self._read(at, ITEM_SIZE))
            if seconds < 0:
                return
            stored = begin_timestamp + seconds * 1000
            if key_hash == hashed and window.begin <= stored <= window.end:
                found.append(offset)
            if not NO_ITEM < previous <= count or previous == number or stored < window.begin:
                return
            steps += 1
            if previous == remembered:
                self._damaged(report, at, f"the chain of item {number} runs in a circle")
                return
            if steps == remember_at:
                remembered, remember_at = previous, remember_at * 2
            number = previous

    def _first_item(self, hashed: int, count: int) -> int:
        """Return the first item of a hash's chain, `NO_ITEM` if the file has none."""
        slot_at = HEADER_SIZE + hashed % self.slots * SLOT_SIZE
        (number,) = _SLOT.unpack(self._read(slot_at, SLOT_SIZE))
        is_there = NO_ITEM < number <= count and count > FIRST_ITEM
        return int(number) if is_there else NO_ITEM

    def _damaged_slot(self, report: Report, hashed: int, number: int) -> None:
        slot = hashed % self.slots
        at = HEADER_SIZE + slot * SLOT_SIZE
        self._damaged(report, at, f"slot {slot} leads to item {number}")

    def _damaged(self, report: Report, byte: int, what: str) -> None:
        report.add(Kind.BROKEN_CHAIN, str(self.path), byte, what)

    @abstractmethod
    def _read(self, position: int, length: int) -> bytes:
        """Return bytes of it."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""


class _ReadFile(IndexFile):
    """One index file, read; it is open while it is among those that were asked last."""

    def __init__(self, path: str, settings: BrokerSettings, opened: OpenFiles) -> None:
        """Open it, so that one that cannot be read is known at once.

        Raises:
            OSError: it cannot be read.
        """
        super().__init__(path, settings)
        self._opened = opened
        opened.descriptor(path)

    def _read(self, position: int, length: int) -> bytes:
        data = reads.pread(self._opened.descriptor(self.path), length, position)
        if len(data) < length:
            raise FormatError(self.path, position + len(data), "the index file was cut", _CUT)
        return data

    def close(self) -> None:
        """Close it."""
        self._opened.close(self.path)


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
    """The index files of an output; it looks again when files have come or gone."""

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
        self.opened = OpenFiles()

    def files(self) -> list[IndexFile]:
        """Return the files, oldest first.

        Raises:
            OSError: one of them, or the directory, cannot be read; those before are kept.
        """
        try:
            changed = os.stat(self._place).st_mtime_ns  # noqa: PTH116 - twice as quick
        except (FileNotFoundError, NotADirectoryError):
            return []
        now = time.time_ns()
        if changed != self._changed or now - changed > _MOMENT_NS > self._looked_ns - changed:
            self._look()
            # One that changes twice in a moment may have the same time for both.
            self._changed, self._looked_ns = changed, now
        return [known.file for known in self._files.values()]

    def _look(self) -> None:
        found: dict[str, _Known] = {}
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
            self._report.add(Kind.NAME, entry.path, 0, "not the name of an index file")
            return None
        found = entry.stat().st_size
        if found != size:
            self._report.add(
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

    def _made(self, path: str) -> IndexFile:
        return _ReadFile(path, self._settings, self.opened)

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

        def question(files: Sequence[IndexFile]) -> IndexHits:
            found: list[int] = []
            last = _last_header(files)
            for file in reversed(files):
                header = file.header()
                if is_time_matched(header, window):
                    file.select(hashed, window, limit, found, self._report)
                if header.begin_timestamp < window.begin or len(found) >= limit:
                    break
            return found, last.end_timestamp, last.end_offset

        return self._asked(question)

    def _asked(self, question: Callable[[Sequence[IndexFile]], Result]) -> Result:
        """Return what the files say; again where one went meanwhile, and is not there then."""
        files = self.files()
        while True:
            try:
                return question(files)
            except FileNotFoundError:
                self._changed = -1
                before, files = files, self.files()
                if files == before:
                    raise

    def close(self) -> None:
        """Close the files."""
        self._take(())
        for known in self._files.values():
            known.file.close()
        self._files = {}
        self._changed = -1


def _last_header(files: Sequence[IndexFile]) -> Header:
    return files[-1].header() if files else Header()
