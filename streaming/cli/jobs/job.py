"""Runs a job for the command: its signals, its session, its summary and its exit code.

An interrupted `rebuild` is not done, and says how far it got; so does a job that stops at damage of
the log. An interrupted `run` has ended in order, because it has no end of its own; but where part
of a log at rest is left, it says how far it got too.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from reput.checkpoints.progress import STATE_DIRECTORY
from reput.formats.errors import ReputError, UsageError
from reput.stores.log.places import commitlog_directories
from reput.streaming.endings.beside import beside
from reput.streaming.endings.exit_codes import INCOMPLETE, OK
from reput.streaming.endings.failures import FAILURES
from reput.streaming.endings.interruptions import Ending, again, leave_at_once, unbegun
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.events import ENDING
from reput.streaming.observe.error_kinds import kind_of
from reput.streaming.settings.config import refuse_places
from reput.streaming.settings.separate import refuse_checkpoint
from reput.streaming.show import bars
from reput.streaming.show.console import ERR, OUT
from reput.streaming.show.log_lines import report_openings
from reput.streaming.show.summaries import print_summary, summary_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from reput.streaming.cli.jobs.looks import Looks
    from reput.streaming.job.job import Job
    from reput.streaming.job.summary import Summary
    from reput.streaming.observe.metrics import Metrics
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.spark.launch import SessionStart
    from reput.streaming.writers.job_options import JobOptions

LOG = logging.getLogger("reput")


def run_job(
    configs: Sequence[StoreConfig],
    options: JobOptions,
    *,
    as_json: bool,
    shows_progress: bool = False,
    metrics: Metrics | None = None,
    conf: Mapping[str, str] | None = None,
    looks: Looks | None = None,
) -> int:
    """Run the job, print its summary and return the exit code.

    A disk that hangs is waited for, unless there are `looks`.

    Raises:
        ReputError, OSError: what stopped it; what was dispatched before stays.
    """
    from reput.streaming.spark.session import QUICK_START, begin_session, leave_directory_alone

    leave_directory_alone()
    # Its JVM takes a second to start; what follows is slow to import as well.
    starting = begin_session("reput", **QUICK_START, **(conf or {}))
    ending = Ending(say_ending)
    with ending.watching():
        job = _made(configs, options, looks)
        if metrics is not None:
            job.report_to(metrics)
        report_openings(job)
        ending.passes_to(_stop_of(job, metrics))
        job.prepare()
        try:
            summary = _dispatch(job, starting, ending, shows_progress=shows_progress)
        except ReputError as error:
            _tell_done(job, error, as_json=as_json)
            if all(kind_of(error, config) == "corrupt" for config in configs):
                # At damage of a log; what is before it is done.
                FAILURES.code = INCOMPLETE
            raise
    return _conclude(configs, options, job, summary, ending, as_json=as_json)


def _stop_of(job: Job, metrics: Metrics | None) -> Callable[[], None]:
    """Return what asks a job to end; its metrics then wait for no further scrape."""

    def stop() -> None:
        job.stop()
        if metrics is not None:
            metrics.end_waiting()

    return stop


def _made(configs: Sequence[StoreConfig], options: JobOptions, looks: Looks | None) -> Job:
    """Return the job, which has opened its outputs.

    Raises:
        ReputError, OSError: one of them cannot be opened, or is not to be.
    """
    from reput.streaming.job.job import Job

    refuse_checkpoint(options.checkpoint, [each for each in configs if not each.is_unchecked])
    checked = _checked(configs, looks)
    # A broker does not know our files: none of them goes into its store.
    FAILURES.writes(each.output / STATE_DIRECTORY for each in configs if not each.in_place)
    return Job(checked, options)


def _checked(configs: Sequence[StoreConfig], looks: Looks | None) -> list[StoreConfig]:
    """Return stores that may be dispatched; one that cannot be looked at is checked by its writer.

    Raises:
        UsageError: a store's own index is of another version than the one given.
        ReputError, OSError: the only store cannot be looked at, or one that is rebuilt.
    """
    from reput.streaming.verify.version_seen import refuse_version_of_store

    if looks is None:
        for config in configs:
            refuse_version_of_store(config)
        return list(configs)

    def check(config: StoreConfig) -> None:
        if config.is_unchecked:
            refuse_places(config)
        # Nothing tells the version of a store that is not there.
        commitlog_directories(config.path, config.settings)
        refuse_version_of_store(config)

    checked = []
    for config, found in zip(configs, looks.ask(check, configs), strict=True):
        is_in_doubt = isinstance(found, Exception)
        if is_in_doubt and (isinstance(found, UsageError) or len(configs) == 1):
            raise found
        checked.append(replace(config, check=partial(check, config) if is_in_doubt else None))
    return checked


def conclude_unbegun(
    configs: Sequence[StoreConfig], ending: Ending, looks: Looks, *, as_json: bool
) -> int:
    """Print the summary of a job that was ended before it began, and return the exit code.

    Raises:
        OutputError: standard output does not take it.
    """
    from reput.streaming.job.reach import may_have_more
    from reput.streaming.job.summary import StoreSummary, Summary

    # Of one that does not answer nothing is known to be done.
    is_left = any(each is not False for each in looks.ask(may_have_more, configs))
    code = FAILURES.answered(INCOMPLETE if is_left else OK)
    said = [unbegun(ending.name)] if is_left else []
    summary = Summary([StoreSummary(config.name) for config in configs], is_live=True)
    print_summary(
        summary, as_json=as_json, left=said, is_complete=not is_left, has_queues=not is_left
    )
    for line in said:
        ERR.print(f"reput: {line}", markup=False, soft_wrap=True)
    return code


def say_ending(name: str) -> None:
    """Log that a signal came, and that the job ends by it."""
    LOG.info("%s: ending in order", name, extra={"event": ENDING, "signal": name})


def _dispatch(job: Job, starting: SessionStart, ending: Ending, *, shows_progress: bool) -> Summary:
    from reput.streaming.source.datasource import register
    from reput.streaming.spark.errors import naming_its_end
    from reput.streaming.spark.session import end_session

    with naming_its_end():
        spark = beside(starting.session, lambda: bool(ending.name))
        if spark is None:
            # Its start continues in a thread, and ends with this process.
            leave_at_once()
            return job.abandon()
        try:
            # What stops the job is said once, by us; Spark's account of it is a page of Scala.
            spark.sparkContext.setLogLevel("WARN" if VERBOSITY.more > 1 else "OFF")
            register(spark)
            with bars.progress(job) if shows_progress else contextlib.nullcontext():
                return job.run(spark)
        finally:
            _end_session(spark, end_session, ending)


def _end_session(
    spark: SparkSession, end_session: Callable[[SparkSession], None], ending: Ending
) -> None:
    from py4j.protocol import Py4JError

    # Where the signal was for Spark as well, it may have ended by itself.
    is_expected = (Py4JError, ConnectionError) if ending.name else ()
    with contextlib.suppress(*is_expected):
        end_session(spark)


def _tell_done(job: Job, error: ReputError, *, as_json: bool) -> None:
    """Print what was done by a job that has ended for Kafka, or have it printed with the error."""
    done = job.done_before(error)
    if done is None:
        return
    has_all = job.has_dispatched_all
    if as_json:
        FAILURES.done = summary_document(done, is_complete=False, has_queues=has_all)
        return
    print_summary(done, as_json=False)
    if has_all:
        OUT.print("consume queues and index are complete; Kafka lacks some of the log")


def _conclude(
    configs: Sequence[StoreConfig],
    options: JobOptions,
    job: Job,
    summary: Summary,
    ending: Ending,
    *,
    as_json: bool,
) -> int:
    """Print what was done, and what was not."""
    from reput.streaming.job.reach import nobody_writes, shortfalls

    left = []
    if options.available_now or ending.name:
        left = shortfalls(
            configs,
            summary,
            job.known_ends,
            is_interrupted=bool(ending.name),
            only_flushed=options.only_flushed,
        )
    behind = [each for each in left if each.end < each.log_end]
    if not options.available_now:
        # Part of a log that is being written is always left: that is said, and no failure.
        of = {config.name: config for config in configs}
        left = [each for each in behind if nobody_writes(of[each.name])]
    code = FAILURES.answered(INCOMPLETE if left else OK)
    why = f"{ending.name}: ended" if ending.name else "ended"
    said = [f"{why} before the log's end. {each}" for each in left]
    if left:
        said.append(f"it resumes there when it is run again: {again()}")
    print_summary(
        summary, as_json=as_json, left=said, is_complete=not (left or behind), has_queues=not behind
    )
    written = [f"{why} beside its broker. {each}" for each in behind if each not in left]
    for line in said + written:
        ERR.print(f"reput: {line}", markup=False, soft_wrap=True)
    return code
