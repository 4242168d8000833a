"""Keeps how far an output is, and what is known of its log up to there.

Nothing here is on disk: `Books.progress` runs ahead of the record of progress, which is written
after a flush (`streaming.dispatch.flushing`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.checkpoints.progress import Progress
from reput.formats.rocketmq import consumequeue
from reput.stores.following.known import is_old, settled, with_records
from reput.stores.log import trail
from reput.stores.log.trail import Fingerprint, Point
from reput.streaming.dispatch import latencies
from reput.streaming.dispatch.batch import Batch

if TYPE_CHECKING:
    from reput.sinks.files.index import IndexPosition
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.listing import Stamp
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.resuming.recovery import Recovery

# Bytes between two points of the trail within a long batch.
_POINT_BYTES = 64 << 20
# Latency is sampled: at most this many records of a block are looked at.
_SAMPLED = 256


class Written(NamedTuple):
    """What became of a block's records in the sinks.

    Attributes:
        entries: put into queues.
        repeated: records whose place in a queue was taken already.
        misplaced: records that were not the next of their queue, and were appended.
    """

    entries: int
    repeated: int
    misplaced: int


class Books:
    """What is dispatched of one store.

    Attributes:
        progress: how far; what the next record of progress says.
        recovery: what was rolled back since the output was opened.
        saved_end: up to this physical offset everything is on disk and recorded.
    """

    def __init__(self, log: CommitLog, known: Progress, recovery: Recovery) -> None:
        """Count a start.

        Args:
            log: the files.
            known: where the output resumes.
            recovery: what was rolled back for that.
        """
        self._log = log
        self.recovery = recovery
        self.saved_end = known.end
        self.progress = replace(
            known,
            starts=known.starts + 1,
            recoveries=known.recoveries + bool(recovery.reasons),
            truncations=known.truncations + recovery.truncations,
        )
        # Not told by a batch yet: truncations of the log, and bytes that expired.
        self._truncations = self._lost = 0
        # The last record, until it is in the trail.
        self._last: Fingerprint | None = None
        # Log files as they were before they were first read here, by where they begin.
        self._begun: dict[int, Stamp] = {}

    def change(self, **values: Any) -> None:
        """Replace fields of the progress."""
        # As `replace`, which takes a tenth of a turn in which a few records come, and `copy.copy`
        # half of that: they call a constructor.
        changed = object.__new__(Progress)
        vars(changed).update(vars(self.progress), **values)
        self.progress = changed

    def reach(self, position: int) -> None:
        """Move to a physical offset, with no record before it."""
        self.change(end=position)

    def open_batch(self, events: list[str]) -> Batch:
        """Begin a batch where dispatch stands."""
        return Batch(self.progress.end, self.progress.end, events=events)

    def enter(self, batch: Batch, block: Block, written: Written) -> None:
        """Enter a block that the sinks have written."""
        batch.messages += block.count
        batch.end = block.reached
        batch.entries += written.entries
        batch.repeated += written.repeated
        batch.misplaced += written.misplaced
        known = self.progress
        if not block.count:
            self.reach(block.reached)
            return
        _count_latencies(batch, block)
        columns, count = block.columns, block.count
        base = self._log.base_of(int(columns.physical_offset[0]))
        if not known.files or known.files[-1].base != base:
            self._begin_file(base)
        hashes = columns.head_hash[:count]
        batch.store_timestamp = int(columns.store_timestamp[count - 1])
        logics = _last_entry(block) or (known.logics_timestamp, known.logics_offset)
        self._last = _last_record(block)
        self.change(
            end=block.reached,
            messages=known.messages + count,
            files=with_records(known.files, base, int(hashes[0]), int(hashes.sum())),
            store_timestamp=batch.store_timestamp,
            logics_timestamp=logics[0],
            logics_offset=logics[1],
            repeated=known.repeated + written.repeated,
        )

    def _begin_file(self, base: int) -> None:
        """Remember a log file as it is before its first record is entered.

        It was parsed a moment ago, so it counts as untouched only if it is older than that.
        """
        stamp = self._log.stamps.get(base)
        if stamp is not None:
            self._begun[base] = stamp
        for expired in [b for b in self._begun if b < self._log.min_offset]:
            del self._begun[expired]

    def is_point_due(self, batch: Batch) -> bool:
        """Tell whether a long batch has come far enough for another point of the trail."""
        points = self.progress.trail
        before = points[-1].end if points else batch.start
        return self.progress.end > before + _POINT_BYTES

    def set_point(self, index: IndexPosition) -> None:
        """Put the last record, as it was parsed, into the trail.

        Args:
            index: where the index ends.
        """
        record, self._last = self._last, None
        if record is None:
            return
        known = self.progress
        point = Point(
            record=record,
            end=record.end,
            heads=known.files[-1].heads,
            messages=known.messages,
            logics_timestamp=known.logics_timestamp,
            logics_offset=known.logics_offset,
            repeated=known.repeated,
            store_timestamp=known.store_timestamp,
            index_name=index.name,
            index_header=tuple(index.header),
        )
        self.change(trail=trail.extended(known.trail, point))

    def close_batch(self, batch: Batch, inserted: tuple[int, int], began: float) -> None:
        """Complete what a batch tells, and settle which of the log's files are certain.

        Args:
            batch: its last entry is written.
            inserted: index items, and index files begun.
            began: when, by a steady clock.
        """
        self._settle_files()
        batch.items, batch.index_files = inserted
        batch.dispatch_seconds = time.monotonic() - began
        batch.truncations, self._truncations = self._truncations, 0
        batch.lost, self._lost = max(self._lost, 0), 0

    def _settle_files(self) -> None:
        """Enter files as certain that nobody touched since they were first read."""
        stamps = {}
        for base, begun in self._begun.items():
            stamp = self._log.stamp_of(base)
            if stamp == begun:
                stamps[base] = begun
        self.change(files=settled(self.progress.files, stamps, self._log.min_offset))
        # What is certain, or was touched since, has nothing more to show.
        self._begun = {b: stamp for b, stamp in stamps.items() if not is_old(stamp)}

    def lose(self, gap: tuple[int, int]) -> None:
        """Move past records [start, end) that expired before they were dispatched."""
        self._lost += gap[1] - gap[0]
        self.change(end=gap[1], lost=(*self.progress.lost, gap))

    def pass_over(self, start: int, end: int) -> None:
        """Move past bytes that are not a record that can be dispatched."""
        known, record = self.progress, trail.hash_at(self._log, start)
        records = known.passed if record is None else (*known.passed, (start, record))
        self.change(end=end, skipped=(*known.skipped, (start, end)), passed=records)

    def take_over(self, known: Progress) -> None:
        """Take over the progress of files that were changed, and that is not recorded yet."""
        self.progress = known

    def roll_back_to(self, known: Progress, done: Recovery) -> None:
        """Take over the progress that the files were rolled back to, which is recorded.

        Args:
            known: that progress.
            done: what was rolled back.
        """
        # What has expired since cannot be dispatched again; what is to be, may be lost again.
        self._lost += _lost_bytes(known) - _lost_bytes(self.progress)
        self.take_over(known)
        self.saved_end = known.end
        self.recovery.truncations += done.truncations
        self._truncations += done.truncations

    def forget_files(self) -> None:
        """Forget what was read of log files: they have other records now."""
        self._last = None
        self._begun = {}


def _lost_bytes(known: Progress) -> int:
    return sum(end - start for start, end in known.lost)


def _count_latencies(batch: Batch, block: Block) -> None:
    """Count how long ago the records of a block, which are visible now, were stored."""
    step = -(-block.count // _SAMPLED)
    stored = block.columns.store_timestamp[: block.count : step]
    ages = np.maximum(time.time() * 1000 - stored, 0)
    weights = np.full(len(ages), step)
    weights[-1] = block.count - step * (len(ages) - 1)
    batch.latencies = latencies.count(batch.latencies, ages, weights)
    # Not np.dot: it wakes threads that then wait for more, and take turns with ours.
    batch.latency_seconds += float((ages * weights).sum()) / 1000


def _last_record(block: Block) -> Fingerprint:
    columns, i = block.columns, block.count - 1
    return Fingerprint(
        int(columns.physical_offset[i]), int(columns.size[i]), int(columns.head_hash[i])
    )


def _last_entry(block: Block) -> tuple[int, int] | None:
    """Return store timestamp and place of the block's last record that has an entry."""
    columns = block.columns
    for i in range(block.count - 1, -1, -1):
        if consumequeue.has_entry(int(columns.sys_flag[i])) and i not in block.without_entry:
            return int(columns.store_timestamp[i]), int(columns.physical_offset[i])
    return None
