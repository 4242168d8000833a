"""A piece of the log on its way through dispatch: its bytes, and the records parsed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.scan import Columns
from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.log.commitlog import PAD

if TYPE_CHECKING:
    from reput.formats.errors import ReputError
    from reput.formats.kernels.memory import Bytes

# A block's last record ends past the block; nearly all do within this.
OVERHANG = 64 << 10
_BYTES_A_RECORD = 128
_BYTES_A_KEY = 24


class Block:
    """Room for one block: its bytes, its columns, and what parsing them gave.

    Attributes:
        columns: rows [0, `count`) are filled.
        count: records.
        start: physical offset of the first record, None if none starts in the block.
        reached: physical offset of what stands where parsing ended.
        verdict: what that is; RECORD: the end of the block.
        error: what registering a queue raised; counts only if `start` is right.
        generation: see `QueueDirectory`, when it was parsed.
        without_entry: rows of batches that no queue takes; filled when the block is written.
        is_whole: it ends where parsing ended, and not before a record that was left out.
        failure: why that record cannot be written; None if it only has to wait.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.columns = Columns.of(size // _BYTES_A_RECORD + 64, size // _BYTES_A_KEY + (1 << 16))
        self.buffer: Bytes = np.zeros(PAD + size + OVERHANG + PAD, np.uint8)
        self.first = self.stop = 0
        self.count = 0
        self.start: int | None = None
        self.reached = 0
        self.verdict = Verdict.RECORD
        self.error: Exception | None = None
        # Rows that turned out to have no entry when they were put.
        self.without_entry: set[int] = set()
        self.generation = 0
        self.is_whole = True
        self.failure: ReputError | None = None

    def begin(self, start: int, generation: int) -> None:
        """Forget what was parsed before.

        Args:
            start: physical offset of the first record.
            generation: see `QueueDirectory`.
        """
        self.start = start
        self.count = 0
        self.error = None
        self.without_entry.clear()
        self.generation = generation
        self.is_whole, self.failure = True, None

    def end_before(self, row: int, failure: ReputError | None = None) -> None:
        """Leave out the records from a row on; see `Rows`."""
        self.count = row
        self.reached = int(self.columns.physical_offset[row])
        self.is_whole, self.failure = False, failure
