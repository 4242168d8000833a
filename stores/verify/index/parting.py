"""Tells why an index and the keys of its log part, and where to resume.

A damaged item, items that are missing, or items that a broker made twice because it dispatched
records again after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from reput.formats.rocketmq.commitlog import ROLLBACK, TRANSACTION_TYPE
from reput.formats.rocketmq.indexfile import FIRST_ITEM, ITEM_SIZE, time_difference
from reput.stores.findings import Kind

if TYPE_CHECKING:
    from collections.abc import Generator

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.commitlog import Record
    from reput.formats.rocketmq.indexfile import Item
    from reput.stores.findings import Report, Scope
    from reput.stores.verify.index.lost import LostItems
    from reput.stores.verify.index.replay import IndexReplay

# More differences than this mean another log or other settings: more of them tell nothing.
_MOST = 20_000


class Place(NamedTuple):
    """Where in the log the next item's key is: a record, and how many keys of it to leave out."""

    position: int
    key: int = 0


class Records(Protocol):
    """The log, as far as an index needs it.

    Attributes:
        other_tags_before: records before this physical offset have keys by the other rule for tags
            than the broker's version has, see `stores.verify.index.tags`.
    """

    other_tags_before: int

    def columns(self, start: int, end: int) -> Generator[tuple[Columns, int]]:
        """Yield the records that start in [`start`, `end`), a block at a time."""

    def keys_at(self, position: int) -> list[int] | None:
        """Return the key hashes of the record at a physical offset, None if none is there."""

    def record_at(self, position: int) -> Record | None:
        """Return the record at a physical offset, None if none is there."""


