"""Rates count what they say: dispatch, not Spark's start, nor the time that a log is waited for."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from reput.streaming.job.summary import StoreSummary, Summary
from reput.streaming.show import bars, summaries


def summary(*, is_live):
    """Two stores whose batches take 2 and 3 s of 100."""
    stores = [
        StoreSummary("a", messages=600, bytes=9, busy_seconds=2.0),
        StoreSummary("b", messages=400, bytes=9, busy_seconds=3.0),
    ]
    return Summary(stores, seconds=100.0, dispatch_seconds=90.0, busy_seconds=5.0, is_live=is_live)


@pytest.mark.parametrize(("is_live", "rates"), [(True, [200, 300, 133]), (False, [10, 6, 4])])
def test_a_live_job_s_rate_is_that_of_its_batches(is_live, rates):
    """
    One that reads to the end of its log has no idle time: there the last flush counts as well.
    """
    said = summary(is_live=is_live).as_dict()

    per_store = [store["messages_per_second"] for store in said["stores"]]
    assert [said["messages_per_second"], *per_store] == rates
    assert (said["seconds"], said["busy_seconds"], said["stores"][1]["busy_seconds"]) == (100, 5, 3)


@pytest.mark.parametrize(
    ("is_live", "said"),
    [
        (True, "5.00 s of them in batches, which rates count"),
        (False, "the last flush to the disk included"),
    ],
)
def test_the_table_says_what_it_counts(capsys, is_live, said):
    summaries.print_summary(summary(is_live=is_live), as_json=False)
    shown = capsys.readouterr().out

    assert f"in 100.00 s, without the start of Spark; {said}" in shown
    assert ("300" in shown) == is_live


def test_nothing_dispatched_is_no_rate():
    assert Summary([StoreSummary("a")]).as_dict()["messages_per_second"] == 0
    assert json.dumps(Summary([StoreSummary("a")], is_live=True).as_dict())


def test_the_bar_does_not_count_the_start_of_spark(monkeypatch):
    """
    A thousand messages in the two seconds since the first batch, whenever the bar was drawn.
    """
    monkeypatch.setattr(bars, "ERR", Console(file=io.StringIO(), force_terminal=True, width=200))
    monkeypatch.setattr(bars.VERBOSITY, "more", 0)
    monkeypatch.setattr(bars.VERBOSITY, "is_quiet", False)
    dispatcher = SimpleNamespace(progress=SimpleNamespace(end=0), log=SimpleNamespace(min_offset=0))
    job = SimpleNamespace(dispatchers={"a": dispatcher}, end_of_log=lambda _: 4000, began=None)
    now = [1000.0]
    monkeypatch.setattr(bars, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with bars.progress(job):
        # Spark's start.
        now[0] += 500.0
        job.began = now[0]
        now[0] += 2.0
        job.on_block("a", SimpleNamespace(count=1000, first=0, reached=2000))
    assert " 500 msg/s" in bars.ERR.file.getvalue()
