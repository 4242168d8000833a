"""Stores of one job do not share a fate: the others do not wait for one that fails or hangs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reput.checkpoints import progress
from reput.formats.errors import FormatError, KafkaError, ReputError, StoreError, StuckError
from reput.formats.rocketmq import names
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.job.job import Job
from reput.streaming.observe.metrics import Metrics
from reput.streaming.settings.kafka import kafka_settings
from reput.streaming.settings.model.choices import Placement
from reput.streaming.verify.output import verify
from reput.streaming.writers import backoff, live
from reput.streaming.writers.job_options import JobOptions
from tests.builders.brokers import Broker
from tests.builders.hanging import hanging, writer_of
from tests.builders.jobs import running, wait_for
from tests.builders.stores import LOG_FILE, config_of, name_batch_topics
from tests.builders.waiting import wait_until
from tests.kafka.broker import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark
DRIVER = JobOptions(sync_flush=True, follow_seconds=1.0)
EXECUTORS = replace(DRIVER, placement=Placement.EXECUTORS)
BOTH = pytest.mark.parametrize("options", [DRIVER, EXECUTORS], ids=["driver", "executors"])


@pytest.fixture
def stores(tmp_path):
    """Three brokers with 60 messages, and the configuration of their stores."""
    found = []
    for seed, name in enumerate("abc"):
        broker = Broker(tmp_path / name / "store", seed)
        name_batch_topics(broker.store, "batches")
        broker.append(60)
        found.append((broker, replace(config_of(broker.store, tmp_path / name / "out"), name=name)))
    return found


def flip(broker: Broker, number: int) -> int:
    """Damage a record's magic; return its physical offset. A second time mends it."""
    place = broker.log.places[number].position
    path = broker.store / names.COMMITLOG / names.offset_file(place // LOG_FILE * LOG_FILE)
    with path.open("r+b") as file:
        file.seek(place % LOG_FILE + 4)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    return place


def metrics_of(job: Job) -> Metrics:
    metrics = Metrics({each.name: each for each in job.configs}, "", "5.5")
    job.report_to(metrics)
    return metrics


@BOTH
def test_a_damaged_store_stops_no_other_and_is_dispatched_once_it_is_mended(spark, stores, options):
    brokers, configs = zip(*stores, strict=True)
    place = flip(brokers[1], 40)
    with running(spark, configs, options) as job:
        metrics = metrics_of(job)
        for number in (0, 2):
            wait_for(job, brokers[number].log.end, number)
            wait_for(job, brokers[number].append(20), number)
        wait_until(lambda: isinstance(job._writers.failure("b"), FormatError))
        wait_until(lambda: job._writers.end("b") == place)
        wait_until(lambda: metrics.registry.get_sample_value(
            "rocketmq_reput_store_failed",
            {"cluster": "DefaultCluster", "store": "b", "node_type": "dispatcher"},
        ) == 1.0)  # fmt: skip
        assert metrics.is_alive()
        assert not metrics.is_ready(1 << 30)
        flip(brokers[1], 40)
        wait_for(job, brokers[1].log.end, 1)
        wait_until(lambda: job._writers.failure("b") is None)
        wait_until(lambda: metrics.is_ready(1 << 30))

    for broker, config in stores:
        assert progress.load(config.output).end == broker.log.end
        assert verify(config).ok


@BOTH
def test_a_job_that_starts_with_a_damaged_store_dispatches_the_others(spark, stores, options):
    """
    Again after a restart; at its end the job says what is wrong.
    """
    brokers, configs = zip(*stores, strict=True)
    place = flip(brokers[0], 40)
    for _ in range(2):
        ends = pytest.raises(FormatError)
        with ends as error, running(spark, configs, options) as job:
            for number in (1, 2):
                wait_for(job, brokers[number].append(10), number)
            wait_until(lambda: job._writers.failure("a") is not None)
        assert error.value.position == place % LOG_FILE

    for broker, config in stores[1:]:
        known = progress.load(config.output)
        assert (known.end, known.clean) == (broker.log.end, True)
    assert progress.load(configs[0].output).end == place


@BOTH
def test_a_job_whose_stores_have_all_failed_ends(spark, stores, options):
    brokers, configs = zip(*stores, strict=True)
    for broker in brokers:
        flip(broker, 40)
    job = Job(configs, options)
    with pytest.raises(FormatError):
        job.run(spark)


def test_a_store_that_stops_for_kafka_has_failed_until_kafka_is_there(spark, stores, monkeypatch):
    """
    It is tried again, and dispatched for as long as Kafka may be away: that is not to be well.
    """
    monkeypatch.setattr(backoff, "_WELL_SECONDS", 0.0)
    brokers, configs = zip(*stores[:2], strict=True)
    asked = {"on_failure": "stop", "retry_seconds": 2, "request_seconds": 0.5}
    away = kafka_settings({"bootstrap": f"127.0.0.1:{free_port()}", **asked})
    configs = [configs[0], replace(configs[1], kafka=away)]
    seen = []

    ends = pytest.raises(KafkaError, match="nothing is lost")
    with ends, running(spark, configs, DRIVER) as job:

        def has_failed_twice() -> bool:
            failure = job._writers.failure("b")
            if (failure is not None or seen) and failure not in seen:
                seen.append(failure)
            return len(seen) >= 2

        wait_until(has_failed_twice)
        wait_for(job, brokers[0].append(10))

    assert all(isinstance(failure, KafkaError) for failure in seen)


@BOTH
def test_a_rebuild_completes_the_stores_that_can_be_read(spark, stores, options):
    brokers, configs = zip(*stores, strict=True)
    place = flip(brokers[0], 40)
    job = Job(configs, replace(options, available_now=True))
    with pytest.raises(FormatError) as error:
        job.run(spark)

    assert error.value.position == place % LOG_FILE
    ends = [progress.load(config.output).end for config in configs]
    assert ends == [place, brokers[1].log.end, brokers[2].log.end]


def test_a_log_that_is_away_comes_back(spark, stores):
    brokers, configs = zip(*stores, strict=True)
    log = brokers[1].store / names.COMMITLOG
    with running(spark, configs, DRIVER) as job:
        for number in range(3):
            wait_for(job, brokers[number].log.end, number)
        log.rename(log.with_name("away"))
        wait_until(lambda: job._writers.failure("b") is not None)
        wait_for(job, brokers[2].append(20), 2)
        log.with_name("away").rename(log)
        end = brokers[1].append(20)
        wait_for(job, end, 1)
        wait_until(lambda: job._writers.failure("b") is None)

    assert verify(configs[1]).ok


def test_a_store_that_hangs_stops_neither_the_others_nor_the_end(spark, stores, monkeypatch):
    """
    A flush that does not return stands for a device that hangs.
    """
    brokers, configs = zip(*stores, strict=True)
    monkeypatch.setattr(live, "_ENDING_SECONDS", 1.0)
    left = []
    monkeypatch.setattr(live, "leave_at_once", lambda: left.append(True))
    returns = threading.Event()
    ends = pytest.raises(StuckError, match="has not moved")
    with ends, running(spark, configs, DRIVER) as job:
        for number in range(3):
            wait_for(job, brokers[number].log.end, number)
        stuck = job.dispatchers["b"]
        monkeypatch.setattr(stuck.parts.output, "flush", lambda: returns.wait() and None)
        brokers[1].append(5)
        wait_until(lambda: time.monotonic() - job._writers.seen_at("b") > 1.0)
        seen = job._writers.seen_at("b")
        for number in (0, 2):
            wait_for(job, brokers[number].append(20), number)
        assert job._writers.seen_at("b") == seen
        assert all(job._writers.seen_at(each) > seen for each in "ac")

    assert left
    for number in (0, 2):
        known = progress.load(configs[number].output)
        assert (known.end, known.clean) == (brokers[number].log.end, True)
    assert not progress.load(configs[1].output).clean
    returns.set()


def test_a_store_at_rest_that_hangs_as_it_is_closed_keeps_no_other_open(spark, stores, monkeypatch):
    """
    The first write of a quiet store is the flush at its end, where its disk may hang.
    """
    brokers, configs = zip(*stores, strict=True)
    monkeypatch.setattr(live, "_ENDING_SECONDS", 5.0)
    monkeypatch.setattr(live, "leave_at_once", lambda: None)
    returns = threading.Event()
    ends = pytest.raises(StuckError, match="has not moved")
    with ends, running(spark, configs, DRIVER) as job:
        for number in range(3):
            wait_for(job, brokers[number].log.end, number)
        stuck = job.dispatchers["a"]
        monkeypatch.setattr(stuck, "close", lambda: returns.wait() and None)

    for number in (1, 2):
        known = progress.load(configs[number].output)
        assert (known.end, known.clean) == (brokers[number].log.end, True)
    returns.set()


@BOTH
def test_a_store_that_is_not_there_at_the_start_is_dispatched_once_it_is(spark, stores, options):
    brokers, configs = zip(*stores, strict=True)
    away = brokers[0].store.with_name("away")
    brokers[0].store.rename(away)
    with running(spark, configs, options) as job:
        for number in (1, 2):
            wait_for(job, brokers[number].log.end, number)
            wait_for(job, brokers[number].append(20), number)
        wait_until(lambda: isinstance(job._writers.failure("a"), StoreError))
        away.rename(brokers[0].store)
        wait_for(job, brokers[0].log.end, 0)
        wait_until(lambda: job._writers.failure("a") is None)

    for broker, config in stores:
        assert progress.load(config.output).end == broker.log.end


@BOTH
def test_a_store_that_got_well_just_before_the_end_has_not_failed(spark, stores, options):
    brokers, configs = zip(*stores, strict=True)
    away = brokers[0].store.with_name("away")
    with running(spark, configs, replace(options, sync_flush=False)) as job:
        for number, broker in enumerate(brokers):
            wait_for(job, broker.log.end, number)
        brokers[0].store.rename(away)
        wait_until(lambda: job._writers.failure("a") is not None)
        away.rename(brokers[0].store)
        wait_for(job, brokers[0].append(20), 0)

    assert progress.load(configs[0].output).clean


def test_a_store_without_a_first_message_keeps_no_other_waiting(spark, stores):
    brokers, configs = zip(*stores, strict=True)
    log = brokers[0].store / names.COMMITLOG
    log.rename(log.with_name("later"))
    log.mkdir()
    with running(spark, configs, DRIVER) as job:
        for number in (1, 2):
            wait_for(job, brokers[number].log.end, number)
        assert job._writers.failure("a") is None
        log.rmdir()
        log.with_name("later").rename(log)
        wait_for(job, brokers[0].log.end, 0)

    for broker, config in stores:
        assert progress.load(config.output).end == broker.log.end


def test_a_store_that_comes_without_a_first_message_has_not_failed(spark, stores):
    brokers, configs = zip(*stores, strict=True)
    away = brokers[0].store.with_name("away")
    brokers[0].store.rename(away)
    with running(spark, configs, DRIVER) as job:
        wait_for(job, brokers[1].log.end, 1)
        wait_until(lambda: isinstance(job._writers.failure("a"), StoreError))
        (brokers[0].store / names.COMMITLOG).mkdir(parents=True)
        wait_until(lambda: job._writers.failure("a") is None)
        shutil.rmtree(brokers[0].store)
        away.rename(brokers[0].store)
        wait_for(job, brokers[0].log.end, 0)


def test_a_full_disk_of_spark_s_own_record_is_named(spark, stores, tmp_path):
    """
    Java says that there is no space, and not where.
    """
    _, configs = zip(*stores, strict=True)
    target = tmp_path / "record"
    target.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", target], check=True)
    options = replace(DRIVER, follow_seconds=0.2, checkpoint=target)
    said = rf"{target}/spark-.*: No space left.*--spark-checkpoint"
    try:
        with contextlib.ExitStack() as stack:
            job = stack.enter_context(running(spark, configs, options))
            wait_for(job, stores[0][0].log.end, 0)
            with contextlib.suppress(OSError), (target / "filler").open("wb") as file:
                file.write(bytes(4 << 20))
            stores[0][0].append(20)
            wait_until(lambda: job.error is not None)
            with pytest.raises(ReputError, match=said):
                stack.close()
    finally:
        subprocess.run(["umount", "--lazy", target], check=True)


def test_an_error_of_the_program_is_told_and_the_store_is_tried_again(
    spark, stores, monkeypatch, caplog
):
    brokers, configs = zip(*stores, strict=True)
    with running(spark, configs, DRIVER) as job:
        for number in range(3):
            wait_for(job, brokers[number].log.end, number)
        broken = job.dispatchers["b"]

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(broken, "dispatch", fail)
        end = brokers[1].append(20)
        wait_for(job, end, 1)
        wait_until(lambda: job._writers.failure("b") is None)

    assert "b: unexpected error; it is tried again" in caplog.text
    assert "can't start new thread" in caplog.text
    assert [store.messages for store in job.summary.stores] == [60, 80, 60]


@contextlib.contextmanager
def stopped(output: Path) -> Iterator[None]:
    """Stop an output's writer process: its listener does not answer either."""
    process = writer_of(output)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.parametrize("standing_still", [stopped, hanging])
def test_a_writer_that_stands_still_on_an_executor_is_silent_and_left(
    spark, stores, standing_still
):
    """
    The others are dispatched and told, and the job ends without it, with an error.
    """
    brokers, configs = zip(*stores, strict=True)
    with contextlib.ExitStack() as stack:
        ends = pytest.raises(StuckError, match="has not moved")
        with ends, running(spark, configs, EXECUTORS) as job:
            for number in range(3):
                wait_for(job, brokers[number].log.end, number)
            stack.enter_context(standing_still(configs[1].output))
            brokers[1].append(5)
            seen = job._writers.seen_at("b")
            for number in (0, 2):
                wait_for(job, brokers[number].append(20), number)
            wait_until(lambda: time.monotonic() - job._writers.seen_at("b") > 12.0)
            assert job._writers.seen_at("b") - seen < 2.0
            assert job._writers.failure("b") is None
            for number in (0, 2):
                wait_for(job, brokers[number].append(20), number)

        for number in (0, 2):
            known = progress.load(configs[number].output)
            assert (known.end, known.clean) == (brokers[number].log.end, True)
        assert not progress.load(configs[1].output).clean


def test_a_job_of_one_store_outlives_its_writers_silence(spark, stores):
    """
    As it does where the driver writes: a slow disk ends no job.
    """
    broker, config = stores[0]
    with running(spark, [config], EXECUTORS) as job:
        wait_for(job, broker.log.end)
        with stopped(config.output):
            wait_until(lambda: time.monotonic() - job._writers.seen_at("a") > 12.0)
            assert job.error is None
        wait_for(job, broker.append(20))
        wait_until(lambda: time.monotonic() - job._writers.seen_at("a") < 6.0)

    known = progress.load(config.output)
    assert (known.end, known.clean) == (broker.log.end, True)
    assert verify(config).ok


def test_a_lock_that_stays_held_is_told_on_an_executor_and_waited_for(spark, stores):
    """
    An answer that comes after its task has gone would tell nothing.
    """
    brokers, configs = zip(*stores[:2], strict=True)
    owner = StoreDispatcher(configs[1])
    letting_go = contextlib.ExitStack()
    letting_go.callback(owner.close)
    with letting_go, running(spark, configs, EXECUTORS) as job:
        wait_for(job, brokers[0].append(20), 0)
        for _ in range(2):
            heard = job._writers.seen_at("b")
            wait_until(lambda heard=heard: job._writers.seen_at("b") > heard)
            assert isinstance(job._writers.failure("b"), StoreError)
        letting_go.close()
        wait_for(job, brokers[1].append(20), 1)
        wait_until(lambda: job._writers.failure("b") is None)

    assert verify(configs[1]).ok
