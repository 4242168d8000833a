"""Options of `reput run` and `reput rebuild`: how a job writes, and what stops it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.streaming.settings.model.choices import CorruptMode, FlushMode, Placement, TailMode
from reput.streaming.settings.model.monitoring import Monitoring
from reput.streaming.settings.model.option import ENDING, KAFKA, SPARK, WRITING, Chart, Option
from reput.streaming.settings.model.saying import Json
from reput.streaming.settings.model.stores import JobStores


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How a job writes, on disk and to Kafka."""

    max_batch_bytes: Annotated[
        str | None,
        Option(
            unit="bytes",
            panel=WRITING,
            chart=Chart("run.maxBatchBytes"),
            help="Soft limit of a batch while catching up, such as 256m. [default: 8g; on "
            "executors 512m for each core, and 1g for each store]",
        ),
    ] = None
    threads: Annotated[
        int,
        Option(
            least=1,
            panel=WRITING,
            chart=Chart("run.threads"),
            help="Threads that parse, per store.",
        ),
    ] = 2
    flush: Annotated[
        FlushMode,
        Option(
            panel=WRITING,
            chart=Chart("run.flush"),
            help="sync: after every batch. async: as a broker does, queues with enough new pages "
            "every second (flushIntervalConsumeQueue, flushConsumeQueueLeastPages), everything "
            "every --flush-seconds.",
        ),
    ] = FlushMode.ASYNC
    flush_seconds: Annotated[
        float | None,
        Option(
            unit="seconds",
            least=0.1,
            panel=WRITING,
            chart=Chart("run.flushSeconds"),
            help="Flush everything to disk and record progress every this many seconds. "
            "[default: the broker's flushConsumeQueueThoroughInterval, 60]",
        ),
    ] = None
    fail_on_data_loss: Annotated[
        bool,
        Option(
            off="--no-fail-on-data-loss",
            panel=ENDING,
            chart=Chart("run.failOnDataLoss"),
            help="Stop where records expired before they were dispatched, or continue after them.",
        ),
    ] = True
    on_corrupt: Annotated[
        CorruptMode,
        Option(
            panel=ENDING,
            chart=Chart("run.onCorrupt"),
            help="stop: at a corrupt record, or a file that is missing or too short. skip: resume "
            "at the next provably valid record; what was passed over is copied to "
            ".reput/quarantine in the output, and counted.",
        ),
    ] = CorruptMode.STOP
    tail: Annotated[
        TailMode,
        Option(
            panel=ENDING,
            chart=Chart("run.tail"),
            help="visible: every record that is whole. flushed: only what the broker has on disk, "
            "by its checkpoint file; it lags by ten seconds or more.",
        ),
    ] = TailMode.VISIBLE
    delete_expired: Annotated[
        bool,
        Option(
            panel=WRITING,
            chart=Chart("run.deleteExpired"),
            help="Remove files of the output whose records have all expired, by the broker's "
            "rules.",
        ),
    ] = False
    placement: Annotated[
        Placement | None,
        Option(
            panel=SPARK,
            help="driver: the job's driver writes all stores. executors: a process beside an "
            "executor writes each, so that a cluster shares them. [default: driver in local mode, "
            "executors with a cluster]",
        ),
    ] = None
    spark_checkpoint: Annotated[
        Path | None,
        Option(
            panel=SPARK,
            chart=Chart("sparkCheckpoint", is_value=False),
            help="Where Spark keeps its own record, which it begins again at each start. "
            "[default: in the output]",
        ),
    ] = None
    kafka_bootstrap: Annotated[
        str | None,
        Option(
            panel=KAFKA,
            chart=Chart("kafka.settings.bootstrap", is_value=False),
            help="Send the messages to Kafka at HOST:PORT too, exactly once. [default: off]",
        ),
    ] = None
    kafka: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=VALUE",
            panel=KAFKA,
            chart=Chart("kafka.settings", is_value=False),
            help="A setting of the way to Kafka, such as include=orders* or partition_by=key. "
            "Repeat it for each. docs/kafka.md has them all; secrets are given by file or "
            "environment.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class JobOptionsGiven(Writing, JobStores):
    """What `run` and `rebuild` have in common."""


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(JobOptionsGiven):
    """Options of `reput rebuild`."""

    repair: Annotated[
        bool,
        Option(
            panel=WRITING,
            help="Mend the output: make again from the log what is missing, damaged or set back, "
            "keep what is right, and verify. Needs room for a second copy of the output.",
        ),
    ] = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class RunOptions(Monitoring, JobOptionsGiven):
    """Options of `reput run`."""

    trigger_seconds: Annotated[
        float,
        Option(
            unit="seconds",
            least=0.0,
            panel=WRITING,
            chart=Chart("run.triggerSeconds"),
            help="Least time from one batch of Spark's to the next. Logs are followed meanwhile.",
        ),
    ] = 0.0
    follow_seconds: Annotated[
        float,
        Option(
            unit="seconds",
            least=0.1,
            most=60.0,
            panel=WRITING,
            chart=Chart("run.followSeconds"),
            help="A batch of Spark follows the logs for this long. Longer: Spark plans less often, "
            "and costs less.",
        ),
    ] = 5.0
    as_json: Json = False
