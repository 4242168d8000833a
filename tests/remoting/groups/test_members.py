"""Members of groups: how they come and go, and which of them are told."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.remoting.groups import heartbeats
from reput.remoting.groups import members as module
from reput.remoting.groups.members import SCAN_SECONDS, SILENCE_SECONDS
from reput.remoting.reading.served import Online, Subscription
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import ONEWAY
from tests.builders.channels import Clock
from tests.builders.groups import Client, consumers, subscribed


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def members(clock):
    return consumers(clock=clock).members


def beat(members, client):
    """Send a heartbeat; tell whether the first of its groups changed, and tell the members."""
    request = client.heartbeat()
    said = heartbeats.parse(request.body)
    changes = []
    for consumer in said.consumers:
        changes.append(members.join(consumer, request, client, said.client_id))
        if changes[-1]:
            members.tell(consumer.group)
    members.produce(said, request, client)
    return changes[0] if changes else None


def test_every_member_is_told_of_one_that_joins(members):
    a, b = Client(client_id="a").consumes(), Client(client_id="b").consumes()

    assert beat(members, a)
    assert a.told() == ["g"]
    assert beat(members, b)
    assert (a.told(), b.told()) == (["g"], ["g"])
    assert members.groups["g"].client_ids == ["a", "b"]
    assert not beat(members, a)
    assert (a.told(), b.told()) == ([], [])


def test_it_is_told_as_a_broker_tells(members):
    """
    Oneway: an answer that nobody waits for would be an error in the client's log.
    """
    client = Client().consumes()
    beat(members, client)
    ((command, body),) = client.sent

    assert command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert (command.flag, command.version, body) == (ONEWAY, 513, b"")
    assert command.fields == {"consumerGroup": "g"}


@pytest.mark.parametrize(("version", "told"), [("4.9", ["g"]), ("5.5", [])])
def test_broadcasting_groups_are_told_by_4_9_only(version, told):
    members = consumers(version).members
    client = Client().consumes(model="BROADCASTING")
    beat(members, client)

    assert client.told() == told
    assert members.online("g").is_broadcasting


def test_those_that_remain_are_told_of_one_that_leaves(members):
    clients = [Client(client_id=name).consumes() for name in "abc"]
    for client in clients:
        beat(members, client)
    a, b, c = clients
    for client in clients:
        client.told()

    assert members.leave(b, "g", None)
    members.tell("g")
    assert [client.told() for client in clients] == [["g"], [], ["g"]]
    members.closed(a)
    assert (a.told(), c.told()) == ([], ["g"])
    members.closed(c)
    assert members.groups == {}
    assert members.online("g") is None


def test_a_client_that_leaves_a_group_that_is_not_there(members):
    assert not members.leave(Client(), "g", "p")


class TestSubscriptions:
    def test_a_newer_version_replaces_an_older_one_and_is_no_change(self, members):
        client = Client().consumes("g", subscribed(text="A", version=5))
        beat(members, client)

        assert not beat(members, client.consumes("g", subscribed(text="B", version=6)))
        assert not beat(members, client.consumes("g", subscribed(text="C", version=5)))
        assert members.online("g") == Online(False, {"t": Subscription("B", "TAG", 6)})

    def test_topics_that_come_and_go_are_changes(self, members):
        client = Client().consumes("g", subscribed("t"))
        beat(members, client)

        assert beat(members, client.consumes("g", subscribed("t"), subscribed("u")))
        assert beat(members, client.consumes("g", subscribed("u")))
        assert list(members.online("g").subscriptions) == ["u"]

    def test_a_go_member_does_not_hide_what_java_subscribes_to_later(self, members):
        go = Client(client_id="go").consumes("g", subscribed(text="A", version=1795314720979014887))
        beat(members, go)
        beat(members, Client().consumes("g", subscribed(text="B", version=1795314720980)))

        assert members.online("g").subscriptions["t"].expression == "B"

    def test_a_short_heartbeat_changes_none(self, members):
        client = Client().consumes()
        beat(members, client)
        short = client.consumes("g").heartbeat(heartbeatFingerprint=3, withoutSub=True)
        (consumer,) = heartbeats.parse(short.body).consumers

        assert not members.join(consumer, short, client, client.client_id)
        assert list(members.online("g").subscriptions) == ["t"]


class TestSilence:
    def test_a_silent_member_is_closed_and_the_others_are_told(self, members, clock):
        silent, alive = Client(client_id="a", producers=["p"]), Client(client_id="b")
        beat(members, silent.consumes())
        beat(members, alive.consumes())
        clock.now += SILENCE_SECONDS
        beat(members, alive)
        alive.told()
        members.tick(clock.now)
        assert silent.is_open

        clock.now += SCAN_SECONDS
        members.tick(clock.now)
        assert (silent.is_open, alive.is_open) == (False, True)
        assert alive.told() == ["g"]
        assert members.groups["g"].client_ids == ["b"]
        assert members.producers == {}

    def test_it_is_looked_for_every_ten_seconds(self, members, clock):
        client = Client().consumes()
        beat(members, client)
        members.tick(clock.now + SCAN_SECONDS)
        members.tick(clock.now + 2 * SCAN_SECONDS - 0.1)
        assert client.is_open

        members.tick(clock.now + 1000)
        assert not client.is_open

    def test_how_long_a_member_was_silent_is_known(self, members, clock):
        beat(members, Client(client_id="a").consumes())
        clock.now += 7

        assert members.silence(members.find("g", "a")) == 7
        assert members.find("g", "b") is None
        assert members.find("h", "a") is None


class TestOneIdTwice:
    """Both would take the same share of the queues; no broker can mend that."""

    def test_it_is_listed_once_counted_and_said(self, members, caplog):
        with caplog.at_level(logging.WARNING, "reput"):
            beat(members, Client("1.1.1.1:1").consumes())
            beat(members, Client("1.1.1.2:2").consumes())
            beat(members, Client("1.1.1.3:3", client_id="other").consumes())
            beat(members, Client("1.1.1.4:4").consumes())

        assert members.groups["g"].client_ids == ["127.0.0.1@c", "other"]
        assert members.clashes == 2
        (said,) = caplog.messages
        assert "1.1.1.2:2 joins as 127.0.0.1@c" in said

    def test_a_member_does_not_clash_with_itself(self, members):
        client = Client().consumes()
        beat(members, client)
        beat(members, client)

        assert members.clashes == 0


def test_the_number_of_groups_is_bounded(members, monkeypatch, caplog):
    """
    Peers name groups as they like. Those that are there are not affected.
    """
    monkeypatch.setattr(module, "_MOST_GROUPS", 1)
    client = Client(producers=["p", "q"]).consumes("g").consumes("h")
    beat(members, client)
    beat(members, Client(client_id="b").consumes("g"))

    assert (list(members.groups), list(members.producers)) == (["g"], ["p"])
    assert members.groups["g"].client_ids == ["127.0.0.1@c", "b"]
    assert (members.turned_away, len(caplog.messages)) == (2, 1)


def test_producers_are_known_by_group(members):
    client = Client(producers=["p", "q"])
    beat(members, client)
    assert {
        name: [m.client_id for m in each.values()] for name, each in members.producers.items()
    } == {
        "p": ["127.0.0.1@c"],
        "q": ["127.0.0.1@c"],
    }

    assert not members.leave(client, None, "p")
    assert list(members.producers) == ["q"]
    members.closed(client)
    assert members.producers == {}


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "close", "wait"]),
        st.integers(0, 3),
        st.sets(st.sampled_from(["g", "h"])),
        st.sets(st.sampled_from(["t", "u"]), min_size=1),
        st.integers(1, 3),
    ),
    max_size=30,
)


class SlowMembers:
    """The rules as a list of who said what, read from its beginning for each question."""

    def __init__(self):
        self.present = []  # (group, client)
        self.subscriptions = {}
        self.told = []

    def join(self, client, group, topics, version):
        known = self.subscriptions.setdefault(group, {})
        is_changed = (group, client) not in self.present or set(known) != set(topics)
        if (group, client) not in self.present:
            self.present.append((group, client))
        self.subscriptions[group] = {
            topic: max(known.get(topic, 0), version) for topic in sorted(topics)
        }
        if is_changed:
            self.tell(group)

    def leave(self, client, group):
        if group not in self.subscriptions:
            return
        self.present = [each for each in self.present if each != (group, client)]
        if not any(name == group for name, _ in self.present):
            del self.subscriptions[group]
        self.tell(group)

    def close(self, client):
        for group, number in sorted(self.present):
            if number == client:
                self.leave(client, group)

    def tell(self, group):
        self.told += [(group, client) for name, client in self.present if name == group]


class Both:
    """Members and their slow twin, which see the same clients."""

    def __init__(self):
        self.clock = Clock()
        self.members = consumers(clock=self.clock).members
        self.clients = [Client(client_id=str(number)) for number in range(4)]
        self.twin = SlowMembers()
        self.heard = {}

    def join(self, number, groups, topics, version):
        client = self.clients[number]
        client.groups.clear()
        for group in sorted(groups):
            client.consumes(group, *(subscribed(topic, version=version) for topic in topics))
            self.twin.join(number, group, topics, version)
            self.heard[group, number] = self.clock.now
        beat(self.members, client)

    def leave(self, number, groups, *_):
        for group in sorted(groups):
            if self.members.leave(self.clients[number], group, None):
                self.members.tell(group)
            self.twin.leave(number, group)

    def close(self, number, *_):
        self.members.closed(self.clients[number])
        self.twin.close(number)

    def wait(self, *_):
        self.clock.now += 70
        self.members.tick(self.clock.now)
        since = self.clock.now - SILENCE_SECONDS
        heard = self.heard
        for number in {each[1] for each in self.twin.present if heard[each] < since}:
            self.twin.close(number)

    def check(self):
        groups = self.members.groups
        present = [(group, int(name)) for group, each in groups.items() for name in each.client_ids]
        assert sorted(present) == sorted(self.twin.present)
        for group, said in self.twin.subscriptions.items():
            found = self.members.online(group).subscriptions
            assert {topic: each.version for topic, each in found.items()} == said


@given(ACTIONS)
def test_random_clients_are_known_and_told_as_by_the_rules(actions):
    both = Both()
    for action, *said in actions:
        getattr(both, action)(*said)
        both.check()
    if "wait" not in {action for action, *_ in actions}:
        # Which of two silent members is closed first, and which is told of it, does not matter.
        told = [
            (group, number) for number, each in enumerate(both.clients) for group in each.told()
        ]
        assert sorted(told) == sorted(both.twin.told)
