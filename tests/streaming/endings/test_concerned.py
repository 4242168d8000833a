"""An error of a job with several stores is counted once, and for the store that it is about."""

from __future__ import annotations

import errno
import traceback
from dataclasses import replace

import pytest

from reput.formats.errors import (
    ExpiredError,
    FormatError,
    KafkaError,
    ReputError,
    StoreError,
    about,
    recovered,
)
from reput.streaming.job.job import Job
from reput.streaming.kafka.state import KafkaState
from reput.streaming.observe.error_kinds import ERROR_KINDS
from reput.streaming.observe.metrics import Metrics
from reput.streaming.writers.job_options import JobOptions
from tests.builders.stores import Log, config_of, fill


@pytest.fixture
def configs(tmp_path):
    """Stores `a` and `b` whose paths begin alike: one is the other's with more of a name."""
    made = {}
    for name, directory in (("a", "store1"), ("b", "store10")):
        store = fill(Log(), 1, 20).write(tmp_path / directory)
        made[name] = replace(config_of(store, tmp_path / f"out-{directory}"), name=name)
    return made


def counted(metrics):
    """
    Return what is counted by store and kind, without zeros.
    """
    found = {
        (store, kind): metrics.registry.get_sample_value(
            "rocketmq_reput_errors_total",
            {"cluster": "c", "store": store, "node_type": "dispatcher", "kind": kind},
        )
        for store in "ab"
        for kind in ERROR_KINDS
    }
    return {key: value for key, value in found.items() if value}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("kafka", {"kafka": KafkaState(trouble="refused", stopped="refused")}),
        ("corrupt", {"flaw": FormatError("/log", 4, "good records follow a hole")}),
    ],
)
def test_the_end_of_a_job_counts_nothing_again(configs, monkeypatch, kind, said):
    """
    One store's Kafka is held back, or its log continues after a hole: that is counted when it
    happens, for that store. The job ends with it, and neither store has an error more.
    """
    metrics = Metrics(configs, "c", "1")
    job = Job(list(configs.values()), JobOptions())
    found_state = job._writers.state
    try:
        job.report_to(metrics)
        monkeypatch.setattr(
            job._writers,
            "state",
            lambda store: replace(found_state(store), **(said if store == "a" else {})),
        )
        for _ in range(2):
            job._tend()
        assert counted(metrics) == {("a", kind): 1}
        job._end_at_flaws()
    finally:
        job._close()
    assert isinstance(job.error, ReputError)
    metrics.failed(job.error)

    assert counted(metrics) == {("a", kind): 1}


def test_what_comes_back_is_counted_again(configs):
    """
    A hole that a broker fills, and a later one, are two.
    """
    metrics = Metrics(configs, "c", "1")
    job = Job(list(configs.values()), JobOptions())
    state = job._writers.state("a")
    job._close()
    for flaw in (FormatError("/log", 4, "a hole"), None, FormatError("/log", 9, "a hole")):
        metrics.state("a", replace(state, flaw=flaw))

    assert counted(metrics) == {("a", "corrupt"): 2}


def through_text(error, store):
    """
    Return an error that was raised on behalf of a store in another process: Spark hands on text.
    """
    try:
        with about(store):
            raise error
    except ReputError:
        return recovered(traceback.format_exc())


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_error_of_one_store_is_not_its_neighbour_s(configs, name):
    """
    By the store or the path that an error carries: /m/store1 is not /m/store10.
    """
    path = configs[name].path
    for error, kind in (
        (StoreError(path, "gone", "Mount it"), "store"),
        (FormatError(path / "commitlog" / f"{0:020d}", 5, "bad"), "corrupt"),
        (OSError(errno.EIO, "failed", str(path / "commitlog")), "io"),
        (through_text(ExpiredError("gone"), name), "expired"),
        (through_text(ReputError("something"), name), "other"),
    ):
        metrics = Metrics(configs, "c", "1")
        metrics.failed(error)
        assert counted(metrics) == {(name, kind): 1}, error


def test_an_error_that_names_no_store_is_everyone_s(configs):
    """
    A path in the words of a message says nothing: they may be about another store as well.
    """
    for error in (KafkaError("away"), KafkaError(f"{configs['a'].path}: away")):
        metrics = Metrics(configs, "c", "1")
        metrics.failed(error)

        assert counted(metrics) == {("a", "kafka"): 1, ("b", "kafka"): 1}


def test_an_output_that_cannot_be_opened_or_tended_is_its_store_s(configs, monkeypatch):
    """
    Whatever the error says: what is raised on behalf of a store is about that store.
    """
    options = JobOptions(available_now=True)
    opened = Job(list(configs.values()), options)
    metrics = Metrics(configs, "c", "1")

    def fail(*_, **__):
        raise KafkaError("no broker answers")

    try:
        monkeypatch.setattr(opened.dispatchers["b"], "flush_if_due", fail)
        # The other stores are dispatched; the job ends with it.
        opened._tend()
        raised = opened._lasting
    finally:
        opened._close()
    assert isinstance(raised, KafkaError)
    metrics.failed(raised)
    assert counted(metrics) == {("b", "kafka"): 1}

    whole = JobOptions.open
    monkeypatch.setattr(
        JobOptions,
        "open",
        lambda options, config: fail() if config.name == "b" else whole(options, config),
    )
    metrics = Metrics(configs, "c", "1")
    with pytest.raises(KafkaError) as refused:
        Job(list(configs.values()), options)
    metrics.failed(refused.value)
    assert counted(metrics) == {("b", "kafka"): 1}
