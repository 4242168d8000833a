"""Offsets that a tool sets to a time, with and without members that are online.

`tests/remoting/server/test_resets.py` has real ones, and a real tool.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from reput.remoting.groups import heartbeats
from reput.remoting.groups import offsets as offsets_module
from reput.remoting.groups.offsets import Offsets
from reput.remoting.groups.resets import Resets
from reput.remoting.names.known import Topic
from reput.remoting.wire import bodies
from reput.remoting.wire.codes import LanguageCode, RequestCode
from reput.remoting.wire.command import ONEWAY, Command
from tests.builders.channels import KeptChannel
from tests.builders.groups import Client, consumers
from tests.builders.served import NOW, dispatched, messages, served


class Broker:
    """Serves three messages in each of two queues, a second between two of a queue."""

    def __init__(self, directory, version, *, is_at_broker=None):
        self.consumers = consumers(version)
        self.consumers.config("g")
        self.offsets = Offsets()
        self.store = dispatched(messages(6, queues=2, step=500), directory, version)
        known = served(self.store, [Topic("t", 2, 2)], self.consumers)
        if is_at_broker is not None:
            release = known.release._replace(resets_offsets=is_at_broker)
            known = replace(known, release=release)
        self.resets = Resets(self.consumers, self.offsets, known, "b0")

    def reset(self, **more):
        said = {"group": "g", "topic": "t", "timestamp": str(NOW + 1000), "isForce": "true"}
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        request = Command(code, fields=said | more)
        return self.resets.handlers()[code](request, KeptChannel())

    def join(self, language=LanguageCode.JAVA):
        client = Client().consumes()
        beat = client.heartbeat()._replace(language=language)
        said = heartbeats.parse(beat.body)
        self.consumers.members.join(said.consumers[0], beat, client, said.client_id)
        return client


def table(body):
    found = bodies.loads(b"".join(body))["offsetTable"]
    assert {(each.broker_name, each.topic) for each in found} <= {("b0", "t")}
    return {queue.queue_id: offset for queue, offset in found.items()}


@pytest.fixture
def broker(tmp_path, request):
    found = Broker(tmp_path, getattr(request, "param", "5.5"))
    with found.store:
        yield found


old = pytest.mark.parametrize("broker", ["4.9"], indirect=True)


class TestNew:
    """A broker of 5.x sets offsets whether anybody is online or not."""

    @pytest.mark.parametrize(
        ("said", "found"),
        [
            ({}, {0: 1, 1: 1}),
            ({"timestamp": "0"}, {0: 0, 1: 0}),
            ({"timestamp": "-1"}, {0: 3, 1: 3}),
            ({"queueId": "1"}, {1: 1}),
            ({"queueId": "1", "offset": "-1"}, {1: 1}),
            ({"queueId": "1", "offset": "2"}, {1: 2}),
            ({"queueId": "9", "timestamp": "-1"}, {9: 0}),
        ],
    )
    def test_they_are_set(self, broker, said, found):
        answer = broker.reset(**said)

        assert (answer.code, answer.remark) == (0, None)
        assert table(answer.pieces) == found
        assert broker.offsets.of("g", "t") == found
        assert all(broker.offsets.is_reset("g", "t", queue_id) for queue_id in found)
        assert not broker.offsets.is_reset("g", "t", 2)

    @pytest.mark.parametrize(
        ("said", "code", "remark"),
        [
            ({"topic": "x"}, 17, "Topic x does not exist"),
            ({"group": "x"}, 26, "Group x does not exist"),
            (
                {"queueId": "0", "offset": "5"},
                1,
                "Target offset 5 not in consume queue range [0-3]",
            ),
        ],
    )
    def test_what_is_refused(self, broker, said, code, remark):
        answer = broker.reset(**said)

        assert (answer.code, answer.remark) == (code, remark)
        assert broker.offsets.document() == {"offsetTable": {}}

    def test_members_are_told_by_their_pulls_alone(self, broker):
        client = broker.join()
        broker.reset()

        assert client.sent == []

    def test_what_cannot_be_kept_is_said(self, broker, monkeypatch):
        monkeypatch.setattr(offsets_module, "_MOST_QUEUES", 1)
        answer = broker.reset()

        assert (answer.code, answer.remark) == (1, "too many queues have offsets")
        assert not broker.offsets.is_reset("g", "t", 1)


def test_a_broker_of_5_x_that_resets_at_its_clients(tmp_path):
    """
    `useServerSideResetOffset` is off.
    """
    broker = Broker(tmp_path, "5.5", is_at_broker=False)
    with broker.store:
        assert broker.reset().remark == "THe consumer group <g> not exist"
        for queue_id in range(2):
            broker.offsets.set("g", "t", queue_id, 2)
        client = broker.join()

        assert table(broker.reset().pieces) == table([client.sent[0][1]]) == {0: 1, 1: 1}
        assert not broker.offsets.is_reset("g", "t", 0)


@old
class TestOld:
    """A broker of 4.9 needs members, and offsets to begin with."""

    def test_without_members(self, broker):
        for queue_id in range(2):
            broker.offsets.set("g", "t", queue_id, 2)
        answer = broker.reset()

        assert answer.code == 206
        assert answer.remark == (
            f"Consumer not online, so can not reset offset, Group: g Topic: t Timestamp: {NOW + 1000}"
        )
        assert broker.offsets.of("g", "t") == {0: 2, 1: 2}

    def test_without_offsets(self, broker):
        broker.join()
        answer = broker.reset()

        assert (answer.code, answer.remark) == (1, "THe consumer group <g> not exist")

    def test_without_the_topic(self, broker):
        answer = broker.reset(topic="x")

        assert answer.code == 17
        assert (
            answer.remark == "[reset-offset] reset offset failed, no topic in this broker. topic=x"
        )

    def test_members_are_told(self, broker):
        """
        A Java client does not read the header without `isForce`.
        """
        for queue_id in range(2):
            broker.offsets.set("g", "t", queue_id, 2)
        client = broker.join()
        broker.reset(timestamp=str(NOW + 1500))
        ((command, body),) = client.sent

        assert (command.code, command.flag) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ONEWAY)
        said = {"group": "g", "topic": "t", "timestamp": str(NOW + 1500), "isForce": "false"}
        assert said.items() <= command.fields.items()
        assert table([body]) == {0: 1, 1: 1}
        assert not broker.offsets.is_reset("g", "t", 0)

    def test_a_client_in_cpp_gets_a_list(self, broker):
        for queue_id in range(2):
            broker.offsets.set("g", "t", queue_id, 2)
        client = broker.join(LanguageCode.CPP)
        broker.reset(timestamp=str(NOW + 1500))
        ((_, body),) = client.sent
        rows = [
            {"brokerName": "b0", "offset": 1, "queueId": number, "topic": "t"}
            for number in range(2)
        ]

        assert bodies.loads(body) == {"offsetTable": rows}

    @pytest.mark.parametrize(("force", "found"), [("true", {0: 1, 1: 1}), ("false", {0: 0, 1: 1})])
    def test_only_force_goes_forward(self, broker, force, found):
        client = broker.join()
        broker.offsets.set("g", "t", 0, 0)
        broker.offsets.set("g", "t", 1, 2)
        answer = broker.reset(isForce=force, timestamp=str(NOW + 1500))

        assert table(answer.pieces) == table([client.sent[0][1]]) == found
        assert broker.offsets.of("g", "t") == found
