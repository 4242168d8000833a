"""Reads one consume queue as its broker has it once it is open: its begin, end and entries.

Source: RocketMQ `ConsumeQueue#recover`, `correctMinOffset`, `getIndexBuffer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from reput.formats.rocketmq import consumequeue_ext
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, ENTRY_STRUCT, HEAD, head_of
from reput.stores.findings import Kind
from reput.stores.log.records import stored_at
from reput.stores.queues.live_end import is_own
from reput.stores.queues.unit_files import UnitFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.consumequeue_ext import Unit
    from reput.stores.findings import Report
    from reput.stores.following.log_end import EndedLog

_PIECE = 4096
_BYTE = np.dtype(np.uint8)


class QueueEntry(NamedTuple):
    """What a queue says of one record.

    Attributes:
        queue_offset: number of the record in the queue; of its first message in a batch queue.
        physical_offset: where the record begins.
        size: its bytes.
        tags_code: hash of its tag, or a due time; None if the unit that has it is lost.
        messages: how many there are in it.
        unit: its extension, if it has one.
    """

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int | None
    messages: int = 1
    unit: Unit | None = None


class QueueReader:
    """A queue's entries by their queue offset; `max_offset` is where the next one would be.

    Attributes:
        floor: where the log began when `min_offset` was found.
        shown: has `max_offset` and `min_offset` for compiled readers, -1 for the first once the
            queue is closed; None where there are none.
    """

    is_batch: Literal[False] = False

    def __init__(
        self,
        directory: Path,
        ext_directory: Path,
        log: EndedLog,
        settings: BrokerSettings,
        report: Report,
        *,
        is_quick: bool = False,
    ) -> None:
        """Look at the files.

        Args:
            directory: of the queue.
            ext_directory: of its extension; need not be there.
            log: what its entries point into.
            settings: file sizes, the broker's version.
            report: gets what is damaged.
            is_quick: see `UnitFiles.end`.
        """
        self.log = log
        self.files = UnitFiles(directory, settings.consumequeue_file_size, ENTRY, report)
        self._settings = settings
        self._report = report
        self._ext: UnitFiles | None = None
        self._ext_directory = ext_directory
        self.end = self.files.end(log, is_quick=is_quick)
        self.max_offset = self.end // ENTRY_SIZE
        # What stands before the end, and with what follows it while that is nothing.
        self._last, self._tail, self._tail_at = b"", b"", 0
        # The log was cut since: this queue's entries, and those of others, may be past its end.
        self.is_replaced = False
        self.shown: NDArray[np.int64] | None = None
        self.settle()

    def settle(self) -> None:
        """Take where the log begins now for what the queue begins with."""
        floor = self.log.min_offset
        self.min_position = self._min_position()
        self.min_offset = self.min_position // ENTRY_SIZE
        self.floor = floor
        if self.shown is not None:
            self.shown[1] = self.min_offset

    def is_there(self) -> bool:
        """Tell whether its files are those that were there, or those and new ones after them."""
        return self.files.are_there() and (self._ext is None or self._ext.are_there())

    def offset_at(self, position: int) -> int:
        """Return the physical offset of the entry at a byte position."""
        return head_of(self.files.read(position, HEAD.size))[0]

    def grow(self) -> bool:
        """Take in what was written after the end since the last look.

        An entry is written once its record is whole, so the log reaches as far. Only where entries
        were left out that still stand there does the log itself have to be asked.

        Returns:
            False if this is not the same queue any longer, or not as simple: open it again.
        """
        if self._tail and self.files.read(self._tail_at, len(self._tail)) == self._tail:
            return True
        files, end = self.files, self.end
        place = end % files.file_size
        if not place and not files.has_begun(end):
            return not end or end - files.file_size in files.bases or not files.bases
        self._tail_at = end - ENTRY_SIZE if place else end
        raw = files.read(self._tail_at, end - self._tail_at + ENTRY_SIZE)
        if place and raw[:ENTRY_SIZE] != (self._last or raw[:ENTRY_SIZE]):
            # Another entry stands there now, or none: the log was cut.
            self.log.look_again()
            self.is_replaced = True
            return False
        offset, size = head_of(raw[end - self._tail_at :])
        if offset < 0 or size <= 0:
            self._last, self._tail = raw[: end - self._tail_at], raw
            return True
        # The first entry of all may be one that fills a gap. Where a cut left some, it is not.
        return (self.max_offset > self.min_offset or files.is_cut) and self._take_in()

    def _take_in(self) -> bool:
        files, log = self.files, self.log
        length = min(_PIECE * ENTRY_SIZE, files.file_size - self.end % files.file_size)
        # The second look has what was only half written at the first.
        count = files.are_used(files.read(self.end, length))
        data = files.read(self.end, count * ENTRY_SIZE)
        if files.is_cut:
            count = self._held_in(data)
        if count:
            self._last, self._tail = data[(count - 1) * ENTRY_SIZE : count * ENTRY_SIZE], b""
            self.end += count * ENTRY_SIZE
            self.max_offset = self.end // ENTRY_SIZE
            if self.shown is not None:
                self.shown[0] = self.max_offset
            log.reached(*head_of(self._last))
        return True

    def _held_in(self, data: bytes) -> int:
        """Return how many entries come before the first that was cut and still stands there.

        The log may have grown past the place that it names. One whose record has expired since
        tells nothing: it counts if one after it does.
        """
        held = 0
        for at in range(0, len(data), ENTRY_SIZE):
            head = head_of(data[at:])
            if head[0] < self.log.min_offset:
                continue
            if not is_own(self.files, self.log, self.end + at, *head):
                break
            held = at // ENTRY_SIZE + 1
        return held

    def _min_position(self) -> int:
        if not self.files.bases or not self.end:
            return 0
        floor = self.log.min_offset
        first = self.files.bases[0]
        first_end = min(first + self.files.file_size, self.end)
        if not self._settings.version.bisects_queue_floor:
            return self._first_not_below(first, first_end, floor)
        last_file = self.end - 1 - (self.end - 1) % self.files.file_size
        if self.end > last_file and self.offset_at(self.end - ENTRY_SIZE) < floor:
            # Nothing is left: the next entry will be the first.
            return self.end
        if first_end <= first or (first == 0 and self.offset_at(0) >= floor):
            return 0
        return self._bisected(first, first_end, floor)

    def _first_not_below(self, first: int, end: int, floor: int) -> int:
        """Return where the first file first points to `floor` or past it, 0 if it does not."""
        for at in range(first, end, _PIECE * ENTRY_SIZE):
            data = self.files.read(at, min(_PIECE * ENTRY_SIZE, end - at))
            entries = np.frombuffer(data, ENTRY, len(data) // ENTRY_SIZE)
            found = np.flatnonzero(entries["physical_offset"] >= floor)
            if len(found):
                return at + int(found[0]) * ENTRY_SIZE
        return 0

    def _bisected(self, first: int, end: int, floor: int) -> int:
        """Search as 5.x does; if its last look finds nothing, its answer is 0."""
        low, high = 0, end - first - ENTRY_SIZE
        while high - low > ENTRY_SIZE:
            middle = (low + high) // 2 // ENTRY_SIZE * ENTRY_SIZE
            offset = self.offset_at(first + middle)
            if offset > floor:
                high = middle
            elif offset == floor:
                low = high = middle
            else:
                low = middle
        for at in range(low, high + 1, ENTRY_SIZE):
            if self.offset_at(first + at) >= floor:
                return first + at
        return 0

    def roll(self, queue_offset: int) -> int:
        """Return the first queue offset of the next file."""
        count = self.files.file_size // ENTRY_SIZE
        return queue_offset + count - queue_offset % count

    def entries(self, queue_offset: int) -> Iterator[QueueEntry] | None:
        """Return the entries from a queue offset to the end of its file, None if it has no file."""
        position = queue_offset * ENTRY_SIZE
        if position < self.min_position or not self.files.read(position, 1):
            return None
        return self._entries(position)

    def _entries(self, position: int) -> Iterator[QueueEntry]:
        base = position - position % self.files.file_size
        stop = min(base + self.files.file_size, self.end)
        while position < stop:
            data = self.files.read(position, min(_PIECE * ENTRY_SIZE, stop - position))
            whole = len(data) - len(data) % ENTRY_SIZE
            if not whole:
                return
            for at in range(0, whole, ENTRY_SIZE):
                physical_offset, size, code = ENTRY_STRUCT.unpack_from(data, at)
                unit = None
                tags_code: int | None = code
                if consumequeue_ext.is_address(code):
                    unit = self._unit(consumequeue_ext.position(code), position + at)
                    tags_code = unit.tags_code if unit else None
                yield QueueEntry(
                    (position + at) // ENTRY_SIZE, physical_offset, size, tags_code, 1, unit
                )
            position += whole

    def all_entries(self, queue_offset: int = 0) -> Iterator[QueueEntry]:
        """Yield the entries from a queue offset to the queue's end, over all files."""
        position = max(queue_offset * ENTRY_SIZE, self.min_position)
        while position < self.end:
            yield from self._entries(position)
            position += self.files.file_size - position % self.files.file_size

    def first_after(self, physical_offset: int) -> int:
        """Return the first queue offset whose record stands after a physical offset."""
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            if self.offset_at(middle * ENTRY_SIZE) > physical_offset:
                high = middle
            else:
                low = middle + 1
        return low

    def _unit(self, position: int, entry_at: int) -> Unit | None:
        size = self._settings.ext_file_size
        if self._ext is None:
            self._ext = UnitFiles(self._ext_directory, size, _BYTE, self._report)
        # A live queue gets new ones.
        self._ext.has_begun(position - position % size)
        data = self._ext.read(position, consumequeue_ext.MAX_UNIT_SIZE)
        try:
            unit = consumequeue_ext.unpack(data, 0)
        except ValueError as error:
            unit, why = None, str(error)
        else:
            why = "nothing is written there"
        if unit is None:
            base = entry_at - entry_at % self.files.file_size
            self._report.add(
                Kind.MISSING,
                self.files.path(base),
                entry_at - base,
                f"the entry points to byte {position} of its extension: {why}",
            )
        return unit

    def last_entry(self) -> QueueEntry | None:
        """Return the last entry, None for a queue without any."""
        if self.end <= self.min_position:
            return None
        return next(self._entries(self.end - ENTRY_SIZE), None)

    def stored_at(self, position: int) -> int:
        """Return when the record of the entry at a byte position was stored, -1 for unknown, ms."""
        raw = self.files.read(position, HEAD.size)
        return stored_at(self.log, *head_of(raw)) if len(raw) == HEAD.size else -1

    def close(self) -> None:
        """Close the files."""
        if self.shown is not None:
            self.shown[0] = -1
        self.files.close()
        if self._ext is not None:
            self._ext.close()
