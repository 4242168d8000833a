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
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report

_ITEM = indexfile.ITEM_STRUCT
_SLOT = struct.Struct(">i")
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


class IndexFile:
    """One index file: brokers remove these files but never cut them."""

    def __init__(self, path: Path | str, settings: BrokerSettings) -> None:
        """Open it.

        Raises:
            OSError: it cannot be read.
        """
        self.path = path
        self.slots = settings.index_slots
        self.items = settings.index_items
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

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

    def expect_few_keys(self) -> None:
        """Read the few pages that keys lie on, and not the megabytes around each."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def _read(self, position: int, length: int) -> bytes:
        data = reads.pread(self._descriptor, length, position)
        if len(data) < length:
            raise FormatError(self.path, position + len(data), "the index file was cut", _CUT)
        return data

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


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
        self._files: dict[str, IndexFile] = {}
        self._changed = -1

    def files(self) -> list[IndexFile]:
        """Return the files, oldest first."""
        try:
            changed = os.stat(self._place).st_mtime_ns  # noqa: PTH116 - twice as quick
        except (FileNotFoundError, NotADirectoryError):
            return []
        if changed != self._changed:
            self._look()
            self._changed = changed
        return list(self._files.values())

    def _look(self) -> None:
        known, self._files = self._files, {}
        try:
            for entry in sorted(os.scandir(self.directory), key=lambda entry: entry.name):
                # It may go while we look.
                with contextlib.suppress(FileNotFoundError):
                    if self._is_one(entry):
                        file = known.pop(entry.name, None) or self._opened(entry.path)
                        self._files[entry.name] = file
        finally:
            # Where a file cannot be opened, too: all are looked at again with the next question.
            self._take(list(self._files.values()))
            for gone in known.values():
                gone.close()

    def _is_one(self, entry: os.DirEntry[str]) -> bool:
        """Tell whether an index file stands there; what else does is reported.

        Raises:
            OSError: it cannot be looked at.
        """
        if entry.is_dir() or not names.is_index_file(entry.name):
            self._report.add(Kind.NAME, entry.path, 0, "not the name of an index file")
            return False
        size = indexfile.file_size(self._settings.index_slots, self._settings.index_items)
        found = entry.stat().st_size
        if found != size:
            self._report.add(
                Kind.SIZE,
                entry.path,
                found,
                f"the file has {found} bytes, expected {size}: it is left out. Give the "
                "broker's maxHashSlotNum and maxIndexNum in --broker-conf",
            )
        return found == size

    def _opened(self, path: str) -> IndexFile:
        file = IndexFile(path, self._settings)
        file.expect_few_keys()
        return file

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
        files = self.files()
        last = files[-1].header() if files else Header()
        return last.end_timestamp, last.end_offset

    def offsets(self, hashed: int, window: Window, limit: int) -> IndexHits:
        """Return where the records of a hash are, `limit` at most (`IndexService#queryOffset`).

        Args:
            hashed: hash of topic and key.
            window: time.
            limit: hits.
        """
        found: list[int] = []
        files = self.files()
        last = files[-1].header() if files else Header()
        for file in reversed(files):
            header = file.header()
            if is_time_matched(header, window):
                file.select(hashed, window, limit, found, self._report)
            if header.begin_timestamp < window.begin or len(found) >= limit:
                break
        return found, last.end_timestamp, last.end_offset

    def close(self) -> None:
        """Close the files."""
        self._take(())
        for file in self._files.values():
            file.close()
        self._files = {}
        self._changed = -1
