"""All that is answered about groups, put together as a server does it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reput.remoting.groups.locks import Locks
from reput.remoting.groups.members import SILENCE_SECONDS
from reput.remoting.groups.offset_file import OffsetFile, Seed
from reput.remoting.groups.requests import GroupState, handlers
from reput.remoting.holding.pulls import Pulls
from reput.remoting.sending.sent_back import OnSentBack, SentBack
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
        file = OffsetFile(self.path, directory / "store", Seed.SCRATCH)
        known = served(self.store, groups=groups, resets=file.offsets)
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


class TestReset:
    """What a member says counts again once a pull of it has been told where the group is now."""

    @pytest.fixture
    def client(self, broker):
        client = Client().consumes()
        heartbeat = client.heartbeat()
        broker.handlers[heartbeat.code](heartbeat, client)
        broker.state.offsets.set("g", "t", 0, 6)
        return client

    def reset(self, broker, client):
        said = {"group": "g", "topic": "t", "timestamp": "0", "isForce": "true", "queueId": "0"}
        answer = broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, client, **said)
        assert answer.code == ResponseCode.SUCCESS

    def commit(self, broker, client, offset):
        said = {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": str(offset)}
        return broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, client, **said).remark

    def pull(self, broker, client, offset, flags=4, **said):
        given = fields.write(request(offset, flags=flags)) | said
        return broker.ask(RequestCode.PULL_MESSAGE, client, **given)

    def test_the_next_pull_is_told_and_those_after_it_are_answered(self, broker, client):
        self.reset(broker, client)
        assert self.commit(broker, client, 6) == "Offset has been previously reset"
        assert broker.state.offsets.find("g", "t", 0) == 0

        told = self.pull(broker, client, 6)
        assert (told.code, told.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert (told.header.next_begin_offset, told.header.max_offset) == (0, 6)
        assert self.pull(broker, client, 0).messages == 6
        assert self.commit(broker, client, 3) is None
        assert broker.state.offsets.find("g", "t", 0) == 3

    def test_a_pull_that_waits_is_told_when_its_time_is_up(self, broker, client):
        assert self.pull(broker, client, 6, flags=6) is None
        self.reset(broker, client)
        broker.clock.now += 16
        broker.pulls.holds.tick()
        broker.pulls.holds.answer()
        (told, _) = client.sent[-1]

        assert (told.code, told.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
        assert broker.state.offsets.take_reset("g", "t", 0) is None

    def test_a_client_that_is_gone_is_not_told(self, broker, client):
        """
        Another member has the queue by then.
        """
        assert self.pull(broker, client, 6, flags=6) is None
        self.reset(broker, client)
        client.is_open = False
        broker.clock.now += 16
        broker.pulls.holds.tick()
        broker.pulls.holds.answer()

        assert broker.state.offsets.is_reset("g", "t", 0)

    def test_a_pull_of_another_group_or_one_that_is_refused_is_not_told(self, broker, client):
        self.reset(broker, client)
        assert self.pull(broker, client, 0, consumerGroup="h").code == ResponseCode.SUCCESS
        refused = self.pull(broker, client, 6, topic="x")

        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        assert broker.state.offsets.is_reset("g", "t", 0)

    def test_a_pull_that_it_overtakes_does_not_commit(self, broker, client):
        self.reset(broker, client)
        broker.state.commit(replace(request(5, flags=5), commit_offset=5), client, 6)

        assert broker.state.offsets.find("g", "t", 0) == 0


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
