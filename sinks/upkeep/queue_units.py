"""The units of a queue, searched by their records: where those of some records end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq import (
    consumequeue,
    consumequeue_ext,
    names,
)
from reput.formats.rocketmq.consumequeue import PRE_BLANK

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings


REMEDY = "Somebody has removed it; remove the output and rebuild it."
_EXPIRED = (
    "this file was removed when its records had expired, and the log, which was set back or cut "
    "since, ends in them now"
)
_REPAIR = "`reput rebuild --repair` with the same store and output makes it again from the log"


def end_of_extension(
    path: Path,
    settings: BrokerSettings,
    files: Units,
    following: int,
    stop: int,
    end: int,
    *,
    is_expired: bool = False,
) -> int:
    """Return where an extension ends without the units of entries from byte `following` on.

    If that is in a file that was removed as expired, the extension begins again, as in a rebuild:
    the units of all entries that stay were removed too.

    Args:
        path: of the extension.
        settings: file sizes.
        files: the consume queue; some of its entries stay.
        following: byte of the first entry to remove.
        stop: byte where the queue ends.
        end: byte where the extension ends.
        is_expired: the records of these entries have expired, so their units may be gone.

    Raises:
        StoreError: the unit of such an entry was removed though its record is there.
    """
    address = files.address_from(following, stop)
    if address is None:
        return end
    size = settings.ext_file_size
    place = consumequeue_ext.position(address)
    if not _file_of(path, size, place).exists():
        if is_expired:
            return 0
        raise StoreError(_file_of(path, size, place), _EXPIRED, _REPAIR)
    if place % size == 0 and (last := files.code_before(following)) is not None:
        # The unit did not fit into the file before: its mark there goes with it.
        place = _unit_end(path, size, last, place)
    return 0 if place and not _file_of(path, size, place - 1).exists() else place


def _file_of(path: Path, file_size: int, position: int) -> Path:
    return path / names.offset_file(position - position % file_size)


def _unit_end(path: Path, file_size: int, code: int, place: int) -> int:
    """Return where the unit of an entry ends; `place` if the entry has none, or it has expired.

    Raises:
        FormatError: no unit stands where the entry says.
    """
    if not consumequeue_ext.is_address(code):
        return place
    start = consumequeue_ext.position(code)
    file = _file_of(path, file_size, start)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return place
    try:
        unit = consumequeue_ext.unpack(data, start % file_size)
    except ValueError as error:
        raise FormatError(file, start % file_size, str(error), REMEDY) from error
    return place if unit is None else start + unit.size


class Units:
    """The units of a queue, searched by their physical offsets."""

    def __init__(self, path: Path, file_size: int, unit: np.dtype[np.void]) -> None:
        self._path = path
        self._file_size = file_size
        self._unit = unit
        self._bases = [
            base
            for entry in sorted(path.iterdir())
            if (base := names.parse_offset_file(entry.name)) is not None
        ]

    def position_before(self, end: int, stop: int) -> tuple[int, int]:
        """Return where the units of records before `end` end, and where the next one begins.

        These are the same, unless only the fill before a queue's first unit is left, which belongs
        to that unit: then the queue ends at 0.
        """
        for base in reversed(self._bases):
            units = self._read(base, stop)
            offsets = units["physical_offset"].astype(np.int64)
            count = int(np.searchsorted(offsets, end))
            if not count:
                continue
            at = base + count * self._unit.itemsize
            fill = np.frombuffer(PRE_BLANK, consumequeue.ENTRY)[0]
            is_fill = self._unit is consumequeue.ENTRY and units[count - 1] == fill
            return (0 if is_fill else at), at
        return 0, self._bases[0] if self._bases else 0

    def have_expired(self, stop: int) -> bool:
        """Tell whether the files of all units before byte `stop` were removed as expired."""
        return bool(self._bases) and stop <= self._bases[0]

    def has_units_before(self, position: int) -> bool:
        """Tell whether a unit of a record stands before byte `position`, and not only fill."""
        if not self._bases or position <= self._bases[0]:
            return False
        start = position - self._unit.itemsize
        last = self._read(start - start % self._file_size, position)[-1]
        return bool(last != np.frombuffer(PRE_BLANK, consumequeue.ENTRY)[0])

    def end_before(self, queue_offset: int, stop: int) -> int:
        """Return where the units of a batch queue end that have only lower queue offsets."""
        for base in self._bases:
            units = self._read(base, stop)
            ends = units["base_offset"].astype(np.int64) + units["batch_size"]
            (others,) = np.nonzero(ends > queue_offset)
            if len(others):
                at = base + int(others[0]) * self._unit.itemsize
                return at if at > self._bases[0] else 0
        return stop

    def address_from(self, position: int, stop: int) -> int | None:
        """Return the first address of an extension's unit from byte `position` on, if any."""
        for base in self._bases:
            if base + self._file_size > position:
                units = self._read(base, stop)
                codes = units["tags_code"][max(position - base, 0) // self._unit.itemsize :]
                for code in codes.tolist():
                    if consumequeue_ext.is_address(code):
                        return int(code)
        return None

    def code_before(self, position: int) -> int | None:
        """Return the tags code of the unit before byte `position`, None if there is none."""
        start = position - self._unit.itemsize
        base = start - start % self._file_size
        if base not in self._bases:
            return None
        return int(self._read(base, position)["tags_code"][-1])

    def _read(self, base: int, stop: int) -> np.ndarray:
        path = self._path / names.offset_file(base)
        room = min(self._file_size, max(stop - base, 0)) // self._unit.itemsize
        return np.fromfile(path, self._unit, count=room)
