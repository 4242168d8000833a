"""What one call of `dispatch` did, as metrics and the log tell it."""

from __future__ import annotations

from dataclasses import dataclass, field

from reput.streaming.dispatch import latencies


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

    def restart_at(self, position: int) -> None:
        """Continue at a physical offset, which may lie before the batch's start."""
        self.end = position
        # Rolled back farther than where the batch began, it is one from there.
        self.start = min(self.start, position)
