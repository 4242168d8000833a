"""Dispatches one store: what RocketMQ's ReputMessageService does, for a range at a time.

The straight line of a batch is `StoreDispatcher.dispatch`: blocks of records in log order →
consume queues → index → (flush, if it is time) → progress. It knows nothing of Spark; the job
calls it from `foreachBatch` or from a task.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from checkpoints import locks, marks, progress
from formats import consumequeue
from formats.commitlog import BLANK_HEAD, BLANK_SIZE, MAGIC_BLANK
from formats.errors import ReputError
from formats.storecheckpoint import StoreCheckpoint
from sinks import cut
from sinks.consumequeue import ConsumeQueueSink, PutError
from sinks.index import IndexSink
from sinks.queues import QueueDirectory
from sinks.special import SpecialSink, needs_slow_path
from stores import layout
from stores.commitlog import PAD, CommitLog, commitlog_directories
from stores.filters import bitmaps_of
from stores.tail import find_tail
from streaming import resume
from streaming.config import StoreConfig, store_config
from streaming.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from streaming.pipeline import Block

FLUSH_SECONDS = 10.0
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass
class Batch:
    """What a call of `dispatch` did.

    Attributes:
        start: physical offset where it began.
        end: where it ended; the next record's.
        messages: records dispatched.
        seconds: wall time.
        store_timestamp: of the last record, ms.
    """

    start: int
    end: int
    messages: int = 0
    seconds: float = 0.0
    store_timestamp: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of commitlog that it went over."""
        return self.end - self.start


