"""Dispatches one store: what RocketMQ's ReputMessageService does, for a range at a time.

The straight line of a batch is `StoreDispatcher.dispatch`: blocks of records in log order →
consume queues → index → flush, if it is time → progress. It knows nothing of Spark; the job
calls it from `foreachBatch` or from a task.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.checkpoints import marks, progress, quarantine, tails
from reput.checkpoints.disk import changes, locks
from reput.formats.errors import ExpiredError, FormatError, ReputError
from reput.formats.rocketmq import consumequeue, names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.indexfile import Header
from reput.sinks.files.consumequeue import ConsumeQueueSink, PutError
from reput.sinks.files.index import NO_INDEX, IndexPosition, IndexSink
from reput.sinks.files.queues import QueueDirectory
from reput.sinks.files.special import SpecialSink
from reput.sinks.files.went_back import WentBackError
from reput.sinks.upkeep import retention, rollback
from reput.stores.config.contradictions import contradictions
from reput.stores.following import heartbeat, identity
from reput.stores.following.flushed import FlushedEnd, FlushSign
from reput.stores.following.known import is_old, settled, with_records
from reput.stores.following.vouch import Vouch
from reput.stores.log import trail
from reput.stores.log.commitlog import (
    CommitLog,
    LogChangedError,
    active_file,
    commitlog_directories,
)
from reput.stores.log.holes import HoleWatch, flaw_after
from reput.stores.log.tail import chain_end, find_tail
from reput.stores.log.trail import Fingerprint, Point
from reput.stores.log.unreadable import next_record, unfit
from reput.streaming.dispatch import latencies, passed, resume
from reput.streaming.dispatch.live_settings import FILTER_SECONDS, LiveSettings
from reput.streaming.dispatch.pipeline import Pipeline
from reput.streaming.events import CORRUPT, GAP, UNFINISHED, Event
from reput.streaming.settings.config import FlushPolicy, StoreConfig, store_config
from reput.streaming.settings.one_disk import refuse_two_disks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from reput.sinks.kafka.extent import Extent
    from reput.stores.log.listing import Stamp
    from reput.streaming.dispatch.pipeline import Block
    from reput.streaming.kafka.feed import KafkaFeed

# Bytes between two points of the trail within a long batch.
_POINT_BYTES = 64 << 20
_NO_HEADER = tuple(NO_INDEX.header)
# What a batch's time goes to: waiting for parsed blocks, writing queues, writing the index, having
# files on disk, recording that they are.
PHASES = ("parse", "consumequeue", "index", "flush", "record")
_DRAIN_SECONDS = 0.02
# Seconds after a start until the bytes after the log's end are checked, once.
_NOTICE_SECONDS = 1.0
# Of a block, so many records stand for all.
_SAMPLED = 256
# Seconds between checks whether an idle log was touched.
_FOLLOW_SECONDS = 0.5
# Seconds between checks of all files; in between only the directories and the last file are
# checked.
_REFRESH_SECONDS = 60.0
_TRIES = 3


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
        repeated: records that had their place in a queue taken already.
        misplaced: records that were not the next of their queue, and were appended.
        items: inserted into the index.
        index_files: begun.
        phases: of that, seconds by what was done, see `PHASES`; flushes since the batch before
            that were not within a batch are counted too.
        latencies: records by the time from being stored to being visible, see `latencies.BOUNDS`;
            the last one is of those beyond.
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


@dataclass(frozen=True)
class _Held:
    """A record that came out of turn, and where the log ended when it was first seen."""

    record: Fingerprint
    tail: int


@dataclass(frozen=True)
class _Awaited:
    """A record whose filters are not known yet, and since when it waits, by a steady clock."""

    position: int
    store_timestamp: int
    since: float

    @property
    def is_overdue(self) -> bool:
        """Tell whether it has waited for long enough, whatever the clocks say."""
        return time.monotonic() - self.since >= FILTER_SECONDS


class StoreDispatcher:
    """One store's output, open for writing under its lock; close it."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        threads: int = 2,
        flush: FlushPolicy | None = None,
        fail_on_data_loss: bool = True,
        skips_corrupt: bool = False,
        removes_expired: bool = False,
        only_flushed: bool = False,
    ) -> None:
        """Open the output and take back what an earlier writer left half done.

        Args:
            config: the store.
            threads: that parse.
            flush: when what is written has to be on disk; the broker's settings if None.
            fail_on_data_loss: stop where the log's next record has expired; else go on behind.
            skips_corrupt: pass over what is no record, and keep a copy; else stop there.
            removes_expired: remove files of the output whose records have all expired.
            only_flushed: dispatch only what the broker has flushed, whatever end `dispatch` gets.

        Raises:
            StoreError: what is wrong with the store or the output.
            OSError: no permission, no space.
        """
        self.config = config
        self._policy = flush or FlushPolicy.of(config.properties)
        self._fail_on_data_loss = fail_on_data_loss
        self._skips_corrupt = skips_corrupt
        self._removes_expired = removes_expired
        self._only_flushed = only_flushed
        settings = config.settings
        self.log = CommitLog(commitlog_directories(config.path, settings), settings, config.path)
        self.warnings = contradictions(config.path, settings)
        self._staging = config.output / progress.STATE_DIRECTORY
        resume.check_output(config.output)
        refuse_two_disks(config.output)
        with contextlib.ExitStack() as opened:
            opened.callback(self.log.close)
            if config.in_place:
                opened.enter_context(locks.lock_store(config.path))
            changes.make_directories(self._staging)
            # Also those of an earlier writer, which may have ended before it could.
            changes.sync_names(self._staging)
            opened.enter_context(locks.lock_output(self._staging))
            self._heartbeat = opened.enter_context(heartbeat.shared())
            self._open(threads)
            # Kept until `close`; given back here if anything above fails.
            self._held_open = opened.pop_all()

    def _open(self, threads: int) -> None:
        config, settings = self.config, self.config.settings
        self.live = LiveSettings(config.path, config.output, settings)
        self.queues = QueueDirectory(self.live.needs_slow_path)
        # The record that waits until the filters of its time are known.
        self._awaited: _Awaited | None = None
        self.pipeline = Pipeline(self.log, self.queues, settings, threads)
        self.recovery = resume.Recovery()
        self.progress = resume.resume(config, self.log, self.recovery)
        # What is on disk of the log, if only that counts; and what the broker had noted when less
        # was on disk than there was to dispatch.
        self._flushed = FlushedEnd(config.path) if self._only_flushed else None
        self._short: FlushSign | None = None
        self._doubt_flush(is_cut=self.recovery.truncations > 0)
        # Passed over though nobody asks for it: an output that is repaired lacks them already.
        self._known_places: tuple[tuple[int, int], ...] = ()
        self.live.begin(self.progress.store_timestamp if self.progress.messages else None)
        self.live.save()
        self.progress = replace(
            self.progress,
            starts=self.progress.starts + 1,
            recoveries=self.progress.recoveries + bool(self.recovery.reasons),
            truncations=self.progress.truncations + self.recovery.truncations,
        )
        self._spent = dict.fromkeys(PHASES, 0.0)
        # Items inserted and index files begun by sinks that were closed since.
        self._inserted_before = (0, 0)
        self.index: IndexSink | None = None
        self._open_sinks()
        self._flushed_at = self._flushed_partly_at = time.monotonic()
        # What was noticed between batches; and whether what follows the log's end was looked at.
        self._noticed: list[str] = self._readable_places()
        # What is to be said with the batch that is being written, and was not, if that failed.
        self._unsaid: list[str] = []
        self._unfinished: Path | None = None
        self._looks_at = self._flushed_at + _NOTICE_SECONDS
        # What was found there, and where the log ended.
        self._flaw: tuple[int, FormatError] | None = None
        # False while files are ahead of what `progress` says.
        self._consistent = True
        # What has failed at last, of the system's.
        self._failure: OSError | None = None
        # What is on disk is `progress` as it was when this was its end.
        self._saved_end = self.progress.end
        # The record that is held back, and up to where records have been found to be real.
        self._held: _Held | None = None
        self._settled = 0
        self._wanted_end = 0
        self._is_capped = False
        self._expired_to = 0
        self._is_live = False
        # The last record, until it is in the trail.
        self._last: Fingerprint | None = None
        self.vouch = Vouch(self.log, config.path, self._heartbeat)
        # Log files as they were before they were first read here, by where they begin.
        self._begun: dict[int, Stamp] = {}
        self._followed_at = self._refreshed_at = time.monotonic()
        self._signs: tuple[Stamp | None, ...] = ()
        self.kafka: KafkaFeed | None = None
        try:
            marks.set_abort(config.output, self._staging)
            self._save(clean=False)
            if config.kafka is not None:
                self.kafka = self._open_kafka()
        except BaseException:
            self._close_sinks()
            raise

    def _open_kafka(self) -> KafkaFeed:
        from reput.streaming.kafka.feed import KafkaFeed  # noqa: PLC0415 - a client few need

        return KafkaFeed(self.config, self._dispatched(), fail_on_data_loss=self._fail_on_data_loss)

    def _dispatched(self) -> Extent:
        """Return how far Kafka may be sent messages."""
        from reput.sinks.kafka.extent import Extent  # noqa: PLC0415 - as above

        known = self.progress
        mark = known.trail[-1].record if known.trail else None
        return Extent(known.end, mark, known.skipped, known.cuts)

    def _open_sinks(self) -> None:
        """Open the writers of the files as they stand, which is what `progress` says."""
        output, staging, settings = self.config.output, self._staging, self.config.settings
        self.entries = ConsumeQueueSink(output, staging, settings, self.queues)
        self.special = SpecialSink(output, staging, settings, self.queues, self.entries, self.live)
        self._tell_vouched()
        self.entries.recorded_lasts = self.progress.lasts
        self._inserted_before = self._inserted
        self.index = IndexSink(output, staging, settings) if settings.writes_index else None
        if self.index is not None:
            self.index.remember(StoreCheckpoint(*self.progress.checkpoint).index_timestamp)
        self._repeated_before = self.progress.repeated
        self.pipeline.gaps = dict(self.progress.skipped)

    def _tell_vouched(self) -> None:
        self.entries.vouched_from = self.progress.vouched_from
        self.special.vouch_from(self.progress.vouched_from)

    def _readable_places(self) -> list[str]:
        """Say which of the places that were passed over can be read by now."""
        with contextlib.closing(
            passed.Obstacles(self.log, self.live, self.config.settings)
        ) as obstacles:
            places = passed.readable(self.log, self.progress.skipped, obstacles)
        return [
            Event(
                f"{self.log.file_of(max(start, self.log.min_offset))[0]}: physical offsets {start} "
                f"to {end} were passed over; {passed.READABLE}"
            )
            for start, end in places
        ]

    def begin_with(
        self, known: progress.Progress, places: tuple[tuple[int, int], ...] = ()
    ) -> None:
        """Go on from files that were put into an output after it was opened, with nothing in it.

        Args:
            known: what is known of them.
            places: physical offsets [start, end) to pass over as far as they still cannot be read.
        """
        self._close_sinks()
        self.progress = known
        self._known_places = places
        self._open_sinks()

    @property
    def _inserted(self) -> tuple[int, int]:
        """Return index items inserted and files begun since the start."""
        items, begun = self._inserted_before
        if self.index is None:
            return items, begun
        return items + self.index.inserted[0], begun + self.index.inserted[1]

    def _close_sinks(self) -> None:
        self.entries.close()
        self.special.close()
        if self.index is not None:
            self.index.close()

    def dispatch(
        self,
        end: int,
        observe: Callable[[Block], None] | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Batch:
        """Dispatch the records that start before `end` and are not dispatched yet.

        Spark repeats its last batch after a restart; part or all of it may be done: what counts
        is this output's own progress.

        Args:
            end: physical offset.
            observe: called with each block that is written.
            is_over: asked after each block whether to end there.

        Raises:
            ReputError: a corrupt record, data loss, a queue that cannot have a directory.
            OSError: the output cannot be written; what it was doing counts as not done.
        """
        if not self._consistent:
            raise ReputError(f"{self.config.output}: a write to it has failed; open it again first")
        began = time.monotonic()
        events = self._unsaid
        events += self._noticed
        self._noticed = []
        before = (self.recovery.truncations, self._lost_bytes)
        self._look_at_log(events)
        if self.recovery.truncations != before[0]:
            # What was planned may lie past the end that the log has now.
            end = min(end, self._reach())
        end = self._flushed_of(end)
        self._is_live = self._is_held()
        if not self._is_live:
            self._held = None
        position = self.progress.end
        self._wanted_end = end
        if self.kafka is not None:
            # Where Kafka is too far behind, dispatch goes on once it has come closer.
            end = self.kafka.room(end)
        self._is_capped = end < self._wanted_end
        batch = Batch(position, position, events=events)
        index_before = self._inserted
        failure = None
        tries = _TRIES
        while batch.end < end:
            failure = self._write_range(batch, end, observe, is_over)
            if isinstance(failure, WentBackError):
                self._take_back(failure, batch.end, end, events)
                failure = None
                continue
            if tries and failure is not None and self._has_changed(failure, events):
                # Once more with what is there now: the rest of it, or another log.
                tries -= 1
                batch.end = self.progress.end
                # Gone back farther than where the batch began, it is one from there.
                batch.start = min(batch.start, batch.end)
                end = min(end, self._reach())
                failure = None
                continue
            if failure is None or not self._skip_corrupt(batch, failure):
                break
            failure = None
        self._settle_files()
        items, begun = self._inserted
        batch.items, batch.index_files = items - index_before[0], begun - index_before[1]
        batch.truncations = self.recovery.truncations - before[0]
        batch.lost = self._lost_bytes - before[1]
        batch.dispatch_seconds = time.monotonic() - began
        self.flush_if_due()
        batch.phases = self.take_phases()
        batch.seconds = time.monotonic() - began
        self._tell_kafka(events)
        if failure is not None:
            raise failure
        self._unsaid = []
        return batch

    def take_unsaid(self) -> list[str]:
        """Return what an operator should know of a batch that ended with an error."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        except OSError as error:
            self._failure = error
            raise
        finally:
            self._spent[phase] += time.perf_counter() - began

    def take_phases(self) -> dict[str, float]:
        """Return the seconds spent since this was last called, by phase; no zeros."""
        spent, self._spent = self._spent, dict.fromkeys(PHASES, 0.0)
        return {phase: seconds for phase, seconds in spent.items() if seconds}

    def _tell_kafka(self, events: list[str] | None = None) -> None:
        """Let Kafka have what is dispatched, and hear of it.

        Raises:
            ReputError, OSError: what has stopped it for good.
        """
        if self.kafka is None:
            return
        self.kafka.advance(self._dispatched())
        if events is not None:
            events += self.kafka.take_events()
            self.kafka.check()

    def _look_at_log(self, events: list[str], *, is_forced: bool = False) -> None:
        """Look at the files again, and go back or on to where dispatch can go on in them."""
        self.log.refresh()
        self._follow_log(events, is_forced=is_forced)
        if self.progress.end < 0:
            # Never where Spark's range begins: its checkpoint may have outlived the output.
            self.progress = replace(self.progress, end=self.log.min_offset)
        self._skip_expired(events)
        self._tell_vouched()
        self.live.forget(self.log.min_offset, self.log.end_of_files)

    def _has_changed(self, failure: ReputError, events: list[str]) -> bool:
        """Tell whether an error came from the log changing while it was read; follow it if so."""
        if not isinstance(failure, LogChangedError | FormatError):
            return False
        stamps, before = self.log.stamps, self.recovery.truncations
        self.log.refresh()
        is_touched = stamps != self.log.stamps
        last = self.log.stamps.get(self.log.base_of(self.progress.end))
        if is_touched or last is None or not is_old(last):
            self._look_at_log(events, is_forced=True)
        is_other = is_touched or self.recovery.truncations != before
        if is_other or isinstance(failure, LogChangedError):
            return True
        # What was planned may lie among old bytes that a cut has left past the log's end.
        return self._tail() <= self.progress.end

    def _tail(self) -> int:
        """Return where the log ends, corrupt places passed over."""
        known = self.progress.end if self.progress.end >= 0 else None
        holes = HoleWatch(self.log) if self._skips_corrupt or self._known_places else None
        return find_tail(self.log, known, skips_corrupt=True, holes=holes).end

    def _reach(self) -> int:
        """Return where the part of the log ends that may be dispatched."""
        end = self._tail()
        if self._flushed is None:
            return end
        return self._flushed.before(self.log, end, max(self.progress.end, self.log.min_offset))

    def _flushed_of(self, end: int) -> int:
        """Return how much of a plan is flushed: it may be older than the last cut of the log.

        Where that is not all of it the rest is dispatched once it is, see `waits`.
        """
        if self._flushed is None:
            return end
        sign = self._flushed.sign
        if self._flushed.still(self.log, end, sign) >= end:
            return end
        try:
            reach = max(self._reach(), self.progress.end)
        except LogChangedError:
            # The next look is at what is there then.
            reach = self.progress.end
        if reach < end:
            self._short = sign
        return min(reach, end)

    def _is_more_flushed(self) -> bool:
        """Tell whether what the broker has noted counts by now though it is still the same."""
        if self._flushed is None or self._short is None or self._flushed.is_found:
            return False
        try:
            return self._reach() > self.progress.end
        except LogChangedError:
            return False

    def _doubt_flush(self, *, is_cut: bool) -> None:
        """Have what the broker has noted count only if the records tell that it is of after a cut.

        Args:
            is_cut: the log was cut, and what was planned before may not be planned again; else
                nobody has looked at it for a while.
        """
        if self._flushed is None:
            return
        self._flushed.go_back(self.progress.end, self.progress.store_timestamp)
        if is_cut:
            self._short = self._flushed.sign

    def follow(self) -> Batch | None:
        """Look whether the log was cut though nothing new is at its end, and follow it then.

        To be called often while nothing is dispatched; it looks twice a second at most.

        Returns:
            What was dispatched; None if nothing had happened.

        Raises:
            ReputError, OSError: as `dispatch`.
        """
        now = time.monotonic()
        if not self._consistent or now - self._followed_at < _FOLLOW_SECONDS:
            return None
        self._followed_at = now
        signs = self.log.signs(self.progress.end)
        if signs != self._signs or now - self._refreshed_at >= _REFRESH_SECONDS:
            self.log.refresh()
            self._signs, self._refreshed_at = signs, now
        before, unsaid = self.recovery.truncations, len(self._unsaid)
        self._follow_log(self._unsaid, is_at_rest=True)
        if len(self._unsaid) == unsaid:
            return self.dispatch_waiting() if self._is_more_flushed() else None
        batch = self.dispatch(max(self._reach(), self.progress.end))
        batch.truncations = self.recovery.truncations - before
        return batch

    def _follow_log(
        self, events: list[str], *, is_forced: bool = False, is_at_rest: bool = False
    ) -> None:
        """Go back where the log is not the same any more, and say so."""
        known = resume.known_log(self.progress)
        if is_forced:
            seen: identity.Comparison | None = identity.compare(self.log, known)
        else:
            seen = self.vouch.look(known, is_at_rest=is_at_rest)
        if seen is None:
            return
        if seen.is_same:
            self.progress = resume.still_same(self.log, self.progress, seen, events)
            return
        recovery = resume.Recovery()
        self.progress = replace(self.progress, **self._where())
        self._consistent = False
        # What it goes back to may not be on disk, and is recorded before anything is taken back.
        self._flush_files()
        self._close_sinks()
        before = self.progress
        self.progress = replace(
            resume.go_back(self.config, self.log, self.progress, seen, recovery),
            starts=before.starts,
            recoveries=before.recoveries,
            truncations=before.truncations + recovery.truncations,
        )
        self._open_sinks()
        self._consistent = True
        self._saved_end = self.progress.end
        self._held = None
        self._awaited = None
        self._settled = 0
        self._last = None
        self._begun = {}
        self._looks_at = time.monotonic() + _NOTICE_SECONDS
        self._flaw = None
        self.recovery.truncations += recovery.truncations
        events.extend(recovery.reasons)
        self._doubt_flush(is_cut=True)

    def _take_back(self, met: WentBackError, position: int, end: int, events: list[str]) -> None:
        """Take stale entries out of the queues whose numbers go back in a range of the log.

        Args:
            met: the record that shows it, of one queue.
            position: physical offset where dispatch goes on.
            end: physical offset to look for other queues up to.
            events: gets what was done.
        """
        numbers = self._gone_back(position, end) | {met.queue: met.queue_offset}
        recovery = resume.Recovery()
        self.progress = replace(self.progress, **self._where())
        self._consistent = False
        self._flush_files()
        self._close_sinks()
        self.progress = resume.take_back(self.config, self.progress, numbers, recovery)
        self._open_sinks()
        self._consistent = True
        self._saved_end = self.progress.end
        self.recovery.truncations += recovery.truncations
        events.extend(recovery.reasons)

    def _gone_back(self, position: int, end: int) -> dict[str, int]:
        """Return the first record's queue offset of each queue that it shows to have gone back.

        All of them at once, where there may be thousands.
        """
        firsts: dict[int, int] = {}
        special: dict[str, int | None] = {}
        blocks = self.pipeline.blocks(position, end)
        try:
            for block in blocks:
                columns, count = block.columns, block.count
                (rows,) = np.nonzero(consumequeue.with_entry(columns.sys_flag[:count]))
                queues, at = np.unique(columns.queue[rows], return_index=True)
                for number, row in zip(queues.tolist(), rows[at].tolist(), strict=True):
                    stored = int(columns.store_timestamp[row])
                    if not self.live.is_batch(self.queues.names[number].topic, stored):
                        firsts.setdefault(number, int(columns.queue_offset[row]))
                for row in rows[columns.special[rows] != 0].tolist():
                    place = int(columns.physical_offset[row]), int(columns.size[row])
                    for queue, first, is_back in self.special.numbers(
                        self.pipeline.record_at(*place)
                    ):
                        special.setdefault(queue, first if is_back else None)
        except (ReputError, ValueError):
            # To dispatch that record fails as well, and says why. What was found before it counts.
            pass
        finally:
            blocks.close()
        plain = {
            self.entries.directory_of(number): first
            for number, first in firsts.items()
            if self.entries.has_gone_back(number, first)
        }
        return plain | {queue: first for queue, first in special.items() if first is not None}

    def _settle_files(self) -> None:
        """Take files into the books as certain that nobody touched since they were first read."""
        stamps = {}
        for base, begun in self._begun.items():
            stamp = self.log.stamp_of(base)
            if stamp == begun:
                stamps[base] = begun
        files = settled(self.progress.files, stamps, self.log.min_offset)
        self.progress = replace(self.progress, files=files)
        # What is certain, or was touched since, has nothing more to show.
        self._begun = {b: stamp for b, stamp in stamps.items() if not is_old(stamp)}

    def _write_range(
        self,
        batch: Batch,
        end: int,
        observe: Callable[[Block], None] | None,
        is_over: Callable[[], bool] | None,
    ) -> ReputError | None:
        """Write the records of a range; return the error that ended it early."""
        self._consistent = False
        failure: ReputError | None = None
        blocks = self.pipeline.blocks(batch.end, end)
        try:
            while True:
                try:
                    with self._timed("parse"):
                        block = next(blocks, None)
                except ReputError as error:
                    # The log has an end here; what was written is all before it, and stays.
                    failure = error
                    break
                if block is None:
                    batch.end = self.log.after_blank(batch.end)
                    self.progress = replace(self.progress, end=batch.end)
                    break
                is_whole = True
                try:
                    is_whole = self._write(batch, block)
                except PutError as error:
                    failure = error
                self._advance(batch, block)
                if failure is not None or not is_whole:
                    break
                if observe is not None:
                    observe(block)
                if is_over is not None and is_over():
                    break
        finally:
            blocks.close()
        self.progress = replace(self.progress, trail=self._trail())
        if isinstance(failure, PutError):
            self._cut_leftovers()
            cause = failure.__cause__
            if isinstance(cause, WentBackError | LogChangedError) or (
                isinstance(cause, FormatError) and self.log.has(cause.path)
            ):
                # The record that was parsed is gone, or those before it were of another log.
                failure = cause
            elif type(cause) is ReputError:
                # It is the record that is wrong, not a file of the output.
                failure = unfit(self.log, batch.end, failure)
        self._consistent = True
        return failure

    def _advance(self, batch: Batch, block: Block) -> None:
        """Take a block that is written into the books."""
        batch.messages += block.count
        batch.end = block.reached
        known = self.progress
        values: dict[str, Any] = {"end": block.reached}
        if block.count:
            _count_latencies(batch, block)
            columns, count = block.columns, block.count
            base = self.log.base_of(int(columns.physical_offset[0]))
            if not known.files or known.files[-1].base != base:
                self._begin_file(base)
            hashes = columns.head_hash[:count]
            batch.store_timestamp = int(block.columns.store_timestamp[block.count - 1])
            logics = _last_entry(block) or (known.logics_timestamp, known.logics_offset)
            self._last = _last_record(block)
            values |= {
                "messages": known.messages + block.count,
                "files": with_records(known.files, base, int(hashes[0]), int(hashes.sum())),
                "store_timestamp": batch.store_timestamp,
                "logics_timestamp": logics[0],
                "logics_offset": logics[1],
                "repeated": self._repeated_before + self.entries.counts.repeated,
            }
        self.progress = replace(known, **values)
        points = self.progress.trail
        before = points[-1].end if points else batch.start
        if block.reached > before + _POINT_BYTES:
            self.progress = replace(self.progress, trail=self._trail())
            self._tell_kafka()

    def _begin_file(self, base: int) -> None:
        """Remember a log file as it is before its first record is taken into the books.

        It was parsed a moment ago, so it counts as untouched only if it is older than that.
        """
        stamp = self.log.stamps.get(base)
        if stamp is not None:
            self._begun[base] = stamp
        for expired in [b for b in self._begun if b < self.log.min_offset]:
            del self._begun[expired]

    def _trail(self) -> tuple[Point, ...]:
        """Return the trail with the last record that was dispatched, as it was parsed."""
        record, self._last = self._last, None
        if record is None:
            return self.progress.trail
        known = self.progress
        position = self.index.position if self.index is not None else None
        point = Point(
            record=record,
            end=record.end,
            heads=known.files[-1].heads,
            messages=known.messages,
            logics_timestamp=known.logics_timestamp,
            logics_offset=known.logics_offset,
            repeated=known.repeated,
            store_timestamp=known.store_timestamp,
            index_name=position.name if position else "",
            index_header=tuple(position.header) if position else _NO_HEADER,
        )
        return trail.extended(known.trail, point)

    def _write(self, batch: Batch, block: Block) -> bool:
        """Write a block; False if it ends before a record that has to be held back.

        Raises:
            PutError: a record that cannot be put; the block ends before it.
        """
        columns = block.columns
        self._follow_settings(batch, block)
        written = self._with_known_filters(block, self._in_order(block))
        counts = self.entries.counts
        before = (counts.repeated, counts.misplaced)

        def put_special(row: int) -> None:
            position, size = int(columns.physical_offset[row]), int(columns.size[row])
            if not self.special.put(self.pipeline.record_at(position, size)):
                block.without_entry.add(row)

        def accept(row: int) -> bool:
            return self._is_settled(int(columns.physical_offset[row]), int(columns.size[row]))

        failure = None
        try:
            with self._timed("consumequeue"):
                written = self.entries.write(columns, written, put_special, accept)
        except PutError as error:
            failure = error
            written = error.row
        if self.index is not None:
            with self._timed("index"):
                self.index.write(columns, written)
        repeated, misplaced = counts.repeated - before[0], counts.misplaced - before[1]
        batch.repeated += repeated
        batch.misplaced += misplaced
        entries = consumequeue.count_entries(columns.sys_flag[:written]) - len(block.without_entry)
        batch.entries += entries - repeated
        is_whole = written == block.count
        if not is_whole:
            block.reached = int(columns.physical_offset[written])
            block.count = written
        if failure is not None:
            raise failure
        return is_whole

    def _follow_settings(self, batch: Batch, block: Block) -> None:
        """Take over what the broker's files say by now, also for a block parsed before that."""
        events = self.live.look()
        topics = self.queues.take_new_topics()
        if topics and self._is_live and block.count:
            newest = int(block.columns.store_timestamp[block.count - 1])
            events += self.live.await_topics(topics, newest)
        if events:
            batch.events += events
            self.queues.reconsider()
        if block.generation != self.queues.generation:
            columns = block.columns
            self.queues.mark_special(columns.queue[: block.count], columns.special[: block.count])

    def _with_known_filters(self, block: Block, count: int) -> int:
        """Return how many of the first records of a block the consumers' filters are known for.

        A running broker writes them every ten seconds, and dispatches with what it has in memory.
        """
        before, self._awaited = self._awaited, None
        if before is not None and before.is_overdue:
            self.live.stop_waiting_for(before.store_timestamp)
        limit = self.live.known_until() if self._is_live else None
        if limit is None:
            return count
        columns = block.columns
        (late,) = np.nonzero(columns.store_timestamp[:count] >= limit)
        if not len(late):
            return count
        row = int(late[0])
        position = int(columns.physical_offset[row])
        if before is not None and before.position == position:
            self._awaited = before
        else:
            stored = int(columns.store_timestamp[row])
            self._awaited = _Awaited(position, stored, time.monotonic())
        return row

    def _in_order(self, block: Block) -> int:
        """Return how many records of a block come before one that was stored too early.

        A recovered log may have older records after its end. A broker's clock that went back
        looks the same, so such a record is held back, not dropped.
        """
        if not self._is_live:
            return block.count
        stored = block.columns.store_timestamp[: block.count]
        before = np.concatenate([[self.progress.store_timestamp], stored[:-1]])
        for row in np.flatnonzero(stored < before).tolist():
            columns = block.columns
            if not self._is_settled(int(columns.physical_offset[row]), int(columns.size[row])):
                return int(row)
        return block.count

    def _is_settled(self, position: int, size: int) -> bool:
        """Tell whether a record that came out of turn is really part of the log.

        While a broker runs, it is if the log has grown after it and it is still the same: a
        broker appends at its log's end, so it would have overwritten what is no part of that.
        """
        if not self._is_live or position < self._settled:
            return True
        if self.log.base_of(position) < active_file(self.log):
            # A broker that cuts its log removes the files after the cut.
            return True
        end = chain_end(self.log, position)
        record = trail.fingerprint(self.log, position, size)
        held = self._held
        if held is None or held.record != record or end < held.tail:
            # The end has come closer: the log was cut after this record, and growth counts from
            # there.
            self._held = _Held(record, end) if record is not None else None
            return False
        if end <= held.tail:
            return False
        self._held = None
        self._settled = held.tail
        return True

    @property
    def _lost_bytes(self) -> int:
        return sum(end - start for start, end in self.progress.lost)

    @property
    def recorded_end(self) -> int:
        """Return the physical offset up to which all is on disk and recorded."""
        return self._saved_end

    @property
    def holds(self) -> bool:
        """Tell whether a record that came out of turn is held back."""
        return self._held is not None

    @property
    def waits(self) -> bool:
        """Tell whether there is something to dispatch that no batch will come for.

        A held-back record that no broker will touch again; what Kafka was too
        far behind for; or something to say.
        """
        if self._is_capped and self.kafka is not None:
            return self.kafka.room(self._wanted_end) > self.progress.end
        if self._noticed:
            return True
        if self._short is not None and self._flushed is not None:
            if self._short != self._flushed.sign:
                return True
        if self._awaited is not None:
            limit = self.live.known_until()
            is_known = limit is None or self._awaited.store_timestamp < limit
            return (
                is_known
                or self._awaited.is_overdue
                or not locks.is_held(self.config.path / names.LOCK)
            )
        return self._held is not None and not locks.is_held(self.config.path / names.LOCK)

    def drain_kafka(
        self,
        is_over: Callable[[], bool],
        *,
        says_lack: bool = True,
        batches: list[Batch] | None = None,
    ) -> None:
        """Wait until Kafka has all that there is to dispatch.

        Args:
            is_over: asked now and then whether to give up.
            says_lack: giving up is an error.
            batches: gets what is dispatched meanwhile.

        Raises:
            ReputError, OSError: as `dispatch`.
        """
        while self.kafka is not None and not is_over():
            if self.waits:
                batch = self.dispatch_waiting()
                if batches is not None:
                    batches.append(batch)
            elif self.kafka.is_done:
                break
            self.kafka.check_end()
            time.sleep(_DRAIN_SECONDS)
        lacking = self.kafka.lacks() if self.kafka is not None and says_lack else None
        if lacking is not None:
            raise lacking

    def dispatch_waiting(self) -> Batch:
        """Dispatch what was held back, see `waits`."""
        if self._short is not None:
            # What was planned before says nothing of where the log ends now.
            self._short = None
            return self.dispatch(self._tail())
        return self.dispatch(self._wanted_end)

    def _skip_expired(self, events: list[str]) -> None:
        """Go on at the log's beginning if it has moved on, and say what is lost by that."""
        gap = (self.progress.end, self.log.min_offset)
        if gap[0] >= gap[1]:
            return
        lost = f"physical offsets {gap[0]} to {gap[1]}"
        if self._fail_on_data_loss:
            raise ExpiredError(
                f"{self.config.path}: {lost} have expired before they were "
                "dispatched. Restore the files, or go on after the gap with "
                "--no-fail-on-data-loss"
            )
        text = f"{lost} are lost: they expired before they were dispatched"
        events.append(Event(text, GAP))
        known = replace(self.progress, end=gap[1], lost=(*self.progress.lost, gap))
        self.progress = resume.with_nothing_vouched(known, self.log)

    def _skip_corrupt(self, batch: Batch, failure: ReputError) -> bool:
        """Go on after bytes that are not a record, keeping a copy; False if not asked to."""
        if not isinstance(failure, FormatError):
            return False
        start = batch.end
        known_end = passed.next_after(self.log, self._known_places, start)
        if known_end is None and not self._skips_corrupt:
            return False
        end = next_record(self.log, start) if known_end is None else known_end
        path, byte = self.log.file_of(start)
        place = quarantine.Skipped(self.config.name, str(path), byte, start, end, failure.problem)
        copy = quarantine.keep(self.config.output, place, self.log.pieces(start, end))
        batch.end = end
        batch.skipped += 1
        kept = f"copied to {copy}" if copy is not None else "none of them are in a file"
        text = (
            f"{path} at byte {byte}: {failure.problem}. Skipped {end - start} bytes, physical "
            f"offsets {start} to {end}: {kept}"
        )
        batch.events.append(Event(text, CORRUPT))
        known, record = self.progress, trail.hash_at(self.log, start)
        records = known.passed if record is None else (*known.passed, (start, record))
        self.progress = replace(
            known, end=end, skipped=(*known.skipped, (start, end)), passed=records
        )
        self.pipeline.gaps[start] = end
        return True

    def flush_if_due(self) -> bool:
        """Flush what the policy says by now; also to be called when nothing is dispatched.

        Returns:
            Whether everything was flushed.

        Raises:
            OSError: the device failed.
        """
        now = time.monotonic()
        policy = self._policy
        self._look_at_settings()
        if self.kafka is not None:
            self.kafka.check()
        if not self._consistent:
            return False
        self._notice_flaws(now)
        if policy.is_sync or now - self._flushed_at >= policy.thorough_seconds:
            is_new = self.progress.end != self._saved_end
            if is_new:
                self.flush()
            self._flushed_at = now
            return is_new
        if now - self._flushed_partly_at >= policy.seconds:
            # What a sync that fails leaves is not synced by trying it again.
            self._consistent = False
            with self._timed("flush"):
                self.entries.flush(policy.least_pages)
            self._consistent = True
            self._flushed_partly_at = now
        return False

    def _is_held(self) -> bool:
        """Tell whether a broker holds the store."""
        return not self.config.in_place and locks.is_held(self.config.path / names.LOCK)

    def _look_at_settings(self) -> None:
        events = self.live.look_if_idle()
        if events:
            self._noticed += events
            self.queues.reconsider()

    def _notice_flaws(self, now: float) -> None:
        """Look once at what follows the log's end, and at a next file that is not whole yet."""
        unfinished = self.log.unfinished
        if unfinished is not None and unfinished.path != self._unfinished:
            self._unfinished = unfinished.path
            text = f"{unfinished.path} at byte {unfinished.byte}: {unfinished.found}"
            self._noticed.append(Event(f"{text}; waiting for the rest of it", UNFINISHED))
        if now >= self._looks_at:
            self.look_for_flaw()

    @property
    def flaw(self) -> FormatError | None:
        """What is wrong after the log's end, as far as it was noticed; None if nothing is.

        A broker that holds the store has recovered it: what follows its log's end is cut off.
        """
        if self._flaw is None or self._flaw[0] < self.progress.end or self._is_held():
            return None
        return self._flaw[1]

    def look_for_flaw(self) -> None:
        """Look at what follows the log's end, unless that was done; `flaw` is what was found."""
        if self._looks_at == math.inf or self.progress.end < 0:
            return
        self._looks_at = math.inf
        if self._skips_corrupt and not self._is_held():
            # It is passed over.
            return
        try:
            end = find_tail(self.log, self.progress.end).end
            flaw = flaw_after(self.log, end, tolerates_damage=True)
        except LogChangedError:
            # Nothing is known yet.
            self._looks_at = time.monotonic() + _NOTICE_SECONDS
            return
        except ReputError:
            # What is wrong before the log's end is said by the one that dispatches it.
            return
        if flaw is not None:
            self._flaw = end, flaw
            self._noticed.append(Event(str(flaw), CORRUPT))

    def flush(self, *, clean: bool = False) -> None:
        """Have all that was dispatched on disk, then record that it is.

        Raises:
            OSError: the device failed.
        """
        self._consistent = False
        with self._timed("flush"):
            self._flush_files()
        # After the flush: no file that is removed waits for one. At the end once more: what was
        # a queue's last file, and stayed, may since have got another one after it.
        is_due = clean or self.log.min_offset > self._expired_to
        expired = self._expired() if self._removes_expired and is_due else []
        # Only now: a checkpoint ahead of the files would lose messages for good.
        with self._timed("record"):
            self._write_checkpoint()
            self._save(clean=clean)
        self._consistent = True
        self._flushed_at = self._flushed_partly_at = time.monotonic()
        for path in expired:
            changes.remove_file(path)

    def _expired(self) -> list[Path]:
        """Return the files that have expired, and have the progress say so before they go."""
        output, settings = self.config.output, self.config.settings
        found = retention.expired_files(output, settings, self.log.min_offset)
        self._expired_to = self.log.min_offset
        if found:
            where = self._where()
            firsts = where["firsts"] | retention.firsts_without(output, settings, found)
            self.progress = replace(self.progress, **{**where, "firsts": firsts})
        return found

    def _flush_files(self) -> None:
        self.entries.flush()
        self.special.flush()
        if self.index is not None:
            self.index.flush()

    def _write_checkpoint(self) -> None:
        """Write the broker's checkpoint, of flushed data only (docs/adr/0004-checkpoint.md)."""
        source = marks.read_checkpoint(self.config.path) or StoreCheckpoint()
        values = StoreCheckpoint(
            # How far the commitlog is on disk is the broker's to know.
            physic_timestamp=source.physic_timestamp,
            logics_timestamp=self.progress.logics_timestamp,
            index_timestamp=self.index.flushed_timestamp if self.index is not None else 0,
            master_flushed_offset=source.master_flushed_offset,
            confirm_offset=source.confirm_offset,
            logics_offset=self.progress.logics_offset,
        )
        fields = self.config.settings.version.checkpoint_fields
        marks.write_checkpoint(self.config.output, self._staging, values, fields)
        self.progress = replace(
            self.progress, checkpoint=tuple(values[:fields]) + (0,) * (len(values) - fields)
        )

    def _where(self) -> dict[str, Any]:
        """Return where the files end, as fields of the progress."""
        position = self.index.position if self.index is not None else None
        positions = self.entries.positions()
        known = self.progress
        written = positions | self.special.positions()
        ahead = (set(known.ahead) - positions.keys()) | self.entries.ahead()
        # Of a queue that is known: files that have expired since it was opened are in the books.
        began = (self.entries.firsts() | self.special.firsts()).items()
        return {
            "queues": known.queues | written,
            "firsts": {name: at for name, at in began if name not in known.queues} | known.firsts,
            "lasts": known.lasts | self.entries.lasts(),
            "ahead": tuple(sorted(ahead)),
            "tails": {name: crc for name, crc in known.tails.items() if name not in written},
            "index_before": self._index_before(),
            "index_name": position.name if position else "",
            "index_header": tuple(position.header) if position else _NO_HEADER,
        }

    def _index_before(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        older = self.index.before(self.log.min_offset) if self.index is not None else ()
        return tuple((name, tuple(header)) for name, header in older)

    def _save(self, *, clean: bool) -> None:
        where = self._where()
        if clean:
            where["tails"] = self._tails(where)
        self.progress = replace(
            self.progress, clean=clean, generation=self.progress.generation + 1, **where
        )
        # While files are written no CRC is recorded: that of each flush would be another one.
        saved = self.progress if clean else replace(self.progress, tails={})
        progress.save(self.config.output, saved)
        self._saved_end = self.progress.end

    def _tails(self, where: dict[str, Any]) -> dict[str, int]:
        """Return the CRCs of the queues' last bytes, see `Progress.tails`."""
        known: dict[str, int] = where["tails"]
        if self.config.in_place:
            # A broker may go on with these files.
            return {}
        ends = {name: end for name, end in where["queues"].items() if name not in known}
        return known | tails.read(self.config.output, ends, self.config.settings)

    def close(self) -> None:
        """Flush, take the abort marker away and give everything back.

        After a failed write the output is left like that of a killed writer: the next one
        takes back what is beyond the progress.
        """
        try:
            if self._consistent:
                if self.index is not None:
                    counts = self.config.settings.version.counts_empty_index
                    self.index.finish(writes_first_count=counts)
                self.flush(clean=True)
                marks.clear_abort(self.config.output)
        finally:
            if not self._consistent and self._failure is not None:
                where = f"{self._failure.filename}: " if self._failure.filename else ""
                marks.note_failure(
                    self.config.output, f"{where}{self._failure.strerror or self._failure}"
                )
            self._close_files()

    def _cut_leftovers(self) -> None:
        """Take back what a record that could not be put has left in some of its queues."""
        where = self._where()
        leftovers = self.special.leftovers()
        self._close_sinks()
        output, settings = self.config.output, self.config.settings
        queues = rollback.queues_before(
            output, settings, where["queues"], self.progress.end, where["lasts"]
        )
        queues |= {name: min(queues.get(name, at), at) for name, at in leftovers.items()}
        queues = {name: at for name, at in queues.items() if at > 0}
        known = replace(self.progress, **where)
        shortened = progress.shortened(known, queues, known.index_name)
        self.progress = replace(known, **shortened)
        position = IndexPosition(where["index_name"], Header(*where["index_header"]))
        known = self.progress
        rollback.restore(output, self._staging, settings, known.queues, position, known.ahead)
        self._open_sinks()

    def _close_files(self) -> None:
        if self.kafka is not None:
            self.kafka.close()
        self.pipeline.close()
        self._close_sinks()
        self._held_open.close()


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


def rebuild(
    store: Path, output: Path, *, broker_version: str, broker_conf: Mapping[str, str]
) -> Batch:
    """Dispatch all that a store has into an output, in this process and without Spark.

    Raises:
        ReputError: see `StoreDispatcher`.
    """
    config = store_config(store, output, broker_version=broker_version, broker_conf=broker_conf)
    dispatcher = StoreDispatcher(config)
    try:
        end = find_tail(dispatcher.log).end
        batch = dispatcher.dispatch(end)
        flaw = flaw_after(dispatcher.log, end)
        if flaw is not None:
            raise flaw
        return batch
    finally:
        dispatcher.close()
