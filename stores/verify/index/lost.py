"""Passes index items of records in a damaged place of the log: see `stores.following.lost_places`.

Their chains, slots and header fields are compared all the same; only what they should say of their
records is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.kernels.indexfile import State
from reput.formats.rocketmq.indexfile import FIRST_ITEM
from reput.stores.findings import Kind
from reput.stores.verify.index.kernels import PARTED, pass_expired

if TYPE_CHECKING:
    from reput.formats.rocketmq.indexfile import Item
    from reput.stores.findings import Report
    from reput.stores.following.lost_places import LostPlaces
    from reput.stores.verify.index.replay import IndexReplay

_LAST = (1 << 63) - 1


class LostItems:
    """The items of one index whose records cannot be read."""

    def __init__(self, replay: IndexReplay, lost: LostPlaces, report: Report) -> None:
        self._replay = replay
        self._lost = lost
        self._report = report

    def passes(self, before: int | None = None) -> bool:
        """Go past the next items of the open file if they are of such records; tell whether any is.

        Args:
            before: physical offset of the record whose item is looked for, None if there is none.
        """
        replay, reader = self._replay, self._replay.reader
        if not self._lost or reader is None or replay.is_full:
            return False
        first = replay.number
        found = replay.item(first)
        end = self._end_for(found, before)
        if found is None or end is None:
            return False
        header = reader.header()
        if first == FIRST_ITEM:
            # The only witness; the items of records that are there still prove it.
            replay.unknown_begin = True
            replay.state[State.BEGIN_TIMESTAMP] = header.begin_timestamp
        if not reader.window_first <= first < reader.window_end:
            reader.load(first)
        window = (reader.window, reader.window_first, reader.window_end)
        verdict = pass_expired(*window, end, replay.slots, replay.state)
        if replay.number == first:
            kind = Kind.BROKEN_CHAIN if verdict == PARTED else Kind.WRONG_BYTES
            previous = replay.expected(found.key_hash, 0, 0).previous
            self._differs(kind, found, f"expected one whose previous item is {previous}")
            replay.advance(found, None)
        else:
            self._report.unverifiable += replay.number - first
        replay.unknown_end = replay.number - 1
        replay.state[State.END_TIMESTAMP] = header.end_timestamp
        return True

    def passes_wrong(self, found: Item, expected: Item) -> bool:
        """Report the next item if it stands among such items and is none; tell whether it does."""
        replay = self._replay
        end = int(replay.state[State.END_OFFSET])
        if found[:2] == expected[:2] or not self._lost.between(end, expected.physical_offset):
            return False
        following = replay.item(replay.number + 1)
        if following is None:
            return False
        if following[:2] != expected[:2]:
            if self._end_for(following, expected.physical_offset) is None:
                return False
        elif found.physical_offset == expected.physical_offset:
            # The key before is of the same record: one of these two is missing, or damaged.
            return False
        detail = f"expected one of a record before physical offset {expected.physical_offset}"
        self._differs(Kind.WRONG_BYTES, found, detail)
        replay.advance(found, None)
        replay.state[State.END_OFFSET] = end
        return True

    def opens_empty(self) -> bool:
        """Tell whether the next file has no item because such a record, without keys, began it."""
        replay = self._replay
        end = int(replay.state[State.END_OFFSET])
        return replay.is_full and replay.peek() is None and self._lost.between(end + 1, _LAST)

    def begins_next(self) -> bool:
        """Tell whether the file after the full one that is open begins with such an item."""
        replay = self._replay
        return replay.is_full and self._end_for(replay.peek(), None) is not None

    def _end_for(self, found: Item | None, before: int | None) -> int | None:
        """Return where the place ends that an item points into, None if it does not, or too late.

        Items stand in the order of the log.
        """
        if found is None or found.physical_offset < self._replay.state[State.END_OFFSET]:
            return None
        if before is not None and found.physical_offset >= before:
            return None
        return self._lost.end_of(found.physical_offset)

    def _differs(self, kind: Kind, found: Item, wanted: str) -> None:
        path, byte = self._replay.here()
        self._report.add(
            kind, path, byte, f"item {self._replay.number} is {tuple(found)}, {wanted}"
        )
