"""The command `reput`: arguments in, exit codes out; the work is done elsewhere."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import time
from dataclasses import replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from reput.formats.errors import ReputError, UsageError
from reput.formats.rocketmq import broker
from reput.stores.lazy import lazy_module
from reput.streaming import events
from reput.streaming.cli import completions, export, help_pages, inspect, query, topics
from reput.streaming.cli.help_pages import App, Quiet, Verbose
from reput.streaming.cli.store_choice import Config as StoreFile
from reput.streaming.cli.store_choice import (
    LogPlaces,
    Store,
    StoreName,
    of_file,
    refuse_empty,
    refuse_file,
    required,
    tell,
)
from reput.streaming.dispatch.first_message import is_awaited
from reput.streaming.endings import interruptions
from reput.streaming.endings.exit_codes import FAILED, FINDINGS, INCOMPLETE, OK, USAGE
from reput.streaming.endings.failures import FAILURES, drop_output
from reput.streaming.endings.verbosity import VERBOSITY
from reput.streaming.observe.access import Access
from reput.streaming.settings.config import StoreConfig, in_keys, read_config, store_config
from reput.streaming.settings.option_values import CorruptMode
from reput.streaming.writers.job_options import JobOptions
from reput.streaming.writers.placement_mode import Placement, default_placement, submitted_master

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.streaming.observe.metrics import Metrics
    from reput.streaming.show import console
else:
    console = lazy_module("reput.streaming.show.console")

LOG = logging.getLogger("reput")
_LOOK_SECONDS = 0.2


class FlushMode(StrEnum):
    """When what is written has to be on disk."""

    SYNC = "sync"
    ASYNC = "async"


class LogMode(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class TailMode(StrEnum):
    """Where a live log ends."""

    VISIBLE = "visible"
    FLUSHED = "flushed"


app = App(
    name="reput",
    help="""
Dispatch RocketMQ commitlogs: build the consume queues, index files and checkpoint that a broker
would have written, byte for byte, with Spark Structured Streaming. And ask a store by key, id,
offset or time, without a broker.

Begin with `reput demo`. `reput COMMAND --help` explains a command, with an example.

