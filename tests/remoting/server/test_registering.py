"""Brokers of others at our name server, over sockets."""

from __future__ import annotations

import json

import pytest

from reput.remoting.names.answers import READ_ONLY, TAKES_NONE
from reput.remoting.wire import registration
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.registration import DataVersion, Registration, TopicConfig
from tests.builders.served import dispatched, messages
from tests.builders.servers import Client, serving
from tests.builders.waiting import wait_until
from tests.remoting.wire.test_registration import compressed

VERSION = DataVersion(1, 2, 0)
TOLD = Registration(VERSION, (TopicConfig("t", 8, 8, 6), TopicConfig("other", 1, 1, 6)))
ADDRESS = "10.0.0.9:10911"


@pytest.fixture
def store(tmp_path):
    return dispatched(messages(4), tmp_path)


@pytest.fixture
def running(store):
    with serving(store, accepts_brokers=True) as server:
        yield server


def register(client, *, name="real", body=None, crc=None, **said):
    body = registration.write(TOLD, is_5=True) if body is None else body
    fields = {
        "brokerName": name,
        "brokerAddr": ADDRESS,
        "clusterName": "cl0",
        "haServerAddr": "10.0.0.9:10912",
        "brokerId": "0",
        "bodyCrc32": str(registration.crc_of(body) if crc is None else crc),
        **said,
    }
    return client.ask(RequestCode.REGISTER_BROKER, body, **fields)


def of_broker(client, code, body=b"", name="real"):
    fields = {"brokerName": name, "brokerAddr": ADDRESS, "clusterName": "cl0", "brokerId": "0"}
    return client.ask(code, body, **fields)


def route(client, topic="t"):
    answer = client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
    return json.loads(answer.body) if answer.code == ResponseCode.SUCCESS else None


def test_a_route_has_their_brokers_and_ours(running):
    client = Client(running.names)
    assert register(client).code == ResponseCode.SUCCESS

    both = route(client)
    assert [(each["brokerName"], each["brokerAddrs"]) for each in both["brokerDatas"]] == [
        ("b0", {"0": f"127.0.0.1:{running.broker}"}),
        ("real", {"0": ADDRESS}),
    ]
    assert [(each["brokerName"], each["perm"]) for each in both["queueDatas"]] == [
        ("b0", 4),
        ("real", 6),
    ]
    assert len(route(client, "other")["brokerDatas"]) == 1
    cluster = json.loads(client.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    assert cluster["clusterAddrTable"] == {"cl0": ["b0", "real"]}


def test_a_compressed_body_says_the_same(running):
    client = Client(running.names)
    body = compressed(TOLD, is_5=True)
    assert register(client, body=body, compressed="true").code == ResponseCode.SUCCESS
    assert route(client, "other")["queueDatas"][0]["brokerName"] == "real"


def test_a_damaged_body_changes_nothing(running):
    client = Client(running.names)
    answer = register(client, crc=7)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    answer = register(client, body=b"{")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "Failed to decode RegisterBrokerBody" in answer.remark
    assert route(client, "other") is None


def test_nobody_else_gets_the_name_of_a_served_broker(running):
    client = Client(running.names)
    answer = register(client, name="b0")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "serves a store as broker b0 itself" in answer.remark
    assert len(route(client)["brokerDatas"]) == 1


def test_a_broker_goes_with_its_connection(running):
    client, other = Client(running.names), Client(running.names)
    register(client)
    assert route(other, "other") is not None
    client.close()
    wait_until(lambda: route(other, "other") is None)


def test_a_broker_that_ends_says_so(running):
    client = Client(running.names)
    register(client)
    assert of_broker(client, RequestCode.UNREGISTER_BROKER).code == ResponseCode.SUCCESS
    assert route(client, "other") is None


def test_a_broker_asks_whether_its_topics_are_known(running):
    client = Client(running.names)

    def ask(version):
        body = json.dumps(version.said()).encode()
        return of_broker(client, RequestCode.QUERY_DATA_VERSION, body)

    unknown = ask(VERSION)
    assert (unknown.fields, unknown.body) == ({"changed": "true"}, b"")
    register(client)
    known = ask(VERSION)
    assert known.fields == {"changed": "false"}
    assert json.loads(known.body) == {"counter": 1, "stateVersion": 0, "timestamp": 2}
    assert ask(VERSION._replace(counter=2)).fields == {"changed": "true"}
    assert of_broker(client, RequestCode.BROKER_HEARTBEAT).code == ResponseCode.SUCCESS


def test_members_of_a_broker_are_told(running):
    client = Client(running.names)
    register(client)
    said = client.ask(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="cl0", brokerName="real")
    assert json.loads(said.body) == {
        "brokerMemberGroup": {"brokerAddrs": {"0": ADDRESS}, "brokerName": "real", "cluster": "cl0"}
    }
    said = client.ask(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="cl0", brokerName="none")
    assert json.loads(said.body)["brokerMemberGroup"]["brokerAddrs"] == {}


def test_tools_close_theirs_for_producers_and_not_ours(running):
    client = Client(running.names)
    register(client)
    wiped = client.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="real")
    assert wiped.fields == {"wipeTopicCount": "2"}
    assert route(client, "other")["queueDatas"][0]["perm"] == 4
    added = client.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="real")
    assert added.fields == {"addTopicCount": "2"}
    assert route(client, "other")["queueDatas"][0]["perm"] == 6

    for code in (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER):
        refused = client.ask(code, brokerName="b0")
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, READ_ONLY)
    assert route(client)["queueDatas"][0]["perm"] == 4


def test_a_topic_is_deleted_of_theirs_and_not_of_ours(running):
    client = Client(running.names)
    register(client)
    assert client.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="t").code == ResponseCode.SUCCESS
    assert [each["brokerName"] for each in route(client)["queueDatas"]] == ["b0"]
    refused = client.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="t")
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, READ_ONLY)


def test_without_the_option_nobody_registers(store):
    with serving(store) as running:
        client = Client(running.names)
        answer = register(client)
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, TAKES_NONE)
        assert route(client, "other") is None
