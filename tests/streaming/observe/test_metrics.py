"""What Prometheus gets: names and meaning, over real dispatch; and health over HTTP."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helm.monitoring import series
from reput.formats.errors import (
    BodyError,
    ExpiredError,
    FileSizeError,
    FormatError,
    KafkaError,
    StoreError,
    UnreadableError,
)
from reput.formats.rocketmq.encode import Message
from reput.sinks.kafka.client.errors import TopicError
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.dispatch.stopwatch import PHASES
from reput.streaming.events import kind_of_event
from reput.streaming.kafka.state import TRANSACTION_BOUNDS, KafkaState
from reput.streaming.observe import metrics as metrics_module
from reput.streaming.observe import stores
from reput.streaming.observe.error_kinds import ERROR_KINDS, kind_of
from reput.streaming.observe.metrics import Metrics
from reput.streaming.observe.server import serve
from reput.streaming.observe.stores import StoreMetrics
from reput.streaming.settings.config import FlushPolicy
from reput.streaming.settings.space import space_of
from reput.streaming.spark.jvm import Jvm
from reput.streaming.writers.executors.protocol import error_of, failure_of
from reput.streaming.writers.state import State
from tests.builders.stores import LOG_FILE, Log, config_of, fill

BROKERS = {"node_id": "b", "storage_type": "local", "storage_medium": "disk"}
LABELS = {"cluster": "c", "store": "s", "node_type": "dispatcher"}


@pytest.fixture
def made(tmp_path):
    log = fill(Log(), 1, 60)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config, flush=FlushPolicy(is_sync=True))
    yield log, dispatcher, Metrics({"s": config}, "c", "1.2.3")
    dispatcher.close()


def state_of(dispatcher) -> State:
    return State(
        dispatcher.progress,
        dispatcher.recorded_end,
        dispatcher.index.fill,
        space=space_of(dispatcher.config.output),
    )


class FakeJvm:
    """What py4j shows of a JVM: this process, with a heap of 100 bytes of which 30 are free."""

    def __init__(self):
        self.java = self.lang = self.Runtime = self.ProcessHandle = self

    def __getattr__(self, name):
        values = {"totalMemory": 80, "freeMemory": 30, "maxMemory": 100, "pid": os.getpid()}
        return lambda: values.get(name, self)


@pytest.fixture
def served():
    servers = []

    def start(metrics, ready_bytes: int = 1 << 30):
        server = serve(metrics, "127.0.0.1", 0, ready_bytes)
        servers.append(server)

        def get(path: str) -> tuple[int, str]:
            url = f"http://127.0.0.1:{server.server_port}{path}"
            try:
                with urllib.request.urlopen(url) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return get

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def samples(text: str) -> dict[tuple[str, str], float]:
    """Return values by name and the label that is not one of a store's."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("store") == "s":
                assert {k: sample.labels[k] for k in LABELS} == LABELS
                more = [v for k, v in sample.labels.items() if k not in LABELS | BROKERS]
                found[sample.name, more[0] if more else ""] = sample.value
    return found


def test_all_that_was_dispatched_is_counted(made, served):
    log, dispatcher, metrics = made
    get = served(metrics)
    for end in (log.places[20].end, log.end):
        metrics.batch("s", dispatcher.dispatch(end), state_of(dispatcher))
    found = samples(get("/metrics")[1])
    records = log.records()
    entries = sum(r.sys_flag & 12 in {0, 8} for r in records)

    assert found["rocketmq_reput_messages_total", ""] == 60
    assert found["rocketmq_reput_log_bytes_total", ""] == log.end
    assert found["rocketmq_reput_batches_total", ""] == 2
    assert found["rocketmq_consumequeue_entries_total", "put"] == entries
    assert found["rocketmq_reput_batch_duration_seconds_count", "total"] == 2
    for phase in PHASES:
        assert found["rocketmq_reput_batch_duration_seconds_count", phase] == 2
        assert found["rocketmq_reput_batch_duration_seconds_sum", phase] > 0
    assert found["rocketmq_reput_latency_seconds_count", ""] == 60
    assert found["rocketmq_reput_latency_seconds_bucket", "3600.0"] == 0
    assert found["rocketmq_reput_offset_bytes", "dispatched"] == log.end
    assert found["rocketmq_reput_offset_bytes", "recorded"] == log.end
    assert found["rocketmq_index_items_total", ""] > 12
    assert found["rocketmq_index_files_total", ""] == len(dispatcher.index.names)
    with_entry = [r.store_timestamp for r in records if r.sys_flag & 12 in {0, 8}]
    assert found["rocketmq_checkpoint_timestamp_seconds", "logics"] == with_entry[-1] / 1000


