"""Reads the files of a queue as one sequence of units, up to its end as a starting broker finds it.

Source: RocketMQ `ConsumeQueue#recover`, `ConsumeQueue#truncateDirtyLogicFiles`.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import HEAD, head_of
from reput.stores.findings import Kind
from reput.stores.log.listing import settled_stamp_of
from reput.stores.queues.live_end import live_end
from reput.stores.reads import pread

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.stores.findings import Report
    from reput.stores.following.log_end import EndedLog
    from reput.stores.log.listing import Stamp

# Units read at once.
_PIECE = 4096
# Files of a queue that are kept open: readers are at few places of it.
_OPEN_FILES = 4
# A broker that starts looks through this many of a queue's files.
_RECOVERED = 3


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
            report: gets files of a wrong size, and what is not a queue's: that is left out.
        """
        self.directory = directory
        self.file_size = file_size
        self.layout = layout
        self.unit = layout.itemsize
        self.bases: list[int] = []
        self._known: frozenset[int] = frozenset()
        self._open: dict[int, int] = {}
        self._inodes: dict[int, int] = {}
        # How the directory looked before its files were looked at; None if that is not sure.
        self._seen: Stamp | None = None
        # Units after the end that `end` has left out still stand in the files.
        self.is_cut = False
        weakref.finalize(self, _close_all, self._open)
        self.look(report)

    def look(self, report: Report) -> None:
        """Look at the files again: a live queue gets new ones."""
        file_size = self.file_size
        bases = []
        inodes = {}
        self._seen = settled_stamp_of(self.directory)
        for entry in sorted(self._entries(), key=lambda entry: entry.name):
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

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            return list(os.scandir(self.directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def are_there(self) -> bool:
        """Tell whether all of the files are still there, and none has come before them.

        That costs the look at one directory, until something comes or goes there.
        """
        seen = settled_stamp_of(self.directory)
        if seen is not None and seen == self._seen:
            return True
        inodes = {names.parse_offset_file(each.name): each.inode() for each in self._entries()}
        first = self.bases[0] if self.bases else -1
        if any(base is not None and 0 <= base < first for base in inodes):
            return False
        if any(inodes.get(base) != self._inodes.get(base) for base in self.bases):
            return False
        self._seen = seen
        # Without a file, whatever comes is another queue to look at.
        return bool(self.bases) or not inodes

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
            while len(self._open) >= _OPEN_FILES:
                os.close(self._open.pop(next(iter(self._open))))
            self._open[base] = descriptor
        left = self.file_size - (position - base)
        return pread(descriptor, min(length, left), position - base)

    def has_begun(self, base: int) -> bool:
        """Tell whether the file that begins at `base` is there; one may have come just now."""
        if base in self._known:
            return True
        try:
            descriptor = os.open(self.path(base), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._open[base] = descriptor
        self._inodes[base] = os.fstat(descriptor).st_ino
        self.bases = sorted({*self.bases, base})
        self._known = frozenset(self.bases)
        return True

    def end(self, log: EndedLog, *, is_quick: bool = False) -> int:
        """Return the position after the last unit, as a starting broker finds it.

        It drops units whose records are past the log's end
        (`ConsumeQueue#truncateDirtyLogicFiles`), and the files after them. If a broker holds the
        store, those count that it has dropped; see `stores.queues.live_end`.

        Args:
            log: what the units point into.
            is_quick: do not look at each unit of the last files; for overviews of many queues. A
                queue that has lost units in its middle then has too many.
        """
        end = self._bisected_end() if is_quick else self._recovered_end()
        self._leave_files(end)
        while self.bases:
            held = self._bisected_held_end if is_quick else self._held_end
            kept = held(self.bases[-1], end, log)
            if kept is not None:
                kept = kept if is_quick else live_end(self, log, kept)
                self.is_cut = self.is_cut or kept < end
                return kept
            self.is_cut = True
            self._leave_files(self.bases[-1] - 1)
            end = self.bases[-1] + self.file_size if self.bases else 0
        return 0

    def _leave_files(self, end: int) -> None:
        """Leave out the files that begin after a position."""
        self.bases = [base for base in self.bases if base <= end]
        self._known = frozenset(self.bases)

    def _held_end(self, base: int, end: int, log: EndedLog) -> int | None:
        """Return the position after the last unit before the first one whose record was cut away.

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
                stop = log.grown_to(int(offsets.max()))
                cut = np.flatnonzero(offsets >= stop)
                if len(cut):
                    found = position + int(cut[0]) * self.unit
                    return found if found > base else None
        return end

    def _recovered_end(self) -> int:
        """Go from unit to unit through the last files, up to the first place without one."""
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

    def _bisected_held_end(self, base: int, end: int, log: EndedLog) -> int | None:
        """Return what `_held_end` does where offsets rise along the queue."""
        if end <= base or self._offset(end - self.unit) < log.known_end:
            return end
        stop = log.grown_to(self._offset(end - self.unit))
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
        return head_of(self.read(position, HEAD.size))[0]

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

    def are_used(self, data: bytes) -> int:
        """Return how many units stand at the beginning of some bytes, one after the other."""
        units = np.frombuffer(data, self.layout, len(data) // self.unit)
        used = self._are_used(units)
        return len(used) if used.all() else int(used.argmin())

    def modified_ms(self, base: int) -> int:
        """Return when a file was last written to, ms."""
        return self.path(base).stat().st_mtime_ns // 1_000_000

    def close(self) -> None:
        """Close the files."""
        _close_all(self._open)


def _close_all(descriptors: dict[int, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])
