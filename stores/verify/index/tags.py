"""Finds where an index changes from items without tags to items with them: an upgrade.

Brokers from 5.4 on have an item for a record's tag too. What an older version wrote stays as it is,
so that the index of an upgraded broker is right by two rules, one before a place and one after it.
The other way round for a broker that was put back to an older version.
"""

from __future__ import annotations

import struct
import sys
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import indexfile
from reput.formats.rocketmq.indexfile import FIRST_ITEM, HEADER_SIZE, ITEM_SIZE, ITEM_STRUCT, Header
from reput.stores.verify.index.tag_votes import TagVote, tag_votes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Scope
    from reput.stores.verify.index.parting import Records
    from reput.stores.verify.index.replay import IndexReplay

# Items of a window, and windows to look at where no record has a tag.
_WINDOW = 256
_PROBES = 64


class TagChange(NamedTuple):
    """Where the rule for tags changes.

    Attributes:
        opened: number of the index file, the oldest is 1.
        number: the first item by the later rule.
        position: physical offset from which records have items by the later rule.
    """

    opened: int
    number: int
    position: int


def find_change(
    files: Sequence[Path], settings: BrokerSettings, scope: Scope, records: Records
) -> TagChange | None:
    """Return where an index changes to the rule for tags of the broker's version.

    Args:
        files: of the index, oldest first.
        settings: slots and items of a file, and the version.
        scope: records before its floor have expired.
        records: the log.

    Returns:
        The place, the end of the index if nothing in it is by this rule; None if it does not begin
        with the other rule and end with this one.

    Raises:
        OSError: a file cannot be read.
    """
    later = settings.version.indexes_tags
    return _Search(_Items(files, settings), scope, records, later=later).find()


class _Items:
    """The items of all files, numbered from 0."""

    def __init__(self, files: Sequence[Path], settings: BrokerSettings) -> None:
        self._files = files
        self._slots = settings.index_slots
        self._starts = []
        self.count = 0
        for path in files:
            self._starts.append(self.count)
            self.count += _items_of(path, settings.index_items)

    def read(self, first: int, end: int) -> list[tuple[int, int, int, int]]:
        found: list[tuple[int, int, int, int]] = []
        while first < end:
            opened, number = self.place(first)
            following = self._starts[opened] if opened < len(self._starts) else self.count
            count = min(end, following) - first
            with self._files[opened - 1].open("rb") as file:
                file.seek(indexfile.item_position(number, self._slots))
                data = file.read(count * ITEM_SIZE).ljust(count * ITEM_SIZE, b"\0")
            found += ITEM_STRUCT.iter_unpack(data)
            first += count
        return found

    def place(self, item: int) -> tuple[int, int]:
        """Return the number of an item's file, the oldest is 1, and its number in there."""
        opened = bisect_right(self._starts, item)
        return opened, item - self._starts[opened - 1] + FIRST_ITEM


def _items_of(path: Path, capacity: int) -> int:
    with path.open("rb") as file:
        try:
            header = Header.unpack(file.read(HEADER_SIZE))
        except struct.error:
            return 0
    return max(min(header.next_item, capacity) - FIRST_ITEM, 0)


