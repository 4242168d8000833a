"""Stock mqadmin asks a server for routes and messages, and prints what is in the store."""

from __future__ import annotations

import re

import pytest

from reput.remoting.wire import bodies
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.fields import write
from tests.builders.java_clients import run_tool
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import LOOPBACK, Client, serving

pytestmark = pytest.mark.oracle

COUNT, QUEUES = 60, 3
TOOLS = ["5.5.0", "4.9.7"]


@pytest.fixture(params=TOOLS)
def mqadmin(request, tmp_path):
    """Serve a small store; `mqadmin` returns what the tool prints of it."""
    store = dispatched(messages(COUNT, queues=QUEUES), tmp_path)
    with serving(store) as running:

        def mqadmin(*words: str) -> str:
            return run_tool(running.names, request.param, tmp_path, *words)

        mqadmin.broker = f"{LOOPBACK}:{running.broker}"
        yield mqadmin


def test_topics_and_their_routes_are_told(mqadmin):
    assert mqadmin("topicList").split() == ["t"]

    route = mqadmin("topicRoute", "-t", "t")
    assert re.search(r'"brokerName":\s*"b0"', route)
    assert re.search(r'"cluster":\s*"cl0"', route)
    assert re.search(r'"perm":\s*4\b', route)
    assert re.search(rf'"readQueueNums":\s*{QUEUES}\b', route)


def test_a_message_is_found_by_key_and_by_offset(mqadmin):
    by_key = mqadmin("queryMsgByKey", "-t", "t", "-k", "k7").splitlines()
    assert [line.split()[:3] for line in by_key[1:] if line.strip()] == [["U7", "1", "2"]]

    found = mqadmin("queryMsgByOffset", "-t", "t", "-b", "b0", "-i", "1", "-o", "2")
    assert re.search(r"^Keys: +\[k7\]$", found, re.MULTILINE)
    assert re.search(r"^Queue Offset: +2$", found, re.MULTILINE)


def test_every_message_is_printed_once(mqadmin):
    printed = mqadmin("printMsg", "-t", "t", "-d", "true")
    expected = [(i % QUEUES, i // QUEUES, f"k{i}") for i in range(COUNT)]
    places = re.findall(r"queueId=(\d+), storeSize=\d+, queueOffset=(\d+)", printed)
    keys = re.findall(r"KEYS=(k\d+)", printed)

    got = [(int(q), int(o), key) for (q, o), key in zip(places, keys, strict=True)]
    assert sorted(got) == sorted(expected)
    assert printed.count("BODY: body") == COUNT


def test_a_cluster_and_its_broker_are_told(mqadmin):
    cluster = mqadmin("clusterList").splitlines()[-1].split()
    assert cluster[:4] == ["cl0", "b0", "0", cluster[3]]
    assert cluster[3].startswith(LOOPBACK)

    status = mqadmin("brokerStatus", "-c", "cl0")
    assert re.search(r"brokerActive +: true", status)
    assert re.search(r"commitLogMinOffset +: 0", status)


def test_topics_and_queues_are_told(mqadmin):
    rows = [line.split() for line in mqadmin("topicStatus", "-t", "t").splitlines()[1:]]
    of_topic = [row[:4] for row in rows if row and row[0] == "b0"]
    assert of_topic == [["b0", str(queue), "0", str(COUNT // QUEUES)] for queue in range(QUEUES)]

    entries = mqadmin("queryCq", "-t", "t", "-q", "1", "-i", "0", "-c", "2", "-b", mqadmin.broker)
    assert entries.count("physicOffset") == 2


def test_groups_and_their_lag_are_told(mqadmin):
    client = Client(int(mqadmin.broker.rpartition(":")[2]))
    client.ask(RequestCode.PULL_MESSAGE, **write(request(0)))
    said = {"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": "7"}
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **said)

    each = COUNT // QUEUES
    told = mqadmin("brokerConsumeStats", "-b", mqadmin.broker)
    rows = [line.split()[:7] for line in told.splitlines()]
    # It leaves out queues whose last consumed message has no time.
    assert ["t", "g", "b0", "1", str(each), "7", str(each - 7)] in rows

    stats = bodies.loads(client.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="g").body)
    reached = {
        queue.queue_id: (said["brokerOffset"], said["consumerOffset"])
        for queue, said in stats["offsetTable"].items()
    }
    assert reached == {0: (each, 0), 1: (each, 7), 2: (each, 0)}
    assert "g" in mqadmin("getConsumerConfig", "-g", "g")


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_an_id_leads_here_if_hosts_are_rewritten(tmp_path, version):
    """
    Without it, mqadmin asks the broker that stored the message, which is not there.
    """
    store = dispatched(messages(3), tmp_path)
    with serving(store, rewrites_hosts=True) as running:
        seen = run_tool(
            running.names, version, tmp_path, *("queryMsgByOffset", "-t", "t"), *("-b", "b0"),
            *("-i", "0", "-o", "1"),
        )  # fmt: skip
        message_id = re.search(r"OffsetID:\s+([0-9A-F]{32})", seen)[1]
        topic = ("-t", "t") if version.startswith("5") else ()
        found = run_tool(
            running.names, version, tmp_path, *("queryMsgById", "-i", message_id, *topic)
        )

    assert message_id.startswith(f"7F000001{running.broker:08X}")
    assert message_id in found
    assert re.search(r"Queue Offset:\s+1\b", found)