def test_behind_is_what_is_in_the_log_and_not_dispatched(made, served):
    log, dispatcher, metrics = made
    get = served(metrics)
    middle = log.places[30]
    metrics.batch("s", dispatcher.dispatch(middle.end), state_of(dispatcher))
    found = samples(get("/metrics")[1])
    last = log.places[-1].message.store_timestamp

    assert found["rocketmq_storage_dispatch_behind_bytes", ""] == log.end - middle.end
    late = (last - middle.message.store_timestamp) / 1000
    assert found["rocketmq_storage_dispatch_behind_seconds", ""] == pytest.approx(late)
    assert found["rocketmq_reput_offset_bytes", "log_end"] == log.end
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    found = samples(get("/metrics")[1])
    assert found["rocketmq_storage_dispatch_behind_bytes", ""] == 0
    assert found["rocketmq_storage_dispatch_behind_seconds", ""] == 0


def test_a_record_that_waits_gets_older_by_the_clock(made, served, monkeypatch):
    """
    A store that stands one record short of an idle log: how far it is behind in store time stays
    the same for ever, and the age of that record grows. At the log's end there is none.
    """
    log, dispatcher, metrics = made
    get = served(metrics)
    before = log.places[-2]
    metrics.batch("s", dispatcher.dispatch(before.end), state_of(dispatcher))
    stored = log.places[-1].message.store_timestamp / 1000
    found = []
    for now in (stored + 1, stored + 10_000):
        monkeypatch.setattr(metrics_module.time, "time", lambda now=now: now)
        found.append(samples(get("/metrics")[1]))
    late, age = (
        "rocketmq_storage_dispatch_behind_seconds",
        "rocketmq_reput_oldest_undispatched_age_seconds",
    )

    assert found[0][late, ""] == found[1][late, ""]
    assert [round(each[age, ""], 3) for each in found] == [1, 10_000]
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    assert samples(get("/metrics")[1])[age, ""] == 0


def test_the_age_is_that_of_the_record_after_the_end_of_a_file(tmp_path, served, monkeypatch):
    """
    Where dispatch stands before what fills the rest of a file, the next file's first one waits.
    """
    log = fill(Log(), 5, 150)
    first = next(p for p in log.places if p.position >= LOG_FILE)
    before = next(p for p in reversed(log.places) if p.end <= LOG_FILE)
    assert before.end < LOG_FILE
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config)
    metrics = Metrics({"s": config}, "c", "1.2.3")
    dispatcher.dispatch(before.end)
    progress = replace(dispatcher.progress, end=before.end)
    metrics.state("s", replace(state_of(dispatcher), progress=progress))
    stored = first.message.store_timestamp / 1000
    monkeypatch.setattr(metrics_module.time, "time", lambda: stored + 7)
    found = samples(served(metrics)("/metrics")[1])
    dispatcher.close()

    assert found["rocketmq_reput_oldest_undispatched_age_seconds", ""] == pytest.approx(7)


def test_room_of_the_output_is_shown(made, served):
    """
    As `df` counts it: free for those without privileges, of what they may use at all.
    """
    _, dispatcher, metrics = made
    metrics.state("s", state_of(dispatcher))
    found = samples(served(metrics)("/metrics")[1])
    seen = os.statvfs(dispatcher.config.output)
    free, size = (found[f"rocketmq_reput_output_{name}_bytes", ""] for name in ("free", "size"))

    assert 0 < free <= size <= seen.f_blocks * seen.f_frsize


