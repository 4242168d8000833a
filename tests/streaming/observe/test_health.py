"""Is the job alive, and is all well? By stores, their writers, and Spark's planner."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from reput.formats.errors import FormatError, StuckError
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.observe.metrics import Metrics
from reput.streaming.writers.state import State
from tests.builders.stores import Log, config_of, fill

STORES = ("a", "b")
NEAR = 1 << 30
# Past what /readyz allows, and past what /healthz allows.
SILENT, DEAD = 21.0, 121.0
FAILURE = FormatError("/store/commitlog/00000000000000000000", 4, "no magic")


class Clock:
    """A steady clock that moves when it is told to."""

    def __init__(self):
        self.now = time.monotonic()

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("reput.streaming.observe.metrics.time.monotonic", made)
    return made


@pytest.fixture
def states(tmp_path):
    """Two stores of which all is dispatched: where each stands, and its configuration."""
    found = {}
    for name in STORES:
        log = fill(Log(), 1, 20)
        config = replace(config_of(log.write(tmp_path / name), tmp_path / f"out-{name}"), name=name)
        dispatcher = StoreDispatcher(config)
        dispatcher.dispatch(log.end)
        found[name] = State.of(dispatcher), config
        dispatcher.close()
    return found


class Job:
    """What a live job tells its metrics, five times a second."""

    def __init__(self, states, clock):
        self.metrics = Metrics({name: config for name, (_, config) in states.items()}, "c", "1.2.3")
        self.clock = clock
        self.seen_at = dict.fromkeys(STORES, clock.now)
        for name, (state, _) in states.items():
            self.metrics.state(name, state)

    def tell(self, failures=(), unplanned=0.0):
        for name in STORES:
            self.metrics.seen(name, self.seen_at[name], dict(failures).get(name))
        self.metrics.unplanned(unplanned)
        self.metrics.alive()

    def pass_seconds(self, seconds, working=STORES, **more):
        """Let time pass, tell of it, and let these writers be seen to work."""
        self.clock.now += seconds
        self.seen_at |= dict.fromkeys(working, self.clock.now)
        self.tell(**more)

    @property
    def health(self):
        """Return what /healthz and /readyz say."""
        return self.metrics.is_alive(), self.metrics.is_ready(NEAR)

    def value(self, name, store=""):
        labels = {"cluster": "c", "store": store, "node_type": "dispatcher"} if store else {}
        return self.metrics.registry.get_sample_value(f"rocketmq_reput_{name}", labels)


@pytest.fixture
def job(states, clock):
    made = Job(states, clock)
    made.tell()
    return made


def test_a_job_whose_stores_are_dispatched_is_alive_and_ready(job):
    job.pass_seconds(1000)

    assert job.health == (True, True)
    for store in STORES:
        assert job.value("store_failed", store) == 0
        assert job.value("writer_silent_seconds", store) == 0
    assert job.value("unplanned_seconds") == 0


@pytest.mark.parametrize("seconds", [SILENT, DEAD, 10 * DEAD])
def test_a_silent_writer_makes_the_job_unready_and_does_not_end_it(job, seconds):
    """
    The kubelet would stop the other stores with it; and its next start might hang as well.
    """
    job.pass_seconds(seconds, working=["a"])

    assert job.health == (True, False)
    assert job.value("writer_silent_seconds", "b") == pytest.approx(seconds)
    assert job.value("writer_silent_seconds", "a") == 0
    job.pass_seconds(1)
    assert job.health == (True, True)
    assert job.value("writer_silent_seconds", "b") == 0


def test_a_flush_of_some_seconds_is_no_silence(job):
    job.pass_seconds(15, working=[])

    assert job.health == (True, True)


@pytest.mark.parametrize(("seconds", "health"), [(SILENT, (True, False)), (DEAD, (False, False))])
def test_a_job_whose_writers_are_all_silent_is_dead(job, seconds, health):
    job.pass_seconds(seconds, working=[])

    assert job.health == health


@pytest.mark.parametrize("failure", [FAILURE, StuckError("/out", 30)])
def test_a_store_that_has_failed_makes_the_job_unready_and_does_not_end_it(job, failure):
    job.pass_seconds(10 * DEAD, failures=[("b", failure)])

    assert job.health == (True, False)
    assert job.value("store_failed", "b") == 1
    assert job.value("store_failed", "a") == 0
    job.tell()
    assert job.health == (True, True)
    assert job.value("store_failed", "b") == 0


def test_a_store_that_waits_at_a_flaw_counts_as_failed(job, states):
    """
    Its writer works, and nothing fails; but it is not dispatched until you act.
    """
    state, _ = states["b"]
    job.metrics.state("b", replace(state, flaw=FAILURE))

    assert job.health == (True, False)
    assert job.value("store_failed", "b") == 1
    job.metrics.state("b", state)
    assert job.health == (True, True)
    assert job.value("store_failed", "b") == 0


def test_a_store_that_fails_again_after_it_was_dispatched_is_counted_again(job):
    """
    The same failure, tried again and again, is one.
    """

    def counted():
        labels = {"cluster": "c", "store": "b", "node_type": "dispatcher", "kind": "corrupt"}
        return job.metrics.registry.get_sample_value("rocketmq_reput_errors_total", labels)

    for _ in range(3):
        job.metrics.error("b", FAILURE)
        job.tell(failures=[("b", FAILURE)])
    assert counted() == 1
    job.tell()
    job.metrics.error("b", FAILURE)
    job.tell(failures=[("b", FAILURE)])
    assert counted() == 2


@pytest.mark.parametrize(("seconds", "is_alive"), [(60.0, True), (DEAD, False)])
def test_a_planner_that_stands_still_ends_the_job_in_time(job, seconds, is_alive):
    """
    Stores are dispatched all the same, so the job is ready.
    """
    job.pass_seconds(seconds, unplanned=seconds)

    assert job.health == (is_alive, True)
    assert job.value("unplanned_seconds") == seconds
    job.pass_seconds(1)
    assert job.health == (True, True)


def test_a_jvm_that_hangs_is_told_from_silent_writers(job):
    """
    The job's main loop waits for an answer of Spark and says nothing; writers may still say what
    they write.
    """
    for _ in range(12):
        job.clock.now += 10
        job.metrics.alive()
    assert job.value("unplanned_seconds") == pytest.approx(120)
    assert job.value("writer_silent_seconds", "a") == 0
    assert not job.metrics.is_alive()
    job.pass_seconds(0)
    assert job.value("unplanned_seconds") == 0
    assert job.health == (True, True)


def test_a_job_that_has_not_begun_or_has_ended_waits_for_no_planner(states, clock):
    job = Job(states, clock)
    job.metrics.alive(is_active=False)
    clock.now += 60
    assert job.value("unplanned_seconds") == 0
    # The query begins: the time before it does not count.
    job.metrics.alive()
    assert job.value("unplanned_seconds") == 0
    job.tell()
    job.metrics.failed(FAILURE)
    clock.now += 60
    assert job.value("unplanned_seconds") == 0
    assert job.health == (True, False)


def test_a_job_that_says_nothing_is_dead(job):
    job.clock.now += DEAD

    assert not job.metrics.is_alive()
