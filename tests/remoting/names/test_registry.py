"""Brokers of others: who may register, what is known of them, and when they are forgotten."""

from __future__ import annotations

import pytest

from reput.remoting.names import registry as module
from reput.remoting.names.known import Topic
from reput.remoting.names.registry import Place, RegistrationError, Registry
from reput.remoting.wire.name_headers import RegisterBrokerRequestHeader
from reput.remoting.wire.registration import DataVersion, Registration, TopicConfig

T, U = TopicConfig("T", 4, 4, 6), TopicConfig("U", 2, 2, 6)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry(clock):
    return Registry(lambda: {"ours"}, clock)


def register(registry, *, name="b", address="h:1", number=0, topics=(T, U), channel=None, **said):
    version = DataVersion(1, 1, said.pop("state", 0))
    header = RegisterBrokerRequestHeader(name, address, "cl", f"ha-{address}", number, **said)
    return registry.register(header, Registration(version, tuple(topics)), channel or object())


def perms(registry, name="b"):
    [broker] = [each for each in registry.brokers() if each.name == name]
    return {topic.name: topic.perm for topic in broker.topics.values()}


def names(registry):
    return [broker.name for broker in registry.brokers()]


def test_a_broker_is_told_of_as_it_registered(registry):
    register(registry)
    [broker] = registry.brokers()

    assert (broker.name, broker.cluster, broker.addresses) == ("b", "cl", {0: "h:1"})
    assert broker.topics == {"T": Topic("T", 4, 4, 6), "U": Topic("U", 2, 2, 6)}


def test_topics_are_added_as_brokers_of_5_tell_of_them_one_by_one(registry):
    register(registry)
    register(registry, topics=[TopicConfig("V", 1, 1, 6)])
    register(registry, topics=[TopicConfig("T", 8, 8, 6)])

    [broker] = registry.brokers()
    assert list(broker.topics) == ["T", "U", "V"]
    assert broker.topics["T"].read_queues == 8


def test_a_single_topic_does_not_make_a_broker_known(registry):
    with pytest.raises(RegistrationError, match="register broker failed"):
        register(registry, topics=[T])
    assert registry.brokers() == ()


def test_a_broker_that_is_served_here_keeps_its_name(registry):
    with pytest.raises(RegistrationError, match="serves a store as broker ours itself"):
        register(registry, name="ours")
    assert registry.brokers() == ()


class TestGroups:
    def test_a_slave_is_told_of_its_master(self, registry):
        register(registry, address="m:1")
        told = register(registry, address="s:1", number=1)

        assert (told.master_addr, told.ha_server_addr) == ("m:1", "ha-m:1")
        assert registry.brokers()[0].addresses == {0: "m:1", 1: "s:1"}

    def test_topics_are_the_masters(self, registry):
        register(registry, address="m:1")
        register(registry, address="s:1", number=1, topics=[U, TopicConfig("S", 1, 1, 6)])
        assert list(registry.brokers()[0].topics) == ["T", "U"]

    def test_a_slave_that_acts_as_master_is_only_readable(self, registry):
        register(registry, address="s:1", number=1, enable_acting_master=True)
        assert perms(registry) == {"T": 4, "U": 4}

        register(registry, address="m:1", enable_acting_master=True)
        assert perms(registry) == {"T": 6, "U": 6}
        registry.unregister(Place("b", "m:1"))
        assert perms(registry) == {"T": 4, "U": 4}

    def test_a_slave_that_becomes_the_master_has_one_id(self, registry):
        register(registry, address="m:1")
        register(registry, address="s:1", number=1)
        register(registry, address="s:1", number=0)
        assert registry.brokers()[0].addresses == {0: "s:1"}

    def test_the_master_that_was_elected_later_counts(self, registry):
        register(registry, address="new:1", state=5)
        register(registry, address="old:1", state=4)
        assert registry.brokers()[0].addresses == {0: "new:1"}

        register(registry, address="newer:1", state=6)
        assert registry.brokers()[0].addresses == {0: "newer:1"}