def test_memory_of_the_jvm_is_shown(made, served):
    """
    Its heap as it says itself, and its process as the kernel says; nothing before it was asked.
    """
    _, _, metrics = made
    get = served(metrics)
    metrics.jvm = Jvm(FakeJvm())
    assert "_jvm_" not in get("/metrics")[1]
    metrics.sample_jvm()
    text = get("/metrics")[1]

    assert "\nrocketmq_reput_jvm_heap_used_bytes 50.0\n" in text
    assert "\nrocketmq_reput_jvm_heap_max_bytes 100.0\n" in text
    resident = float(re.search(r"\nrocketmq_reput_jvm_resident_memory_bytes (\S+)", text)[1])
    assert 10 << 20 < resident < 100 << 30


def test_each_store_has_the_cluster_of_its_broker(tmp_path, served):
    """
    `brokerClusterName` as RocketMQ's BrokerConfig has it: one job may write stores of several
    clusters. What the command is told counts for all.
    """
    given = {"s": {"brokerClusterName": "prod"}, "t": {"brokerClusterName": "test"}, "u": {}}
    configs = {
        name: replace(config_of(tmp_path / name, tmp_path / f"out-{name}"), properties=properties)
        for name, properties in given.items()
    }

    def clusters(told):
        text = served(Metrics(configs, told, "1.2.3"))("/metrics")[1]
        return {
            sample.labels["store"]: sample.labels["cluster"]
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "store" in sample.labels
        }

    assert clusters("") == {"s": "prod", "t": "test", "u": "DefaultCluster"}
    assert clusters("mine") == dict.fromkeys("stu", "mine")


def test_a_broker_without_messages_is_no_trouble(tmp_path, served):
    """
    Its job has nothing to run for yet: it is ready, and says what it waits for. Where another
    store of the job has messages, those wait too, and it is not ready.
    """
    configs = {n: config_of(tmp_path / n, tmp_path / f"out-{n}") for n in "st"}
    for name in "st":
        (tmp_path / name / "commitlog").mkdir(parents=True)
    metrics = Metrics(configs, "c", "1.2.3")
    get = served(metrics)
    awaited = ("rocketmq_reput_first_message_awaited", "")
    assert get("/readyz")[0] == 503
    metrics.awaits_logs("st")
    assert get("/readyz")[0] == 200
    assert samples(get("/metrics")[1])[awaited] == 1
    fill(Log(), 1, 5).write(tmp_path / "t")
    metrics.awaits_logs("s")
    assert get("/readyz")[0] == 503
    assert samples(get("/metrics")[1])[awaited] == 1
    metrics.alive(is_active=False)
    assert get("/readyz")[0] == 503
    metrics.alive()
    # One store is dispatched, and the other one has nothing to dispatch yet.
    assert get("/readyz")[0] == 200
    text = get("/metrics")[1]
    for name, value in (("s", "1.0"), ("t", "0.0")):
        series = rf'^{awaited[0]}{{.*store="{name}"}} {value}$'
        assert re.search(series, text, re.MULTILINE)


def test_a_look_that_hangs_is_waited_for_once(tmp_path, monkeypatch):
    """
    Six stores on a disk that hangs left a scrape without an answer.
    """
    log = fill(Log(), 1, 5)
    config = config_of(log.write(tmp_path / "s"), tmp_path / "out")
    store = StoreMetrics(config, skips_corrupt=False)
    assert store.behind() is not None
    answers = threading.Event()
    monkeypatch.setattr(store, "_look_at_log", answers.wait)
    monkeypatch.setattr(stores, "_LOOK_SECONDS", 0.05)
    try:
        assert store.behind() is None
        # A second look would wait for as long as the device hangs.
        monkeypatch.setattr(stores, "_LOOK_SECONDS", 3600)
        assert store.behind() is None
    finally:
        answers.set()
    store._shared._thread.join(10)
    assert store.behind() is not None


def test_looks_that_hang_are_waited_for_at_the_same_time(tmp_path, monkeypatch):
    """
    One after another, six of them took longer than Prometheus waits for a scrape.
    """
    log = fill(Log(), 1, 5)
    path = log.write(tmp_path / "s")
    configs = {name: config_of(path, tmp_path / name) for name in "abc"}
    metrics = Metrics(configs, "c", "1")
    answers, all_look = threading.Event(), threading.Barrier(len(configs) + 1)

    def hang() -> None:
        all_look.wait()
        answers.wait()

    for store in metrics._stores.values():
        monkeypatch.setattr(store, "_look_at_log", hang)
    monkeypatch.setattr(stores, "_LOOK_SECONDS", 3600)
    scrape = threading.Thread(target=lambda: list(metrics.collect()))
    scrape.start()
    try:
        # One by one, the second one would wait for the first.
        all_look.wait(30)
    finally:
        answers.set()
        scrape.join(30)
    assert not scrape.is_alive()