Exit codes: 0 fine, 1 findings (verify) or nothing found (query), 2 wrong usage, 3 failed, 4
incomplete: interrupted, stopped at damage of the log, something is missing, or no index to look in.
""",
)

_COMPLETE = "_REPUT_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"reput {version('reput')}")
        raise typer.Exit(OK)


def _show_completion(shell: str | None) -> None:
    if shell is None:
        return
    if shell not in _SHELLS:
        raise UsageError(f"--show-completion {shell!r} is none of {', '.join(_SHELLS)}")
    from typer.completion import (  # type: ignore[attr-defined]  # noqa: PLC0415
        get_completion_script,
    )

    print(get_completion_script(prog_name="reput", complete_var=_COMPLETE, shell=shell))
    raise typer.Exit(OK)


@app.callback()
def begin(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            callback=_show_version,
            is_eager=True,
            show_default=False,
            rich_help_panel=help_pages.SAYING,
            help="Print the version.",
        ),
    ] = False,
    _completion: Annotated[
        str | None,
        typer.Option(
            "--show-completion",
            metavar="bash|zsh|fish",
            callback=_show_completion,
            is_eager=True,
            autocompletion=lambda: list(_SHELLS),
            rich_help_panel=help_pages.SAYING,
            help="Print what makes this shell complete commands, options and their values: "
            "`source <(reput --show-completion bash)`.",
        ),
    ] = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Take what stands before a command's name."""
    VERBOSITY.add(verbose, is_quiet=quiet)


Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        rich_help_panel=help_pages.WRITING,
        help="Where to write: a directory of its own, made if need be.",
    ),
]
Written = Annotated[
    Path | None,
    typer.Option(
        "--output",
        rich_help_panel=help_pages.READING,
        help="What reput has written, if that is not in the store itself.",
    ),
]
Version = Annotated[
    str | None,
    typer.Option(
        "--broker-version",
        autocompletion=completions.versions,
        rich_help_panel=help_pages.READING,
        help=f"The broker whose rules count: {', '.join(broker.VERSIONS)} (or 5.3.3, 4.9.8 …). "
        f"[default: {broker.NEWEST}]",
    ),
]
Conf = Annotated[
    Path | None,
    typer.Option(
        "--broker-conf",
        rich_help_panel=help_pages.READING,
        help="The broker's own properties file; sizes, delay levels and switches count from it.",
    ),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        rich_help_panel=help_pages.WRITING,
        help="Write into the store itself: only without abort file and under the broker's lock.",
    ),
]
AnyVersion = Annotated[
    bool,
    typer.Option(
        "--any-version",
        rich_help_panel=help_pages.READING,
        help="Take the version as given though the store's own index looks like another's: the "
        "broker was upgraded since it wrote that.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        rich_help_panel=help_pages.READING,
        help="A reput.toml with [[store]] tables: several stores in one job.",
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        rich_help_panel=help_pages.SHOWING,
        help="Print one JSON document instead of tables.",
    ),
]
BatchBytes = Annotated[
    str | None,
    typer.Option(
        "--max-batch-bytes",
        rich_help_panel=help_pages.WRITING,
        help="Soft limit of a batch while catching up, such as 256m. [default: 8g; on executors "
        "512m for each core, and 1g for each store]",
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        min=1,
        rich_help_panel=help_pages.WRITING,
        help="Threads that parse, per store.",
    ),
]
FlushSeconds = Annotated[
    float | None,
    typer.Option(
        "--flush-seconds",
        min=0.1,
        rich_help_panel=help_pages.WRITING,
        help="Have everything written on disk, and recorded, so often. "
        "[default: the broker's flushConsumeQueueThoroughInterval, 60]",
    ),
]
Flush = Annotated[
    FlushMode,
    typer.Option(
        "--flush",
        rich_help_panel=help_pages.WRITING,
        help="sync: after every batch. async: as a broker does, queues with enough new pages "
        "every second (flushIntervalConsumeQueue, flushConsumeQueueLeastPages), everything "
        "every --flush-seconds.",
    ),
]
OnCorrupt = Annotated[
    CorruptMode,
    typer.Option(
        "--on-corrupt",
        rich_help_panel=help_pages.ENDING,
        help="stop: at a corrupt record, or a file that is missing or too short. skip: go on at "
        "the next provably valid record; what was passed over is copied to "
        ".reput/quarantine in the output, and counted.",
    ),
]
Expired = Annotated[
    bool,
    typer.Option(
        "--delete-expired",
        rich_help_panel=help_pages.WRITING,
        help="Remove files of the output whose records have all expired, by the broker's rules.",
    ),
]
Tail = Annotated[
    TailMode,
    typer.Option(
        "--tail",
        rich_help_panel=help_pages.ENDING,
        help="visible: every record that is whole. flushed: only what the broker has on disk, "
        "by its checkpoint file; ten seconds behind or more.",
    ),
]
DataLoss = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        rich_help_panel=help_pages.ENDING,
        help="Stop where records have expired before they were dispatched, or go on after them.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=0,
        max=65535,
        rich_help_panel=help_pages.MONITORING,
        help="Answer /metrics (Prometheus), /healthz and /readyz on this port. [default: off]",
    ),
]
MetricsHost = Annotated[
    str,
    typer.Option(
        "--metrics-host",
        rich_help_panel=help_pages.MONITORING,
        help="The address that the port is opened on.",
    ),
]
MetricsFile = Path | None
TlsCert = Annotated[
    MetricsFile,
    typer.Option(
        "--metrics-tls-cert",
        rich_help_panel=help_pages.MONITORING,
        help="PEM file: the port speaks TLS with this certificate.",
    ),
]
TlsKey = Annotated[
    MetricsFile,
    typer.Option(
        "--metrics-tls-key",
        rich_help_panel=help_pages.MONITORING,
        help="PEM file of the certificate's key.",
    ),
]
TlsClients = Annotated[
    MetricsFile,
    typer.Option(
        "--metrics-tls-client-ca",
        rich_help_panel=help_pages.MONITORING,
        help="PEM file: /metrics is for clients with a certificate signed by one of these CAs.",
    ),
]
TokenFile = Annotated[
    MetricsFile,
    typer.Option(
        "--metrics-token-file",
        rich_help_panel=help_pages.MONITORING,
        help="/metrics answers only those who send this bearer token.",
    ),
]
BasicAuthFile = Annotated[
    MetricsFile,
    typer.Option(
        "--metrics-basic-auth-file",
        rich_help_panel=help_pages.MONITORING,
        help="/metrics answers only those who send the user and password of this file's line "
        "user:password. With a token file too, either will do.",
    ),
]
ReadyBehind = Annotated[
    str,
    typer.Option(
        "--ready-behind",
        rich_help_panel=help_pages.MONITORING,
        help="/readyz says no when a store is further behind.",
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        rich_help_panel=help_pages.MONITORING,
        help="The brokers' cluster, a label of all metrics. [default: each store's "
        "brokerClusterName in its broker.conf, or DefaultCluster]",
    ),
]
ByQueue = Annotated[
    bool,
    typer.Option(
        "--metrics-by-queue",
        rich_help_panel=help_pages.MONITORING,
        help="Have a series for each queue too: as many as there are queues, so off by default. "
        "With --placement driver only.",
    ),
]
FinalScrape = Annotated[
    float,
    typer.Option(
        "--final-scrape-seconds",
        min=0.0,
        rich_help_panel=help_pages.MONITORING,
        help="After an error, answer /metrics until one more scrape, at most this long: "
        "otherwise nobody sees the error counted.",
    ),
]
SparkMetricsPort = Annotated[
    int | None,
    typer.Option(
        "--spark-metrics-port",
        min=1,
        max=65535,
        rich_help_panel=help_pages.SPARK,
        help="Have Spark's own metrics at /metrics/prometheus/ on this port of --metrics-host, "
        "and its user interface. [default: off]",
    ),
]
LogFormat = Annotated[
    LogMode,
    typer.Option(
        "--log-format", rich_help_panel=help_pages.MONITORING, help="Log lines as text or as JSON."
    ),
]
PlacementMode = Annotated[
    Placement | None,
    typer.Option(
        "--placement",
        rich_help_panel=help_pages.SPARK,
        help="driver: the job's driver writes all stores. executors: a process beside an executor "
        "writes each, so that a cluster shares them. [default: driver in local mode, executors "
        "with a cluster]",
    ),
]
SparkCheckpoint = Annotated[
    Path | None,
    typer.Option(
        "--spark-checkpoint",
        rich_help_panel=help_pages.SPARK,
        help="Where Spark keeps its own record, anew at each start. [default: in the output]",
    ),
]


