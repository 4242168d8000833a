"""`reput run`: a live store, until the job is stopped."""

from __future__ import annotations

import contextlib
import logging
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import typer

from reput.streaming import events
from reput.streaming.cli.jobs.choice import configs_of, job_options
from reput.streaming.cli.jobs.looks import Looks
from reput.streaming.dispatch.resuming.first_message import is_awaited
from reput.streaming.endings.interruptions import Ending
from reput.streaming.observe.access import Access
from reput.streaming.settings.model.choices import LogMode, Placement
from reput.streaming.settings.model.jobs import RunOptions
from reput.streaming.settings.option_values import number_of_bytes, refuse_blank
from reput.streaming.settings.reput_toml import in_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.streaming.observe.metrics import Metrics
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.job_options import JobOptions

LOG = logging.getLogger("reput")
_LOOK_SECONDS = 0.2


def run(options: RunOptions) -> None:
    """Dispatch a live store until stopped: SIGTERM and Ctrl-C end it after the current block.

    Exit code 4: the log is damaged, and the error names the place and what to do; or it was
    interrupted with part of a log left that nobody writes: run it again.

    Example: `reput run --store /data/rocketmq/store --output /data/reput --broker-version 5.3`
    """
    refuse_blank(options, "metrics_host", "cluster")
    looks = Looks()
    configs = configs_of(options, looks)
    # The progress bar is slow to import.
    from reput.streaming.show.log_lines import log_to_stderr, report_settings

    job = job_options(
        options,
        available_now=False,
        trigger_seconds=options.trigger_seconds,
        follow_seconds=options.follow_seconds,
    )
    words = None if options.config is None else in_keys
    log_to_stderr(as_json=options.log_format == LogMode.JSON, words=words)
    ready_bytes = number_of_bytes(options.ready_behind, "--ready-behind ")
    access = _access_of(options)
    access.check()
    report_settings(configs, job, _banner(options, access, ready_bytes))
    with contextlib.ExitStack() as stack:
        metrics = None
        if options.metrics_port is not None:
            from reput.streaming.cli.jobs.serving import scraped_to_the_end, serving

            metrics = stack.enter_context(serving(configs, options, ready_bytes, access))
            stack.enter_context(scraped_to_the_end(metrics, options.final_scrape_seconds))
        code = _run(configs, options, job, metrics, looks)
    LOG.info("ended", extra={"event": events.ENDED})
    raise typer.Exit(code)


def _access_of(options: RunOptions) -> Access:
    return Access(
        options.metrics_tls_cert,
        options.metrics_tls_key,
        options.metrics_tls_client_ca,
        options.metrics_token_file,
        options.metrics_basic_auth_file,
    )


def _banner(options: RunOptions, access: Access, ready_bytes: int) -> dict[str, object]:
    """Return what the first log line says beside the job's options."""
    is_on = options.metrics_port is not None
    return {
        "version": version("reput"),
        "spark": version("pyspark"),
        "cluster": options.cluster or "by broker.conf",
        "ready_behind": ready_bytes,
        "metrics": f"{options.metrics_host}:{options.metrics_port}" if is_on else "off",
        "metrics_protection": access.summary,
    }


def _run(
    configs: Sequence[StoreConfig],
    options: RunOptions,
    job: JobOptions,
    metrics: Metrics | None,
    looks: Looks,
) -> int:
    """Wait for the logs, run the job, and return the exit code."""
    from reput.streaming.cli.jobs.job import conclude_unbegun, run_job, say_ending

    conf = {}
    if options.spark_metrics_port is not None:
        from reput.streaming.spark.session import metrics_settings

        conf = metrics_settings(options.metrics_host, options.spark_metrics_port)
    ending = Ending(say_ending)
    with ending.watching():
        _wait_for_logs(configs, job, metrics, ending, looks)
    if ending.name:
        return conclude_unbegun(configs, ending, looks, as_json=options.as_json)
    return run_job(configs, job, as_json=options.as_json, metrics=metrics, conf=conf, looks=looks)


def _wait_for_logs(
    configs: Sequence[StoreConfig],
    job: JobOptions,
    metrics: Metrics | None,
    ending: Ending,
    looks: Looks,
) -> None:
    """Return once the job can begin, or a signal came.

    A broker makes its commitlog with its first message. A store's thread waits for that by itself;
    where writers are on executors, the job waits for all stores.

    Raises:
        StoreError: none of them is a store.
    """
    said: set[str] = set()
    while not ending.name:
        awaited = _awaited(configs, looks)
        if not awaited or (job.placement is Placement.DRIVER and len(awaited) < len(configs)):
            return
        for name in awaited - said:
            LOG.info("%s: waiting for the first message", name)
        said |= awaited
        if metrics is not None:
            metrics.awaits_logs(awaited)
        time.sleep(_LOOK_SECONDS)


def _awaited(configs: Sequence[StoreConfig], looks: Looks) -> set[str]:
    """Return the names of stores without a first message.

    Raises:
        ReputError, OSError: none of them is a store that answers.
    """
    found = looks.ask(is_awaited, configs)
    # The writer of such a store finds the same, tells it and tries again.
    failures = [each for each in found if isinstance(each, Exception)]
    if len(failures) == len(configs):
        raise failures[0]
    return {config.name for config, is_one in zip(configs, found, strict=True) if is_one is True}