def test_each_of_several_clients_is_told_what_its_look_found(tmp_path, monkeypatch):
    """
    A look that began as another one ended took its result away: a healthy store was not ready.
    """
    log = fill(Log(), 1, 5)
    config = config_of(log.write(tmp_path / "s"), tmp_path / "out")
    store = StoreMetrics(config, skips_corrupt=False)
    assert store.behind() is not None
    monkeypatch.setattr(store, "_look_at_log", lambda: time.sleep(0.0005))
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(store.behind() for _ in range(500)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2000
    assert None not in found


@pytest.mark.parametrize("is_live", [False, True])
def test_the_log_s_end_is_the_job_s(tmp_path, served, monkeypatch, is_live):
    """
    Past a hole that the job passes over, or at it where a broker holds the store and says so; and
    after a last record that ends with a zero only once nobody writes it.
    """
    log = fill(Log(), 5, 150)
    hole = next(p for p in log.places if p.position > log.end - log.end % LOG_FILE)
    assert hole.end < log.end
    log.data[hole.position : hole.end] = bytes(hole.size)
    last = log.append(
        Message("t", queue_offset=7, store_timestamp=1_900_000_000_000, properties={"A": "b"})
    )
    log.data[-1] = 0
    store = log.write(tmp_path / "store")
    old = 1_700_000_000
    for path in (store / "commitlog").iterdir():
        os.utime(path, (old, old))
    monkeypatch.setattr("reput.stores.log.broker_lock.is_held", lambda path: is_live)
    monkeypatch.setattr("reput.streaming.observe.stores.is_held", lambda path: is_live)
    config = config_of(store, tmp_path / "out")
    end = hole.position if is_live else last.end
    dispatcher = StoreDispatcher(config, skips_corrupt=True)
    metrics = Metrics({"s": config}, "c", "1.2.3", skips_corrupt=True)
    get = served(metrics)
    metrics.batch("s", dispatcher.dispatch(log.places[2].end), state_of(dispatcher))
    found = samples(get("/metrics")[1])

    assert found["rocketmq_reput_offset_bytes", "log_end"] == end
    assert found["rocketmq_storage_dispatch_behind_bytes", ""] == end - log.places[2].end
    dispatcher.close()


def test_offsets_of_a_new_output_appear_once_they_are_known(tmp_path, served):
    """
    For a log whose first files have expired, 0 would stand before its begin, as what was dispatched
    and has expired since does.
    """
    log = fill(Log(), 4, 80)
    store = log.write(tmp_path / "store")
    (store / "commitlog" / f"{0:020d}").unlink()
    config = config_of(store, tmp_path / "out")
    dispatcher = StoreDispatcher(config)
    metrics = Metrics({"s": config}, "c", "1.2.3")
    get = served(metrics)

    def shown():
        found = samples(get("/metrics")[1])
        return {
            which: value for (name, which), value in found.items() if name.endswith("_offset_bytes")
        }

    metrics.state("s", state_of(dispatcher))
    at_first = shown()
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    dispatched = shown()
    dispatcher.close()
    metrics.state("s", state_of(dispatcher))
    recorded = shown()

    assert at_first == {"log_begin": LOG_FILE, "log_end": log.end}
    assert dispatched == {**at_first, "dispatched": log.end}
    assert recorded == {**dispatched, "recorded": log.end}


def test_what_can_go_wrong_is_there_before_it_does(made, served):
    """
    A counter that appears with its first event shows no increase.
    """
    _, dispatcher, metrics = made
    get = served(metrics)
    found = samples(get("/metrics")[1])

    for kind in ERROR_KINDS:
        assert found["rocketmq_reput_errors_total", kind] == 0
    for phase in ("total", *PHASES):
        assert found["rocketmq_reput_batch_duration_seconds_count", phase] == 0
    # Not before it is known: what an earlier process had counted would look like new events.
    assert ("rocketmq_storage_dispatch_behind_bytes", "") not in found
    assert ("rocketmq_reput_data_loss_gaps", "") not in found
    metrics.state("s", state_of(dispatcher))
    found = samples(get("/metrics")[1])
    for name in ("corrupt_skipped", "data_loss_gaps", "data_loss_bytes", "log_truncations_total"):
        assert found[f"rocketmq_reput_{name}", ""] == 0
    assert found["rocketmq_reput_starts_total", ""] == 1


def test_the_broker_s_series_has_the_broker_s_labels(made, served):
    """
    RocketMQ's BrokerMetricsManager and DefaultStoreMetricsManager: the same query finds both.
    """
    log, dispatcher, _ = made
    config = replace(dispatcher.config, properties={"brokerName": "b"})
    metrics = Metrics({"s": config}, "c", "1.2.3")
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    families = text_string_to_metric_families(served(metrics)("/metrics")[1])
    (family,) = [f for f in families if f.name == "rocketmq_storage_dispatch_behind_bytes"]

    assert family.type == "gauge"
    assert family.samples[0].labels == LABELS | BROKERS


def test_queues_have_series_only_if_asked(made, served):
    """
    A broker may have ten thousand.
    """
    log, dispatcher, metrics = made
    get = served(metrics)
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    name = "rocketmq_consumequeue_max_offset"
    assert name not in get("/metrics")[1]
    metrics.shows_queues = True
    families = text_string_to_metric_families(get("/metrics")[1])
    (family,) = [f for f in families if f.name == name]
    queues = {(s.labels["topic"], s.labels["queue_id"]): s.value for s in family.samples}
    wanted = {
        key: end // 20
        for key, end in dispatcher.progress.queues.items()
        if key.startswith("consumequeue/")
    }

    assert {f"consumequeue/{topic}/{queue}": v for (topic, queue), v in queues.items()} == wanted
    assert len(wanted) > 1


def test_dashboard_and_alerts_know_what_is_exported(made, served):
    """
    Every series by name and labels: one that is renamed here would leave a panel empty there.
    """
    log, dispatcher, metrics = made
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    metrics.jvm = Jvm(FakeJvm())
    metrics.sample_jvm()
    exported = {}
    for family in text_string_to_metric_families(served(metrics)("/metrics")[1]):
        for sample in family.samples:
            name = re.sub("_(bucket|sum|count)$", "", sample.name)
            exported[name] = set(sample.labels) - set(series.STORE_LABELS) - {"le"}

    # Those of Kafka are there with it: see the test of the way to Kafka.
    assert {name: exported.get(name) for name in series.ALL if name not in series.KAFKA} == {
        name: set(labels) for name, labels in series.ALL.items() if name not in series.KAFKA
    }
    ours = {name for name in exported if name.startswith("rocketmq_")}
    assert ours <= set(series.ALL)


def test_a_gap_and_its_bytes(tmp_path):
    log = fill(Log(), 4, 80)
    store = log.write(tmp_path / "store")
    config = config_of(store, tmp_path / "out")
    dispatcher = StoreDispatcher(config, fail_on_data_loss=False)
    dispatcher.dispatch(log.places[3].end)
    (store / "commitlog" / f"{0:020d}").unlink()
    batch = dispatcher.dispatch(log.end)
    dispatcher.close()

    assert batch.lost == LOG_FILE - log.places[3].end
    assert [kind_of_event(event) for event in batch.events] == ["gap"]


def test_what_happened_is_counted_over_the_ends_of_processes(tmp_path, served):
    """
    A gap in the first batch of a process, before its first scrape, is a step to the one before.
    """
    log = fill(Log(), 4, 80)
    store = log.write(tmp_path / "store")
    config = config_of(store, tmp_path / "out")
    StoreDispatcher(config).close()
    dispatcher = StoreDispatcher(config)
    dispatcher.dispatch(log.places[3].end)
    # As a kill leaves it: opened, and never closed.
    dispatcher.flush()
    dispatcher.abandon()
    (store / "commitlog" / f"{0:020d}").unlink()
    dispatcher = StoreDispatcher(config, fail_on_data_loss=False)
    metrics = Metrics({"s": config}, "c", "1.2.3")
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    found = samples(served(metrics)("/metrics")[1])
    dispatcher.close()

    assert found["rocketmq_reput_starts_total", ""] == 3
    assert found["rocketmq_reput_recoveries_total", ""] == 1
    assert found["rocketmq_reput_data_loss_gaps", ""] == 1
    assert found["rocketmq_reput_data_loss_bytes", ""] == LOG_FILE - log.places[3].end


def test_what_may_get_fewer_is_no_counter(tmp_path, served):
    """
    A broker that cuts its log removes the places that were passed over there: of a counter,
    Prometheus would take that for a restart, and all that are left for new ones.
    """
    log = fill(Log(), 1, 60)
    config = config_of(log.write(tmp_path / "store"), tmp_path / "out")
    dispatcher = StoreDispatcher(config)
    metrics = Metrics({"s": config}, "c", "1.2.3")
    dispatcher.dispatch(log.end)
    found = replace(dispatcher.progress, skipped=((10, 20), (30, 40), (50, 60)), lost=((0, 5),))
    # The disk's free bytes get fewer by themselves.
    state = replace(state_of(dispatcher), progress=found, space=None)
    metrics.state("s", state)
    get = served(metrics)
    before = get("/metrics")[1]
    cut = replace(found, skipped=found.skipped[:2], lost=())
    metrics.state("s", replace(state, progress=cut))
    after = get("/metrics")[1]
    dispatcher.close()
    fewer = {
        name
        for (name, more), value in samples(after).items()
        if value < samples(before)[name, more]
    }
    kinds = {family.name: family.type for family in text_string_to_metric_families(after)}

    names = {"corrupt_skipped", "data_loss_gaps", "data_loss_bytes"}
    assert fewer == {f"rocketmq_reput_{name}" for name in names}
    assert {kinds[name] for name in fewer} == {"gauge"}


def test_health(made, served, monkeypatch):
    log, dispatcher, metrics = made
    get = served(metrics, ready_bytes=log.end // 2)
    assert get("/healthz")[0] == 200
    assert get("/readyz")[0] == 503
    metrics.batch("s", dispatcher.dispatch(log.places[2].end), state_of(dispatcher))
    assert get("/readyz")[0] == 503
    metrics.batch("s", dispatcher.dispatch(log.end), state_of(dispatcher))
    assert get("/readyz")[0] == 200
    for text, answer in (("a hole", 503), ("a hole", 503), ("", 200), ("a hole", 503)):
        metrics.state("s", replace(state_of(dispatcher), flaw=text))
        assert get("/readyz")[0] == answer
    # Counted as often as it came.
    found = samples(get("/metrics")[1])
    assert found["rocketmq_reput_errors_total", "corrupt"] == 2
    metrics.state("s", state_of(dispatcher))
    assert get("/other")[0] == 404
    monkeypatch.setattr(metrics_module, "_ALIVE_SECONDS", -1.0)
    assert get("/healthz")[0] == 503


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("corrupt", FormatError("/store/commitlog/00000000000000000000", 0, "b")),
        ("corrupt", FormatError("/elsewhere/00000000000000000000", 0, "b")),
        ("corrupt", UnreadableError("/store/commitlog/00000000000000000000", 0, "DELAY")),
        ("expired", ExpiredError("gone")),
        ("index", FormatError("/out/index/20260101000000000", 0, "b")),
        ("index", OSError(errno.ENOTDIR, "", "/out/index")),
        ("consumequeue", StoreError("/out/consumequeue/t/0/x", "a", "b")),
        ("consumequeue", OSError(errno.EINVAL, "", "/out/batchconsumequeue/t/0")),
        ("io", OSError(errno.EIO, "", "/out/batchconsumequeue/t/0")),
        ("io", OSError(errno.ENOSPC, "", "/out/consumequeue/t/0/00000000000000000000")),
        ("io", OSError(errno.ENOSPC, "", "/out/index/20260101000000000")),
        ("io", OSError(errno.EACCES, "", "/out/index/20260101000000000")),
        ("other", FormatError("/out/.reput/progress.json", 0, "b")),
        ("store", StoreError("/out", "a", "b")),
        ("store", FormatError("/store/checkpoint", 8, "too short")),
        ("store", FileSizeError("/store/commitlog/00000000000000000000", 9, "too long")),
        ("kafka", BodyError("/store/commitlog/00000000000000000000", 9, "not zlib")),
        ("store", FormatError("/store/config/topics.json", 8, "no JSON")),
        ("io", OSError(errno.ENOSPC, "", "/out/.reput/new")),
        ("io", OSError(errno.EBADF, "", 7)),
        ("io", OSError("full")),
        ("kafka", KafkaError("away")),
        ("kafka", TopicError("missing")),
        ("other", ValueError()),
    ],
)
def test_errors_have_a_kind_by_the_file_that_they_name(kind, error):
    """
    Each kind is another alert, and another page of the runbook; also after a pickle. A full disk is
    the same in whichever file: it is not a gap in a consume queue.
    """
    config = config_of(Path("/store"), Path("/out"))

    assert kind_of(error, config) == kind
    assert kind_of(error_of(failure_of(error)), config) == kind


