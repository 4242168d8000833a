"""Places of a log that cannot be read now, and that an output may have had entries from.

Nothing tells what such an entry should be. It counts as unverifiable, like one of a record that has
expired. A place that was passed over gave nothing, so an entry that points there is wrong.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.commitlog import MIN_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class LostPlaces:
    """Ranges of physical offsets, without those that were passed over; false if there are none."""

    def __init__(self, passed: Mapping[int, int] | None = None) -> None:
        """Begin with none.

        Args:
            passed: beginnings and ends of the places that gave the output nothing.
        """
        self._passed = sorted((passed or {}).items())
        self._places: list[tuple[int, int]] = []
        self._starts = self._ends = np.zeros(0, np.int64)

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, start: int, end: int) -> None:
        """Add the part of [`start`, `end`) that was not passed over."""
        for first, following in self._passed:
            if start < first < end:
                self._insert(start, first)
            if first < end and following > start:
                start = max(start, following)
        self._insert(start, end)

    def _insert(self, start: int, end: int) -> None:
        if start >= end:
            return
        insort(self._places, (start, end))
        self._starts = np.array([place[0] for place in self._places], np.int64)
        self._ends = np.array([place[1] for place in self._places], np.int64)

    def end_of(self, position: int) -> int | None:
        """Return where the place ends that holds a physical offset, None if none does."""
        number = bisect_right(self._places, position, key=_start_of) - 1
        if number < 0 or position >= self._places[number][1]:
            return None
        return self._places[number][1]

    def holds(self, position: int, size: int) -> bool:
        """Tell whether a record of `size` bytes at a physical offset is all in one of them."""
        end = self.end_of(position)
        return end is not None and size >= MIN_SIZE and position + size <= end

    def between(self, start: int, end: int) -> bool:
        """Tell whether any byte of [`start`, `end`) is in one of them."""
        number = bisect_right(self._places, start, key=_start_of) - 1
        if number >= 0 and self._places[number][1] > start:
            return start < end
        return number + 1 < len(self._places) and self._places[number + 1][0] < end

    def of_records(self, offset: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which records are all in one of them, as `holds` does.

        Args:
            offset: physical offsets, shape (n,).
            size: bytes, shape (n,).
        """
        if not self._places:
            return np.zeros(len(offset), np.bool_)
        number = np.searchsorted(self._starts, offset, "right") - 1
        end = np.where(number >= 0, self._ends[number], -1)
        held: NDArray[np.bool_] = (size >= MIN_SIZE) & (offset < end) & (size <= end - offset)
        return held


def _start_of(place: tuple[int, int]) -> int:
    return place[0]