class _Search:
    """Looks for the one place by bisection over windows of items."""

    def __init__(self, items: _Items, scope: Scope, records: Records, *, later: bool) -> None:
        """Look at nothing yet.

        Args:
            items: of the index.
            scope: see `find_change`.
            records: the log.
            later: records have items for tags after the place.
        """
        self._scope = scope
        self._seen: dict[tuple[int, int], list[TagVote]] = {}
        self._items = items
        self._later = later
        self._records = records
        self._windows = -(-items.count // _WINDOW)

    def find(self) -> TagChange | None:
        begin, end = self._not_expired(), self._windows
        near = range(begin, min(begin + _PROBES, end))
        low = self._first_with_votes([*near, *_spread(begin, end)])
        near = range(max(end - _PROBES, begin), end)
        high = self._first_with_votes([*reversed(near), *_spread(begin, end)])
        if low is None or high is None or self._split(self._votes(low)) == 0:
            return None
        if self._is_earlier(self._votes(high)):
            if not self._is_earlier(self._votes(low)):
                return None
            return TagChange(*self._items.place(self._items.count), self._scope.end)
        for window in (low, high):
            votes = self._votes(window)
            if 0 < self._split(votes) < len(votes):
                return self._change(votes)
        return self._bisect(low, high)

    def _bisect(self, low: int, high: int) -> TagChange | None:
        """Return the place between a window by the earlier rule and one by the later rule."""
        while high - low > 1:
            middle = self._first_with_votes(_spread(low + 1, high))
            if middle is None:
                return self._change([*self._votes(low), *self._votes(high)])
            votes = self._votes(middle)
            if self._split(votes) == 0:
                high = middle
            elif self._is_earlier(votes):
                low = middle
            else:
                return self._change(votes)
        return self._change(self._votes(low, 2))

    def _not_expired(self) -> int:
        """Return the first window that ends with an item of a record that has not expired."""
        low, high = 0, self._windows
        while low < high:
            middle = (low + high) // 2
            last = min((middle + 1) * _WINDOW, self._items.count) - 1
            if self._items.read(last, last + 1)[0][1] < self._scope.floor:
                low = middle + 1
            else:
                high = middle
        return low

    def _first_with_votes(self, windows: Iterable[int]) -> int | None:
        return next((window for window in windows if self._votes(window)), None)

    def _votes(self, window: int, count: int = 1) -> list[TagVote]:
        """Return the votes in `count` windows from one on."""
        if (window, count) not in self._seen:
            self._seen[window, count] = self._look(window * _WINDOW, (window + count) * _WINDOW)
        return self._seen[window, count]

    def _look(self, first: int, end: int) -> list[TagVote]:
        end = min(end, self._items.count)
        items = self._items.read(first, end)
        floor = self._scope.floor
        expired = next((i for i, item in enumerate(items) if item[1] >= floor), len(items))
        first += expired
        is_end = end == self._items.count
        votes = tag_votes(items[expired:], self._records.record_at, is_end=is_end)
        return [vote._replace(first=first + vote.first, end=first + vote.end) for vote in votes]

    def _split(self, votes: list[TagVote]) -> int:
        """Return the number of votes before the place, such that the fewest contradict it.

        A damaged item is one vote among many.
        """
        wrong = sum(vote.has_tag != self._later for vote in votes)
        fewest, split = wrong, 0
        for number, vote in enumerate(votes, 1):
            wrong += 1 if vote.has_tag == self._later else -1
            if wrong < fewest:
                fewest, split = wrong, number
        return split

    def _is_earlier(self, votes: list[TagVote]) -> bool:
        return self._split(votes) == len(votes)

    def _change(self, votes: list[TagVote]) -> TagChange | None:
        split = self._split(votes)
        if not 0 < split < len(votes):
            return None
        # A record that has nothing but a tag has no item at all by the rule without tags.
        if self._later:
            vote = votes[split]
            return TagChange(*self._items.place(vote.first), vote.position)
        vote = votes[split - 1]
        return TagChange(*self._items.place(vote.end), vote.position + 1)


def _spread(first: int, end: int) -> Iterator[int]:
    """Yield numbers of [`first`, `end`), far apart and the middle first; all if they are few."""
    ranges = deque([(first, end)])
    for _ in range(_PROBES):
        if not ranges:
            return
        low, high = ranges.popleft()
        if low >= high:
            continue
        middle = (low + high) // 2
        yield middle
        ranges += [(low, middle), (middle + 1, high)]


class TagSwitch:
    """Gives the walk through an index the rule for tags by which the next items were written."""

    def __init__(self, replay: IndexReplay, records: Records, change: TagChange | None) -> None:
        """Begin with the rule before a place, if there is one.

        Args:
            replay: where the walk is.
            records: told which of them have the other rule.
            change: the place.
        """
        self._replay = replay
        self._records = records
        self._change = change
        self._has_turned = False
        records.other_tags_before = sys.maxsize if change is not None else 0

    def begin_leg(self) -> None:
        """Use the rule after the place for a walk that resumes at another place of the log.

        Records before it whose keys come again there have been dispatched by the later version.
        """
        if self._change is None and not self._has_turned:
            self._records.other_tags_before = 0
        self._has_turned = False

    def limit(self) -> int:
        """Return the number of the item before which the walk through the open file has to end."""
        change, opened = self._change, self._replay.opened
        if change is None or opened < change.opened:
            return self._replay.settings.index_items
        return change.number if opened == change.opened else 0

    def turns(self) -> bool:
        """Use the later rule if the walk is at the place; tell whether it is."""
        change, replay = self._change, self._replay
        if change is None or (replay.opened, replay.number) < (change.opened, change.number):
            return False
        self._records.other_tags_before = change.position
        self._change = None
        self._has_turned = True
        return True
