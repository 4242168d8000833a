"""Compares a log with the records that were sent of it, once for each change of either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.sinks.kafka.following.parting import first_digest, parting, sent_until
from reput.sinks.kafka.position import progress

if TYPE_CHECKING:
    from reput.sinks.kafka.extent import Extent
    from reput.sinks.kafka.following.ends import LogEnd
    from reput.sinks.kafka.following.parting import Parting, SentRecords
    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.position.position import Position
    from reput.sinks.kafka.position.trail import Trail


class Comparison:
    """What is known of the records that were sent, and where the log parts from them."""

    def __init__(self, link: Link, trail: Trail, log_end: LogEnd) -> None:
        """Begin without a partition of the progress topic.

        Args:
            link: the store and its Kafka.
            trail: of what this process sends.
            log_end: of the store's log.
        """
        self._link = link
        self._trail = trail
        self._log_end = log_end
        self._partition: int | None = None
        # Each with what it was computed for, as both change with transactions and cuts.
        self._sent: tuple[tuple[int, int], SentRecords] | None = None
        self._parting: tuple[tuple[int, ...], Parting] | None = None

    def begin(self, partition: int) -> None:
        """Begin again with what a partition of the progress topic has."""
        self._partition = partition
        self._sent = self._parting = None

    def parting(self, known: Position, extent: Extent) -> Parting | None:
        """Return where the log parts from what was sent; None if no record of that is known.

        Raises:
            KafkaError: what is known cannot be read.
        """
        log = self._link.log
        sent_key = known.end, known.chunk
        before = self._sent_until(known)
        begin = log.min_offset
        sent = before.after(begin, first_digest(log) if before.start < begin else None)
        if not len(sent.values):
            return None
        limit = self._log_end.limit(extent)
        key = (*sent_key, limit, sent.start, extent.last_cut)
        if self._parting is None or self._parting[0] != key:
            found = parting(log, sent, known.end, limit, dict(extent.gaps), known.chunk)
            self._parting = key, found
        return self._parting[1]

    def _sent_until(self, known: Position) -> SentRecords:
        """Return what is known of the records that were sent up to a position."""
        if self._partition is None:
            raise RuntimeError("the sink is not open")
        key = known.end, known.chunk
        if self._sent is None or self._sent[0] != key:
            link = self._link
            chunks = progress.read_chunks(
                link.settings, link.access, link.transactional_id, self._partition
            )
            self._sent = key, sent_until([*chunks, *self._trail.held], known.end)
        return self._sent[1]
