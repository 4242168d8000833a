"""Options of `reput run` that say how it is watched: metrics, health, log lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from reput.streaming.settings.model.choices import LogMode
from reput.streaming.settings.model.option import MONITORING, SPARK, Chart, Option

MOST_PORT = 65535
# A container without privileges opens no lower one.
LEAST_OPEN_PORT = 1024


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """How a job is watched."""

    metrics_port: Annotated[
        int | None,
        Option(
            least=0,
            most=MOST_PORT,
            panel=MONITORING,
            chart=Chart("metrics.port", default=9464, least=LEAST_OPEN_PORT),
            help="Answer /metrics (Prometheus), /healthz and /readyz on this port. [default: off]",
        ),
    ] = None
    metrics_host: Annotated[
        str,
        Option(
            panel=MONITORING,
            chart=Chart("metrics.service", is_value=False),
            help="The address that the port is opened on.",
        ),
    ] = "127.0.0.1"
    metrics_tls_cert: Annotated[
        Path | None,
        Option(
            panel=MONITORING,
            chart=Chart("metrics.tls.certFile"),
            help="PEM file: the port speaks TLS with this certificate.",
        ),
    ] = None
    metrics_tls_key: Annotated[
        Path | None,
        Option(
            panel=MONITORING,
            chart=Chart("metrics.tls.keyFile"),
            help="PEM file of the certificate's key.",
        ),
    ] = None
    metrics_tls_client_ca: Annotated[
        Path | None,
        Option(
            panel=MONITORING,
            chart=Chart("metrics.tls.clientCaFile"),
            help="PEM file: /metrics is for clients with a certificate signed by one of these CAs.",
        ),
    ] = None
    metrics_token_file: Annotated[
        Path | None,
        Option(
            panel=MONITORING,
            chart=Chart("metrics.auth.tokenFile"),
            help="/metrics answers only those who send this bearer token.",
        ),
    ] = None
    metrics_basic_auth_file: Annotated[
        Path | None,
        Option(
            panel=MONITORING,
            chart=Chart("metrics.auth.basicAuthFile"),
            help="/metrics answers only those who send the user and password of this file's line "
            "user:password. With a token file too, either will do.",
        ),
    ] = None
    ready_behind: Annotated[
        str,
        Option(
            unit="bytes",
            panel=MONITORING,
            chart=Chart("run.readyBehind"),
            help="/readyz says no when a store is further behind.",
        ),
    ] = "1g"
    cluster: Annotated[
        str | None,
        Option(
            panel=MONITORING,
            chart=Chart("run.cluster"),
            help="The brokers' cluster, a label of all metrics. [default: each store's "
            "brokerClusterName in its broker.conf, or DefaultCluster]",
        ),
    ] = None
    metrics_by_queue: Annotated[
        bool,
        Option(
            panel=MONITORING,
            help="Export a series for each queue too. There are as many as there are queues, so "
            "this is off by default. With --placement driver only.",
        ),
    ] = False
    final_scrape_seconds: Annotated[
        float,
        Option(
            unit="seconds",
            least=0.0,
            panel=MONITORING,
            # The pod's grace period has to be longer.
            chart=Chart("run.finalScrapeSeconds", most=300),
            help="After an error, answer /metrics until one more scrape, at most this long: "
            "otherwise the count of the error is never scraped.",
        ),
    ] = 30.0
    spark_metrics_port: Annotated[
        int | None,
        Option(
            least=1,
            most=MOST_PORT,
            panel=SPARK,
            chart=Chart("metrics.sparkPort", least=LEAST_OPEN_PORT),
            help="Answer Spark's own metrics at /metrics/prometheus/ on this port of "
            "--metrics-host, and its user interface. [default: off]",
        ),
    ] = None
    log_format: Annotated[
        LogMode,
        Option(
            panel=MONITORING,
            chart=Chart("run.logFormat", default="json"),
            help="Log lines as text or as JSON.",
        ),
    ] = LogMode.TEXT
