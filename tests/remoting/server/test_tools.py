"""Stock mqadmin asks a server for routes and messages, and prints what is in the store."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.builders.served import dispatched, messages
from tests.builders.servers import LOOPBACK, serving

pytestmark = pytest.mark.oracle

HERE = Path(__file__).resolve().parent.parent
COUNT, QUEUES = 60, 3
TOOLS = ["5.5.0", "4.9.7"]


@pytest.fixture(params=TOOLS)
def mqadmin(request, tmp_path):
    """Serve a small store; `mqadmin` returns what the tool prints of it."""
    version = request.param
    subprocess.run([HERE / "build.sh", version], check=True, timeout=600)
    environment = {k: v for k, v in os.environ.items() if k != "NAMESRV_ADDR"}
    # mqadmin of 4.9 ends in silence without it.
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "logback_tools.xml").write_text("<configuration/>")
    store = dispatched(messages(COUNT, queues=QUEUES), tmp_path)
    with serving(store) as running:

        def mqadmin(*words: str) -> str:
            done = subprocess.run(
                [
                    *("java", "-Xmx256m", f"-Duser.home={tmp_path}"),
                    f"-Drocketmq.home.dir={tmp_path}",
                    *("-cp", f"{HERE}/target/{version}/lib/*"),
                    "org.apache.rocketmq.tools.command.MQAdminStartup",
                    *words,
                    *("-n", f"{LOOPBACK}:{running.names}"),
                ],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                env=environment,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

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
