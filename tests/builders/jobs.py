"""A job on a thread of its own, for tests that change the log under it."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from reput.streaming.job.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.job_options import JobOptions


@contextlib.contextmanager
def running(
    spark: SparkSession, configs: Sequence[StoreConfig], options: JobOptions
) -> Iterator[Job]:
    """Run the job, and end it in order; raises what it has raised."""
    job = Job(configs, options)
    errors = []

    def run() -> None:
        try:
            job.run(spark)
        except BaseException as error:  # noqa: BLE001 - raised by the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield job
    finally:
        job.stop()
        thread.join(60)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def wait_for(job: Job, end: int, store: int = 0) -> None:
    """Wait until a store is dispatched up to a physical offset."""
    deadline = time.monotonic() + 60
    summary = job.summary.stores[store]
    while summary.end != end:
        assert job.error is None, job.error
        assert time.monotonic() < deadline, f"at {summary.end}, expected {end}"
        time.sleep(0.02)
