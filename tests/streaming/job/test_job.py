"""The whole job over Spark: logs that change under it, and every mix of Spark's record and ours."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from dataclasses import replace

import pytest

from reput.checkpoints import progress, quarantine
from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq import names
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.job.job import Job
from reput.streaming.observe.metrics import Metrics
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.model.choices import Placement
from reput.streaming.verify.output import verify
from reput.streaming.writers.job_options import JobOptions
from tests.builders.brokers import Broker
from tests.builders.jobs import running, wait_for
from tests.builders.slow_twins import differences
from tests.builders.stores import LOG_FILE, config_of, files_of, name_batch_topics
from tests.builders.waiting import wait_until

pytestmark = pytest.mark.spark
LIVE = JobOptions(sync_flush=True)
NOW = JobOptions(available_now=True)


@pytest.mark.parametrize(
    ("options", "cap", "of_store"),
    [
        (JobOptions(), 8 << 30, None),
        # Nothing ends a batch there but its end.
        (JobOptions(placement=Placement.EXECUTORS), 16 << 30, 1 << 30),
        (JobOptions(max_batch_bytes=5, placement=Placement.EXECUTORS), 5, None),
    ],
)
def test_a_batch_is_as_large_as_suits_where_stores_are_written(options, cap, of_store):
    assert options.batch_bytes(cores=32) == cap
    assert options.store_bytes == of_store


@pytest.fixture
def made(tmp_path):
    broker = Broker(tmp_path / "store", 3)
    name_batch_topics(broker.store, "batches")
    return broker, config_of(broker.store, tmp_path / "out")


def test_a_log_that_is_cut_and_written_anew_is_followed(spark, made):
    """
    Shorter than before, longer, and cut in a file that goes.
    """
    broker, config = made
    end = broker.append(60)
    with running(spark, [config], LIVE) as job:
        wait_for(job, end)
        for kept, more in ((50, 2), (45, 60), (30, 3), (25, 200)):
            broker.recover(broker.log.places[kept].position)
            end = broker.append(more, now=broker.messages.now + 9000)
            at = end % LOG_FILE
            path = broker.store / names.COMMITLOG / names.offset_file(end - at)
            # What stands after it is not looked at by a broker; here it would be taken for its log.
            path.write_bytes(path.read_bytes()[:at].ljust(LOG_FILE, b"\0"))
            wait_for(job, end)
        events = job.summary.stores[0].events

    assert any("was cut and rewritten" in event for event in events)
    assert differences(files_of(config.output), broker.expected(config.settings)) == []


def test_what_was_waited_with_is_dispatched_when_the_broker_stops(spark, made, held):
    """
    No batch comes then, because the log does not grow.
    """
    broker, config = made
    let_go = held(broker.store)
    broker.append(10)
    middle = broker.log.end
    with running(spark, [config], LIVE) as job:
        wait_for(job, middle)
        end = broker.append(1, now=broker.messages.now - 900_000)
        time.sleep(1.5)
        assert job.summary.stores[0].end == middle
        let_go()
        wait_for(job, end)

    assert differences(files_of(config.output), broker.expected(config.settings)) == []


@pytest.mark.parametrize("placement", list(Placement))
@pytest.mark.parametrize("is_asked_to_end", [False, True])
def test_settings_that_cannot_be_read_at_the_end_are_refused(
    spark, made, monkeypatch, placement, is_asked_to_end
):
    """
    Records may have got types that a topic had no longer; one that was asked to end is not done.
    """
    broker, config = made
    end = broker.append(20)
    job = Job([config], replace(NOW, placement=placement))
    topics = broker.store / names.CONFIG / "topics.json"

    def damage() -> tuple[()]:
        # All is dispatched by then.
        topics.write_text("no json at all")
        os.utime(topics, (1, 1))
        if is_asked_to_end:
            job.stop()
        return ()

    monkeypatch.setattr(job._writers, "drain_kafka", damage)
    if is_asked_to_end:
        assert job.run(spark).stores[0].end == end
    else:
        with pytest.raises(StoreError, match=r"topics\.json: .*Restore it"):
            job.run(spark)
    known = progress.load(config.output)
    assert (known.end, known.clean) == (end, True)


def test_a_batch_that_comes_while_the_query_is_ended_does_not_wait_for_that(made):
    """
    Spark's `stop` waits for the batch; if the batch waited for the caller of that, neither would end.
    """
    broker, config = made
    broker.append(10)
    job = Job([config], LIVE)
    try:
        with job._turns._batch:
            batch = threading.Thread(target=job._dispatch_batch, args=(None, 0), daemon=True)
            batch.start()
            batch.join(0.5)
            # It does wait for its turn: the lock is also held while something is flushed.
            assert batch.is_alive()
            job.stop()
            batch.join(10)
            assert not batch.is_alive()
    finally:
        # Left as it is, what waits for its end would end this process.
        job.abandon()
    assert job.summary.stores[0].messages == 0


def test_everything_is_flushed_while_nothing_comes(spark, made):
    broker, config = made
    end = broker.append(10)
    with running(spark, [config], JobOptions(flush_seconds=0.5)) as job:
        wait_for(job, end)
        wait_until(lambda: progress.load(config.output).end == end)


def test_what_comes_while_the_job_ends_is_logged_too(spark, made, caplog):
    """
    Spark's last batch is over by then.
    """
    broker, config = made
    caplog.set_level(logging.INFO, logger="reput")
    broker.append(10)
    with running(spark, [config], LIVE) as job:
        wait_for(job, broker.log.end)
        look = job._writers.look_for_flaws

        def look_later():
            end = broker.append(5)
            wait_until(lambda: job._writers.end(config.name) == end)
            return look()

        job._writers.look_for_flaws = look_later
    lines = [record for record in caplog.records if hasattr(record, "messages")]

    assert job.summary.stores[0].end == broker.log.end
    assert sum(record.messages for record in lines) == job.summary.stores[0].messages == 15


def test_a_missing_file_is_explained_where_the_job_hears_of_it_before_spark_tells(
    spark, made, monkeypatch
):
    broker, config = made
    broker.append(300)
    config.path.joinpath(names.COMMITLOG, names.offset_file(LOG_FILE)).unlink()
    job = Job([config], NOW)
    take = job._outcome.take

    def take_slowly(error: BaseException | None, store: str | None = None) -> None:
        take(error, store)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(1)

    monkeypatch.setattr(job._outcome, "take", take_slowly)
    with pytest.raises(FormatError, match=r"(?s)which leaves out [0-9]+ bytes .* are dispatched"):
        job.run(spark)


@pytest.mark.parametrize("skips", [True, False])
def test_a_corrupt_record_is_passed_over_only_if_asked(spark, made, skips):
    broker, config = made
    broker.append(60)
    place = broker.log.places[20]
    path = broker.store / names.COMMITLOG / names.offset_file(place.position // LOG_FILE * LOG_FILE)
    raw = bytearray(path.read_bytes())
    raw[place.position % LOG_FILE + 4] ^= 1
    path.write_bytes(raw)
    job = Job([config], JobOptions(available_now=True, skips_corrupt=skips))
    if skips:
        summary = job.run(spark)
        assert summary.stores[0].messages == 59
        assert "Skipped" in summary.stores[0].events[0]
        assert [kept.start for kept in quarantine.load(config.output)] == [place.position]
        assert verify(config).ok
    else:
        with pytest.raises(Exception, match=str(path)):
            job.run(spark)
        assert progress.load(config.output).end == place.position


@pytest.mark.parametrize("placement", [Placement.DRIVER, Placement.EXECUTORS])
def test_a_running_job_that_waits_at_a_hole_does_not_end_as_if_all_were_fine(
    spark, made, placement
):
    """
    Good records follow zeros in the last file of a log that no broker holds. The job counts that,
    is not ready, and ends with the error that a rebuild has; all before the hole is dispatched.
    """
    broker, config = made
    broker.append(60)
    inside = [p for p in broker.log.places if p.position >= broker.log.end // LOG_FILE * LOG_FILE]
    start, end = inside[0].position, inside[0].end
    assert end < broker.log.end
    path = broker.store / names.COMMITLOG / names.offset_file(start // LOG_FILE * LOG_FILE)
    raw = bytearray(path.read_bytes())
    raw[start % LOG_FILE : end % LOG_FILE] = bytes(end - start)
    path.write_bytes(raw)
    metrics = Metrics({config.name: config}, "c", "1.2.3")

    def errors() -> float | None:
        labels = {"cluster": "c", "store": config.name, "node_type": "dispatcher"}
        name = "rocketmq_reput_errors_total"
        return metrics.registry.get_sample_value(name, {**labels, "kind": "corrupt"})

    def run() -> None:
        with running(spark, [config], replace(LIVE, placement=placement)) as job:
            job.report_to(metrics)
            wait_for(job, start)
            wait_until(errors)
            assert not metrics.is_ready(1 << 40)

    with pytest.raises(FormatError, match="continues after a hole") as raised:
        run()
    assert raised.value.path == str(path)
    assert errors() == 1
    assert progress.load(config.output).end == start


class TestEveryMix:
    """Of Spark's own checkpoint and our output; the output decides, whatever Spark thinks."""

    @pytest.mark.parametrize("spark_record", ["present", "lost", "older", "newer"])
    @pytest.mark.parametrize("output", ["complete", "behind", "ahead", "gone"])
    def test_it_goes_on_right(self, spark, made, tmp_path, spark_record, output):
        """
        Older: of a batch before. Newer: of batches that the output never had.
        """
        broker, config = made
        checkpoint = tmp_path / "spark"
        options = JobOptions(available_now=True, checkpoint=checkpoint)
        kept = {}
        for step in ("older", "present", "newer"):
            broker.append(25)
            Job([config], options).run(spark)
            kept[step] = tmp_path / f"spark-{step}"
            shutil.copytree(checkpoint, kept[step])
            shutil.copytree(config.output, tmp_path / f"out-{step}")
        shutil.rmtree(checkpoint)
        if spark_record != "lost":
            shutil.copytree(kept[spark_record], checkpoint)
        shutil.rmtree(config.output)
        if output != "gone":
            shutil.copytree(
                tmp_path / ("out-newer" if output == "complete" else "out-present"), config.output
            )
        if output == "ahead":
            # Half a batch written and not recorded: its writer was killed.
            writer = StoreDispatcher(config, flush=FlushPolicy(thorough_seconds=3600))
            writer.dispatch(broker.log.places[62].end)
            writer.abandon()
        Job([config], options).run(spark)

        assert differences(files_of(config.output), broker.expected(config.settings)) == []
        assert verify(config).ok
