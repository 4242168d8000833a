"""Reads one index file in windows of items, and compares its slots and what is not used of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.indexfile import FIRST_ITEM, HEADER_SIZE, ITEM_SIZE, SLOT_SIZE, Header
from reput.stores.findings import KEPT, Kind
from reput.stores.verify.stored_files import entries_of, surplus_runs

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report

WINDOW = 1 << 17
_SLOTS_PIECE = 1 << 20


def index_files(directory: Path, settings: BrokerSettings, report: Report) -> list[Path]:
    """Return the index files, oldest first; report those of a wrong name or size."""
    found = []
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    for path in entries_of(directory):
        if path.is_dir() or not names.is_index_file(path.name):
            report.add(Kind.NAME, path, 0, "not the name of an index file")
            continue
        actual = path.stat().st_size
        if actual != size:
            report.add(Kind.SIZE, path, actual, f"the file has {actual} bytes, expected {size}")
        report.files += 1
        found.append(path)
    return found


class IndexReader:
    """One index file, open for reading; bytes beyond its end count as zeros."""

    def __init__(self, path: Path, settings: BrokerSettings) -> None:
        """Open it.

        Raises:
            OSError: it cannot be read.
        """
        self.path = path
        self.items = settings.index_items
        self._slots = settings.index_slots
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.window: Bytes = np.zeros(0, np.uint8)
        self.window_first = self.window_end = 0

    def header(self) -> Header:
        """Return the header as it stands there."""
        return Header.unpack(os.pread(self._descriptor, HEADER_SIZE, 0).ljust(HEADER_SIZE, b"\0"))

    def position(self, number: int) -> int:
        """Return the byte where an item begins."""
        return indexfile.item_position(number, self._slots)

    def load(self, number: int) -> None:
        """Move the window, so that it begins with item `number`."""
        count = min(WINDOW, self.items - number)
        data = os.pread(self._descriptor, count * ITEM_SIZE, self.position(number))
        self.window = np.zeros(count * ITEM_SIZE, np.uint8)
        self.window[: len(data)] = np.frombuffer(data, np.uint8)
        self.window_first, self.window_end = number, number + count

    def item(self, number: int) -> bytes:
        """Return an item's bytes."""
        if not self.window_first <= number < self.window_end:
            data = os.pread(self._descriptor, ITEM_SIZE, self.position(number))
            return data.ljust(ITEM_SIZE, b"\0")
        at = (number - self.window_first) * ITEM_SIZE
        return self.window[at : at + ITEM_SIZE].tobytes()

    def is_empty_from(self, number: int) -> bool:
        """Tell whether no item from `number` on has been written."""
        return next(surplus_runs(self.path, self.position(number), ITEM_SIZE), None) is None

    def compare_slots(self, expected: NDArray[np.int32], report: Report) -> None:
        """Compare all slots with what the items give."""
        for first in range(0, len(expected), _SLOTS_PIECE):
            part = expected[first : first + _SLOTS_PIECE]
            data = os.pread(
                self._descriptor, len(part) * SLOT_SIZE, HEADER_SIZE + first * SLOT_SIZE
            )
            whole = data.ljust(len(part) * SLOT_SIZE, b"\0")
            found = np.frombuffer(whole, ">i4").astype(np.int32)
            wrong = np.flatnonzero(found != part).tolist()
            for i in wrong[:KEPT]:
                slot = first + i
                report.add(
                    Kind.BROKEN_CHAIN,
                    self.path,
                    HEADER_SIZE + slot * SLOT_SIZE,
                    f"slot {slot} holds {found[i]}, its newest item is {part[i]}",
                )
            report.found += len(wrong[KEPT:])

    def check_unused(self, count: int, report: Report) -> None:
        """Report what stands in item 0 and from item `count` on."""
        if any(self.item(0)):
            report.add(Kind.SURPLUS, self.path, self.position(0), "item 0 is never used")
        start = self.position(max(count, FIRST_ITEM))
        for byte, raw in surplus_runs(self.path, start, ITEM_SIZE):
            number = (byte - self.position(0)) // ITEM_SIZE
            report.add(
                Kind.SURPLUS,
                self.path,
                byte,
                f"{len(raw) // ITEM_SIZE} items from {number} on, where nothing is used",
            )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