KafkaBootstrap = Annotated[
    str,
    typer.Option(
        "--kafka-bootstrap",
        rich_help_panel=help_pages.KAFKA,
        help="Send the messages to Kafka at HOST:PORT too, exactly once. [default: off]",
    ),
]
KafkaSet = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka",
        metavar="KEY=VALUE",
        rich_help_panel=help_pages.KAFKA,
        help="A setting of the way to Kafka, such as include=orders* or partition_by=key; again "
        "for each. docs/kafka.md has them all; secrets are given by file or environment.",
    ),
]

Repair = Annotated[
    bool,
    typer.Option(
        "--repair",
        rich_help_panel=help_pages.WRITING,
        help="Mend the output: make again from the log what is missing, damaged or set back, keep "
        "what is right, and verify. Needs room for the output once more.",
    ),
]


def configs_of(
    store: Path | None,
    output: Path | None,
    version: str | None,
    conf: Path | None,
    config: Path | None,
    *,
    in_place: bool,
    any_version: bool = False,
    commitlog: list[Path] | None = None,
    kafka_bootstrap: str = "",
    kafka: list[str] | None = None,
) -> list[StoreConfig]:
    """Return the stores that the arguments name.

    Raises:
        UsageError: neither, both, or something wrong with them.
    """
    if config is not None:
        of_stores = (store, output, version, conf, commitlog, in_place or None, any_version or None)
        if any(each is not None for each in of_stores):
            raise UsageError(
                "--config names the stores: leave --store, --output, --broker-version, "
                "--broker-conf, --commitlog, --in-place and --any-version out; each has its key "
                "there"
            )
        return with_kafka(read_config(config), kafka_bootstrap, kafka)
    if store is None:
        raise UsageError("say what to read with --store DIR, or name several with --config FILE")
    refuse_file("--store", store)
    configs = [
        store_config(
            store,
            output,
            broker_version=broker.NEWEST if version is None else version,
            broker_conf=conf,
            in_place=in_place,
            commitlog=commitlog or (),
            any_version=any_version,
        )
    ]
    return with_kafka(configs, kafka_bootstrap, kafka)