class Parting:
    """Decides what an item is that is not the one that the log's next key gives."""

    def __init__(
        self,
        replay: IndexReplay,
        scope: Scope,
        report: Report,
        records: Records,
        lost: LostItems,
        end_before: int | None,
    ) -> None:
        self._replay = replay
        self._lost = lost
        self._end_before = end_before
        self._scope = scope
        self._report = report
        self._records = records
        self._count = 0
        # The item, by file and number, that was last looked for at another place in the log.
        self._sought: tuple[int, int] | None = None

    @property
    def is_hopeless(self) -> bool:
        """Tell whether there were too many to look at the rest."""
        return self._count > _MOST

    def count(self) -> None:
        """Count one."""
        self._count += 1

    def explain(
        self, columns: Columns, count: int, row: int, key: int
    ) -> tuple[int, int] | Place | None:
        """Explain why the next item is not what a key gives.

        Returns:
            Row and key to resume with, another place in the log, or None to stop.
        """
        replay = self._replay
        offset = int(columns.physical_offset[row])
        if self._lost.passes(offset):
            return row, key
        self.count()
        timestamp = int(columns.store_timestamp[row])
        expected = replay.expected(int(columns.key_hash[key]), offset, timestamp)
        found = replay.item(replay.number)
        if self.is_hopeless:
            return None
        if found is None:
            return self._nothing_there(expected, timestamp, row, key)
        if self._lost.passes_wrong(found, expected):
            return row, key
        is_same_key = found[:2] == expected[:2]
        following = replay.item(replay.number + 1)
        goes_on = following is not None and following[:2] == _key_after(columns, count, row, key)
        if not is_same_key and not goes_on:
            other: tuple[int, int] | Place | None
            if offset == found.physical_offset:
                other = self._within_record(columns, row, key, found)
            else:
                other = self._elsewhere(expected, found)
            if other is not None:
                return other
        if not (is_same_key and self._counts_from_expired(found, expected, timestamp)):
            self.differs(self._kind_of(found, expected), found, expected)
        replay.advance(expected, timestamp)
        return row, key + 1

    def _nothing_there(
        self, expected: Item, timestamp: int, row: int, key: int
    ) -> tuple[int, int] | None:
        replay = self._replay
        path, byte = self._replay.here()
        if replay.reader is None or not replay.reader.is_empty_from(replay.number):
            what = "items that the log gives are not there"
            self._report.add_to_run(Kind.MISSING, path, byte, ITEM_SIZE, what)
            replay.advance(expected, timestamp)
            return row, key + 1
        detail = (
            f"no item from {replay.number} on, the next is of the record at physical offset "
            f"{expected.physical_offset}"
        )
        self._report.add(Kind.MISSING, path, byte, detail)
        if not replay.has_next():
            return None
        replay.open_next()
        return row, key

    def _within_record(
        self, columns: Columns, row: int, key: int, found: Item
    ) -> tuple[int, int] | None:
        """Look for an item's key among the others of its record."""
        first = int(columns.key_end[row - 1]) if row else 0
        hashes = columns.key_hash[first : columns.key_end[row]].tolist()
        later = hashes[key - first :]
        path, byte = self._replay.here()
        if found.key_hash in later:
            missing = later.index(found.key_hash)
            detail = f"{missing} items of the record at {found.physical_offset} before this one"
            self._report.add(Kind.MISSING, path, byte, detail)
            return row, key + missing
        if key > first and found.key_hash == hashes[0]:
            self.again(found)
            return row, first
        return None

    def _elsewhere(self, expected: Item, found: Item) -> Place | None:
        """Return the place of an item's key if it is of another record."""
        item = self._replay.opened, self._replay.number
        keys = self._records.keys_at(found.physical_offset)
        if keys is None or found.key_hash not in keys or item == self._sought:
            # Sought there once, it is not found there: a record that was rolled back has no items.
            return None
        key = keys.index(found.key_hash)
        if found.physical_offset < expected.physical_offset:
            if key:
                return None
            self.again(found)
        else:
            path, byte = self._replay.here()
            detail = (
                f"items of the records from physical offset {expected.physical_offset} to "
                f"{found.physical_offset} before this one"
            )
            self._report.add(Kind.MISSING, path, byte, detail)
        self._sought = item
        return Place(found.physical_offset, key)

    def again(self, found: Item) -> None:
        """Say that the keys of a record come again: a broker's after a crash, for one."""
        path, byte = self._replay.here()
        detail = f"the records from physical offset {found.physical_offset} on are indexed again"
        if self._scope.is_ours:
            self._report.add(Kind.SURPLUS, path, byte, detail)
        else:
            self._report.note(Kind.SURPLUS, path, byte, detail)

    def _counts_from_expired(self, found: Item, expected: Item, timestamp: int) -> bool:
        """Tell whether the time counts from the end of a file that has expired.

        Its first item is the only one that does (RocketMQ `IndexFile#IndexFile`).
        """
        replay = self._replay
        is_first = replay.opened == 1 and replay.number == FIRST_ITEM
        if self._scope.floor == 0 or not is_first:
            return False
        if found.time_diff < 0 or found.previous != expected.previous:
            return False
        if self._end_before is not None:
            return found.time_diff == time_difference(timestamp, self._end_before)
        path, byte = self._replay.here()
        detail = f"{found.time_diff} seconds since the end of a file that has expired"
        self._report.note(Kind.WRONG_BYTES, path, byte, detail)
        self._report.unverifiable += 1
        return True

    def _kind_of(self, found: Item, expected: Item) -> Kind:
        if found[:3] == expected[:3]:
            return Kind.BROKEN_CHAIN
        is_other = found.physical_offset != expected.physical_offset
        if is_other and self._records.keys_at(found.physical_offset) is not None:
            return Kind.MISPLACED
        return Kind.WRONG_BYTES

    def differs(self, kind: Kind, found: Item, expected: Item) -> None:
        """Report the next item."""
        path, byte = self._replay.here()
        number = self._replay.number
        detail = f"item {number} is {tuple(found)}, expected {tuple(expected)}"
        self._report.add(kind, path, byte, detail)


def _key_after(columns: Columns, count: int, row: int, key: int) -> tuple[int, int] | None:
    """Return hash and physical offset of the key after `key`, None if it is of another block."""
    following = key + 1
    while row < count:
        is_indexed = columns.sys_flag[row] & TRANSACTION_TYPE != ROLLBACK
        if is_indexed and following < columns.key_end[row]:
            return int(columns.key_hash[following]), int(columns.physical_offset[row])
        following = int(columns.key_end[row])
        row += 1
    return None
