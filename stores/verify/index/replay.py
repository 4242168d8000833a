"""What an index file should be after each item: slots and header replayed in memory.

So an item's `previous`, all slots and the header are known exactly, and compared byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.indexfile import State
from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.indexfile import (
    FIRST_ITEM,
    HEADER_OFFSETS,
    ITEM_STRUCT,
    NO_ITEM,
    Header,
    Item,
)
from reput.stores.findings import Kind
from reput.stores.verify.index.reader import IndexReader, index_files

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report, Scope


class IndexReplay:
    """The file that is being compared, and what its slots and header should be so far."""

    def __init__(self, root: Path, settings: BrokerSettings, scope: Scope, report: Report) -> None:
        """Look at the files; open none.

        Args:
            root: the output root.
            settings: slots and items of a file.
            scope: which records count.
            report: gets what is found.
        """
        self.directory = root / names.INDEX
        self.settings = settings
        self.scope = scope
        self.report = report
        self.files = index_files(self.directory, settings, report)
        self.opened = 0
        self.reader: IndexReader | None = None
        self.slots = np.zeros(settings.index_slots, np.int32)
        self.state = np.zeros(State.FIELDS, np.int64)
        # Timestamps of expired and of surplus records cannot be known, so not compared.
        self.unknown_begin = False
        self.unknown_end = NO_ITEM
        # A killed writer of ours leaves the header of some earlier moment.
        self.unknown_header = False
        self.full_ends: list[int] = []
        # As the header of the oldest file has it; 0 until that is open.
        self.oldest_begin = 0

    @property
    def number(self) -> int:
        """Return the number of the next item."""
        return int(self.state[State.COUNT])

    @property
    def is_full(self) -> bool:
        """Tell whether the next item belongs into another file."""
        return self.reader is None or self.number >= self.settings.index_items

    def here(self) -> tuple[Path, int]:
        """Return the file and the byte of the next item."""
        if self.reader is None:
            return self.directory, 0
        return self.reader.path, self.reader.position(self.number)

    def has_next(self) -> bool:
        """Tell whether there is a file after the one that is open."""
        return self.opened < len(self.files)

    def open_next(self) -> IndexReader:
        """Open the next file, which is there, its header carrying on from the one before."""
        previous = Header(*self.state.tolist()) if self.opened else None
        self.close_file()
        self.reader = IndexReader(self.files[self.opened], self.settings)
        if self.opened == 0:
            header = self.reader.header()
            self.oldest_begin = header.begin_timestamp
            if not any(self.reader.item(FIRST_ITEM)) and header.begin_offset < self.scope.floor:
                # The only witness of a file that has expired before it.
                previous = header._replace(
                    end_timestamp=header.begin_timestamp, end_offset=header.begin_offset
                )
        self.opened += 1
        self.slots[:] = NO_ITEM
        self.state[:] = np.array(indexfile.seeded(previous), np.int64)
        self.state[State.COUNT] = FIRST_ITEM
        self.reader.load(FIRST_ITEM)
        return self.reader

    def expected(self, key_hash: int, offset: int, timestamp: int) -> Item:
        """Return the item that a key gives here."""
        difference = indexfile.time_difference(timestamp, int(self.state[State.BEGIN_TIMESTAMP]))
        previous = int(self.slots[key_hash % len(self.slots)])
        return Item(key_hash, offset, difference, previous)

    def advance(self, item: Item, timestamp: int | None) -> None:
        """Replay one item; `timestamp` is its record's, None if that is not known."""
        slot = item.key_hash % len(self.slots)
        number = self.number
        if self.slots[slot] == NO_ITEM:
            self.state[State.SLOTS_USED] += 1
        self.slots[slot] = number
        if timestamp is None:
            self.unknown_end = number
            self.unknown_begin |= number == FIRST_ITEM
        else:
            self.state[State.END_TIMESTAMP] = timestamp
        if number == FIRST_ITEM:
            self.state[State.BEGIN_OFFSET] = item.physical_offset
            self.state[State.BEGIN_TIMESTAMP] = timestamp or 0
        self.state[State.END_OFFSET] = item.physical_offset
        self.state[State.COUNT] = number + 1

    def item(self, number: int) -> Item | None:
        """Return what stands at an item of the open file or the one after it, None for nothing."""
        if self.reader is None or number >= self.settings.index_items:
            return self.peek()
        raw = self.reader.item(number)
        return Item(*ITEM_STRUCT.unpack(raw)) if any(raw) else None

    def peek(self) -> Item | None:
        """Return the first item of the file after the open one, None for nothing."""
        if not self.has_next():
            return None
        following = IndexReader(self.files[self.opened], self.settings)
        raw = following.item(FIRST_ITEM)
        following.close()
        return Item(*ITEM_STRUCT.unpack(raw)) if any(raw) else None

    def close_file(self) -> None:
        """Compare header, slots and unused bytes of the open file, and close it."""
        reader = self.reader
        if reader is None:
            return
        self.report.items += self.number - FIRST_ITEM
        self._compare_header(reader)
        reader.compare_slots(self.slots, self.report)
        reader.check_unused(self.number, self.report)
        if self.number >= self.settings.index_items:
            self.full_ends.append(int(self.state[State.END_TIMESTAMP]))
        reader.close()
        self.reader = None
        self.unknown_begin = self.unknown_header = False
        self.unknown_end = NO_ITEM

    def _compare_header(self, reader: IndexReader) -> None:
        if self.unknown_header:
            return
        found, expected = reader.header(), Header(*self.state.tolist())
        unknown = {"begin_timestamp"} if self.unknown_begin else set()
        unknown |= {"end_timestamp"} if self.unknown_end == self.number - 1 > 0 else set()
        for field, offset in zip(Header._fields, HEADER_OFFSETS, strict=True):
            value, wanted = getattr(found, field), getattr(expected, field)
            allowed = {wanted}
            if field == "index_count" and wanted == FIRST_ITEM:
                allowed = self._counts_of_none()
            if value not in allowed and field not in unknown:
                detail = f"{field} is {value}, expected {wanted}"
                self.report.add(Kind.HEADER, reader.path, offset, detail)

    def _counts_of_none(self) -> set[int]:
        """Return what the count of a file without items may be."""
        if not self.scope.is_clean:
            return {0, FIRST_ITEM}
        return {FIRST_ITEM if self.settings.version.counts_empty_index else 0}