def with_kafka(
    configs: list[StoreConfig], bootstrap: str, settings: list[str] | None
) -> list[StoreConfig]:
    """Return stores with the way to Kafka that the arguments give, in place of the file's.

    Raises:
        UsageError: something is wrong with it.
    """
    if not bootstrap and not settings:
        return configs
    from reput.streaming.settings.kafka import kafka_settings, pairs  # noqa: PLC0415 - a client few need

    values = pairs(settings or [])
    found = kafka_settings({**values, "bootstrap": bootstrap or values.get("bootstrap", "")})
    return [replace(config, kafka=found) for config in configs]


@app.command()
def run(
    store: Store = None,
    output: Output = None,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    any_version: AnyVersion = False,
    in_place: InPlace = False,
    trigger_seconds: Annotated[
        float,
        typer.Option(
            "--trigger-seconds",
            min=0.0,
            rich_help_panel=help_pages.WRITING,
            help="Least time between batches.",
        ),
    ] = 0.0,
    max_batch_bytes: BatchBytes = None,
    threads: Threads = 2,
    flush: Flush = FlushMode.ASYNC,
    flush_seconds: FlushSeconds = None,
    fail_on_data_loss: DataLoss = True,
    on_corrupt: OnCorrupt = CorruptMode.STOP,
    tail: Tail = TailMode.VISIBLE,
    delete_expired: Expired = False,
    placement: PlacementMode = None,
    spark_checkpoint: SparkCheckpoint = None,
    kafka_bootstrap: KafkaBootstrap = "",
    kafka: KafkaSet = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_tls_cert: TlsCert = None,
    metrics_tls_key: TlsKey = None,
    metrics_tls_client_ca: TlsClients = None,
    metrics_token_file: TokenFile = None,
    metrics_basic_auth_file: BasicAuthFile = None,
    ready_behind: ReadyBehind = "1g",
    cluster: Cluster = "",
    metrics_by_queue: ByQueue = False,
    final_scrape_seconds: FinalScrape = 30.0,
    spark_metrics_port: SparkMetricsPort = None,
    log_format: LogFormat = LogMode.TEXT,
    as_json: Json = False,
) -> None:
    """Dispatch a live store until stopped: SIGTERM and Ctrl-C end it after the current block.

    Exit code 4: the log is damaged, and the error names the place and what to do; or it was
    interrupted with part of a log left that nobody writes: run it again.

    Example: `reput run --store /data/rocketmq/store --output /data/reput --broker-version 5.3`
    """
    configs = configs_of(
        store,
        output,
        broker_version,
        broker_conf,
        config,
        in_place=in_place,
        any_version=any_version,
        commitlog=commitlog,
        kafka_bootstrap=kafka_bootstrap,
        kafka=kafka,
    )
    from reput.streaming.cli.job import (  # noqa: PLC0415 - the progress bar is slow to import
        conclude_unbegun,
        run_job,
        say_ending,
    )

    options = job_options(
        available_now=False,
        trigger_seconds=trigger_seconds,
        max_batch_bytes=max_batch_bytes,
        threads=threads,
        flush_seconds=flush_seconds,
        sync_flush=flush == FlushMode.SYNC,
        fail_on_data_loss=fail_on_data_loss,
        skips_corrupt=on_corrupt == CorruptMode.SKIP,
        only_flushed=tail == TailMode.FLUSHED,
        removes_expired=delete_expired,
        placement=placement or default_placement(submitted_master()),
        checkpoint=spark_checkpoint,
    )
    console.log_to_stderr(as_json=log_format == LogMode.JSON)
    ready_bytes = console.parse_bytes(ready_behind)
    access = Access(
        metrics_tls_cert,
        metrics_tls_key,
        metrics_tls_client_ca,
        metrics_token_file,
        metrics_basic_auth_file,
    )
    access.check()
    banner = {
        "version": version("reput"),
        "spark": version("pyspark"),
        "cluster": cluster or "by broker.conf",
        "ready_behind": ready_bytes,
        "metrics": f"{metrics_host}:{metrics_port}" if metrics_port is not None else "off",
        "metrics_protection": access.summary,
    }
    console.report_settings(configs, options, banner)
    conf = {}
    if spark_metrics_port is not None:
        from reput.streaming.spark.session import metrics_settings  # noqa: PLC0415 - Spark is slow to import

        conf = metrics_settings(metrics_host, spark_metrics_port)
    with contextlib.ExitStack() as stack:
        metrics = None
        if metrics_port is not None:
            metrics = stack.enter_context(
                serving(
                    configs,
                    cluster,
                    metrics_host,
                    metrics_port,
                    ready_bytes,
                    access,
                    skips_corrupt=options.skips_corrupt,
                )
            )
            metrics.shows_queues = metrics_by_queue
            stack.enter_context(scraped_to_the_end(metrics, final_scrape_seconds))
        ending = interruptions.Ending(say_ending)
        with ending.watching():
            for each in configs:
                wait_for_log(each, metrics, ending)
        if ending.name:
            code = conclude_unbegun(configs, ending, as_json=as_json)
        else:
            code = run_job(configs, options, as_json=as_json, metrics=metrics, conf=conf)
    LOG.info("ended", extra={"event": events.ENDED})
    raise typer.Exit(code)


