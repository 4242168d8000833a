"""Messages that are sent back: refused, not too fast, or accepted and counted."""

from __future__ import annotations

import pytest

from reput.remoting.sending import sent_back as module
from reput.remoting.sending.refusals import READ_ONLY
from reput.remoting.sending.sent_back import AT_ONCE, WAIT_SECONDS, OnSentBack, SentBack
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import ONEWAY, Command
from reput.remoting.wire.errors import FieldError
from tests.builders.channels import Clock, KeptChannel
from tests.builders.served import FixedGroups, dispatched, messages, served
from tests.remoting.wire.captured import captured

FIELDS = {
    "offset": "100",
    "group": "g",
    "delayLevel": "0",
    "originMsgId": "ID7",
    "originTopic": "t",
}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def taken(tmp_path, clock):
    with dispatched(messages(1), tmp_path) as store:
        groups = FixedGroups(configs={"unknown": None})
        yield lambda choice: SentBack(choice, served(store, groups=groups), clock)


def send(sent_back, channel, opaque=1, flag=0, **more):
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    request = Command(code, opaque, flag, fields=FIELDS | more)
    return sent_back.handlers()[code](request, channel)


class TestRefuse:
    def test_with_a_sentence(self, taken):
        sent_back = taken(OnSentBack.REFUSE)
        answer = send(sent_back, KeptChannel())

        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, READ_ONLY)
        assert (sent_back.refused, sent_back.accepted) == (1, 0)

    def test_a_client_that_fails_at_everything_is_slowed_down(self, taken, clock):
        """
        The answers come in the end: Java's clients close a connection that owes them one.
        """
        sent_back = taken(OnSentBack.REFUSE)
        channel, other = KeptChannel(), KeptChannel()
        answers = [send(sent_back, channel, opaque) for opaque in range(AT_ONCE + 2)]
        assert answers[AT_ONCE:] == [None, None]
        assert None not in answers[:AT_ONCE]
        assert send(sent_back, other) is not None

        sent_back.tick(clock.now + WAIT_SECONDS - 0.1)
        assert channel.sent == []
        sent_back.tick(clock.now + WAIT_SECONDS)
        late = [command for command, _ in channel.sent]
        assert [command.opaque for command in late] == [AT_ONCE, AT_ONCE + 1]
        assert {(each.code, each.remark, each.version) for each in late} == {(16, READ_ONLY, 513)}
        assert sent_back.refused == AT_ONCE + 3

    def test_the_next_second_is_another_one(self, taken, clock):
        sent_back, channel = taken(OnSentBack.REFUSE), KeptChannel()
        for _ in range(AT_ONCE):
            send(sent_back, channel)
        clock.now += 1

        assert send(sent_back, channel) is not None

    def test_one_that_wants_no_answer_gets_none_late(self, taken, clock):
        sent_back, channel = taken(OnSentBack.REFUSE), KeptChannel()
        for _ in range(AT_ONCE + 1):
            send(sent_back, channel, flag=ONEWAY)
        sent_back.tick(clock.now + WAIT_SECONDS)

        assert channel.sent == []

    def test_what_waits_is_bounded(self, taken, monkeypatch):
        monkeypatch.setattr(module, "_MOST_WAITING", 1)
        sent_back, channel = taken(OnSentBack.REFUSE), KeptChannel()
        answers = [send(sent_back, channel) for _ in range(AT_ONCE + 3)]

        assert [each is None for each in answers[AT_ONCE:]] == [True, False, False]


@pytest.mark.parametrize("name", ["clients-4.9.8", "clients-5.5.0", "go-2.1.2"])
def test_accepted_messages_are_counted_and_named(taken, caplog, name):
    sent_back = taken(OnSentBack.ACCEPT)
    request = next(
        each.command
        for each in captured(name)
        if each.header["code"] == RequestCode.CONSUMER_SEND_MSG_BACK
    )
    answer = sent_back.take(request, KeptChannel())

    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert (sent_back.refused, sent_back.accepted) == (0, 1)
    (said,) = caplog.messages
    assert f"message {request.fields['originMsgId']} of topic" in said


def test_a_group_that_is_not_there(taken):
    answer = send(taken(OnSentBack.ACCEPT), KeptChannel(), group="unknown")
    help_page = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"

    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert answer.remark == (
        f"subscription group not exist, unknown \nSee {help_page} for further details."
    )


def test_a_field_that_is_missing(taken):
    with pytest.raises(FieldError, match="offset"):
        send(taken(OnSentBack.REFUSE), KeptChannel(), offset="")
