"""What one call of `dispatch` did, as metrics and the log tell it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reput.streaming.dispatch import latencies

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass
class Batch:
    """What a call of `dispatch` did.

    Attributes:
        start: physical offset where it began.
        end: where it ended; the next record's.
        messages: records dispatched.
        seconds: wall time.
        dispatch_seconds: of that, until the last entry was written, and not yet flushed.
        store_timestamp: of the last record, ms.
        events: what an operator should know of, in words.
        entries: put into consume queues, those of further queues not counted.
        repeated: records whose place in a queue was taken already.
        misplaced: records that were not the next of their queue, and were appended.
        items: inserted into the index.
        index_files: begun.
        phases: seconds by what was done, see `stopwatch.PHASES`; flushes between the batch before
            and this one are counted too.
        latencies: records by the time from being stored to being visible, see `latencies.BOUNDS`;
            the last one counts those beyond.
        latency_seconds: sum of these times.
        skipped: corrupt places passed over.
        lost: bytes of log that had expired.
        truncations: times that the log had other records than before.
    """

    start: int
    end: int
    messages: int = 0
    seconds: float = 0.0
    dispatch_seconds: float = 0.0
    store_timestamp: int = 0
    events: list[str] = field(default_factory=list)
    entries: int = 0
    repeated: int = 0
    misplaced: int = 0
    items: int = 0
    index_files: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=lambda: [0] * (len(latencies.BOUNDS) + 1))
    latency_seconds: float = 0.0
    skipped: int = 0
    lost: int = 0
    truncations: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of commitlog that it went over."""
        return self.end - self.start

    def uncounted(self) -> Batch:
        """Return what is left to tell of a batch whose records were counted before."""
        return replace(
            self,
            start=self.end,
            messages=0,
            entries=0,
            repeated=0,
            misplaced=0,
            items=0,
            index_files=0,
            latencies=[0] * (len(latencies.BOUNDS) + 1),
            latency_seconds=0.0,
        )

    def restart_at(self, position: int) -> None:
        """Continue at a physical offset, which may lie before the batch's start."""
        self.end = position
        # Rolled back farther than where the batch began, it is one from there.
        self.start = min(self.start, position)

    def add(self, other: Batch) -> None:
        """Take over what another batch did that began where this one ended."""
        self.end = other.end
        self.store_timestamp = other.store_timestamp or self.store_timestamp
        # What came after the last entry of the one before counts as dispatch of this one.
        self.dispatch_seconds = self.seconds + other.dispatch_seconds
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.events = [*self.events, *other.events]
        self.phases = dict(Counter(self.phases) + Counter(other.phases))
        pairs = zip(self.latencies, other.latencies, strict=True)
        self.latencies = [mine + theirs for mine, theirs in pairs]


_ADDED = (
    "messages", "seconds", "entries", "repeated", "misplaced", "items", "index_files",
    "latency_seconds", "skipped", "lost", "truncations",
)  # fmt: skip


def joined(batches: Iterable[Batch]) -> list[Batch]:
    """Return batches as few: those that follow one another in the log become one."""
    found: list[Batch] = []
    for batch in batches:
        if found and batch.start == found[-1].end:
            found[-1].add(batch)
        else:
            found.append(batch)
    return found
