"""What a name server answers, beside what real ones answered."""

from __future__ import annotations

import json

import pytest

from reput.remoting.names.answers import READ_ONLY, answer
from reput.remoting.names.known import READABLE, Broker, Known, Topic
from reput.remoting.names.release import RELEASE_4_9, RELEASE_5_5
from reput.remoting.wire import bodies
from reput.remoting.wire.codes import RequestCode, ResponseCode, SerializeType
from reput.remoting.wire.command import ONEWAY, Command
from tests.remoting.wire.captured import FRAMES

RELEASES = {"4.9": RELEASE_4_9, "5.5.0": RELEASE_5_5}


def broker(name="b0", topics=(), cluster="cl0", addresses=None):
    found = {topic.name: topic for topic in topics}
    return Broker(name, cluster, addresses or {0: "127.0.0.1:10911"}, found)


def exchanges():
    topics, found = None, []
    for line in (FRAMES / "names.jsonl").read_text("utf-8").splitlines():
        each = json.loads(line)
        topics = each.get("topics", topics)
        brokers = ()
        if topics is not None:
            brokers = (broker(topics=[Topic(name, *row) for name, row in topics.items()]),)
        found.append((each, Known(brokers)))
    return found


EXCHANGES = exchanges()


def ask(known, code, release=RELEASE_5_5, **fields):
    got = answer(Command(code, 5, fields=fields), known, release)
    assert (got.opaque, got.version, got.is_response) == (5, release.version, True)
    return got


def listed(value):
    """Sort the lists of names, which stand in the order of Java's maps."""
    return value | {"topicList": sorted(value["topicList"])} if "topicList" in value else value


@pytest.mark.parametrize(
    ("each", "known"), EXCHANGES, ids=[f"{e['of']}-{e['request']['code']}" for e, _ in EXCHANGES]
)
def test_answers_are_those_of_a_real_name_server(each, known):
    """
    Field by field, on what its broker had registered.
    """
    asked, wanted = each["request"], each["answer"]
    request = Command(asked["code"], asked["opaque"], fields=asked.get("extFields"))

    got = answer(request, known, RELEASES[each["of"]])

    assert (got.code, got.opaque, got.flag) == (wanted["code"], wanted["opaque"], wanted["flag"])
    assert (got.version, got.remark) == (wanted["version"], wanted.get("remark"))
    assert got.fields == wanted.get("extFields")
    if not each["body"]:
        assert got.body == b""
    else:
        assert listed(bodies.loads(got.body)) == listed(bodies.loads(each["body"].encode()))
        # Strict JSON, in the order of the real one; it writes bare keys to older peers.
        if b"topicList" not in got.body and '{0:"' not in each["body"]:
            assert got.body.decode() == each["body"]


def test_all_kinds_of_exchanges_are_there():
    kinds = {(e["of"], e["request"]["code"], e["answer"]["code"]) for e, _ in EXCHANGES}

    assert len(kinds) == 8


class TestSeveralBrokers:
    known = Known(
        (
            broker("b1", [Topic("T", 4, 4), Topic("U", 1, 1, 6)], "cl1", {1: "s:1", 0: "m:1"}),
            broker("b0", [Topic("T", 2, 8, 6, 1)]),
        ),
        {"ORDER_TOPIC_CONFIG": {"T": "b1:4;b0:2"}},
    )

    def test_a_route_names_each(self):
        """
        Ids in order, no blanks: Go splits the addresses by hand.
        """
        got = ask(self.known, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")

        assert got.body == (
            b'{"brokerDatas":['
            b'{"brokerAddrs":{"0":"m:1","1":"s:1"},"brokerName":"b1","cluster":"cl1","enableActingMaster":false},'
            b'{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"b0","cluster":"cl0","enableActingMaster":false}],'
            b'"filterServerTable":{},"orderTopicConf":"b1:4;b0:2","queueDatas":['
            b'{"brokerName":"b1","perm":4,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4},'
            b'{"brokerName":"b0","perm":6,"readQueueNums":2,"topicSysFlag":1,"writeQueueNums":8}]}'
        )

    def test_a_topic_of_a_store_is_only_readable(self):
        assert Topic("T", 1, 1).perm == READABLE

    def test_lists(self):
        def names(code, **fields):
            return bodies.loads(ask(self.known, code, **fields).body)

        assert names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"topicList": ["T", "U"]}
        assert names(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="cl0") == {"topicList": ["T"]}
        assert names(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="no") == {"topicList": []}
        assert names(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {
            "brokerAddr": "m:1", "topicList": ["cl1", "b1", "cl0", "b0"],
        }  # fmt: skip

    def test_unit_flags_are_those_of_the_first_broker(self):
        known = Known(
            (
                broker(
                    "b0",
                    [
                        Topic(name, 1, 1, 6, flag)
                        for name, flag in zip("WXYZ", range(4), strict=True)
                    ],
                ),
                broker("b1", [Topic("W", 1, 1, 6, 3)]),
            )
        )
        lists = [bodies.loads(ask(known, code).body)["topicList"] for code in (311, 312, 313)]
        assert lists == [["X", "Z"], ["Y", "Z"], ["Y"]]

    def test_values(self):
        code = RequestCode.GET_KV_CONFIG
        found = ask(self.known, code, namespace="ORDER_TOPIC_CONFIG", key="T")
        assert (found.code, found.fields) == (0, {"value": "b1:4;b0:2"})
        missing = ask(self.known, code, namespace="ORDER_TOPIC_CONFIG", key="U")
        assert missing.code == ResponseCode.QUERY_NOT_FOUND
        assert missing.remark == "No config item, Namespace: ORDER_TOPIC_CONFIG Key: U"
        listed = ask(
            self.known, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ORDER_TOPIC_CONFIG"
        )
        assert bodies.loads(listed.body) == {"table": {"T": "b1:4;b0:2"}}


class TestRefusals:
    known = Known(())

    @pytest.mark.parametrize("code", [100, 102, 205, 216, 318, 327])
    def test_writes_are_refused_with_a_sentence(self, code):
        got = ask(self.known, code)
        assert (got.code, got.remark) == (ResponseCode.NO_PERMISSION, READ_ONLY)

    def test_a_missing_field_is_named(self):
        got = ask(self.known, RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert got.code == ResponseCode.SYSTEM_ERROR
        assert got.remark.endswith("the custom field <topic> is null")

    def test_what_is_not_known_is_3(self):
        got = ask(self.known, 4711)
        assert (got.code, got.remark) == (3, " request type 4711 not supported")

    @pytest.mark.parametrize("code", [105, 106, 205, 4711])
    def test_oneway_is_never_answered(self, code):
        assert answer(Command(code, flag=ONEWAY), self.known, RELEASE_5_5) is None

    def test_the_codec_is_that_of_the_request(self):
        request = Command(106, codec=SerializeType.ROCKETMQ)
        assert answer(request, self.known, RELEASE_4_9).codec is SerializeType.ROCKETMQ
