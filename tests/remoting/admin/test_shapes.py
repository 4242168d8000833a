"""What tools read of our answers has the form of a real broker's, key by key (captured frames)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reput.formats.rocketmq import names
from reput.remoting.wire import bodies
from reput.remoting.wire.bodies import MessageQueue
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import write
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import Client, serving
from tests.remoting.wire.captured import captured

FRAMES = {"5.5": "tools-5.5.0", "4.9": "tools-4.9.7"}
HEARTBEATS = {"5.5": "clients-5.5.0", "4.9": "clients-4.9.8"}
# Those that only a broker that writes has, by its settings or its topics.
OF_WRITERS = ("scheduleMessageOffset_", "commitLogDiskRatio_", "consumeQueueDiskRatio_")


def answers_to(code: int, version: str) -> list[Any]:
    """Return the bodies with which a broker answered requests of a code, parsed."""
    requests, found = {}, []
    for frame in captured(FRAMES[version]):
        command = frame.command
        if not command.is_response:
            requests[command.opaque] = command.code
        elif requests.get(command.opaque) == code and command.code == ResponseCode.SUCCESS:
            try:
                found.append(bodies.loads(frame.body))
            except bodies.JsonError:
                # Kept up to its 6,000th character.
                continue
    return found


def heartbeats(version: str) -> list[bytes]:
    frames = (each for each in captured(HEARTBEATS[version]))
    return [bytes(f.body) for f in frames if f.command.code == RequestCode.HEART_BEAT]


def shape(value: Any) -> Any:
    """Return keys and kinds, of one element where there are several of a kind."""
    if isinstance(value, dict):
        if value and all(isinstance(key, MessageQueue) for key in value):
            return {"(queue)": shape(next(iter(value.values())))}
        return {
            # By topic; how many tags one has differs.
            key: sorted(next(iter(each.values()))) if key == "subscriptionTable" else shape(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if type(value) in {int, float} else type(value).__name__


@pytest.fixture(params=list(FRAMES))
def asked(request, tmp_path):
    """Serve a store to which a real consumer's heartbeat came; a function asks it."""
    version = request.param
    log = messages(20, topic="T1", queues=2)
    store = dispatched(log, tmp_path, version)
    with serving(store) as running:
        client = Client(running.broker)
        for body in heartbeats(version):
            client.ask(RequestCode.HEART_BEAT, body)

        def ask(code: int, **fields: str) -> Any:
            answer = client.ask(code, **fields)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            return bodies.loads(answer.body)

        ask.version, ask.client = version, client
        yield ask
    client.close()


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "CGL"}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CGL", "topic": "T1"}),
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T1"}),
        (
            RequestCode.QUERY_CONSUME_QUEUE,
            {"topic": "T1", "queueId": "0", "index": "0", "count": "2"},
        ),
        (RequestCode.GET_BROKER_HA_STATUS, {}),
    ],
)
def test_an_answer_has_the_keys_of_a_brokers(asked, code, fields):
    said = answers_to(code, asked.version)
    if not said:
        pytest.skip(f"no captured answer of {asked.version}")
    assert shape(asked(code, **fields)) in [shape(each) for each in said]


def test_a_topics_configuration_has_the_keys_of_a_brokers(asked):
    (found,) = [asked(RequestCode.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]["T1"]]
    keys = [
        "order",
        "perm",
        "readQueueNums",
        "topicFilterType",
        "topicName",
        "topicSysFlag",
        "writeQueueNums",
    ]
    more = ["attributes"] if asked.version == "5.5" else []

    assert sorted(found) == sorted(keys + more)
    assert (found["perm"], found["readQueueNums"]) == (4, 2)
    if more:
        assert asked(RequestCode.GET_TOPIC_CONFIG, topic="T1") == found


def test_runtime_information_has_the_keys_of_a_brokers(asked):
    whole = [each["table"] for each in answers_to(RequestCode.GET_BROKER_RUNTIME_INFO, "5.5")]
    if asked.version != "5.5" or not whole:
        pytest.skip("captured of 5.5 only")
    found = asked(RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
    assert all(isinstance(value, str) for value in found.values())
    known = [{key for key in each if not key.startswith(OF_WRITERS)} for each in (whole[0], found)]

    assert known[0] == known[1]


def test_offsets_and_lag_are_those_of_the_queues(asked):
    said = {"consumerGroup": "CGL", "topic": "T1", "queueId": "1", "commitOffset": "4"}
    asked.client.ask(RequestCode.PULL_MESSAGE, **write(request(0, topic="T1", group="CGL")))
    asked.client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **said)
    table = asked(RequestCode.GET_CONSUME_STATS, consumerGroup="CGL")["offsetTable"]
    reached = {
        queue.queue_id: (each["brokerOffset"], each["consumerOffset"])
        for queue, each in table.items()
        if queue.topic == "T1"
    }
    all_offsets = asked(RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"]

    assert reached == {0: (10, 0), 1: (10, 4)}
    assert all_offsets["T1@CGL"] == {"1": 4}
    assert asked(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="CGL")["topicList"] == ["T1"]


def test_a_group_without_members_and_a_topic_that_is_not_there_are_told(asked):
    client = asked.client
    nobody = client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="other")
    nothing = client.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="other")

    assert nobody.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert nothing.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_brokers_own_topics_are_told_apart(tmp_path):
    log = messages(2, topic="RMQ_SYS_TRACE_TOPIC")
    store = dispatched(log, tmp_path)
    config = store.root / names.CONFIG
    config.mkdir()
    table = {"topicConfigTable": {"mine": {"readQueueNums": 3, "writeQueueNums": 3, "perm": 6}}}
    (config / "topics.json").write_text(json.dumps(table))
    with serving(store) as running:
        client = Client(running.broker)
        system = json.loads(client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)
        every = json.loads(client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)

    assert {"RMQ_SYS_TRACE_TOPIC", "b0", "cl0", "cl0_REPLY_TOPIC"} <= set(system["topicList"])
    assert "mine" not in system["topicList"]
    assert every["topicConfigTable"]["mine"]["readQueueNums"] == 3
