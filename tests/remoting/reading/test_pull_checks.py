"""Which pulls are refused: the codes and remarks of a broker, and which check comes first.

The remarks are those of RocketMQ `PullMessageProcessor`, 4.9.8 and 5.5.0.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from reput.formats.filters.consumerfilter import ConsumerFilter
from reput.remoting.names.known import READABLE, Topic
from reput.remoting.reading.pull import pull
from reput.remoting.reading.served import GroupConfig, Online, Subscription
from reput.remoting.wire import fields
from reput.remoting.wire.codes import ResponseCode
from tests.builders.served import FixedGroups, dispatched, messages, request, served

HELP_5_5 = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
HELP_4_9 = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
HELP = {"4.9": HELP_4_9, "5.5": HELP_5_5}


@pytest.fixture(params=["4.9", "5.5"])
def version(request):
    return request.param


@pytest.fixture
def store(tmp_path, version):
    with dispatched(messages(6), tmp_path, version) as found:
        yield found


def said(answer):
    return answer.code, answer.remark, fields.write(answer.header)


def forbidden(version, kind):
    return {"forbiddenType": str(kind)} if version == "5.5" else {}


def subscribed(*subscriptions, is_broadcasting=False, **more):
    online = Online(is_broadcasting, dict(zip(["t"], subscriptions, strict=False)))
    return FixedGroups(members={"g": online}, **more)


def test_each_check_comes_before_those_after_it(store, version):
    """
    A pull that fails them all is answered by the first; each one mended leads to the next.
    """
    groups = FixedGroups(configs={"g": None})
    mended = served(store, [Topic("t", 0, 0, perm=0)], groups)
    mended = replace(mended, is_readable=False, has_lite_pull=False, host="10.0.0.1")

    def ask():
        return said(pull(request(flags=0, version=7), mended, "/1.2.3.4:5", is_lite=True))

    broker = "the broker[10.0.0.1] "
    allowed = forbidden(version, 1)
    assert ask() == (16, f"{broker}pulling message is forbidden", allowed)
    mended = replace(mended, is_readable=True)
    assert ask() == (16, f"{broker}for lite pull consumer is forbidden", allowed)
    mended = replace(mended, has_lite_pull=True)
    assert ask() == (26, f"subscription group [g] does not exist, {HELP[version]}", {})
    groups.configs["g"] = GroupConfig(may_consume=False)
    assert ask() == (16, "subscription group no permission, g", forbidden(version, 2))
    del groups.configs["g"]
    topics, mended = mended.topics, replace(mended, topics={})
    assert ask() == (17, f"topic[t] not exist, apply first please! {HELP[version]}", {})
    mended = replace(mended, topics=topics)
    assert ask() == (16, "the topic[t] pulling message is forbidden", forbidden(version, 3))
    mended = replace(mended, topics={"t": Topic("t", 0, 0, READABLE)})
    remark = "queueId[0] is illegal, topic:[t] topicConfig.readQueueNums:[0] consumer:[/1.2.3.4:5]"
    assert ask() == (29 if version == "5.5" else 1, remark, {})
    mended = replace(mended, topics={"t": Topic("t", 1, 1)})
    assert ask() == (24, f"the consumer's group info not exist{HELP[version]}", {})
    groups.members["g"] = Online(is_broadcasting=True, subscriptions={})
    groups.configs["g"] = GroupConfig(may_broadcast=False)
    remark = "the consumer group[g] can not consume by broadcast way"
    assert ask() == (16, remark, forbidden(version, 4))
    groups.configs["g"] = GroupConfig(forbidden=frozenset({"t"}))
    if version == "5.5":
        remark = "the consumer group[g] is forbidden for topic[t]"
        assert ask() == (16, remark, {"forbiddenType": "5"})
        groups.configs["g"] = GroupConfig()
    assert ask() == (24, f"the consumer's subscription not exist{HELP[version]}", {})
    groups.members["g"] = Online(is_broadcasting=True, subscriptions={"t": Subscription("*")})
    assert ask() == (25, "the consumer's subscription not latest", {})
    sql = Subscription("a > 1", "SQL92", 7)
    groups.members["g"] = Online(is_broadcasting=True, subscriptions={"t": sql})
    remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
    assert ask() == (27, remark, {})
    old = ConsumerFilter("g", "a > 1", "SQL92", 1, 0, (), 0, 6)
    groups.filters["t", "g"] = old
    assert ask() == (28, "the consumer's consumer filter data not latest", {})
    groups.filters["t", "g"] = replace(old, client_version=7)
    remark = "The broker does not support consumer to filter message by SQL92"
    assert ask() == (1, remark, {})
    mended = replace(mended, filters_properties=True)
    assert ask()[:2] == (0, "FOUND")


@pytest.mark.parametrize(("queue", "code"), [(-1, 29), (2, 29), (1, 19)])
def test_queues_are_those_that_may_be_read(store, queue, code):
    asked = pull(request(queue=queue), served(store, [Topic("t", 2, 9)]))

    expected = code if store.settings.version.family == "5.5" or code == 19 else 1
    assert asked.code == expected


@pytest.mark.parametrize(
    ("expression", "kind", "code", "found"),
    [
        ("*", None, 0, 6),
        ("", "TAG", 0, 6),
        (None, None, 0, 6),
        ("T1", None, 0, 2),
        ("T1 || T2", "TAG", 0, 4),
        ("none", "TAG", 20, 0),
        ("||", "TAG", 23, 0),
        ("", "SQL92", 23, 0),
        (None, "SQL92", 23, 0),
        ("a > 3", "SQL92", 0, 2),
        # A broker of either version then has no filter, and sends all.
        ("a !! 3", "SQL92", 0, 6),
        ("a > 3", "XPATH", 0, 6),
        # Neither absent nor TAG: it counts as one of tags, and has no hashes.
        ("T1", "", 20, 0),
        ("*", "", 0, 6),
        ("", "", 23, 0),
    ],
)
def test_an_expression_in_the_request(store, expression, kind, code, found):
    answer = pull(request(expression=expression, kind=kind), served(store, filters_properties=True))

    assert (answer.code, answer.messages) == (code, found)


def test_sql92_in_the_request_needs_the_brokers_consent(store):
    answer = pull(request(expression="a > 3", kind="SQL92"), served(store))

    remark = "The broker does not support consumer to filter message by SQL92"
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_subscription_filters_where_the_request_has_no_expression(store):
    """
    Go clients write TAG and version 0 whatever they subscribed with: the heartbeat counts.
    """
    groups = subscribed(Subscription("T1", "TAG", 9))
    assert pull(request(flags=2, expression=None), served(store, groups=groups)).messages == 2

    known = ConsumerFilter("g", "a > 3", "SQL92", 1, 0, (), 0, 9)
    groups = subscribed(Subscription("a > 3", "SQL92", 9), filters={("t", "g"): known})
    asked = request(flags=2, expression=None, kind="TAG", version=9)
    answer = pull(asked, served(store, groups=groups, filters_properties=True))
    assert (answer.messages, answer.header.next_begin_offset) == (2, 6)