def test_a_log_that_cannot_be_looked_at_is_its_store_s_trouble(tmp_path, served, caplog):
    """
    One store's commitlog directory becomes a file. The scrape continues for the others; that store is
    not ready, because how far it is behind is not known, and old figures do not stand in for that. Once
    the directory is back, so are they.
    """
    configs, dispatchers = {}, {}
    for name in "st":
        log = fill(Log(), 1, 20)
        configs[name] = config_of(log.write(tmp_path / name), tmp_path / f"out-{name}")
        dispatchers[name] = StoreDispatcher(configs[name])
    metrics = Metrics(configs, "c", "1.2.3")
    get = served(metrics)
    for name, dispatcher in dispatchers.items():
        metrics.batch(name, dispatcher.dispatch(log.end), state_of(dispatcher))
    assert get("/readyz")[0] == 200
    looked_up = {
        "rocketmq_storage_dispatch_behind_bytes": "",
        "rocketmq_reput_oldest_undispatched_age_seconds": "",
        "rocketmq_reput_offset_bytes": "log_end",
    }
    commitlog = tmp_path / "s" / "commitlog"
    commitlog.rename(tmp_path / "aside")
    commitlog.write_text("not a directory")
    # An end that was seen a moment ago is looked at again when its time is over.
    metrics._stores["s"]._watch._looked_at -= 60
    for _ in range(2):
        status, text = get("/metrics")
        assert status == 200
        assert get("/readyz")[0] == 503
    found = samples(text)
    for series_name, label in looked_up.items():
        assert (series_name, label) not in found
        assert re.search(rf'^{series_name}{{.*store="t"', text, re.MULTILINE)
    assert found["rocketmq_reput_offset_bytes", "dispatched"] == log.end
    (line,) = [each.getMessage() for each in caplog.records if "looked at" in each.getMessage()]
    assert line.startswith("s: ")
    assert str(commitlog) in line
    commitlog.unlink()
    (tmp_path / "aside").rename(commitlog)
    assert get("/readyz")[0] == 200
    assert looked_up.items() <= samples(get("/metrics")[1]).keys()
    for dispatcher in dispatchers.values():
        dispatcher.close()