class TestForgetting:
    def test_a_silent_broker_is_gone_after_two_minutes(self, registry, clock):
        register(registry)
        clock.now += 120
        registry.tick()
        assert names(registry) == ["b"]
        clock.now += 0.5
        registry.tick()
        assert names(registry) == []

    def test_a_broker_says_how_long_it_may_be_silent(self, registry, clock):
        register(registry, heartbeat_timeout_millis=2000)
        clock.now += 2
        registry.tick()
        registry.heard(Place("b", "h:1"))
        clock.now += 2
        registry.tick()
        assert names(registry) == ["b"]
        clock.now += 0.5
        registry.tick()
        assert names(registry) == []

    def test_a_question_for_the_version_is_a_sign_of_life(self, registry, clock):
        register(registry)
        clock.now += 100
        assert registry.is_known(Place("b", "h:1"), DataVersion(1, 1))
        assert not registry.is_known(Place("b", "h:1"), DataVersion(2, 1))
        assert not registry.is_known(Place("b", "h:2"), DataVersion(1, 1))
        clock.now += 100
        registry.tick()
        assert names(registry) == ["b"]

    def test_the_brokers_of_a_connection_go_with_it(self, registry):
        one, other = object(), object()
        register(registry, channel=one)
        register(registry, name="c", address="h:2", channel=one)
        register(registry, name="d", address="h:3", channel=other)
        registry.closed(one)
        assert names(registry) == ["d"]

    def test_a_connection_that_was_replaced_takes_nobody_along(self, registry):
        old = object()
        register(registry, channel=old)
        register(registry, channel=object())
        registry.closed(old)
        assert names(registry) == ["b"]

    def test_who_says_so_is_gone(self, registry):
        register(registry)
        registry.unregister(Place("b", "h:2"))
        assert names(registry) == ["b"]
        registry.unregister(Place("b", "h:1"))
        assert names(registry) == []


class TestTools:
    def test_writes_are_closed_and_opened(self, registry):
        register(registry)
        assert registry.set_writable("b", is_writable=False) == 2
        assert perms(registry) == {"T": 4, "U": 4}
        assert registry.set_writable("b", is_writable=True) == 2
        assert perms(registry) == {"T": 6, "U": 6}
        assert registry.set_writable("c", is_writable=True) == 0

    def test_a_topic_is_forgotten(self, registry):
        register(registry)
        registry.delete_topic("T", "other")
        assert "T" in perms(registry)
        registry.delete_topic("T", "cl")
        registry.delete_topic("U", None)
        assert perms(registry) == {}


class TestBounds:
    def test_brokers(self, registry, monkeypatch):
        monkeypatch.setattr(module, "MOST_BROKERS", 2)
        register(registry, name="a", address="h:1")
        register(registry, name="b", address="h:2")
        with pytest.raises(RegistrationError, match="no more fit"):
            register(registry, name="c", address="h:3")
        register(registry, name="a", address="h:1")
        assert names(registry) == ["a", "b"]

    def test_topics(self, registry, monkeypatch):
        monkeypatch.setattr(module, "MOST_TOPICS", 3)
        register(registry, name="a", address="h:1")
        with pytest.raises(RegistrationError, match="may have 3 topics"):
            register(registry, name="b", address="h:2")
        register(registry, name="a", address="h:1")
        assert names(registry) == ["a"]

    @pytest.mark.parametrize(
        "said",
        [
            {"name": "n" * 256},
            {"address": "h" * 256},
            {"topics": [T, U, TopicConfig("t" * 256, 1, 1, 6)]},
        ],
    )
    def test_letters(self, registry, said):
        with pytest.raises(RegistrationError, match="more than 255 letters"):
            register(registry, **said)
        assert registry.brokers() == ()
