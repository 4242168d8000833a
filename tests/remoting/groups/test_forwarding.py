"""What tools want to know of a client is asked of the client."""

from __future__ import annotations

import pytest

from reput.remoting.groups import heartbeats
from reput.remoting.groups.forwarding import forward
from reput.remoting.wire.codes import RequestCode, ResponseCode, SerializeType
from reput.remoting.wire.command import ONEWAY, Command
from tests.builders.channels import KeptChannel
from tests.builders.groups import Client, consumers

FIELDS = {"consumerGroup": "g", "clientId": "a", "jstackEnable": "false"}
UNSET = "not set any response code"


class Tool:
    """A tool on a connection of its own that asks the only member of a group."""

    def __init__(self, flag=0, version=513):
        self.members = consumers().members
        self.client, self.channel = Client(client_id="a").consumes(), KeptChannel()
        beat = self.client.heartbeat()._replace(version=version)
        said = heartbeats.parse(beat.body)
        self.members.join(said.consumers[0], beat, self.client, "a")
        code, body = RequestCode.GET_CONSUMER_RUNNING_INFO, bytearray(b"what the tool said")
        binary = SerializeType.ROCKETMQ
        self.request = Command(code, 77, flag, fields=FIELDS, body=memoryview(body), codec=binary)

    def ask(self, client_id="a"):
        return forward(self.request, self.channel, self.members, "g", client_id, 513)


def test_an_answer_is_handed_on_word_for_word():
    """
    With the number and the codec of the tool's request, and with the remark that Java's clients
    leave in it.
    """
    tool = Tool()
    assert tool.ask() is None
    ((asked, then),) = tool.client.asked
    assert (asked.code, asked.fields, asked.body) == (307, FIELDS, b"what the tool said")

    then(Command(0, 5, 1, version=409, remark=UNSET, fields={"a": "b"}, body=b"it runs"))
    ((answer, body),) = tool.channel.sent
    assert (answer.opaque, answer.codec, answer.is_response) == (77, SerializeType.ROCKETMQ, True)
    assert (answer.code, answer.remark, answer.fields, body) == (0, UNSET, {"a": "b"}, b"it runs")


def test_a_client_that_does_not_answer():
    tool = Tool()
    tool.ask()
    tool.client.asked[0][1](None)
    ((answer, _),) = tool.channel.sent

    assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert answer.remark.startswith("consumer <g> <a> Timeout: ")


@pytest.mark.parametrize(("flag", "is_open"), [(ONEWAY, True), (0, False)])
def test_a_tool_that_no_longer_wants_to_know(flag, is_open):
    tool = Tool(flag)
    tool.ask()
    tool.channel.is_open = is_open
    tool.client.asked[0][1](Command(0))

    assert tool.channel.sent == []


def test_a_client_that_is_not_there():
    answer = Tool().ask("b")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The Consumer <g> <b> not online"


def test_a_client_that_is_too_old():
    tool = Tool(version=61)

    assert tool.ask().code == ResponseCode.SYSTEM_ERROR
    assert tool.client.asked == []