class StoreDispatcher:
    """One store's output, open for writing under its lock; close it."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        threads: int = 2,
        flush_seconds: float = FLUSH_SECONDS,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Open the output and take back what an earlier writer left half done.

        Args:
            config: the store.
            threads: that parse.
            flush_seconds: data is on disk so often; 0: after each batch.
            fail_on_data_loss: stop where the log's next record has expired; else go on behind.

        Raises:
            StoreError: what is wrong with the store or the output.
            OSError: no permission, no space.
        """
        self.config = config
        self._flush_seconds = flush_seconds
        self._fail_on_data_loss = fail_on_data_loss
        settings = config.settings
        self.log = CommitLog(commitlog_directories(config.path, settings), settings)
        self.warnings = layout.contradictions(config.path, settings)
        self._staging = config.output / progress.STATE_DIRECTORY
        resume.check_output(config.output)
        with contextlib.ExitStack() as opened:
            opened.callback(self.log.close)
            if config.in_place:
                opened.enter_context(locks.lock_store(config.path))
            self._staging.mkdir(parents=True, exist_ok=True)
            opened.enter_context(locks.lock_output(self._staging))
            self._open(threads)
            # Kept until `close`; given back here if anything above fails.
            self._held = opened.pop_all()

    def _open(self, threads: int) -> None:
        config, settings = self.config, self.config.settings
        batches = layout.batch_topics_for(config.path, settings)
        self.queues = QueueDirectory(lambda t: needs_slow_path(settings, batches, t))
        self.pipeline = Pipeline(self.log, self.queues, settings, threads)
        self.progress, self.recovery = resume.resume(config, self.log)
        output, staging = config.output, self._staging
        self.entries = ConsumeQueueSink(output, staging, settings, self.queues)
        self.special = SpecialSink(
            output,
            staging,
            settings,
            self.queues,
            self.entries,
            batches,
            bitmaps_of(config.path, settings),
        )
        self.index = IndexSink(output, staging, settings) if settings.writes_index else None
        self._flushed_at = time.monotonic()
        # False while files are ahead of the progress record.
        self._consistent = True
        self._has_leftovers = False
        self._repeated_before = self.progress.repeated
        marks.set_abort(output)
        self._save(clean=False, sync=True)

    def dispatch(self, end: int, observe: Callable[[Block], None] | None = None) -> Batch:
        """Dispatch the records that start before `end` and are not dispatched yet.

        Spark repeats its last batch after a restart; part or all of it may be done: what counts
        is this output's own progress.

        Args:
            end: physical offset.
            observe: called with each block that is written.

        Raises:
            ReputError: a corrupt record, data loss, a queue that cannot have a directory.
            OSError: the output cannot be written; Spark will hand the batch in again.
        """
        if not self._consistent:
            raise ReputError(f"{self.config.output}: a write to it has failed; open it again first")
        began = time.monotonic()
        self.log.refresh()
        if self.progress.end < 0:
            # Never where Spark's range begins: its checkpoint may have outlived the output.
            self.progress = replace(self.progress, end=self.log.min_offset)
        self._skip_expired()
        position = self.progress.end
        batch = Batch(position, position)
        if end <= position:
            return batch
        failure = self._write_range(batch, end, observe)
        self._record()
        batch.seconds = time.monotonic() - began
        if failure is not None:
            raise failure
        return batch

    def _write_range(
        self, batch: Batch, end: int, observe: Callable[[Block], None] | None
    ) -> ReputError | None:
        """Write the records of a range; return the error that ended it early."""
        last: tuple[int, int] | None = None
        logics = (self.progress.logics_timestamp, self.progress.logics_offset)
        self._consistent = False
        blocks = self.pipeline.blocks(batch.start, end)
        while True:
            try:
                block = next(blocks, None)
            except ReputError as error:
                # The log has an end here; what was written is all before it, and stays.
                failure: ReputError | None = error
                break
            if block is None:
                failure = None
                batch.end = self._behind_blank(batch.end)
                break
            failure = self._write(block)
            if block.count:
                last = _last_record(block)
                logics = _last_entry(block) or logics
                batch.store_timestamp = int(block.columns.store_timestamp[block.count - 1])
            batch.messages += block.count
            batch.end = block.reached
            if failure is not None:
                break
            if observe is not None:
                observe(block)
        self.progress = replace(
            self.progress,
            end=batch.end,
            messages=self.progress.messages + batch.messages,
            last=resume.fingerprint(self.log, *last) if last else self.progress.last,
            logics_timestamp=logics[0],
            logics_offset=logics[1],
            repeated=self._repeated_before + self.entries.counts.repeated,
        )
        return failure

    def _write(self, block: Block) -> ReputError | None:
        """Write a block; if a record cannot be put the block ends before it."""
        columns = block.columns
        failure = None

        def put_special(row: int) -> None:
            position, size = int(columns.physical_offset[row]), int(columns.size[row])
            self.special.put(self.pipeline.record_at(position, size))

        try:
            self.entries.write(columns, block.count, put_special)
        except PutError as error:
            failure = error
            block.reached = int(columns.physical_offset[error.row])
            block.count = error.row
            # Some of its entries may be there already.
            self._has_leftovers = True
        if self.index is not None:
            self.index.write(columns, block.count)
        return failure

    def _behind_blank(self, position: int) -> int:
        """Return the next file's beginning where a BLANK stands: no record starts before it."""
        file_end = self.log.base_of(position) + self.log.file_size
        head = self.log.read(position, BLANK_SIZE)[PAD:-PAD].tobytes()
        is_blank = head == BLANK_HEAD.pack(file_end - position, MAGIC_BLANK)
        return file_end if is_blank else position

    def _skip_expired(self) -> None:
        """Go on at the log's beginning if it has moved on, and say what is lost by that."""
        if self.progress.end >= self.log.min_offset:
            return
        gap = f"{self.progress.end} to {self.log.min_offset}"
        if self._fail_on_data_loss:
            raise ReputError(
                f"{self.config.path}: physical offsets {gap} have expired before they were "
                "dispatched. Restore the files, or go on behind the gap with "
                "--no-fail-on-data-loss"
            )
        self.recovery.reasons.append(f"physical offsets {gap} are lost")
        self.progress = replace(self.progress, end=self.log.min_offset)

    def _record(self) -> None:
        self._consistent = True
        if time.monotonic() - self._flushed_at >= self._flush_seconds:
            self.flush()
        else:
            self._save(clean=False, sync=False)

    def flush(self, *, clean: bool = False) -> None:
        """Have all that was dispatched on disk, then record that it is.

        Raises:
            OSError: the device failed.
        """
        self.entries.flush()
        self.special.flush()
        if self.index is not None:
            self.index.flush()
        # Only now: a checkpoint ahead of the files would lose messages for good.
        self.progress = replace(self.progress, flushed_end=self.progress.end)
        self._write_checkpoint()
        self._save(clean=clean, sync=True)
        self._flushed_at = time.monotonic()

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

    def _save(self, *, clean: bool, sync: bool) -> None:
        position = self.index.position if self.index is not None else None
        self.progress = replace(
            self.progress,
            clean=clean,
            generation=self.progress.generation + 1,
            index_name=position.name if position else "",
            index_header=tuple(position.header) if position else (0,) * 6,
        )
        progress.save(self.config.output, self.progress, sync=sync)

    def close(self) -> None:
        """Flush, take the abort marker away and give everything back.

        Behind a failed write the output is left as one whose writer was killed: the next one
        takes back what is beyond the progress.
        """
        try:
            if self._consistent:
                if self.index is not None:
                    is_five = self.config.settings.version.has_batch_queues
                    self.index.finish(writes_first_count=is_five)
                self.flush(clean=not self._has_leftovers)
                if self._has_leftovers:
                    self._cut_leftovers()
                marks.clear_abort(self.config.output)
        finally:
            self._close_files()

    def _cut_leftovers(self) -> None:
        """Take back what a record that could not be put has left in some of its queues."""
        self.entries.close()
        self.special.close()
        output, settings = self.config.output, self.config.settings
        cut.cut_queues(output, self._staging, settings, self.progress.end)
        self._save(clean=True, sync=True)

    def _close_files(self) -> None:
        self.pipeline.close()
        self.entries.close()
        self.special.close()
        if self.index is not None:
            self.index.close()
        self._held.close()


def _last_record(block: Block) -> tuple[int, int]:
    i = block.count - 1
    return int(block.columns.physical_offset[i]), int(block.columns.size[i])


def _last_entry(block: Block) -> tuple[int, int] | None:
    """Return store timestamp and place of the block's last record that has an entry."""
    columns = block.columns
    for i in range(block.count - 1, -1, -1):
        if consumequeue.has_entry(int(columns.sys_flag[i])):
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
        return dispatcher.dispatch(find_tail(dispatcher.log).end)
    finally:
        dispatcher.close()
