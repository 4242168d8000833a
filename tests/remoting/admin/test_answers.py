"""What tools are told of lags, entries, messages for a member, and of what is not there."""

from __future__ import annotations

import json

import pytest

from reput.remoting.admin.runtime import runtime_table
from reput.remoting.wire import bodies, frames
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.fields import write
from tests.builders.served import dispatched, messages, request, served
from tests.builders.servers import Client, serving

COUNT = 20


@pytest.fixture(params=["5.5", "4.9"])
def client(request, tmp_path):
    store = dispatched(messages(COUNT, queues=2), tmp_path, request.param)
    with serving(store) as running:
        made = Client(running.broker)
        made.version, made.names = request.param, Client(running.names)
        yield made


def body(client, code, **fields):
    answer = client.ask(code, **fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return bodies.loads(answer.body)


def commit(client, offset):
    said = {"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": str(offset)}
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **said)


class TestLags:
    def test_a_group_that_never_committed_has_none(self, client):
        assert body(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g")["offsetTable"] == {}

    def test_what_was_pulled_and_not_consumed_is_in_flight(self, client):
        client.ask(RequestCode.PULL_MESSAGE, **write(request(2, queue=1, limit=3)))
        commit(client, 2)
        table = body(client, RequestCode.GET_CONSUME_STATS, consumerGroup="g")["offsetTable"]
        (found,) = [each for queue, each in table.items() if queue.queue_id == 1]

        assert found["consumerOffset"] == 2
        assert found.get("pullOffset") == (5 if client.version == "5.5" else None)

    def test_only_ordered_topics_are_told_if_asked_for(self, client):
        client.ask(RequestCode.PULL_MESSAGE, **write(request(0)))
        commit(client, 2)
        for is_ordered, expected in (("false", 1), ("true", 0)):
            said = body(client, RequestCode.GET_BROKER_CONSUME_STATS, isOrder=is_ordered)
            assert [len(each["g"]) for each in said["consumeStatsList"] if "g" in each] == [
                expected
            ]

    def test_a_group_at_the_end_is_late_by_nothing(self, client):
        client.ask(RequestCode.PULL_MESSAGE, **write(request(2, queue=1, limit=3)))
        commit(client, COUNT // 2)
        said = body(client, RequestCode.QUERY_CONSUME_TIME_SPAN, topic="t", group="g")
        late = {each["messageQueue"]["queueId"]: each for each in said["consumeTimeSpanSet"]}

        assert late[1]["delayTime"] == 0
        assert late[0]["delayTime"] > 0


class TestEntries:
    def ask(self, client, index, **more):
        place = {"topic": "t", "queueId": "0", "index": str(index), "count": "2"}
        return client.ask(RequestCode.QUERY_CONSUME_QUEUE, **place, **more)

    def test_past_the_end_is_a_remark_and_nothing_else(self, client):
        answer = self.ask(client, COUNT)

        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
        assert answer.remark == f"Index {COUNT} of 0@t is not exist!"

    def test_what_a_group_wants_is_told_with_them(self, client):
        said = bodies.loads(self.ask(client, 0, consumerGroup="nobody").body)

        assert len(said["queueData"]) == 2
        assert said["filterData"] == "nobody@t is not online!"


class TestMessageForAMember:
    def test_it_has_to_be_there(self, client):
        said = {"consumerGroup": "g", "clientId": "c", "msgId": f"7F00000100002A9F{0:016X}"}
        absent = client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **said)
        other = client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **{**said, "msgId": "none"})

        assert (absent.code, absent.remark) == (1, "The Consumer <g> <c> not online")
        assert (other.code, "no message none" in other.remark) == (1, True)

    def test_a_member_gets_it(self, client):
        group = {"groupName": "g", "consumeType": "CONSUME_PASSIVELY"}
        beat = json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode()
        member = Client(client.socket.getpeername()[1])
        # Older members are not asked.
        command = Command(RequestCode.HEART_BEAT, 1, version=409, body=beat)
        member.socket.sendall(frames.encode(command) + beat)
        assert member.answer().code == ResponseCode.SUCCESS
        said = {"consumerGroup": "g", "clientId": "c", "msgId": f"7F00000100002A9F{0:016X}"}
        client.send(RequestCode.CONSUME_MESSAGE_DIRECTLY, **said)
        asked = []
        for _ in range(200):
            # What the server asks comes before the answer to a later request.
            member.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
            code = RequestCode.CONSUME_MESSAGE_DIRECTLY
            asked = [each for each in member.told if each.code == code]
            if asked:
                break

        assert asked[0].fields["brokerName"] == "b0"
        assert int.from_bytes(asked[0].body[:4], "big") == len(asked[0].body)


def test_what_is_not_there_is_said_as_a_broker_says_it(client):
    remarks = {
        RequestCode.GET_BROKER_EPOCH_CACHE: "this request only for controllerMode ",
        RequestCode.AUTH_LIST_USER: "An system error occurred, please try again later.",
    }
    for code, remark in remarks.items():
        answer = client.ask(code)
        unknown = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
        known = (ResponseCode.SYSTEM_ERROR, remark)
        assert (answer.code, answer.remark) == (known if client.version == "5.5" else unknown)


def test_accounts_of_4_9_and_pop_records_are_not_written(client):
    code = RequestCode.POP_ROLLBACK if client.version == "5.5" else RequestCode.DELETE_ACL_CONFIG
    answer = client.ask(code)

    assert answer.code == ResponseCode.NO_PERMISSION
    assert "read-only store served by reput" in answer.remark


def test_a_name_server_tells_its_settings(client):
    said = client.names.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()

    assert "clusterTest=false\n" in said
    assert ("supportActingMaster=false\n" in said) == (client.version == "5.5")


def test_delayed_messages_and_timers_are_as_the_files_say(tmp_path):
    store = dispatched(messages(3, topic="SCHEDULE_TOPIC_XXXX"), tmp_path)
    config = store.root / "config"
    config.mkdir()
    (config / "delayOffset.json").write_text('{"offsetTable":{1:2,18:0}}')
    (config / "timermetrics").write_text('{"timingCount":{"a":{"count":2},"b":{"count":3}}}')
    table = runtime_table(served(store), {"sendThreadPoolQueueCapacity": "7"}, 0.0)

    assert (table["scheduleMessageOffset_1"], table["scheduleMessageOffset_18"]) == ("2,3", "0,0")
    assert table["timerCongestNum"] == "5"
    assert table["sendThreadPoolQueueCapacity"] == "7"