def test_what_ends_the_job_is_counted_once_and_for_the_store_that_it_names(tmp_path, served):
    configs = {n: config_of(tmp_path / f"store-{n}", tmp_path / f"out-{n}") for n in ("s", "t")}
    metrics = Metrics(configs, "c", "1.2.3")
    get = served(metrics)
    metrics.failed(StoreError(tmp_path / "store-s", "a", "b"))
    error = OSError(errno.EIO, "", str(tmp_path / "out-s" / "index"))
    metrics.error("s", error)
    metrics.failed(error)
    said = OSError(errno.EIO, "", str(tmp_path / "out-s" / "index"))
    said.__cause__ = error
    metrics.failed(said)
    found = samples(get("/metrics")[1])

    assert found["rocketmq_reput_errors_total", "store"] == 1
    # The device failed, whichever file it was that showed it.
    assert found["rocketmq_reput_errors_total", "io"] == 1
    assert found["rocketmq_reput_errors_total", "index"] == 0
    assert get("/readyz")[0] == 503
    assert 'store="t"' in get("/metrics")[1]
    assert not re.search('errors_total.*store="t".* 1.0', get("/metrics")[1])


@pytest.mark.parametrize("is_early", [False, True])
def test_a_failed_job_waits_for_the_scrape_that_shows_it(made, served, is_early):
    """
    Not for a health check; and not for ever. A scrape may come as soon as the error is counted.
    """
    _, _, metrics = made
    get = served(metrics)
    waiting = threading.Thread(target=metrics.wait_for_scrape, args=(60.0,))
    get("/metrics")
    metrics.failed(RuntimeError("it is over"))
    if is_early:
        get("/metrics")
    waiting.start()
    get("/healthz")
    waiting.join(0.3)
    assert is_early or waiting.is_alive()
    if not is_early:
        get("/metrics")
    waiting.join(10)
    assert not waiting.is_alive()


