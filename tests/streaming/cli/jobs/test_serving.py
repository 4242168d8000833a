"""What a job says as it ends, while its metrics wait for one more scrape."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from reput.formats.errors import ReputError
from reput.streaming.cli.jobs.job import _stop_of
from reput.streaming.cli.jobs.serving import scraped_to_the_end
from reput.streaming.observe.metrics import Metrics


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ReputError("out: no room\nmake some"), "out: no room\nmake some"),
        (
            RuntimeError("o86.load\nat org.A\nCaused by: java.E: no worker\nat org.B"),
            "java.E: no worker",
        ),
    ],
    ids=["ours", "Java's"],
)
def test_an_error_that_nobody_expected_is_told_in_a_line(caplog, error, said):
    metrics = Metrics({}, "c", "1")
    with (
        caplog.at_level(logging.ERROR, "reput"),
        pytest.raises(type(error)),
        scraped_to_the_end(metrics, 0.0),
    ):
        raise error
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"stopped: {said} (metrics stay")


def test_a_job_that_was_asked_to_end_waits_for_no_scrape(caplog):
    """
    A store that had failed made the end of its job last half a minute longer.
    """
    metrics = Metrics({}, "c", "1")
    job = SimpleNamespace(stop=lambda: None)
    _stop_of(job, metrics)()
    with pytest.raises(ReputError), scraped_to_the_end(metrics, 3600.0):
        raise ReputError("out: no room")
    assert [record.getMessage() for record in caplog.records] == ["stopped: out: no room"]
