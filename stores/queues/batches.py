"""One queue of a BatchCQ topic, read as its broker has it once it is open.

Its units stand for several messages each, so that an offset has to be searched for. The searches
are the broker's own, with what they do where times or offsets are out of order.
Source: RocketMQ `BatchConsumeQueue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from reput.formats.rocketmq.batchconsumequeue import UNIT, UNIT_SIZE, UNIT_STRUCT, Unit
from reput.stores.following.passed_over import has_left_out
from reput.stores.queues.by_time import Boundary
from reput.stores.queues.live_end import is_own
from reput.stores.queues.reader import QueueEntry
from reput.stores.queues.unit_files import UnitFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.following.log_end import EndedLog

_PIECE = 1024


class BatchReader:
    """A batch queue's units by their queue offset."""

    is_batch: Literal[True] = True
    is_replaced: Literal[False] = False

    def __init__(
        self,
        directory: Path,
        log: EndedLog,
        settings: BrokerSettings,
        report: Report,
        *,
        is_quick: bool = False,
    ) -> None:
        """Look at the files.

        Args:
            directory: of the queue.
            log: what its units point into.
            settings: file sizes.
            report: gets what is damaged.
            is_quick: see `UnitFiles.end`.
        """
        self.log = log
        self.files = UnitFiles(directory, settings.batch_file_size, UNIT, report)
        self.end = self.files.end(log, is_quick=is_quick)
        self._bases = [base for base in self.files.bases if base <= self.end]
        last = self._unit(self.end - UNIT_SIZE) if self.end else None
        self.max_offset = last.base_offset + last.batch_size if last else 0
        self.settle()

    def settle(self) -> None:
        """Take where the log begins now for what the queue begins with."""
        floor = self.log.min_offset
        self.min_offset = self._min_offset()
        self.floor = floor

    def is_there(self) -> bool:
        """Tell whether its files are those that were there, or those and new ones after them."""
        return self.files.are_there()

    def _unit(self, position: int) -> Unit | None:
        raw = self.files.read(position, UNIT_SIZE)
        return Unit(*UNIT_STRUCT.unpack(raw)) if len(raw) == UNIT_SIZE else None

    def _first(self, base: int) -> Unit | None:
        """Return the first unit of a file, None if it has none."""
        return self._unit(base) if base < self.end else None

    def _min_offset(self) -> int:
        first = self._first(self._bases[0]) if self._bases else None
        if first is None:
            return -1
        offset = first.base_offset
        for unit in self._units(self._bases[0]):
            if unit.physical_offset >= self.log.min_offset:
                break
            offset = unit.base_offset + unit.batch_size
        return offset

    def _units(self, position: int) -> Iterator[Unit]:
        """Yield the units from a position to the end of its file."""
        stop = min(position - position % self.files.file_size + self.files.file_size, self.end)
        while position < stop:
            data = self.files.read(position, min(_PIECE * UNIT_SIZE, stop - position))
            whole = len(data) - len(data) % UNIT_SIZE
            if not whole:
                return
            for at in range(0, whole, UNIT_SIZE):
                yield Unit(*UNIT_STRUCT.unpack_from(data, at))
            position += whole

    def grow(self) -> bool:
        """Take in what was written after the end, where units of a cut may stand past that.

        Returns:
            False if something was written and nothing was cut: open it again.
        """
        begun = position = self.end
        following = self.max_offset
        while (unit := self._next(position)) is not None:
            if not self.files.is_cut:
                return False
            # One whose record has expired since tells nothing: it counts if one after it does.
            has_expired = unit.physical_offset < self.log.min_offset
            if not has_expired and not self._is_own(unit, position, following):
                break
            position += UNIT_SIZE
            following = unit.base_offset + unit.batch_size
            if not has_expired:
                self.end, self.max_offset = position, following
        if self.end > begun:
            self._bases = [base for base in self.files.bases if base <= self.end]
            self.settle()
        return True

    def _next(self, position: int) -> Unit | None:
        """Return the unit that stands at a position after the end, None for none."""
        if not self.files.has_begun(position - position % self.files.file_size):
            return None
        raw = self.files.read(position, UNIT_SIZE)
        return Unit(*UNIT_STRUCT.unpack(raw)) if self.files.are_used(raw) else None

    def _is_own(self, unit: Unit, position: int, following: int) -> bool:
        """Tell whether a unit is the queue's next one: what was cut may still stand there."""
        left_out = unit.base_offset - following if position else 0
        if left_out and not (left_out > 0 and has_left_out(self.log.output)):
            return False
        return is_own(self.files, self.log, position, unit.physical_offset, unit.size)

    def roll(self, _queue_offset: int) -> int:
        """Return where to resume after an offset that is in no file: 0, as in a broker."""
        return 0

    def entries(self, queue_offset: int) -> Iterator[QueueEntry] | None:
        """Return the units from the one with a queue offset on, None if it is in no file."""
        if queue_offset >= self.max_offset:
            return None
        base = self._file_of(lambda unit: unit.base_offset, queue_offset, is_bounded=False)
        if base is None:
            return None
        at = self._find(base, queue_offset)
        return None if at is None else map(_entry, self._units(at))

    def all_entries(self, queue_offset: int = 0) -> Iterator[QueueEntry]:
        """Yield the units from a queue offset to the queue's end, over all files."""
        for base in self._bases:
            for unit in self._units(base):
                if unit.base_offset + unit.batch_size > queue_offset:
                    yield _entry(unit)

    def first_after(self, physical_offset: int) -> int:
        """Return the first queue offset whose unit's record stands after a physical offset."""
        later = (u for u in self.all_entries() if u.physical_offset > physical_offset)
        return next((entry.queue_offset for entry in later), self.max_offset)

    def last_entry(self) -> QueueEntry | None:
        """Return the last unit, None for a queue without any."""
        unit = self._unit(self.end - UNIT_SIZE) if self.end else None
        return _entry(unit) if unit else None

    def _file_of(
        self, value: Callable[[Unit], int], wanted: int, *, is_bounded: bool
    ) -> int | None:
        """Return the file with the greatest first value that is not above the wanted one.

        Args:
            value: of a file's first unit.
            wanted: what is looked for.
            is_bounded: below all of them, the first file is meant.
        """
        if not self._bases:
            return None
        last = self._first(self._bases[-1])
        if last is not None and value(last) <= wanted:
            return self._bases[-1]
        # The broker's cache has one file for each value: the last of equal ones.
        floors = {}
        for base in self._bases:
            first = self._first(base)
            if first is not None:
                floors[value(first)] = base
        below = [key for key in floors if key <= wanted]
        if below:
            return floors[max(below)]
        return self._bases[0] if is_bounded else None

    def _find(self, base: int, queue_offset: int) -> int | None:
        """Return the position of the unit that has a queue offset."""
        left, right = 0, min(base + self.files.file_size, self.end) - base - UNIT_SIZE
        last = right
        while left <= right:
            middle = (left + right) // 2 // UNIT_SIZE * UNIT_SIZE
            value = self._value(base + middle).base_offset
            if value == queue_offset:
                return base + middle
            if value > queue_offset:
                right = middle - UNIT_SIZE
            elif middle == left:
                after = middle + UNIT_SIZE
                if after <= last and self._value(base + after).base_offset <= queue_offset:
                    return base + after
                return base + middle
            else:
                left = middle
        return None

    def _value(self, position: int) -> Unit:
        unit = self._unit(position)
        # A file that was cut while it is read: as if nothing had been written.
        return unit if unit is not None else Unit(0, 0, 0, 0, 0, 0)

    def offset_by_time(self, timestamp: int, boundary: Boundary) -> int:
        """Return the queue offset that stands at a time, by the times in the units.

        Args:
            timestamp: store time, ms.
            boundary: which of several units with that time.
        """
        found = self._offset_by_time(timestamp, boundary)
        return min(max(found, self.min_offset), self.max_offset)

    def _offset_by_time(self, timestamp: int, boundary: Boundary) -> int:
        base = self._file_of(lambda unit: unit.store_timestamp, timestamp, is_bounded=True)
        if base is None or self._first(base) is None:
            return -1
        left, right = 0, min(base + self.files.file_size, self.end) - base - UNIT_SIZE
        last = self._value(base + right)
        if timestamp >= last.store_timestamp:
            return last.base_offset
        while left <= right:
            middle = (left + right) // 2 // UNIT_SIZE * UNIT_SIZE
            unit = self._value(base + middle)
            if middle == right:
                return unit.base_offset if unit.store_timestamp >= timestamp else -1
            if middle == left:
                if unit.store_timestamp >= timestamp:
                    return unit.base_offset
                left = middle + UNIT_SIZE
            elif boundary == Boundary.LOWER:
                if unit.store_timestamp < timestamp:
                    left = middle + UNIT_SIZE
                else:
                    right = middle
            elif unit.store_timestamp <= timestamp:
                left = middle
            else:
                right = middle - UNIT_SIZE
        return -1

    def close(self) -> None:
        """Close the files."""
        self.files.close()


def _entry(unit: Unit) -> QueueEntry:
    return QueueEntry(
        unit.base_offset, unit.physical_offset, unit.size, unit.tags_code, unit.batch_size
    )
