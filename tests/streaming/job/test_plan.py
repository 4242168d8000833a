"""How far Spark has planned, and for how long stores were dispatched past that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reput.streaming.job import plan
from reput.streaming.job.job import Job
from reput.streaming.job.plan import Plan
from reput.streaming.writers.job_options import JobOptions
from tests.builders.brokers import Broker
from tests.builders.stores import config_of


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose only item is the time that a plan sees."""
    now = [1000.0]
    monkeypatch.setattr(plan, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def silences(made: Plan, clock: list[float], ends: dict[str, int], seconds: int) -> list[float]:
    """Return what is said from now on, second by second."""
    found = []
    for _ in range(seconds + 1):
        found.append(made.silence(ends))
        clock[0] += 1
    return found


class TestEnd:
    def test_it_is_what_was_planned_last(self):
        made = Plan(0.0)
        assert made.end("a") == 0
        made.begin({"a": 5, "b": -1})
        made.take({"a": 9})

        assert (made.end("a"), made.end("b")) == (9, 0)


class TestSilence:
    def test_it_grows_from_when_a_store_is_past_its_plan(self, clock):
        made = Plan(0.0)
        made.begin({"a": 5, "b": 5})

        assert silences(made, clock, {"a": 5, "b": 5}, 2) == [0, 0, 0]
        assert silences(made, clock, {"a": 5, "b": 6}, 2) == [0, 1, 2]

    def test_a_plan_ends_it_also_one_of_another_store(self, clock):
        made = Plan(0.0)
        made.begin({"a": 5, "b": 5})
        silences(made, clock, {"a": 6, "b": 6}, 3)
        made.take({"a": 6})

        assert silences(made, clock, {"a": 6, "b": 6}, 1) == [0, 1]
        made.take({"b": 6})
        assert silences(made, clock, {"a": 6, "b": 6}, 1) == [0, 0]

    def test_a_store_that_is_left_out_counts_no_longer(self, clock):
        made = Plan(0.0)
        made.begin({"a": 5, "b": 5})

        assert silences(made, clock, {"a": 5, "b": 6}, 2) == [0, 1, 2]
        assert silences(made, clock, {"a": 5}, 1) == [0, 0]
        assert silences(made, clock, {"a": 6}, 1) == [0, 1]

    def test_a_pause_of_sparks_is_none(self, clock):
        made = Plan(3.0)
        made.begin({"a": 5})

        assert silences(made, clock, {"a": 6}, 5) == [0, 0, 0, 0, 1, 2]

    @pytest.mark.parametrize(("trigger", "follow"), [(0.0, 60.0), (90.0, 5.0), (0.0, 5.0)])
    def test_neither_a_trigger_nor_a_batch_of_a_job_is_silence(
        self, tmp_path, clock, trigger, follow
    ):
        """
        An alert fires where Spark has planned nothing for a minute, and a batch may last as long.
        """
        broker = Broker(tmp_path / "store", 1)
        broker.append(1)
        options = JobOptions(trigger_seconds=trigger, follow_seconds=follow)
        job = Job([config_of(broker.store, tmp_path / "out")], options)
        try:
            job._plan.begin({"a": 5})
            longest = int(max(trigger, follow))

            assert set(silences(job._plan, clock, {"a": 6}, longest)) == {0}
            assert silences(job._plan, clock, {"a": 6}, 1) == [1, 2]
        finally:
            job.abandon()
