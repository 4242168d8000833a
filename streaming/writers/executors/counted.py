"""Counts each record once if a store's writer was killed and its successor repeats its work.

The successor resumes at the recorded progress, which may lie before what the job has counted. Its
order says where that ends: it dispatches up to there in a batch of its own, and the job counts
nothing of that batch. What the killed writer had recorded and not reported is counted by the
output's own record, as far as that has it: bytes and messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput.streaming.dispatch.batch import Batch


@dataclass
class Counted:
    """How far a store is counted.

    Attributes:
        end: physical offset up to which all is counted; -1: nothing yet.
        messages: that the output's record had there.
        cut: number of the last cut of the log that the output's record had there, 0 for none.
    """

    end: int = -1
    messages: int = 0
    cut: int = 0

    def take(
        self, batches: Iterable[Batch], messages: int, cuts: Sequence[tuple[int, int]]
    ) -> list[Batch]:
        """Return what of a writer's batches is to be counted.

        Args:
            batches: new ones, in their order.
            messages: that the output's record has now.
            cuts: of the log that it has now; see `Progress`. Their numbers only rise, also where
                an output begins again.
        """
        found = list(batches)
        if not found:
            # A cut counts with the first batch after it.
            return []
        last = cuts[-1][0] if cuts else 0
        is_cut = last != self.cut
        self.cut, self.messages = last, messages
        if is_cut:
            # From there on the log has other records, and all are new.
            self.end = found[-1].end
            return found
        once = [self._once(batch) for batch in found]
        self.end = max([self.end, *(batch.end for batch in found)])
        return once

    def _once(self, batch: Batch) -> Batch:
        if batch.end > self.end or batch.start >= self.end:
            return batch
        return batch.uncounted()
