"""How a job runs; light to import, for the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.streaming.settings.model.choices import Placement
from reput.streaming.writers.options import WriterOptions

if TYPE_CHECKING:
    from pathlib import Path

# After a backlog, a batch of this size keeps Spark's cost of a batch, a third of a second, at a few
# per cent. Blocks are read one by one, so it costs no memory.
MAX_BATCH_BYTES = 8 << 30
# A batch on executors cannot be interrupted, so stopping the job waits for it to finish: some two
# seconds of work for each core, and not much more if one store has all of it.
MAX_BATCH_BYTES_A_CORE = 512 << 20
MAX_BATCH_BYTES_A_STORE = 1 << 30


@dataclass(frozen=True)
class JobOptions(WriterOptions):
    """How the job runs, and how it writes each store.

    Attributes:
        available_now: dispatch what is there and end; else run until stopped.
        trigger_seconds: wait at least this long between batches; 0 for not at all.
        follow_seconds: a live job's batch lasts this long, while its stores' logs are followed.
        max_batch_bytes: soft cap of a batch, over all stores; None: see `batch_bytes` and
            `store_bytes`.
        placement: where stores are written.
        checkpoint: where Spark keeps its own record of the query, made new at each start; by
            default in the store's output, and for several stores in a temporary directory.
    """

    available_now: bool = False
    trigger_seconds: float = 0.0
    follow_seconds: float = 5.0
    max_batch_bytes: int | None = None
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
