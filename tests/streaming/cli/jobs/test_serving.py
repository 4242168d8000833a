"""What a job says as it ends, while its metrics wait for one more scrape."""

from __future__ import annotations

import logging

import pytest

from reput.formats.errors import ReputError
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