@contextlib.contextmanager
def serving(
    configs: list[StoreConfig],
    cluster: str,
    host: str,
    port: int,
    ready_bytes: int,
    access: Access,
    *,
    skips_corrupt: bool,
) -> Iterator[Metrics]:
    """Answer to Prometheus and to health checks while the job runs."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import

    from reput.streaming.observe.metrics import Metrics  # noqa: PLC0415 - numba is slow to import
    from reput.streaming.observe.server import serve  # noqa: PLC0415

    metrics = Metrics(
        {config.name: config for config in configs},
        cluster,
        version("reput"),
        skips_corrupt=skips_corrupt,
    )
    server = serve(metrics, host, port, ready_bytes, access)
    scheme = "https" if access.certificate is not None else "http"
    LOG.info("metrics on %s://%s:%d/metrics", scheme, host, server.server_port)
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def scraped_to_the_end(metrics: Metrics, seconds: float) -> Iterator[None]:
    """Count what ends the job, and go on answering until that was seen.

    A signal cuts the waiting short: it asks for the end, and that is what comes.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, UsageError, interruptions.OutputError):
        raise
    except Exception as error:
        metrics.failed(error)
        LOG.error(  # noqa: TRY400 - a traceback only where nobody knows better
            "stopped: %s (metrics stay for one more scrape, %g s at most)",
            error,
            seconds,
            extra={"event": events.STOPPED},
        )
        for number in interruptions.SIGNALS:
            signal.signal(number, lambda *_: metrics.end_waiting())
        metrics.wait_for_scrape(seconds)
        raise


def wait_for_log(
    config: StoreConfig, metrics: Metrics | None, ending: interruptions.Ending
) -> None:
    """Return once a store has a commitlog file, or a signal came.

    A broker makes the file with its first message.

    Raises:
        StoreError: it is no store.
    """
    says_so = True
    while not ending.name and is_awaited(config):
        if says_so:
            LOG.info("%s: waiting for the first message", config.name)
            says_so = False
        if metrics is not None:
            metrics.awaits_logs()
        time.sleep(_LOOK_SECONDS)


