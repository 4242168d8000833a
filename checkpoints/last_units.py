"""Whether the last unit of a queue is the one that the progress record was written for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.checkpoints import tails
from reput.formats.errors import TOUCHED_REMEDY, StoreError
from reput.formats.rocketmq import consumequeue_ext, names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, Entry, head_of

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress

REMEDY = TOUCHED_REMEDY
# Bytes before a unit's end that are read when its start is not known; all of them zero: no unit.
_UNIT_TAIL = 4096


def file_path(directory: str, base: int) -> str:
    """Return the path of a queue's file by where it begins, as text."""
    return f"{directory}/{names.offset_file(base)}"


def check_size(path: str, expected: int, descriptor: int | None = None) -> None:
    """Refuse a file of another size.

    Args:
        path: of the file.
        expected: bytes.
        descriptor: of the file, if it is open.

    Raises:
        StoreError: names both sizes.
    """
    size = os.stat(path if descriptor is None else descriptor).st_size  # noqa: PTH116 - thousands
    if size != expected:
        raise StoreError(path, f"the file has {size} bytes, expected {expected}", REMEDY)


class LastUnits:
    """The last units of the queues of one output root."""

    def __init__(self, root: str, found: Progress, file_size: int) -> None:
        """Read nothing yet.

        Args:
            root: the output root.
            found: its progress record.
            file_size: of consume queue files, bytes.
        """
        self._root = root
        self._found = found
        self._file_size = file_size

    def check_units(self, path: str, descriptor: int, name: str, end: int, unit: int) -> None:
        """Check the unit before byte `end` of a file, and that none follows it."""
        at = end - unit
        raw = os.pread(descriptor, 2 * unit, at) if at >= 0 else b""
        offset, size = head_of(raw)
        record_end = offset + size
        expected = self._found.lasts.get(name, record_end)
        is_right = size > 0 and offset >= 0 and record_end == expected <= self._found.end
        if not is_right:
            where = f"ends at {expected}" if name in self._found.lasts else "is before the end"
            raise StoreError(
                path,
                f"at byte {at} the queue's last entry names a record of {size} bytes at physical "
                f"offset {offset}, expected one that {where} ({self._found.end} is dispatched)",
                REMEDY,
            )
        if self._found.clean and any(raw[unit:]):
            raise StoreError(
                path, f"an entry follows at byte {end}, where the queue has ended", REMEDY
            )

    def check_tail(self, path: str, descriptor: int, name: str, end: int) -> None:
        """Check the bytes before byte `end` of a queue's last file, if their CRC is known."""
        expected = self._found.tails.get(name)
        if expected is None:
            return
        found = tails.crc_of(descriptor, end)
        if found != expected:
            raise StoreError(
                path,
                f"the last bytes before byte {end} have the CRC-32 {found:#010x}, expected "
                f"{expected:#010x}: the file is not as its last writer left it",
                REMEDY,
            )

    def check_ext(self, path: str, descriptor: int, name: str, base: int, end: int) -> None:
        """Check the unit before byte `end` of an extension, and that none follows it."""
        address = self._last_address(name)
        start = end - base
        if address is not None and base <= address < end:
            start = address - base
        else:
            start = max(start - _UNIT_TAIL, 0)
        raw = os.pread(descriptor, end - base - start + 2, start)
        units = raw[: end - base - start]
        is_right = any(units)
        if address is not None and base <= address < end:
            is_right = consumequeue_ext.size_of(units) == len(units)
        if not is_right:
            raise StoreError(
                path, f"no unit ends at byte {end - base}, where the queue's last one does", REMEDY
            )
        if self._found.clean and any(raw[end - base - start :]):
            raise StoreError(
                path, f"a unit follows at byte {end - base}, where the queue has ended", REMEDY
            )

    def _last_address(self, name: str) -> int | None:
        """Return where the unit of the last entry of an extension's queue is, if that is known."""
        queue = f"{names.CONSUMEQUEUE}/{name.partition('/')[2]}"
        end = self._found.queues.get(queue, 0)
        size = self._file_size
        if not end or self._found.repeated:
            # A record that was repeated has a unit and no entry.
            return None
        last = (end - 1) // size * size
        try:
            with open(file_path(f"{self._root}/{queue}", last), "rb", 0) as file:  # noqa: PTH123
                raw = os.pread(file.fileno(), ENTRY_SIZE, end - last - ENTRY_SIZE)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if len(raw) < ENTRY_SIZE:
            return None
        code = Entry.of(raw).tags_code
        return consumequeue_ext.position(code) if consumequeue_ext.is_address(code) else None
