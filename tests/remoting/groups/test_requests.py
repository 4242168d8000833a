"""All that is answered about groups, put together as a server does it."""

from __future__ import annotations

import json

import pytest

from reput.remoting.groups.locks import Locks
from reput.remoting.groups.members import SILENCE_SECONDS
from reput.remoting.groups.offset_file import OffsetFile, Seed
from reput.remoting.groups.requests import GroupState, handlers
from reput.remoting.groups.sent_back import OnSentBack, SentBack
from reput.remoting.holding.pulls import Pulls
from reput.remoting.wire import fields
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from tests.builders.channels import Clock
from tests.builders.groups import Client, consumers
from tests.builders.served import dispatched, messages, request, served


class Broker:
    def __init__(self, directory):
        self.clock = Clock()
        groups = consumers(clock=self.clock)
        self.store = dispatched(messages(6), directory)
        self.path = directory / "offsets.json"
        file = OffsetFile(self.path, directory / "store", self.clock, Seed.SCRATCH)
        known = served(self.store, groups=groups)
        sent_back = SentBack(OnSentBack.REFUSE, known, self.clock)
        self.state = GroupState(groups, file.offsets, Locks(self.clock), sent_back, file)
        self.pulls = Pulls(known, self.clock, commit=self.state.commit)
        self.handlers = handlers(self.state, known, "b0") | self.pulls.handlers()

    def ask(self, code, client, **said):
        return self.handlers[code](Command(code, fields=said), client)


@pytest.fixture
def broker(tmp_path):
    found = Broker(tmp_path)
    with found.store:
        yield found
    found.state.file.close()


def test_every_request_about_groups_has_an_answer(broker):
    about_groups = {14, 15, 34, 35, 36, 38, 41, 42, 46, 222}
    writes = {10, 17, 18, 25, 37, 200, 215, 310, 320, 324, 325, 370}

    assert about_groups | writes <= broker.handlers.keys()


def test_a_consumer_from_its_heartbeat_to_its_end(broker):
    client = Client().consumes()
    heartbeat = client.heartbeat()
    assert broker.handlers[heartbeat.code](heartbeat, client).code == ResponseCode.SUCCESS
    assert client.told() == ["g"]
    where = {"consumerGroup": "g", "topic": "t", "queueId": "0"}
    assert broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, client, **where).code == 22

    said = fields.write(request(flags=1)) | {"commitOffset": "4"}
    pulled = broker.ask(RequestCode.PULL_MESSAGE, client, **said)
    assert (pulled.code, pulled.messages) == (ResponseCode.SUCCESS, 6)
    resumed = broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, client, **where)
    assert fields.write(resumed.header) == {"offset": "4"}

    broker.state.closed(client)
    gone = broker.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, client, consumerGroup="g")
    assert gone.code == ResponseCode.SYSTEM_ERROR
    broker.state.close()
    assert json.loads(broker.path.read_text()) == {"offsetTable": {"t@g": {"0": 4}}}


def test_a_pull_without_the_flag_commits_nothing(broker):
    client = Client().consumes()
    heartbeat = client.heartbeat()
    broker.handlers[heartbeat.code](heartbeat, client)
    said = fields.write(request(flags=0)) | {"commitOffset": "4"}
    broker.ask(RequestCode.PULL_MESSAGE, client, **said)

    assert broker.state.offsets.find("g", "t", 0) is None


def test_a_tick_does_all_that_is_due(broker):
    client = Client().consumes()
    heartbeat = client.heartbeat()
    broker.handlers[heartbeat.code](heartbeat, client)
    broker.state.offsets.set("g", "t", 0, 1)
    said = {"offset": "0", "group": "g", "delayLevel": "0"}
    answers = [broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, client, **said) for _ in range(11)]
    assert answers[-1] is None
    client.sent.clear()
    broker.clock.now += SILENCE_SECONDS + 1
    broker.state.tick(broker.clock.now)

    assert not client.is_open
    assert [command.code for command, _ in client.sent] == [ResponseCode.NO_PERMISSION]
    assert json.loads(broker.path.read_text()) == {"offsetTable": {"t@g": {"0": 1}}}
