"""A whole server with lanes gives the answers of one without, whatever stands on a connection."""

from __future__ import annotations

import random
import time

import pytest

from reput.remoting.wire import fields, frames
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import Client, serving
from tests.builders.waiting import wait_until

_PULL, _LITE = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE


def wait_for_lanes(running):
    wait_until(lambda: running.store.desk.lanes is not None)
    return running.store


def ask(client, requests):
    """Send requests in pieces of random sizes; return the answers, in their order."""
    pick = random.Random(len(requests))
    answers = []
    while len(answers) < len(requests):
        some = requests[len(answers) : len(answers) + pick.choice([1, 2, 5, 60])]
        data = b"".join(map(frames.encode, some))
        while data:
            size = pick.choice([1, 7, 400, 1000, 50_000])
            client.socket.sendall(data[:size])
            data = data[size:]
        answers += [client.answer() for _ in some]
    return answers


def asked(seed, count):
    """Return pulls like each other, with other requests between them."""
    pick = random.Random(seed)
    for opaque in range(count):
        header = request(
            pick.choice([pick.randrange(300), pick.randrange(200), 300, 301, -1]),
            queue=pick.choice([0, 0, 0, 1]),
            expression=pick.choice(["*", "*", "T1", "T0 || T2", "none"]),
            flags=pick.choice([4, 4, 5]),
        )
        if pick.random() < 0.1:
            yield Command(RequestCode.GET_MAX_OFFSET, opaque, fields={"topic": "t", "queueId": "0"})
        else:
            yield Command(
                pick.choice([_PULL, _PULL, _PULL, _LITE]), opaque, fields=fields.write(header)
            )


@pytest.mark.parametrize("version", ["4.9", "5.5"])
def test_answers_and_their_order(tmp_path, version, monkeypatch):
    large = {"mappedFileSizeConsumeQueue": str(1000 * 20)}
    requests = list(asked(1, 600))
    said = []
    for name in ("without", "with"):
        if name == "without":
            monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        else:
            monkeypatch.delenv("NUMBA_DISABLE_JIT")
        with (
            dispatched(messages(600, queues=2), tmp_path / name, version, **large) as store,
            serving(store) as running,
        ):
            lanes = wait_for_lanes(running).desk.lanes if name == "with" else None
            client = Client(running.broker)
            said.append(ask(client, requests))
            offsets = {"consumerGroup": "g", "topic": "t", "queueId": "0"}
            said[-1].append(client.ask(RequestCode.QUERY_CONSUMER_OFFSET, **offsets))
            client.close()
            assert lanes is None or lanes.learned > 10
    assert said[0] == said[1]


def test_a_client_that_does_not_read(tmp_path):
    """
    It gets all in order once it reads, and nothing is answered that it cannot take.
    """
    with (
        dispatched(messages(300, size=3000), tmp_path, mappedFileSizeConsumeQueue="20000") as store,
        serving(store) as running,
    ):
        wait_for_lanes(running)
        client = Client(running.broker)
        requests = [
            Command(_PULL, opaque, fields=fields.write(request(opaque % 200)))
            for opaque in range(300)
        ]
        # Some 100 KB an answer, and nobody reads for a moment.
        data = b"".join(map(frames.encode, requests))
        client.socket.sendall(data)
        time.sleep(0.3)
        answers = [client.answer(60) for _ in requests]
        assert [each.opaque for each in answers] == list(range(300))
        assert all(each.code == 0 for each in answers)
        client.close()