def test_the_way_to_kafka_is_shown(made, served):
    """
    Every series that dashboard and alerts ask for is there, with the values of the thread's state.
    """
    _, dispatcher, metrics = made
    seconds = tuple(range(len(TRANSACTION_BOUNDS) + 1))
    kafka = KafkaState(
        end=100, wanted=150, store_timestamp=1, messages=5, notices=6, dead_letters=7, bytes=8,
        retries=9, seconds=seconds, total_seconds=10.0, in_flight=11, is_connected=True,
        truncations=12, stopped="refused",
    )  # fmt: skip
    metrics.state("s", State(dispatcher.progress, 0, kafka=kafka))
    _, text = served(metrics)("/metrics")

    families = {f.name: f for f in text_string_to_metric_families(text)}
    exported = {
        f"{f.name}_total" if f.type == "counter" else f.name
        for f in families.values()
        if "_kafka_" in f.name
    }
    assert exported == series.KAFKA
    values = {
        (sample.name.removeprefix("rocketmq_reput_kafka_"), sample.labels.get("product", "")):
        sample.value for f in families.values() for sample in f.samples if "_kafka_" in f.name
    }  # fmt: skip
    assert values["lag_bytes", ""] == 50
    assert values["stopped", ""] == 1
    assert values["messages_total", "messages"] == 5
    assert values["messages_total", "arrivals"] == 6
    assert values["dead_letters_total", ""] == 7
    assert values["transaction_duration_seconds_count", ""] == sum(seconds)


