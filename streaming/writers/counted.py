"""Counts each record of a store once, though its output is opened again and again.

An output that has failed, or whose writer was killed, is opened at the recorded progress. What was
counted past that is dispatched again, and not counted again. What was recorded past the end of what
was counted is counted by the record: bytes and messages. So is a batch that goes past that end.

Where the log has other records meanwhile, all is counted from the last point on that both logs
have: up to a batch that both have may be counted twice. A process knows points of its own work
only. Its successor sees that the output went back for a cut; of what else was cut and written again
before `Mark.end` it counts nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.dispatcher import StoreDispatcher


class Mark(NamedTuple):
    """How far a store is counted, as one writer process tells the next.

    Attributes:
        end: physical offset up to which all is counted; -1: nothing yet.
        messages: that the output has there.
        cut: number of the last cut of the log that the output has gone back for, 0 for none.
    """

    end: int = -1
    messages: int = 0
    cut: int = 0


class Counted:
    """How far a store is counted, by all writers that it had in this process.

    Attributes:
        mark: how far.
    """

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.mark = Mark()
        self._known: Progress | None = None

    def begin(self, dispatcher: StoreDispatcher) -> list[Batch]:
        """Compare with an output that was opened just now.

        Returns:
            What it has recorded and nobody has counted.

        Raises:
            ReputError, OSError: the log cannot be looked at.
        """
        from reput.streaming.dispatch.batch import Batch  # noqa: PLC0415 - slow to import

        known, mark = dispatcher.progress, self.mark
        if mark.end < 0:
            return []
        if known.end < mark.end:
            self._go_back(dispatcher)
            return []
        self._note(known)
        if mark.cut != self.mark.cut or known.end == mark.end:
            return []
        return [Batch(mark.end, known.end, messages=max(known.messages - mark.messages, 0))]

    def _go_back(self, dispatcher: StoreDispatcher) -> None:
        """Forget what the log no longer has."""
        # Slow to import.
        from reput.checkpoints.progress import known_log  # noqa: PLC0415
        from reput.stores.following.identity import compare  # noqa: PLC0415

        known, mark = dispatcher.progress, self.mark
        if self._known is None:
            # Of another process: where the output went back, all is new.
            if _cut(known) != mark.cut:
                self._note(known)
            return
        seen = compare(dispatcher.log, known_log(self._known))
        if seen.is_same:
            return
        end, messages = known.end, known.messages
        if seen.common is not None and seen.common.end > end:
            end, messages = seen.common.end, seen.common.messages
        if end < mark.end:
            self.mark = Mark(end, messages, _cut(known))

    def ends(self, begin: int, end: int) -> tuple[int, ...]:
        """Return up to where to dispatch from a physical offset: what is counted, by itself."""
        return (self.mark.end, end) if begin < self.mark.end < end else (end,)

    def take(self, batches: list[Batch], known: Progress) -> list[Batch]:
        """Return what is left to count of batches.

        Args:
            batches: new ones, in their order.
            known: where the output is after them.
        """
        found, messages = [], known.messages - sum(batch.messages for batch in batches)
        for batch in batches:
            messages += batch.messages
            found.append(self._take(batch, messages))
        if batches and known.end == self.mark.end:
            self._note(known)
        elif batches and known.end > self.mark.end:
            # Also of records that a failed write has left, which count as not done.
            self._known = known
        return found

    def _take(self, batch: Batch, there: int) -> Batch:
        """Return what is left to count of a batch, after which the output has some messages."""
        end, messages, cut = self.mark
        if batch.truncations:
            # From there on the log has other records, and all are new.
            end = min(end, batch.start)
        if batch.start == batch.end:
            # It has only something to say.
            return batch
        if batch.end <= end:
            return batch.uncounted()
        if batch.start < end and not batch.truncations:
            # A BLANK may follow what was counted, or more was dispatched at once.
            new = min(max(there - messages, 0), batch.messages)
            batch = replace(batch.uncounted(), start=end, messages=new)
        self.mark = Mark(batch.end, messages + batch.messages, cut)
        return batch

    def _note(self, known: Progress) -> None:
        self._known = known
        self.mark = Mark(known.end, known.messages, _cut(known))


def _cut(known: Progress) -> int:
    return known.cuts[-1][0] if known.cuts else 0
