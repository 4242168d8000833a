"""How far each queue's entries are compared with the log, and the bytes that come next.

The kernel `compare` reads and advances this state; `stores.verify.queues` handles what it leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, NEVER
from reput.stores.verify.entry_kernels import WINDOW, compare

if TYPE_CHECKING:
    from reput.formats.kernels.scan import Columns
    from reput.stores.verify.stored_files import StoredFiles

_FIRST_CAPACITY = 256
_UNKNOWN = -1


class EntryWindows:
    """The queues by number, each with a window on its files.

    Attributes:
        next_entry: number of the entry that is compared next.
        last_end: physical offset after the last record that has an entry, `NEVER` before the first.
        window: bytes of entries, `WINDOW` entries a queue.
        window_first: number of the first entry in a queue's window.
        window_end: number after the last one.
    """

    def __init__(self) -> None:
        """Begin without windows: the kernel hands each queue's first entry over."""
        self.next_entry = np.full(_FIRST_CAPACITY, _UNKNOWN, np.int64)
        self.last_end = np.full(_FIRST_CAPACITY, NEVER, np.int64)
        self.window = np.zeros(_FIRST_CAPACITY * WINDOW * ENTRY_SIZE, np.uint8)
        self.window_first = np.zeros(_FIRST_CAPACITY, np.int64)
        self.window_end = np.zeros(_FIRST_CAPACITY, np.int64)

    def compare(self, row: int, count: int, columns: Columns) -> int:
        """Compare the next entries of records by the kernel; return the row where it stopped.

        Args:
            row: of the first record.
            count: records in the block.
            columns: the block.
        """
        return int(
            compare(
                row,
                count,
                columns.queue,
                columns.queue_offset,
                columns.physical_offset,
                columns.size,
                columns.tags_code,
                columns.sys_flag,
                columns.special,
                self.next_entry,
                self.last_end,
                self.window,
                self.window_first,
                self.window_end,
            )
        )

    def read(self, number: int, entry: int, files: StoredFiles) -> bytes:
        """Return an entry's bytes, fewer where the file ends; read the window that it begins.

        Args:
            number: the queue's.
            entry: its number in the queue.
            files: the queue's.
        """
        first, end = int(self.window_first[number]), int(self.window_end[number])
        start = number * WINDOW * ENTRY_SIZE
        if not first <= entry < end:
            data = files.read(entry * ENTRY_SIZE, WINDOW * ENTRY_SIZE)
            read = len(data) // ENTRY_SIZE
            self.window[start : start + len(data)] = np.frombuffer(data, np.uint8)
            self.window_first[number], self.window_end[number] = entry, entry + read
            if read == 0:
                return b""
            first = entry
        at = start + (entry - first) * ENTRY_SIZE
        return self.window[at : at + ENTRY_SIZE].tobytes()

    def grow(self, queues: int) -> None:
        """Make room for queues."""
        capacity = len(self.next_entry)
        if queues <= capacity:
            return
        more = max(queues, capacity * 2) - capacity
        self.next_entry = np.concatenate([self.next_entry, np.full(more, _UNKNOWN, np.int64)])
        self.last_end = np.concatenate([self.last_end, np.full(more, NEVER, np.int64)])
        empty = np.zeros(more, np.int64)
        self.window_first = np.concatenate([self.window_first, empty])
        self.window_end = np.concatenate([self.window_end, empty])
        room = np.zeros(more * WINDOW * ENTRY_SIZE, np.uint8)
        self.window = np.concatenate([self.window, room])
