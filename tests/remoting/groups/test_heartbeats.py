"""What heartbeats say: those of real clients in three dialects, and what breaks them."""

from __future__ import annotations

import json

import pytest

from reput.remoting.groups import heartbeats
from reput.remoting.groups.heartbeats import Consumer, Heartbeat
from reput.remoting.reading.served import Subscription
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.errors import FieldError
from tests.remoting.wire.captured import captured

PULL = ("CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET")
LITE = "127.0.0.1@cl@STREAM"


def of(name):
    """Return the last heartbeat that a client of a release sent."""
    found = [
        frame.body
        for frame in captured(name)
        if frame.header["code"] == RequestCode.HEART_BEAT and not frame.header["flag"] & 1
    ]
    return heartbeats.parse(found[-1])


@pytest.mark.parametrize(
    ("name", "version"), [("clients-4.9.8", 1795312925043), ("clients-5.5.0", 1795312675434)]
)
def test_java_s_heartbeats(name, version):
    subscription = Subscription("*", "TAG", version)
    assert of(name) == Heartbeat(
        LITE, (Consumer("CGL", *PULL, {"T1": subscription}),), ("CLIENT_INNER_PRODUCER",)
    )


def test_go_s_heartbeats():
    """
    Its versions are nanoseconds. Taken for milliseconds, they would be newer than any of Java's.
    """
    subscriptions = {
        "TG": Subscription("TagA || TagB", "TAG", 1795314720979),
        "%RETRY%GCG": Subscription("*", "TAG", 1795314720979),
    }
    push = ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET")
    assert of("go-2.1.2") == Heartbeat("@gc", (Consumer("GCG", *push, subscriptions),), ())


def parsed(**said):
    return heartbeats.parse(json.dumps({"clientID": "c"} | said).encode())


@pytest.mark.parametrize("said", [{}, {"consumerDataSet": None, "producerDataSet": None}])
def test_sets_may_be_left_out(said):
    assert parsed(**said) == Heartbeat("c", (), ())


def test_a_short_heartbeat_does_not_say_that_there_are_no_subscriptions():
    consumer = {"groupName": "g", "subscriptionDataSet": []}
    short = {"heartbeatFingerprint": 7, "withoutSub": True, "consumerDataSet": [consumer]}

    assert parsed(**short).consumers[0].subscriptions is None
    assert parsed(**short | {"heartbeatFingerprint": 0}).consumers[0].subscriptions == {}


def test_tags_stand_for_an_expression_that_is_not_there():
    said = {"topic": "t", "tagsSet": ["A", "B"], "codeSet": ["65", "66"]}
    assert heartbeats.subscription(said) == Subscription("A||B", "TAG", 0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"clientID":null}',
        b'{"clientID":"c","consumerDataSet":{}}',
        b'{"clientID":"c","consumerDataSet":[1]}',
        b'{"clientID":"c","consumerDataSet":[{}]}',
        b'{"clientID":"c","producerDataSet":[{"groupName":1}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
    ],
)
def test_what_is_no_heartbeat_is_refused(body):
    with pytest.raises(FieldError):
        heartbeats.parse(body)


@pytest.mark.parametrize("said", [{"subString": 1}, {"subVersion": "1"}, {"subVersion": 1.5}])
def test_a_subscription_of_other_types_is_refused(said):
    with pytest.raises(FieldError, match="body's"):
        heartbeats.subscription({"topic": "t", "subString": "*"} | said)
