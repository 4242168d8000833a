"""How a job runs; apart from the job, for whoever only has to know that, as the command does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.streaming.writers.placement_mode import Placement

if TYPE_CHECKING:
    from pathlib import Path

# Behind a backlog, so much a batch: Spark's cost of a batch, a third of a second, is then a few per
# cent of it. Blocks are read one by one, so it costs no memory.
MAX_BATCH_BYTES = 8 << 30
# A batch on executors is not ended within, so whoever stops the job waits for all of it: some two
# seconds of work for each core, and not much more where one store has all of it.
MAX_BATCH_BYTES_A_CORE = 512 << 20
MAX_BATCH_BYTES_A_STORE = 1 << 30


@dataclass(frozen=True)
class JobOptions:
    """How the job runs.

    Attributes:
        available_now: dispatch what is there and end; else go on until stopped.
        trigger_seconds: wait so long between batches at least; 0 for not at all.
        max_batch_bytes: soft cap of a batch, over all stores; None: see `batch_bytes` and
            `store_bytes`.
        threads: that parse, per store.
        flush_seconds: everything is on disk and recorded so often; None: as the broker's
            settings say.
        sync_flush: after every batch instead.
        fail_on_data_loss: stop where records have expired before they were dispatched.
        skips_corrupt: pass over what is no record, and keep a copy; else stop there.
        only_flushed: dispatch no record that the broker may not have on disk yet.
        removes_expired: remove files of the output whose records have all expired.
        placement: where stores are written.
        checkpoint: where Spark keeps its own record of the query, made anew at each start; by
            default in the first store's output.
    """

    available_now: bool = False
    trigger_seconds: float = 0.0
    max_batch_bytes: int | None = None
    threads: int = 2
    flush_seconds: float | None = None
    sync_flush: bool = False
    fail_on_data_loss: bool = True
    skips_corrupt: bool = False
    only_flushed: bool = False
    removes_expired: bool = False
    placement: Placement = Placement.DRIVER
    checkpoint: Path | None = None

    def batch_bytes(self, cores: int) -> int:
        """Return the cap of a batch over all stores.

        Args:
            cores: that Spark has.
        """
        if self.max_batch_bytes is not None:
            return self.max_batch_bytes
        on_executors = self.placement == Placement.EXECUTORS
        return MAX_BATCH_BYTES_A_CORE * cores if on_executors else MAX_BATCH_BYTES

    @property
    def store_bytes(self) -> int | None:
        """Return the cap of a store's part of a batch, None for that of the batch."""
        is_own = self.max_batch_bytes is None and self.placement == Placement.EXECUTORS
        return MAX_BATCH_BYTES_A_STORE if is_own else None
