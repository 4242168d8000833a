"""What `reput serve` shows of its servers."""

from __future__ import annotations

import logging
import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from helm.monitoring.series import SERVE
from reput.remoting.counting.counters import SentBack
from reput.streaming.observe.server import serve
from reput.streaming.observe.serving import MOST_GROUPS, OTHERS, TEXTS, ServeMetrics

PREFIX = "rocketmq_reput_serve_"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(clock):
    return ServeMetrics(clock)


def series(metrics):
    """Return the values by name without the prefix and labels without the server."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            if sample.name.startswith(PREFIX):
                name = sample.name.removeprefix(PREFIX)
                assert (sample.labels["cluster"], sample.labels["node_type"]) == ("c", "server")
                labels = [sample.labels[each] for each in ("store", *TEXTS[name][1])]
                found[name, *labels] = sample.value
    return found


def test_a_new_server_begins_with_zeros(metrics):
    """
    A first event is a step only if there was a zero before it.
    """
    metrics.server("c", "broker-a")

    found = series(metrics)
    assert found["connections", "broker-a"] == 0
    assert found["sent_back_total", "broker-a", "refused"] == 0
    assert set(found.values()) == {0}


def test_connections_requests_and_bytes_are_counted_by_server(metrics):
    broker, names = metrics.server("c", "broker-a"), metrics.server("c", "namesrv")
    for change in (1, 1, -1):
        broker.connected(change)
    broker.answered(11, 0, 700, messages=3)
    broker.answered(11, 19, 100)
    broker.oneway(15)
    names.answered(105, 17, 90)
    broker.held(7)
    broker.slow(2)
    broker.dropped()
    broker.cold_pull()
    broker.duplicate_client()
    broker.sent_back(SentBack.KEPT)

    found = series(metrics)
    assert found["connections", "broker-a"] == 1
    assert found["connections_opened_total", "broker-a"] == 2
    assert found["requests_total", "broker-a", "PULL_MESSAGE", "SUCCESS"] == 1
    assert found["requests_total", "broker-a", "PULL_MESSAGE", "PULL_NOT_FOUND"] == 1
    assert found["requests_total", "broker-a", "UPDATE_CONSUMER_OFFSET", "(oneway)"] == 1
    assert found["requests_total", "namesrv", "GET_ROUTEINFO_BY_TOPIC", "TOPIC_NOT_EXIST"] == 1
    assert found["answer_bytes_total", "broker-a"] == 800
    assert found["messages_total", "broker-a"] == 3
    assert found["held_pulls", "broker-a"] == 7
    assert found["slow_readers", "broker-a"] == 2
    for name in ("connections_dropped_total", "cold_pulls_total", "duplicate_clients_total"):
        assert found[name, "broker-a"] == 1
    assert found["sent_back_total", "broker-a", "kept"] == 1


def test_codes_that_clients_make_up_are_one_series(metrics):
    broker = metrics.server("c", "broker-a")
    for code in range(10_000, 10_500):
        broker.answered(code, code, 1)

    requests = {key: value for key, value in series(metrics).items() if key[0] == "requests_total"}
    assert requests == {("requests_total", "broker-a", "OTHER", "OTHER"): 500}


class TestLags:
    def test_so_many_groups_have_a_series_of_their_own_and_the_rest_one(self, metrics):
        broker = metrics.server("c", "broker-a")
        broker.lags({f"g{number}": number for number in range(MOST_GROUPS + 3)})

        found = series(metrics)
        lags = {key[2]: value for key, value in found.items() if key[0] == "group_lag_messages"}
        assert len(lags) == MOST_GROUPS + 1
        assert lags["g7"] == 7
        assert lags[OTHERS] == 3 * MOST_GROUPS + 3
        assert found["groups", "broker-a"] == MOST_GROUPS + 3

    def test_a_group_keeps_its_series_while_it_is_there(self, metrics):
        broker = metrics.server("c", "broker-a")
        many = {f"g{number}": 1 for number in range(MOST_GROUPS)}
        broker.lags(many)
        broker.lags({"new": 5, **many})
        assert ("group_lag_messages", "broker-a", "new") not in series(metrics)

        del many["g3"]
        broker.lags({"new": 5, **many})
        found = series(metrics)
        assert found["group_lag_messages", "broker-a", "new"] == 5
        assert ("group_lag_messages", "broker-a", OTHERS) not in found


def test_offsets_that_wait_have_an_age(metrics):
    broker = metrics.server("c", "broker-a")
    assert series(metrics)["offsets_unsaved_seconds", "broker-a"] == 0
    broker.offsets_unsaved(1.5)
    assert series(metrics)["offsets_unsaved_seconds", "broker-a"] == 1.5


def test_a_broker_that_is_to_be_registered_is_seen_before_it_is(metrics):
    broker = metrics.server("c", "broker-a")
    broker.wanted_at_name_servers(2)
    found = series(metrics)
    assert found["name_servers_wanted", "broker-a"] == 2
    assert found["name_servers", "broker-a"] == 0


def test_tls_is_seen_only_where_there_is_some(metrics):
    broker = metrics.server("c", "broker-a")
    assert ("tls_broken", "broker-a") not in series(metrics)
    broker.tls_read(is_broken=True)
    assert series(metrics)["tls_broken", "broker-a"] == 1
    broker.tls_read(is_broken=False)
    assert series(metrics)["tls_broken", "broker-a"] == 0


def test_an_acl_is_seen_only_where_there_is_one(metrics, caplog):
    broker = metrics.server("c", "broker-a")
    assert ("acl_broken", "broker-a") not in series(metrics)

    with caplog.at_level(logging.WARNING, "reput"):
        broker.acl_read(2, ("reader-one",))
        broker.acl_read(2, error="plain_acl.yml, line 3: why")
    broker.refused("signature")

    found = series(metrics)
    assert found["acl_accounts", "broker-a"] == 2
    assert found["acl_broken", "broker-a"] == 1
    assert found["refused_total", "broker-a", "signature"] == 1
    assert found["refused_total", "broker-a", "account"] == 0
    assert [record.event for record in caplog.records] == ["setting"]
    assert "reader-one is in the ACL again" in caplog.text


def test_all_series_are_described_and_known_to_alerts_and_dashboard(metrics):
    metrics.server("c", "broker-a").acl_read(1)
    metrics.server("c", "broker-a").tls_read(is_broken=False)
    metrics.server("c", "broker-a").lags({"g": 1})
    metrics.server("c", "broker-a").answered(11, 0, 1)

    assert {name for name, *_ in series(metrics)} == set(TEXTS)
    assert {PREFIX + name: labels for name, (_, labels) in TEXTS.items()} == SERVE


class TestHealth:
    @pytest.fixture
    def ask(self, metrics):
        server = serve(metrics, "127.0.0.1", 0, 0)

        def ask(path):
            url = f"http://127.0.0.1:{server.server_port}{path}"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        yield ask
        server.shutdown()
        server.server_close()

    def test_a_loop_that_stands_still_is_not_healthy(self, metrics, clock, ask):
        broker = metrics.server("c", "broker-a")
        clock.now += 29
        assert ask("/healthz") == 200
        clock.now += 2
        assert ask("/healthz") == 503
        broker.alive()
        assert ask("/healthz") == 200

    def test_a_store_that_stands_still_is_not_ready_and_keeps_the_others(self, metrics, clock, ask):
        hangs, works, names = (metrics.server("c", name) for name in ("a", "b", "namesrv"))
        for each in (hangs, works, names):
            each.ready(is_ready=True)
        clock.now += 31
        works.alive()
        names.alive()
        assert (ask("/healthz"), ask("/readyz")) == (200, 503)
        assert [series(metrics)["ready", name] for name in ("a", "b")] == [0, 1]
        hangs.alive()
        assert (ask("/healthz"), ask("/readyz")) == (200, 200)

    def test_a_name_server_that_stands_still_is_not_healthy(self, metrics, clock, ask):
        broker = metrics.server("c", "broker-a")
        metrics.server("c", "namesrv")
        clock.now += 31
        broker.alive()
        assert ask("/healthz") == 503

    def test_it_is_ready_when_all_servers_are(self, metrics, ask):
        assert ask("/readyz") == 503
        broker, names = metrics.server("c", "broker-a"), metrics.server("c", "namesrv")
        broker.ready(is_ready=True)
        assert ask("/readyz") == 503
        names.ready(is_ready=True)
        assert ask("/readyz") == 200
        assert ask("/metrics") == 200
        broker.ready(is_ready=False)
        assert ask("/readyz") == 503