@app.command()
def rebuild(
    store: Store = None,
    output: Output = None,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: Config = None,
    any_version: AnyVersion = False,
    in_place: InPlace = False,
    max_batch_bytes: BatchBytes = None,
    threads: Threads = 2,
    flush: Flush = FlushMode.ASYNC,
    flush_seconds: FlushSeconds = None,
    fail_on_data_loss: DataLoss = True,
    on_corrupt: OnCorrupt = CorruptMode.STOP,
    tail: Tail = TailMode.VISIBLE,
    delete_expired: Expired = False,
    placement: PlacementMode = None,
    spark_checkpoint: SparkCheckpoint = None,
    kafka_bootstrap: KafkaBootstrap = "",
    kafka: KafkaSet = None,
    repair: Repair = False,
    as_json: Json = False,
) -> None:
    """Dispatch all that a store has now, then end with a summary. Goes on where it was left.

    Exit code 4: the log's rest is not dispatched. It was interrupted: run it again. Or the log is
    damaged there: the error names the place and what to do. With --repair: 1 if `reput verify`
    still finds something, 4 if something is still missing.

    Example: `reput rebuild --store /backup/store --output /backup/rebuilt --broker-version 4.9.8`
    """
    configs = configs_of(
        store,
        output,
        broker_version,
        broker_conf,
        config,
        in_place=in_place,
        any_version=any_version,
        commitlog=commitlog,
        kafka_bootstrap=kafka_bootstrap,
        kafka=kafka,
    )
    if repair:
        if tail == TailMode.FLUSHED or delete_expired:
            raise UsageError("--repair goes with neither --tail flushed nor --delete-expired")
        repair_outputs(
            configs,
            threads=threads,
            fail_on_data_loss=fail_on_data_loss,
            skips_corrupt=on_corrupt == CorruptMode.SKIP,
            as_json=as_json,
        )
    from reput.streaming.cli.job import run_job  # noqa: PLC0415

    options = job_options(
        available_now=True,
        trigger_seconds=0.0,
        max_batch_bytes=max_batch_bytes,
        threads=threads,
        flush_seconds=flush_seconds,
        sync_flush=flush == FlushMode.SYNC,
        fail_on_data_loss=fail_on_data_loss,
        skips_corrupt=on_corrupt == CorruptMode.SKIP,
        only_flushed=tail == TailMode.FLUSHED,
        removes_expired=delete_expired,
        placement=placement or default_placement(submitted_master()),
        checkpoint=spark_checkpoint,
    )
    raise typer.Exit(run_job(configs, options, as_json=as_json, shows_progress=not as_json))


def repair_outputs(configs: list[StoreConfig], *, as_json: bool, **options: Any) -> NoReturn:
    """Repair outputs, one after another, without Spark; exit with what became of them.

    Raises:
        ReputError: one cannot be repaired, or its log ends early; those before it are.
    """
    from reput.checkpoints.progress import STATE_DIRECTORY  # noqa: PLC0415
    from reput.streaming.endings.verdict import Verdict  # noqa: PLC0415
    from reput.streaming.observe.error_kinds import kind_of  # noqa: PLC0415
    from reput.streaming.verify.repair import repair  # noqa: PLC0415 - numba is slow to import
    from reput.streaming.verify.version_seen import refuse_version_of_store  # noqa: PLC0415 - as above

    for config in configs:
        refuse_version_of_store(config)
    FAILURES.writes(each.output / STATE_DIRECTORY for each in configs if not each.in_place)
    results = []
    try:
        for config in configs:
            with console.busy("repairing"):
                results.append((config, repair(config, **options)))
    except (ReputError, OSError):
        if results and not as_json:
            console.print_repairs(results, as_json=False)
        raise
    failures = [result.failure for _, result in results if result.failure is not None]
    # Damage of the log: what is before it is repaired.
    has_failed = any(
        result.failure is not None and kind_of(result.failure, config) != "corrupt"
        for config, result in results
    )
    is_fine = all(result.ok for _, result in results)
    is_damaged = any(result.verdict == Verdict.DAMAGED for _, result in results)
    code = FINDINGS if is_damaged else OK if is_fine else INCOMPLETE
    code = FAILURES.answered(FAILED if has_failed else code)
    console.print_repairs(results, as_json=as_json)
    for failure in failures:
        console.ERR.print(f"reput: {failure}", markup=False, soft_wrap=True)
    raise typer.Exit(code)


