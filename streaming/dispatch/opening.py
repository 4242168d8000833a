"""Opens the parts of one store's dispatch; each relies on the ones before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.checkpoints.disk import changes, locks, marking
from reput.sinks.files.queues import QueueDirectory
from reput.stores.following import heartbeat
from reput.stores.following.vouch import Vouch
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.streaming.dispatch.admission import Admission
from reput.streaming.dispatch.blocks.pipeline import Pipeline
from reput.streaming.dispatch.books import Books
from reput.streaming.dispatch.flushing import Flushing
from reput.streaming.dispatch.kafka import Kafka, open_kafka
from reput.streaming.dispatch.line import Line
from reput.streaming.dispatch.live_settings import LiveSettings
from reput.streaming.dispatch.log.flaws import Flaws
from reput.streaming.dispatch.log.following import Following
from reput.streaming.dispatch.log.gaps import Gaps
from reput.streaming.dispatch.log.reach import FlushedReach, Reach
from reput.streaming.dispatch.log.reader import Reader
from reput.streaming.dispatch.log.stale_numbers import StaleNumbers
from reput.streaming.dispatch.news import News
from reput.streaming.dispatch.output import Output
from reput.streaming.dispatch.resuming import resume
from reput.streaming.dispatch.resuming.recovery import Recovery
from reput.streaming.dispatch.stopwatch import Stopwatch
from reput.streaming.settings.dispatching import Dispatching
from reput.streaming.settings.one_disk import refuse_two_disks

if TYPE_CHECKING:
    import contextlib

    from reput.stores.following.heartbeat import Heartbeat
    from reput.streaming.settings.config import FlushPolicy, StoreConfig


@dataclass(frozen=True, kw_only=True)
class Options(Dispatching):
    """How one store is dispatched, and when what is written has to be on disk."""

    flush: FlushPolicy


@dataclass(frozen=True)
class Ground:
    """What is open before anything is written.

    Attributes:
        log: the store's.
        heartbeat: tells that this process stood still.
        live: what the broker's files say of topics and filters.
        queues: numbers of queues.
        books: how far dispatch is.
        pipeline: parses the log.
        news: what is to be told.
        stopwatch: where the time goes.
    """

    log: CommitLog
    heartbeat: Heartbeat
    live: LiveSettings
    queues: QueueDirectory
    books: Books
    pipeline: Pipeline
    news: News
    stopwatch: Stopwatch


@dataclass(frozen=True)
class Parts(Ground):
    """All of it, tied together.

    Attributes:
        admission: decides which records may be dispatched.
        output: the files.
        gaps: what is left out of them.
        reach: up to where the log may be dispatched.
        flaws: what is wrong past the log's end.
        flushing: makes the files durable.
        kafka: is told beside the line.
        following: keeps the output in step with its log.
        reader: hands out blocks.
        line: leads records through all of these.
    """

    admission: Admission
    output: Output
    gaps: Gaps
    reach: Reach
    flaws: Flaws
    flushing: Flushing
    kafka: Kafka
    following: Following
    reader: Reader
    line: Line


def _open_ground(config: StoreConfig, threads: int, opened: contextlib.ExitStack) -> Ground:
    """Lock a store's output, and find where it resumes.

    Args:
        config: the store.
        threads: that parse.
        opened: gets what is to be given back.

    Raises:
        StoreError: what is wrong with the store or the output.
        OSError: no permission, no space.
    """
    settings = config.settings
    log = CommitLog(commitlog_directories(config.path, settings), settings, config.path)
    opened.callback(log.close)
    resume.check_output(config.output)
    refuse_two_disks(config.output)
    _lock(config, opened)
    beat = opened.enter_context(heartbeat.shared())
    live = LiveSettings(config.path, config.output, settings)
    queues = QueueDirectory(live.needs_slow_path)
    pipeline = Pipeline(log, queues, settings, threads)
    recovery = Recovery()
    known = resume.resume(config, log, recovery)
    live.begin(known.store_timestamp if known.messages else None)
    live.save()
    books = Books(log, known, recovery)
    return Ground(log, beat, live, queues, books, pipeline, News(), Stopwatch())


def _lock(config: StoreConfig, opened: contextlib.ExitStack) -> None:
    """Lock an output against other writers, and a store that is written in place."""
    if config.in_place:
        opened.enter_context(locks.lock_store(config.path))
    staging = config.output / progress.STATE_DIRECTORY
    changes.make_directories(staging)
    # Also those of an earlier writer, which may have ended before it could.
    changes.sync_names(staging)
    opened.enter_context(locks.lock_output(staging))


def open_parts(config: StoreConfig, options: Options, opened: contextlib.ExitStack) -> Parts:
    """Open an output for writing, and tie the line together.

    Args:
        config: the store.
        options: how it is dispatched.
        opened: gets what is to be given back.

    Raises:
        StoreError: what is wrong with the store or the output.
        UsageError: a secret for Kafka is not where it should be.
        OSError: no permission, no space.
    """
    on = _open_ground(config, options.threads, opened)
    admission = Admission(config, on.log, on.books, on.queues, on.live, on.news)
    output = Output(
        config, on.log, on.books, on.pipeline, on.queues, on.live, admission, on.stopwatch
    )
    opened.callback(output.close)
    opened.callback(on.pipeline.close)
    gaps = _open_gaps(config, options, on)
    reach = _open_reach(config, options, on, gaps)
    flaws = Flaws(config, on.log, on.books, on.news, skips_corrupt=options.skips_corrupt)
    vouch = Vouch(on.log, config.path, on.heartbeat)
    flushing = _begin_record(config, options, on, output)
    kafka = open_kafka(config, on.books.progress, fail_on_data_loss=options.fail_on_data_loss)
    opened.callback(kafka.close)
    following = Following(
        config, on.log, on.books, output, vouch, on.live, admission, gaps, reach, flaws, on.news
    )
    stale = StaleNumbers(config, on.books, output, on.pipeline, on.queues, on.live, on.news)
    reader = Reader(on.log, on.pipeline, on.books, output, kafka, following, reach, gaps, stale)
    line = Line(
        following, reach, reader, admission, output, on.books, flushing, flaws, kafka, on.news,
        on.stopwatch,
    )  # fmt: skip
    return Parts(
        **vars(on), admission=admission, output=output, gaps=gaps, reach=reach, flaws=flaws,
        flushing=flushing, kafka=kafka, following=following, reader=reader, line=line,
    )  # fmt: skip


def _open_gaps(config: StoreConfig, options: Options, on: Ground) -> Gaps:
    gaps = Gaps(
        config,
        on.log,
        on.books,
        on.pipeline,
        on.news,
        fail_on_data_loss=options.fail_on_data_loss,
        skips_corrupt=options.skips_corrupt,
    )
    gaps.say_readable(on.live)
    return gaps


def _open_reach(config: StoreConfig, options: Options, on: Ground, gaps: Gaps) -> Reach:
    if not options.only_flushed:
        return Reach(on.log, on.books, gaps)
    reach = FlushedReach(on.log, on.books, gaps, config.path)
    reach.doubt(is_cut=on.books.recovery.truncations > 0)
    return reach


def _begin_record(config: StoreConfig, options: Options, on: Ground, output: Output) -> Flushing:
    """Record that a writer has begun: a broker that finds its mark recovers these files."""
    flushing = Flushing(
        config,
        on.log,
        on.books,
        output,
        options.flush,
        removes_expired=options.removes_expired,
    )
    marking.set_abort(config.output, config.output / progress.STATE_DIRECTORY)
    flushing.save(clean=False)
    return flushing
