"""One index file, and the chain of a hash in it.

It is read, not mapped: a page of a map that a disk does not bring stops all threads of Python, and
a read stops its own one, or none (`stores.reads`).
"""

from __future__ import annotations

import mmap
import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError
from reput.formats.rocketmq import indexfile
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
from reput.stores.reads import patiently

if TYPE_CHECKING:
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.query.index_search import Window
    from reput.stores.query.open_files import OpenFiles
    from reput.stores.reads import Steps

    # Hash, physical offset, seconds and previous item.
    _Item = tuple[int, int, int, int]

_ITEM = indexfile.ITEM_STRUCT
_SLOT = struct.Struct(">i")
# What a read brings anyway.
_PAGE = mmap.PAGESIZE
# Pages that are looked at before others have their turn: with 204 items each half a millisecond.
_TURN = 8
_CUT = "Put the whole file back, or rebuild queues and index into a new --output"


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
    ) -> Steps[None]:
        """Add the offsets of a hash in a window in turns, newest first, until there are `limit`.

        Args:
            hashed: hash of topic and key.
            window: time.
            limit: of `found`, including what is in it already.
            found: physical offsets.
            report: gets what is damaged.
        """
        header = yield from patiently(self.header)
        count = header.index_count
        items_at, items = indexfile.item_position(0, self.slots), _Items(self)
        number = yield from self._first_item(hashed, count, items)
        # A circle is noticed when an item comes again that was remembered 2, 4, 8 … items ago.
        remembered, steps, remember_at = NO_ITEM, 0, 2
        while number != NO_ITEM and len(found) < limit:
            if number >= self.items:
                self._damaged_slot(report, hashed, number)
                return
            at = items_at + number * ITEM_SIZE
            if not items.begin <= at <= items.last:
                yield from items.bring(at)
            key_hash, offset, seconds, previous = _ITEM.unpack_from(items.page, at - items.begin)
            if seconds < 0:
                return
            stored = header.begin_timestamp + seconds * 1000
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

    def page(self, at: int) -> tuple[int, bytes]:
        """Return where an item's page begins, and the page with all of the item."""
        begin = at - at % _PAGE
        end = max(begin + _PAGE, at + ITEM_SIZE)
        length = min(end, indexfile.file_size(self.slots, self.items)) - begin
        return begin, self._read(begin, length)

    def _first_item(self, hashed: int, count: int, items: _Items) -> Steps[int]:
        """Return the first item of a hash's chain, `NO_ITEM` if the file has none.

        A writer sets the slot before the count: what it inserts meanwhile is passed over, and what
        stood there before is found.
        """
        slot = hashed % self.slots
        slot_at = HEADER_SIZE + slot * SLOT_SIZE
        (number,) = yield from patiently(lambda: _SLOT.unpack(self._read(slot_at, SLOT_SIZE)))
        while count < number < self.items:
            position = indexfile.item_position(number, self.slots)
            key_hash, _, _, previous = yield from items.at(position)
            if key_hash % self.slots != slot or previous >= number:
                return NO_ITEM
            number = previous
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


class _Items:
    """The items of one file, read by pages: those of a key that many messages have are close.

    Attributes:
        page: of the item that was asked for last.
        begin: where it begins.
        last: where its last item does.
    """

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._pages = 0
        self.begin, self.last, self.page = 0, -1, b""

    def bring(self, position: int) -> Steps[None]:
        """Read the page of the item at a position; others have their turn after some pages."""
        self._pages += 1
        if self._pages % _TURN == 0:
            yield None
        self.begin, self.page = yield from patiently(lambda: self._file.page(position))
        self.last = self.begin + len(self.page) - ITEM_SIZE

    def at(self, position: int) -> Steps[_Item]:
        """Return the item at a position."""
        if not self.begin <= position <= self.last:
            yield from self.bring(position)
        return _ITEM.unpack_from(self.page, position - self.begin)


class ReadFile(IndexFile):
    """One index file, read; it is open while it is among those that were opened last."""

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
