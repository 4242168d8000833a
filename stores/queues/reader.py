"""One consume queue, read as its broker has it once it is open: its begin, its end, its entries.

Source: RocketMQ `ConsumeQueue#recover`, `correctMinOffset`, `getIndexBuffer`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from reput.formats.rocketmq import consumequeue_ext, names
from reput.formats.rocketmq.consumequeue import ENTRY, ENTRY_SIZE, ENTRY_STRUCT
from reput.stores.findings import Kind
from reput.stores.log.records import stored_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.consumequeue_ext import Unit
    from reput.stores.findings import Report
    from reput.stores.log.files import LogFiles

_PIECE = 4096
_BYTE = np.dtype(np.uint8)
# A broker that starts looks through so many of a queue's files.
_RECOVERED = 3


class QueueEntry(NamedTuple):
    """What a queue says of one record.

    Attributes:
        queue_offset: number of the record in the queue; of its first message in a batch queue.
        physical_offset: where the record begins.
        size: its bytes.
        tags_code: hash of its tag, or a due time; None where the unit that has it is lost.
        messages: how many there are in it.
        unit: its extension, if it has one.
    """

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int | None
    messages: int = 1
    unit: Unit | None = None


class UnitFiles:
    """The files of a directory whose names are offsets, as one sequence of units of equal size."""

    def __init__(
        self, directory: Path, file_size: int, layout: np.dtype[Any], report: Report
    ) -> None:
        """Look at the files.

        Args:
            directory: need not be there.
            file_size: bytes of each.
            layout: of a unit.
            report: gets what is no file of a queue, or of a wrong size; it is left out.
        """
        self.directory = directory
        self.file_size = file_size
        self.layout = layout
        self.unit = layout.itemsize
        self.bases: list[int] = []
        self._known: frozenset[int] = frozenset()
        self._open: dict[int, int] = {}
        self._inodes: dict[int, int] = {}
        self.look(report)

    def look(self, report: Report) -> None:
        """Look at the files anew: a live queue gets new ones."""
        file_size = self.file_size
        bases = []
        inodes = {}
        try:
            found = sorted(os.scandir(self.directory), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            found = []
        for entry in found:
            if entry.is_dir():
                continue
            base = names.parse_offset_file(entry.name)
            if base is None or base % file_size:
                report.add(Kind.NAME, entry.path, 0, f"not named by a multiple of {file_size}")
                continue
            try:
                size = entry.stat().st_size
            except FileNotFoundError:
                # It went between the two looks.
                continue
            inodes[base] = entry.inode()
            if size != file_size:
                report.add(
                    Kind.SIZE, entry.path, size, f"the file has {size} bytes, expected {file_size}"
                )
            bases.append(base)
        # A file that was removed and made again has the old one's name only.
        for base in [b for b in self._open if inodes.get(b) != self._inodes.get(b)]:
            os.close(self._open.pop(base))
        self.bases, self._known, self._inodes = bases, frozenset(bases), inodes

    def path(self, base: int) -> Path:
        """Return the path of the file that begins at `base`."""
        return self.directory / names.offset_file(base)

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of one file: fewer where it ends, none where there is none."""
        base = position - position % self.file_size
        if base not in self._known:
            return b""
        descriptor = self._open.get(base)
        if descriptor is None:
            try:
                descriptor = os.open(self.path(base), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""
            self._open[base] = descriptor
        left = self.file_size - (position - base)
        return os.pread(descriptor, min(length, left), position - base)

    def end(self, log: LogFiles, *, is_quick: bool = False) -> int:
        """Return the position after the last unit, as a starting broker finds it.

        It drops units whose records are past the log's end
        (`ConsumeQueue#truncateDirtyLogicFiles`), and the files after them.

        Args:
            log: what the units point into.
            is_quick: do not look at each unit of the last files, of which a queue that has lost
                some in its middle would then have too many; for overviews of many queues.
        """
        end = self._bisected_end() if is_quick else self._recovered_end()
        self._leave_files(end)
        while self.bases:
            held = self._bisected_held_end if is_quick else self._held_end
            kept = held(self.bases[-1], end, log)
            if kept is not None:
                return kept
            self._leave_files(self.bases[-1] - 1)
            end = self.bases[-1] + self.file_size if self.bases else 0
        return 0

    def _leave_files(self, end: int) -> None:
        """Leave out the files that begin after a position."""
        self.bases = [base for base in self.bases if base <= end]
        self._known = frozenset(self.bases)

    def _held_end(self, base: int, end: int, log: LogFiles) -> int | None:
        """Return the position after the last unit before the first one whose record was cut off.

        Args:
            base: of the file.
            end: the position after the last unit.
            log: what the units point into.

        Returns:
            None if that is the file's first one: then there is no file.
        """
        if end <= base:
            return end
        stop = log.known_end
        for position in range(base, end, _PIECE * self.unit):
            data = self.read(position, min(_PIECE * self.unit, end - position))
            offsets = np.frombuffer(data, self.layout, len(data) // self.unit)["physical_offset"]
            if len(offsets) and offsets.max() >= stop:
                stop = log.end()
                cut = np.flatnonzero(offsets >= stop)
                if len(cut):
                    found = position + int(cut[0]) * self.unit
                    return found if found > base else None
        return end

    def _recovered_end(self) -> int:
        """Go from unit to unit through the last files, to the first one that is none."""
        end = self.bases[0] if self.bases else 0
        for base in self.bases[-_RECOVERED:]:
            end = base
            while end < base + self.file_size:
                data = self.read(end, min(_PIECE * self.unit, base + self.file_size - end))
                units = np.frombuffer(data, self.layout, len(data) // self.unit)
                is_none = np.flatnonzero(~self._are_used(units))
                if len(is_none) or not len(units):
                    return end + (int(is_none[0]) if len(is_none) else 0) * self.unit
                end += len(units) * self.unit
        return end

    def _bisected_held_end(self, base: int, end: int, log: LogFiles) -> int | None:
        """Return what `_held_end` does where offsets rise along the queue."""
        if end <= base or self._offset(end - self.unit) < log.known_end:
            return end
        stop = log.end()
        low, high = base // self.unit, end // self.unit
        while low < high:
            middle = (low + high) // 2
            if self._offset(middle * self.unit) >= stop:
                high = middle
            else:
                low = middle + 1
        return low * self.unit if low * self.unit > base else None

    def _offset(self, position: int) -> int:
        """Return the physical offset that the unit at a position names."""
        return int.from_bytes(self.read(position, 8), "big", signed=True)

    @staticmethod
    def _are_used(units: NDArray[np.void]) -> NDArray[np.bool_]:
        used = (units["physical_offset"] >= 0) & (units["size"] > 0)
        if "batch_size" in (units.dtype.names or ()):
            used &= (units["base_offset"] >= 0) & (units["batch_size"] > 0)
        return np.asarray(used, np.bool_)

    def _bisected_end(self) -> int:
        for base in reversed(self.bases):
            low, high = 0, self.file_size // self.unit
            while low < high:
                middle = (low + high + 1) // 2
                data = self.read(base + (middle - 1) * self.unit, self.unit)
                units = np.frombuffer(data, self.layout, len(data) // self.unit)
                if len(units) and self._are_used(units)[0]:
                    low = middle
                else:
                    high = middle - 1
            # A file made ahead has nothing in it yet.
            if low:
                return base + low * self.unit
        return self.bases[0] if self.bases else 0

    def modified_ms(self, base: int) -> int:
        """Return when a file was last written to, ms."""
        return self.path(base).stat().st_mtime_ns // 1_000_000

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open = {}


class QueueReader:
    """A queue's entries by their queue offset; `max_offset` is where the next one would be."""

    is_batch: Literal[False] = False

    def __init__(
        self,
        directory: Path,
        ext_directory: Path,
        log: LogFiles,
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
        self.min_position = self._min_position()
        self.min_offset = self.min_position // ENTRY_SIZE

    def offset_at(self, position: int) -> int:
        """Return the physical offset of the entry at a byte position."""
        return int.from_bytes(self.files.read(position, 8), "big", signed=True)

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
        """Return where the first file first points to `floor` or behind it, 0 if it does not."""
        for at in range(first, end, _PIECE * ENTRY_SIZE):
            data = self.files.read(at, min(_PIECE * ENTRY_SIZE, end - at))
            entries = np.frombuffer(data, ENTRY, len(data) // ENTRY_SIZE)
            found = np.flatnonzero(entries["physical_offset"] >= floor)
            if len(found):
                return at + int(found[0]) * ENTRY_SIZE
        return 0

    def _bisected(self, first: int, end: int, floor: int) -> int:
        """Search as 5.x does; where its last look finds nothing, its answer is 0."""
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

    def first_behind(self, physical_offset: int) -> int:
        """Return the first queue offset whose record stands behind a physical offset."""
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
        raw = self.files.read(position, 12)
        if len(raw) < 12:
            return -1
        offset = int.from_bytes(raw[:8], "big", signed=True)
        return stored_at(self.log, offset, int.from_bytes(raw[8:], "big", signed=True))

    def close(self) -> None:
        """Close the files."""
        self.files.close()
        if self._ext is not None:
            self._ext.close()
