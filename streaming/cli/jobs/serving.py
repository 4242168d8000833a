"""The port of `reput run`: /metrics, /healthz and /readyz while the job runs, and a while after."""

from __future__ import annotations

import contextlib
import logging
import signal
from importlib.metadata import version
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError, UsageError
from reput.streaming import events
from reput.streaming.endings.failures import cause_of
from reput.streaming.endings.interruptions import SIGNALS
from reput.streaming.endings.standard_output import OutputError
from reput.streaming.observe.metrics import Metrics
from reput.streaming.observe.server import serve
from reput.streaming.settings.model.choices import CorruptMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput.streaming.observe.access import Access
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.settings.model.jobs import RunOptions

LOG = logging.getLogger("reput")


@contextlib.contextmanager
def serving(
    configs: Sequence[StoreConfig], options: RunOptions, ready_bytes: int, access: Access
) -> Iterator[Metrics]:
    """Answer to Prometheus and to health checks while the job runs."""
    metrics = Metrics(
        {config.name: config for config in configs},
        options.cluster or "",
        version("reput"),
        skips_corrupt=options.on_corrupt == CorruptMode.SKIP,
    )
    metrics.shows_queues = options.metrics_by_queue
    host = options.metrics_host
    server = serve(metrics, host, options.metrics_port or 0, ready_bytes, access)
    scheme = "https" if access.certificate is not None else "http"
    LOG.info("metrics on %s://%s:%d/metrics", scheme, host, server.server_port)
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def scraped_to_the_end(metrics: Metrics, seconds: float) -> Iterator[None]:
    """Count what ends the job, and answer until that was scraped.

    A signal ends the wait, also one that came before: it asks for the end, and the end comes.

    Args:
        metrics: that count it.
        seconds: to wait at most.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, UsageError, OutputError):
        raise
    except Exception as error:
        metrics.failed(error)
        # The details of an unexpected error, such as pages of Java's stack, go into a file.
        is_told = isinstance(error, ReputError | OSError)
        stays = f" (metrics stay for one more scrape, {seconds:g} s at most)"
        LOG.error(  # noqa: TRY400 - a traceback is for unexpected errors
            "stopped: %s%s",
            error if is_told else cause_of(str(error)),
            "" if metrics.waits_no_longer else stays,
            extra={"event": events.STOPPED},
        )
        for number in SIGNALS:
            signal.signal(number, lambda *_: metrics.end_waiting())
        metrics.wait_for_scrape(seconds)
        raise
