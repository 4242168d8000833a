"""Our brokers at a name server of others, which is one of ours here; a real one is in a rig."""

from __future__ import annotations

import json
import time

import pytest

from reput.formats.errors import UsageError
from reput.remoting.counting.counters import NotRegistered, Uncounted
from reput.remoting.server import enrolment
from reput.remoting.server.ports import Place
from reput.remoting.wire.codes import RequestCode
from tests.builders.served import dispatched, messages
from tests.builders.servers import LOOPBACK, Client, free_port, serving
from tests.builders.waiting import wait_until
from tests.remoting.server.test_registering import of_broker, register


class Told(Uncounted):
    """What the broker told of its registrations."""

    def __init__(self):
        self.wanted = []
        self.servers = []
        self.reasons = []

    def wanted_at_name_servers(self, count):
        self.wanted.append(count)

    def at_name_servers(self, count):
        self.servers.append(count)

    def not_registered(self, reason):
        self.reasons.append(reason)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(enrolment, "AGAIN_SECONDS", 0.3)
    monkeypatch.setattr(enrolment, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(enrolment, "LOOK_SECONDS", 0.05)


@pytest.fixture
def theirs(tmp_path):
    """The port of a name server that takes brokers."""
    with serving(
        dispatched(messages(1, topic="own"), tmp_path / "theirs"), accepts_brokers=True
    ) as s:
        yield s.names


@pytest.fixture
def store(tmp_path):
    return dispatched(messages(4), tmp_path / "ours")


def cluster(port):
    answer = Client(port).ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    return {k: v["brokerAddrs"] for k, v in json.loads(answer.body)["brokerAddrTable"].items()}


def topics_of(port):
    answer = Client(port).ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return json.loads(answer.body)["topicList"]


def at(*ports):
    return [Place(LOOPBACK, port) for port in ports]


def test_a_broker_is_found_while_it_is_served(store, theirs):
    with serving(store, name="archive", register_at=at(theirs)) as running:
        wait_until(lambda: "archive" in cluster(theirs))
        assert cluster(theirs)["archive"] == {"0": f"{LOOPBACK}:{running.broker}"}
        answer = Client(theirs).ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
        [queues] = json.loads(answer.body)["queueDatas"]
        assert (queues["brokerName"], queues["perm"]) == ("archive", 4)
    assert "archive" not in cluster(theirs)


def test_a_broker_that_fails_is_taken_out(store, theirs):
    with serving(store, name="archive", register_at=at(theirs)) as running:
        wait_until(lambda: "archive" in cluster(theirs))
        server = running.server
        server._loop.call_soon_threadsafe(server._registrar.remove, running.store)
        wait_until(lambda: "archive" not in cluster(theirs))
        # It would be there again by now.
        time.sleep(0.5)
        assert "archive" not in cluster(theirs)


def test_a_topic_that_comes_later_is_registered(store, theirs):
    with serving(store, name="archive", register_at=at(theirs)) as running:
        wait_until(lambda: "t" in topics_of(theirs))
        broker = running.store

        def find_later():
            # As the look at the store's files does it.
            later = {"later": broker._topics["t"].__class__("later", 2, 2)}
            broker._following._found = broker._following._found | later
            broker._following.publish()

        running.store_loop.call_soon_threadsafe(find_later)
        wait_until(lambda: "later" in topics_of(theirs))


def test_nothing_is_registered_anywhere_if_one_name_server_has_a_broker_of_the_name(
    store, theirs, tmp_path
):
    other = dispatched(messages(1), tmp_path / "third")
    with serving(other, name="free", accepts_brokers=True) as free:
        with (
            pytest.raises(UsageError, match=r"a broker b0 lives there already, at 127\.0\.0\.1"),
            serving(store, name="b0", register_at=at(free.names, theirs)),
        ):
            pass
        assert list(cluster(free.names)) == ["free"]


def test_a_broker_that_comes_back_to_life_has_its_name(store, theirs):
    told = Told()
    with serving(store, name="real", counters=told, register_at=at(theirs)) as running:
        ours = {"0": f"{LOOPBACK}:{running.broker}"}
        wait_until(lambda: cluster(theirs).get("real") == ours)
        real = Client(theirs)
        # As brokers do it every 30 s.
        wait_until(lambda: register(real).code == 0 and NotRegistered.TAKEN in told.reasons)
        assert cluster(theirs)["real"] == {"0": "10.0.0.9:10911"}

        # And when it is gone again, ours is there.
        of_broker(real, RequestCode.UNREGISTER_BROKER)
        wait_until(lambda: cluster(theirs).get("real") == ours)
    assert told.servers[:3] == [1, 0, 1]


def test_a_name_server_that_is_away_is_tried_again_and_told_of_once(store, tmp_path, caplog):
    told, port = Told(), free_port()
    with serving(store, name="archive", counters=told, register_at=at(port)):
        wait_until(lambda: len(told.reasons) > 2)
        assert set(told.reasons) == {NotRegistered.AWAY}
        assert (told.wanted, told.servers) == ([1], [])
        said = [each.message for each in caplog.records if "cannot be reached" in each.message]
        assert len(said) == 1
        assert f"name server {LOOPBACK}:{port}" in said[0]

        with serving(
            dispatched(messages(1, topic="own"), tmp_path / "late"),
            accepts_brokers=True,
            names_port=port,
        ):
            wait_until(lambda: "archive" in cluster(port))
            wait_until(lambda: told.servers[-1:] == [1])
        wait_until(lambda: told.servers[-1] == 0)


def test_a_name_server_that_takes_no_brokers_is_told_of(store, tmp_path, caplog):
    told = Told()
    closed = dispatched(messages(1, topic="own"), tmp_path / "closed")
    with (
        serving(closed) as names,
        serving(store, name="archive", counters=told, register_at=at(names.names)),
    ):
        wait_until(lambda: len(told.reasons) > 1)
    assert set(told.reasons) == {NotRegistered.REFUSED}
    assert len([each for each in caplog.records if "refuses it with code 16" in each.message]) == 1