def job_options(max_batch_bytes: str | None, **values: Any) -> JobOptions:
    """Return the options of a job, its byte cap read from text."""
    cap = console.parse_bytes(max_batch_bytes) if max_batch_bytes is not None else None
    return JobOptions(max_batch_bytes=cap, **values)


def one_store(
    store: Path | None,
    output: Path | None,
    version: str | None,
    conf: Path | None,
    commitlog: list[Path] | None,
    config: Path | None,
    store_name: str | None,
) -> StoreConfig:
    """Return the store that the arguments name; without an output it holds its own files.

    Raises:
        UsageError: none, several, or something wrong with them.
    """
    chosen = of_file(config, store_name, store, output, version, conf, commitlog)
    if chosen is None:
        chosen = store_config(
            required(store),
            output,
            broker_version=broker.NEWEST if version is None else version,
            broker_conf=conf,
            in_place=output is None,
            commitlog=commitlog or (),
        )
    tell(chosen.name, chosen.path, chosen.output, chosen.settings)
    return chosen


@app.command()
def verify(
    store: Store = None,
    output: Written = None,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: StoreFile = None,
    store_name: StoreName = None,
    any_version: AnyVersion = False,
    as_json: Json = False,
) -> None:
    """Compare consume queues, extensions, index and checkpoint with the commitlog.

    Without --output a broker's own store is checked. The last line begins with the verdict: sound
    (exit code 0), damaged (1), incomplete or skipped (4): something is not dispatched, or places of
    the log were passed over.

    Example: `reput verify --store /data/rocketmq/store --output /data/rebuilt --broker-version 5.3`
    """
    from reput.streaming.endings.verdict import code_of, verdict_of  # noqa: PLC0415
    from reput.streaming.verify.output import verify as verify_store  # noqa: PLC0415 - numba is slow to import

    chosen = one_store(store, output, broker_version, broker_conf, commitlog, config, store_name)
    chosen = replace(chosen, any_version=chosen.any_version or any_version)
    with console.busy("verifying"):
        report = verify_store(chosen)
    code = FAILURES.answered(code_of(verdict_of(report)))
    console.print_report(report, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def handover(
    store: Store = None,
    output: Written = None,
    broker_version: Version = None,
    broker_conf: Conf = None,
    commitlog: LogPlaces = None,
    config: StoreFile = None,
    store_name: StoreName = None,
    any_version: AnyVersion = False,
    as_json: Json = False,
) -> None:
    """Say whether a broker may be started with an output's files in place of its own.

    Nothing is changed. Exit code 0: it may, and what is printed are commands to paste into a shell,
    which move the files and keep the broker's own. Else it says why not: 1: something is wrong; 4:
    something is only missing. Without --output: a store that was written
    in place.

    Example: `reput handover --store /data/rocketmq/store --output /data/rebuilt`
    """
    from reput.streaming.endings.verdict import code_of  # noqa: PLC0415
    from reput.streaming.verify.handover import examine  # noqa: PLC0415 - numba is slow to import

    chosen = one_store(store, output, broker_version, broker_conf, commitlog, config, store_name)
    chosen = replace(chosen, any_version=chosen.any_version or any_version)
    with console.busy("verifying"):
        result = examine(chosen)
    code = FAILURES.answered(code_of(result.verdict))
    console.print_handover(result, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def prepare() -> None:
    """Compile kernels and archive Spark's classes, once per installation: later starts are faster.

    Takes about half a minute and 150 MB in ~/.cache/reput; what is there already is left alone.

    Example: `reput prepare`
    """
    from reput.streaming.dispatch.warm import compile_kafka_kernels, load_kernels  # noqa: PLC0415
    from reput.streaming.spark.session import archive_classes  # noqa: PLC0415 - Spark is slow to import

    with console.busy("compiling kernels"):
        load_kernels()
        compile_kafka_kernels()
    with interruptions.tidying(), console.busy("archiving Spark's classes"):
        archive = archive_classes()
    console.OUT.print(f"kernels compiled, classes in {archive}", markup=False, soft_wrap=True)


@app.command()
def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=1.0, help="How long to write.")] = 15.0,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Records a second.")] = 2000,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Leave store and output here to look at.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show it at work, without RocketMQ: a live log, the job beside it, and proof at the end.

    Example: `reput demo --seconds 5 --directory /tmp/reput-demo`
    """
    from reput.streaming.demo.run import print_demo, run_demo  # noqa: PLC0415 - Spark is slow to import

    with interruptions.tidying():
        shown = run_demo(seconds, rate, directory)
    code = FAILURES.answered(OK if shown.ok else FINDINGS)
    print_demo(shown, as_json=as_json)
    raise typer.Exit(code)


app.command()(topics.topics)
app.command(quiet_is_long=True)(topics.tail)
app.command(quiet_is_long=True)(export.export)
app.add_typer(query.app, name="query")
app.add_typer(inspect.app, name="inspect")


def main() -> None:
    """Run the command and exit with its code."""
    VERBOSITY.begin()
    name = app.info.name
    if _COMPLETE in os.environ:
        from typer.completion import (  # type: ignore[attr-defined]  # noqa: PLC0415
            completion_init,
        )

        completion_init()
    try:
        refuse_empty(sys.argv[1:])
        # Without click's own handling, Exit comes back as a number and errors come as they are.
        if sys.argv[1:2] == ["query"]:
            # A lookup is not to wait for the options of all other commands.
            code = query.app(sys.argv[2:], prog_name=f"{name} query", standalone_mode=False)
        else:
            code = app(prog_name=name, standalone_mode=False)
    except UsageError as error:
        fail(str(error), USAGE)
    except ReputError as error:
        fail(in_keys(str(error)) if _uses_file() else str(error), FAILURES.code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}", FAILED)
    except (typer.Abort, KeyboardInterrupt):
        interruptions.tell_interrupted("SIGINT")
        leave(interruptions.interrupted_code())
    except interruptions.Interrupted as error:
        interruptions.tell_interrupted(str(error))
        interruptions.leave_at_once()
        leave(interruptions.interrupted_code())
    except interruptions.OutputError as error:
        leave_unheard(error.error, OK if FAILURES.answer is None else FAILURES.answer)
    except Exception as error:  # noqa: BLE001 - click's usage errors have an exit code of their own
        if not hasattr(error, "format_message"):
            fail(FAILURES.describe(error), FAILED)
        fail(_with_page(error), USAGE)
    leave(code if isinstance(code, int) else OK)


def _uses_file() -> bool:
    """Tell whether stores are named by a file: remedies are its keys then, and not options."""
    return any(word.partition("=")[0] == "--config" for word in sys.argv[1:])


def _with_page(error: Any) -> str:
    """Return what is wrong with a command line, and which page says how it goes."""
    # The words of the library that checks values.
    said = str(error.format_message()).rstrip().replace(": Value error, ", ": ")
    said = said if said.endswith((".", "?")) else f"{said}."
    command = getattr(getattr(error, "ctx", None), "command_path", None)
    return f"{said} See `{command or app.info.name} --help`"


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong and exit; with --json as a document."""
    # What cannot be said cannot be helped: the exit code stays.
    with contextlib.suppress(interruptions.OutputError):
        if "--json" in sys.argv:
            print(json.dumps({**FAILURES.done, "error": message, "exit_code": code}), flush=True)
    with contextlib.suppress(OSError):
        if console.logs_json():
            LOG.error(message, extra={"event": events.FAILED, "exit_code": code})
        else:
            print(f"reput: {message}", file=sys.stderr)
    leave(code)


def leave(code: int) -> NoReturn:
    """Exit, once standard output has what was printed."""
    try:
        sys.stdout.flush()
    except interruptions.OutputError as error:
        leave_unheard(error.error, code)
    interruptions.exit_with(code)


def leave_unheard(error: OSError, code: int) -> NoReturn:
    """Exit where standard output does not take what was printed.

    One that is not read to its end is fine; one that is full is not: the answer did not arrive.
    """
    drop_output()
    if not isinstance(error, BrokenPipeError):
        with contextlib.suppress(OSError):
            print(f"reput: standard output: {error.strerror}", file=sys.stderr)
        code = FAILED
    leave(code)
