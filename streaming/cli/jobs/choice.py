"""What the options of `run` and `rebuild` come to: stores, the way to Kafka, how the job runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reput.formats.errors import UsageError
from reput.formats.rocketmq import broker
from reput.streaming.cli.store_choice import refuse_file
from reput.streaming.settings.config import store_config
from reput.streaming.settings.model.choices import CorruptMode, FlushMode, TailMode
from reput.streaming.settings.option_values import number_of_bytes, refuse_blank
from reput.streaming.settings.reput_toml import read_config
from reput.streaming.writers.job_options import JobOptions
from reput.streaming.writers.placement_mode import default_placement, submitted_master

if TYPE_CHECKING:
    from reput.streaming.cli.jobs.looks import Looks
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.settings.model.jobs import JobOptionsGiven


def configs_of(options: JobOptionsGiven, looks: Looks | None = None) -> list[StoreConfig]:
    """Return the stores that the options name.

    Args:
        options: as given.
        looks: ask disks; None where the command is to wait for a disk that hangs.

    Raises:
        UsageError: neither a store nor a file, both, or something wrong with them.
        OSError: no store's disk answers.
    """
    refuse_blank(options, "kafka_bootstrap")
    if options.config is not None:
        of_stores = (
            options.store,
            options.output,
            options.broker_version,
            options.broker_conf,
            options.commitlog,
            options.in_place or None,
            options.any_version or None,
        )
        if any(each is not None for each in of_stores):
            raise UsageError(
                "--config names the stores: leave --store, --output, --broker-version, "
                "--broker-conf, --commitlog, --in-place and --any-version out; each has its key "
                "there"
            )
        found = (
            read_config(options.config)
            if looks is None
            else read_config(options.config, silent=looks.silent)
        )
        return _with_kafka(found, options)
    if options.store is None:
        raise UsageError("say what to read with --store DIR, or name several with --config FILE")
    if looks is not None:
        _require_answer(options, looks)
    refuse_file("--store", options.store)
    return _with_kafka([_of_options(options)], options)


def _require_answer(options: JobOptionsGiven, looks: Looks) -> None:
    """Raise the error of the only store's places if their disk hangs.

    Raises:
        OSError: they do not answer.
    """
    given = (options.store, options.output, options.broker_conf, *(options.commitlog or ()))
    for error in filter(None, looks.silent([[each for each in given if each is not None]])):
        raise error


def _of_options(options: JobOptionsGiven) -> StoreConfig:
    assert options.store is not None
    version = options.broker_version
    return store_config(
        options.store,
        options.output,
        broker_version=broker.NEWEST if version is None else version,
        broker_conf=options.broker_conf,
        in_place=options.in_place,
        commitlog=options.commitlog or (),
        any_version=options.any_version,
    )


def _with_kafka(configs: list[StoreConfig], options: JobOptionsGiven) -> list[StoreConfig]:
    """Return stores with the way to Kafka that the options give, in place of the file's.

    Raises:
        UsageError: something is wrong with it.
    """
    if not options.kafka_bootstrap and not options.kafka:
        return configs
    # A client that few need.
    from reput.streaming.settings.kafka import kafka_settings, pairs

    values = pairs(options.kafka or [])
    bootstrap = options.kafka_bootstrap or values.get("bootstrap", "")
    found = kafka_settings({**values, "bootstrap": bootstrap})
    return [replace(config, kafka=found) for config in configs]


def job_options(
    options: JobOptionsGiven,
    *,
    available_now: bool,
    trigger_seconds: float = JobOptions.trigger_seconds,
    follow_seconds: float = JobOptions.follow_seconds,
) -> JobOptions:
    """Return how the job runs.

    Raises:
        UsageError: a size that is not one.
    """
    cap = options.max_batch_bytes
    return JobOptions(
        available_now=available_now,
        trigger_seconds=trigger_seconds,
        follow_seconds=follow_seconds,
        max_batch_bytes=None if cap is None else number_of_bytes(cap, "--max-batch-bytes "),
        threads=options.threads,
        flush_seconds=options.flush_seconds,
        sync_flush=options.flush == FlushMode.SYNC,
        fail_on_data_loss=options.fail_on_data_loss,
        skips_corrupt=options.on_corrupt == CorruptMode.SKIP,
        only_flushed=options.tail == TailMode.FLUSHED,
        removes_expired=options.delete_expired,
        placement=options.placement or default_placement(submitted_master()),
        checkpoint=options.spark_checkpoint,
    )
