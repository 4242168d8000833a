"""What a writer process has done and the job has not heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.streaming.dispatch.batch import Batch

_KEPT = 64


class Untold:
    """Batches, until the job has seen them.

    Attributes:
        fresh: not answered yet.
        batches: answered, and not seen by the job yet.
        first: number of the first of these.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.fresh: list[Batch] = []
        self.batches: list[Batch] = []
        self.first = 0

    def report(self, end: int, events: Sequence[str]) -> None:
        """Report events, if there are any, with a batch of nothing.

        Args:
            end: physical offset up to which the output is dispatched.
            events: in words.
        """
        from reput.streaming.dispatch.batch import Batch  # noqa: PLC0415 - slow to import

        if events:
            self.fresh.append(Batch(end, end, events=list(events)))

    def put_apart(self) -> None:
        """Let what is fresh be answered, put together."""
        from reput.streaming.dispatch.batch import joined  # noqa: PLC0415 - slow to import

        self.batches += joined(self.fresh)
        self.fresh = []

    def put_together(self) -> None:
        """Put together what is fresh, where that has become much."""
        if len(self.fresh) > _KEPT:
            self.put_apart()

    def forget(self, seen: int) -> None:
        """Keep no longer what the job has.

        Args:
            seen: the number of the first batch that it has not.
        """
        known = max(seen - self.first, 0)
        del self.batches[:known]
        self.first += known
