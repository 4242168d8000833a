"""Dispatches one store: what RocketMQ's ReputMessageService does, for a range at a time.

`StoreDispatcher` is what jobs and commands hold of a store. Records go through
`streaming.dispatch.line`. Nothing here knows Spark: the job calls it from `foreachBatch` or from a
task.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from reput.checkpoints.disk import marking
from reput.stores.config.contradictions import contradictions
from reput.stores.log.holes import flaw_after
from reput.stores.log.tail import find_tail
from reput.streaming.dispatch.opening import Options, open_parts
from reput.streaming.settings.config import FlushPolicy, StoreConfig, store_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.formats.errors import FormatError
    from reput.sinks.files.index import IndexSink
    from reput.sinks.files.no_index import NoIndex
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.blocks.pipeline import Pipeline
    from reput.streaming.dispatch.live_settings import LiveSettings
    from reput.streaming.dispatch.resuming.recovery import Recovery
    from reput.streaming.kafka.feed import KafkaFeed

_DRAIN_SECONDS = 0.02


class StoreDispatcher:
    """One store's output, open for writing under its lock; close it.

    Attributes:
        config: the store.
        warnings: what its settings and its files contradict each other in.
        parts: what it consists of.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        threads: int = Options.threads,
        flush: FlushPolicy | None = None,
        fail_on_data_loss: bool = Options.fail_on_data_loss,
        skips_corrupt: bool = Options.skips_corrupt,
        removes_expired: bool = Options.removes_expired,
        only_flushed: bool = Options.only_flushed,
    ) -> None:
        """Open the output and roll back what an earlier writer left half done.

        Args:
            config: the store.
            threads: that parse.
            flush: when what is written has to be on disk; the broker's settings if None.
            fail_on_data_loss: stop where the log's next record has expired; else resume past it.
            skips_corrupt: pass over what is not a record, and keep a copy; else stop there.
            removes_expired: remove files of the output whose records have all expired.
            only_flushed: dispatch only what the broker has flushed, whatever end `dispatch` gets.

        Raises:
            StoreError: what is wrong with the store or the output.
            OSError: no permission, no space.
        """
        options = Options(
            threads=threads,
            flush=flush or FlushPolicy.of(config.properties),
            fail_on_data_loss=fail_on_data_loss,
            skips_corrupt=skips_corrupt,
            removes_expired=removes_expired,
            only_flushed=only_flushed,
        )
        self.config = config
        self.warnings = contradictions(config.path, config.settings)
        with contextlib.ExitStack() as opened:
            self.parts = open_parts(config, options, opened)
            # Kept until `close`; given back here if anything above fails.
            self._held_open = opened.pop_all()

    @property
    def log(self) -> CommitLog:
        """Return the store's log."""
        return self.parts.log

    @property
    def pipeline(self) -> Pipeline:
        """Return what parses the log."""
        return self.parts.pipeline

    @property
    def live(self) -> LiveSettings:
        """Return what the broker's files say of topics and filters."""
        return self.parts.live

    @property
    def progress(self) -> Progress:
        """Return how far dispatch is; what the next record of progress says."""
        return self.parts.books.progress

    @property
    def recovery(self) -> Recovery:
        """Return what was rolled back since the start, and for it."""
        return self.parts.books.recovery

    @property
    def recorded_end(self) -> int:
        """Return the physical offset up to which all is on disk and recorded."""
        return self.parts.books.saved_end

    @property
    def index(self) -> IndexSink | NoIndex:
        """Return the writer of the index."""
        return self.parts.output.index

    @property
    def kafka(self) -> KafkaFeed | None:
        """Return the store's way to Kafka, None if its messages go to none."""
        return self.parts.kafka.feed

    @property
    def holds(self) -> bool:
        """Tell whether a record that came out of turn is held back."""
        return self.parts.admission.holds

    @property
    def waits(self) -> bool:
        """Tell whether there is something to dispatch that no batch will come for."""
        return self.parts.line.waits

    @property
    def flaw(self) -> FormatError | None:
        """Return what is wrong past the log's end, as far as it was noticed."""
        return self.parts.flaws.found

    def look_for_flaw(self) -> None:
        """Look at what follows the log's end, unless that was done; `flaw` is what was found."""
        self.parts.flaws.look()

    def begin_with(self, known: Progress, places: tuple[tuple[int, int], ...] = ()) -> None:
        """Continue from files that were put into an output after it was opened, with nothing in it.

        Args:
            known: what is known of them.
            places: physical offsets [start, end) to pass over as far as they still cannot be read.
        """
        self.parts.gaps.known_places = places
        self.parts.output.begin_with(known)

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
            observe: called with each block that is written whole.
            is_over: asked after each block whether to end there.

        Raises:
            ReputError: a corrupt record, data loss, a queue that cannot have a directory.
            OSError: the output cannot be written; what it was doing counts as not done.
        """
        return self.parts.line.dispatch(end, observe or _ignore, is_over or _never)

    def dispatch_waiting(self) -> Batch:
        """Dispatch what was held back, see `waits`."""
        return self.dispatch(self.parts.line.waiting_end())

    def follow(self) -> Batch | None:
        """Look whether the log was cut though nothing new is at its end, and follow it then.

        Call it often while nothing is dispatched; it looks twice a second at most.

        Returns:
            What was dispatched; None if nothing had happened.

        Raises:
            ReputError, OSError: as `dispatch`.
        """
        parts = self.parts
        if not parts.output.is_consistent:
            return None
        has_happened = parts.following.look_at_rest()
        if has_happened:
            return self.dispatch(max(parts.reach.end(), self.progress.end))
        is_more_flushed = has_happened is not None and parts.reach.has_grown()
        return self.dispatch_waiting() if is_more_flushed else None

    def catch_up(self, batches: list[Batch]) -> None:
        """Dispatch what no batch comes for: after a cut, and what was held back.

        Args:
            batches: gets what was dispatched, also where an error ends this.

        Raises:
            ReputError, OSError: as `dispatch`.
        """
        if (batch := self.follow()) is not None:
            batches.append(batch)
        if self.waits:
            batches.append(self.dispatch_waiting())

    def take_ended(self) -> list[Batch]:
        """Return what a batch did that ended with an error, and what to tell an operator of it."""
        return self.parts.line.take_ended()

    def take_phases(self) -> dict[str, float]:
        """Return the seconds spent since this was last called, by phase; no zeros."""
        return self.parts.stopwatch.take()

    def drain_kafka(
        self,
        is_over: Callable[[], bool],
        *,
        says_lack: bool = True,
        batches: list[Batch] | None = None,
    ) -> bool:
        """Wait until Kafka has all that there is to dispatch.

        Args:
            is_over: asked now and then whether to give up.
            says_lack: giving up is an error.
            batches: gets what is dispatched meanwhile.

        Returns:
            Whether Kafka has it.

        Raises:
            ReputError, OSError: as `dispatch`.
        """
        kafka, dispatched = self.parts.kafka, batches if batches is not None else []
        while kafka.feed is not None and not is_over():
            if self.waits:
                dispatched.append(self.dispatch_waiting())
            elif kafka.is_done:
                break
            kafka.check_end()
            time.sleep(_DRAIN_SECONDS)
        lacking = kafka.lacks() if says_lack else None
        if lacking is not None:
            raise lacking
        return kafka.feed is None or (kafka.is_done and not self.waits)

    def flush_if_due(self) -> bool:
        """Flush what the policy says by now; call it also when nothing is dispatched.

        Returns:
            Whether everything was flushed.

        Raises:
            OSError: the device failed.
        """
        return self.parts.line.flush_if_due()

    def flush(self) -> None:
        """Sync all that was dispatched to disk, then record that it is there.

        Raises:
            OSError: the device failed.
        """
        self.parts.flushing.flush()

    def close(self) -> None:
        """Flush, remove the abort marker and give everything back.

        After a failed write the output is left like that of a killed writer: the next one
        rolls back what is beyond the progress.
        """
        output = self.parts.output
        try:
            if output.is_consistent:
                output.finish()
                self.parts.flushing.flush(clean=True)
                marking.clear_abort(self.config.output)
        finally:
            if not output.is_consistent and output.failure is not None:
                failure = output.failure
                where = f"{failure.filename}: " if failure.filename else ""
                marking.note_failure(self.config.output, f"{where}{failure.strerror or failure}")
            self.abandon()

    def abandon(self) -> None:
        """Give everything back without a flush, as if the writer was killed."""
        self._held_open.close()


def _ignore(_block: Block) -> None:
    """Take no notice of a block."""


def _never() -> bool:
    """End no batch early."""
    return False


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