def test_a_lag_that_is_not_known_is_not_shown_as_none(made, served):
    """
    Before Kafka was ever reached nothing says how far it is: a zero would say that it has all.
    """
    _, dispatcher, metrics = made
    kafka = KafkaState(end=-1, wanted=500, is_connected=False)
    metrics.state("s", State(dispatcher.progress, 0, kafka=kafka))
    _, text = served(metrics)("/metrics")

    assert "rocketmq_reput_kafka_connected{" in text
    for name in ("lag_bytes", "lag_seconds", "offset_bytes"):
        assert f"rocketmq_reput_kafka_{name}{{" not in text


def test_a_kafka_that_nobody_has_tried_is_not_shown_as_away(made, served):
    """
    While Spark starts there is nothing to send; a zero would make the alert fire that says that the
    last attempt failed.
    """
    _, dispatcher, metrics = made
    metrics.state("s", State(dispatcher.progress, 0, kafka=KafkaState()))
    _, text = served(metrics)("/metrics")

    assert "rocketmq_reput_kafka_stopped{" in text
    assert "rocketmq_reput_kafka_connected{" not in text


def test_a_store_whose_kafka_is_held_back_is_not_ready(made, served):
    """
    The job continues; that Kafka waits for somebody is said by /readyz, and counted once.
    """
    _, dispatcher, metrics = made
    get = served(metrics)
    metrics.alive()
    metrics.state("s", State(dispatcher.progress, 0, kafka=KafkaState(trouble="away")))
    assert get("/readyz")[0] == 200
    for _ in range(3):
        held = KafkaState(trouble="refused", stopped="refused")
        metrics.state("s", State(dispatcher.progress, 0, kafka=held))

    assert get("/readyz")[0] == 503
    assert samples(get("/metrics")[1])["rocketmq_reput_errors_total", "kafka"] == 1
