"""What our brokers say to a name server of others."""

from __future__ import annotations

import itertools

import pytest

from reput.remoting.names import enrolling
from reput.remoting.names.known import Broker, Topic
from reput.remoting.names.release import RELEASE_4_9, RELEASE_5_5
from reput.remoting.wire import bodies, registration
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import JsonError
from reput.remoting.wire.registration import DataVersion

OURS = "10.0.0.7:10911"


def broker(count):
    topics = {f"T{i}": Topic(f"T{i}", 4, 4) for i in range(count)}
    return Broker("b0", "cl0", {0: OURS}, topics)


def requests(count, *, is_first=True, release=RELEASE_5_5):
    numbers = itertools.count()
    return enrolling.registrations(
        broker(count), release, lambda: DataVersion(next(numbers), 1), is_first=is_first
    )


def told(request):
    return registration.read(request.body, is_compressed=False)


def test_a_broker_tells_of_its_readable_topics():
    [request] = requests(2)

    assert request.code == RequestCode.REGISTER_BROKER
    assert request.version == 513
    assert request.fields == {
        "brokerName": "b0", "brokerAddr": OURS, "clusterName": "cl0", "haServerAddr": OURS,
        "brokerId": "0", "enableActingMaster": "false", "compressed": "false",
        "bodyCrc32": str(registration.crc_of(request.body)),
    }  # fmt: skip
    assert [(each.name, each.perm) for each in told(request).topics] == [("T0", 4), ("T1", 4)]


def test_a_broker_of_4_9_says_what_that_has():
    [request] = requests(2, release=RELEASE_4_9)
    assert "enableActingMaster" not in request.fields
    assert b"stateVersion" not in request.body
    assert request.version == 409


def test_a_single_topic_is_told_after_the_broker_itself():
    assert [len(told(each).topics) for each in requests(1)] == [0, 1]
    assert [len(told(each).topics) for each in requests(1, is_first=False)] == [1]
    assert [len(told(each).topics) for each in requests(0)] == [0]


def test_many_topics_are_told_in_parts_with_a_version_each(monkeypatch):
    monkeypatch.setattr(enrolling, "MOST_AT_ONCE", 2)
    parts = [told(each) for each in requests(5)]
    assert [len(each.topics) for each in parts] == [2, 2, 1]
    assert len({each.version for each in parts}) == 3


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ({}, None),
        ({"0": OURS}, None),
        ({"0": "10.0.0.8:10911"}, "10.0.0.8:10911"),
        ({"0": OURS, "1": "10.0.0.8:10911"}, "10.0.0.8:10911"),
    ],
)
def test_another_broker_of_the_name_is_found(addresses, expected):
    table = {"b0": {"brokerAddrs": addresses}, "b1": {"brokerAddrs": {"0": "x:1"}}}
    answer = Command(0, body=bodies.dumps({"brokerAddrTable": table}))
    assert enrolling.other_address(answer, broker(1)) == expected


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"brokerAddrTable":[]}'])
def test_an_answer_of_something_else_is_an_error(body):
    with pytest.raises(JsonError):
        enrolling.other_address(Command(0, body=body), broker(1))
