"""A tool resets a group whose members are stock Java consumers that are online."""

from __future__ import annotations

from collections import Counter

import pytest

from reput.remoting.wire.codes import RequestCode
from tests.builders.java_clients import consuming, run_tool
from tests.builders.served import NOW, dispatched, messages
from tests.builders.servers import Client, serving
from tests.builders.waiting import wait_until

pytestmark = pytest.mark.oracle
COUNT, QUEUES = 400, 4
EACH = COUNT // QUEUES
# A message a second; the reset is to the second half of each queue.
HALF = NOW + COUNT // 2 * 1000


def offsets(client: Client, group: str) -> list[int]:
    """Return where a group resumes in each queue, -1 where it has not said."""
    said = {"consumerGroup": group, "topic": "t", "setZeroIfNotFound": "false"}
    asked = [
        client.ask(RequestCode.QUERY_CONSUMER_OFFSET, queueId=str(queue), **said)
        for queue in range(QUEUES)
    ]
    return [int((answer.fields or {}).get("offset", -1)) for answer in asked]


@pytest.mark.parametrize("kind", ["lite", "push"])
@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_a_consumer_that_is_online_goes_back(tmp_path, version, kind):
    """
    It says every five seconds that it is at the end, until its next pull is told that it is not.
    """
    store = dispatched(messages(COUNT, queues=QUEUES), tmp_path)
    again = COUNT // 2
    with (
        serving(store) as running,
        consuming(running.names, version, kind, tmp_path, count=COUNT + again) as consumer,
    ):
        client, group = Client(running.broker), f"g-{kind}"
        wait_until(lambda: offsets(client, group) == [EACH] * QUEUES, pause=0.2)
        words = ("-g", group, "-t", "t", "-s", str(HALF), "-f", "true")
        printed = run_tool(running.names, "5.5.0", tmp_path, "resetOffsetByTime", *words)
        # Where the tool took long to end, the consumer has come back by now.
        assert all(EACH // 2 <= each <= EACH for each in offsets(client, group))
        taken = consumer.taken()
        at_end = offsets(client, group)
        client.close()

    assert sorted(line.split() for line in printed.splitlines()[-QUEUES:]) == [
        ["b0", str(queue), str(EACH // 2)] for queue in range(QUEUES)
    ]
    assert Counter((int(queue), int(offset)) for queue, offset, *_ in taken) == {
        (queue, offset): 1 if offset < EACH // 2 else 2
        for queue in range(QUEUES)
        for offset in range(EACH)
    }
    assert at_end == [EACH] * QUEUES
