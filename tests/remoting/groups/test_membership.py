"""What clients get that join, leave and ask: as brokers of each version answer."""

from __future__ import annotations

import json

import pytest

from reput.remoting.groups.membership import Membership
from reput.remoting.reading.pull import pull
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import FieldError
from tests.builders.groups import Client, consumers, subscribed
from tests.builders.served import dispatched, messages, request, served
from tests.remoting.wire.captured import captured


@pytest.fixture(params=["4.9", "5.5"])
def version(request):
    return request.param


class Broker:
    def __init__(self, directory, version, said=None, **options):
        self.consumers = consumers(version, said=said, **options)
        self.store = dispatched(messages(6), directory, version)
        self.served = served(self.store, groups=self.consumers, filters_properties=True)
        self.membership = Membership(self.consumers, self.served)

    def ask(self, code, channel, said=None, body=b""):
        return self.membership.handlers()[code](Command(code, fields=said, body=body), channel)

    def beat(self, client):
        return self.membership.heartbeat(client.heartbeat(), client)

    def leave(self, client, **said):
        said = {"clientID": client.client_id} | said
        return self.ask(RequestCode.UNREGISTER_CLIENT, client, said)

    def ids(self, group):
        said = {"consumerGroup": group}
        return self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, Client(), said)


@pytest.fixture
def broker(tmp_path, version):
    found = Broker(tmp_path, version)
    with found.store:
        yield found


def test_the_answer_to_a_heartbeat(broker, version):
    """
    Ours knows no short heartbeats: clients then always say what they subscribe to.
    """
    answer = broker.beat(Client().consumes())
    said = {"IS_SUPPORT_HEART_BEAT_V2": "false", "IS_SUB_CHANGE": "true"}

    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert (answer.header and fields.write(answer.header)) == (said if version == "5.5" else None)


@pytest.mark.parametrize(
    ("name", "group"), [("clients-4.9.8", "CGL"), ("clients-5.5.0", "CGL"), ("go-2.1.2", "GCG")]
)
def test_real_clients_join_and_are_told_before_they_are_answered(broker, name, group):
    heartbeat = [
        frame.command
        for frame in captured(name)
        if frame.header["code"] == RequestCode.HEART_BEAT and not frame.header["flag"] & 1
    ][-1]
    client = Client()
    broker.membership.heartbeat(heartbeat, client)

    assert client.told() == [group]
    (member,) = broker.consumers.members.groups[group].members.values()
    assert (member.language, member.version) == (heartbeat.language, heartbeat.version)


def test_who_consumes_for_a_group(broker):
    for name in "ab":
        broker.beat(Client(client_id=name).consumes())
    answer = broker.ids("g")

    assert (answer.code, fields.write(answer.header)) == (ResponseCode.SUCCESS, {})
    assert json.loads(b"".join(answer.pieces)) == {"consumerIdList": ["a", "b"]}


def test_a_group_that_nobody_consumes_for(broker):
    answer = broker.ids("G")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "no consumer for this group, G"


def test_a_client_that_leaves(broker):
    a, b = Client(client_id="a", producers=["p"]), Client(client_id="b")
    for client in (a, b):
        broker.beat(client.consumes())
    b.told()
    answer = broker.leave(a, consumerGroup="g")

    assert (answer.code, fields.write(answer.header)) == (ResponseCode.SUCCESS, {})
    assert b.told() == ["g"]
    assert broker.leave(a, producerGroup="p").code == ResponseCode.SUCCESS
    assert broker.consumers.members.producers == {}
    with pytest.raises(FieldError, match="clientID"):
        broker.ask(RequestCode.UNREGISTER_CLIENT, a, {})


def test_a_group_that_must_not_be_told(tmp_path):
    quiet = {"subscriptionGroupTable": {"g": {"notifyConsumerIdsChangedEnable": False}}}
    broker = Broker(tmp_path, "5.5", quiet)
    with broker.store:
        client = Client().consumes("g").consumes("h")
        broker.beat(client)
        assert client.told() == ["h"]
        broker.leave(client, consumerGroup="g")
        assert client.told() == []


def test_a_group_that_is_not_made_does_not_join(tmp_path):
    broker = Broker(tmp_path, "5.5", makes_unknown=False)
    with broker.store:
        assert broker.beat(Client().consumes()).code == ResponseCode.SUCCESS
        assert broker.consumers.members.groups == {}


class TestCheck:
    def check(self, broker, text, kind):
        body = {"clientId": "c", "group": "g", "subscriptionData": subscribed("t", text, kind)}
        code = RequestCode.CHECK_CLIENT_CONFIG
        return broker.ask(code, Client(), body=json.dumps(body).encode())

    def test_what_may_be_subscribed_with(self, broker):
        assert self.check(broker, "a > 3", "SQL92").code == ResponseCode.SUCCESS
        assert self.check(broker, "||", "TAG").code == ResponseCode.SUCCESS
        assert broker.ask(RequestCode.CHECK_CLIENT_CONFIG, Client(), body=b"{}").code == 0

    @pytest.mark.parametrize(("text", "kind"), [("a > > 3", "SQL92"), ("a > 3", "XPATH")])
    def test_what_cannot_be_read(self, broker, text, kind):
        answer = self.check(broker, text, kind)

        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert answer.remark

    def test_sql_that_is_not_enabled(self, broker):
        closed = served(broker.store, groups=broker.consumers)
        broker.membership = Membership(broker.consumers, closed)
        answer = self.check(broker, "a > 3", "SQL92")

        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "The broker does not support consumer to filter message by SQL92"


class TestPulls:
    """What heartbeats say decides what pulls get."""

    def codes(self, broker, **said):
        return pull(request(flags=0, **said), broker.served).code

    def test_a_pull_before_and_after_the_heartbeat(self, broker):
        assert self.codes(broker) == ResponseCode.SUBSCRIPTION_NOT_EXIST
        broker.beat(Client().consumes("g", subscribed("t", "T1", version=7)))

        assert self.codes(broker, version=8) == ResponseCode.SUBSCRIPTION_NOT_LATEST
        answer = pull(request(flags=0, version=7), broker.served)
        assert (answer.code, answer.messages) == (ResponseCode.SUCCESS, 2)

    def test_sql(self, broker):
        client = Client().consumes("g", subscribed("t", "a BETWEEN 1 AND 3", "SQL92", 7))
        broker.beat(client)
        answer = pull(request(flags=0, version=7), broker.served)
        assert (answer.code, answer.messages) == (ResponseCode.SUCCESS, 3)

        broker.beat(client.consumes("g", subscribed("t", "a BETWEEN", "SQL92", 8)))
        assert self.codes(broker) == ResponseCode.FILTER_DATA_NOT_EXIST
