"""Stock Java consumers fail at messages: they get them again after the delay, then no longer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from reput.formats.rocketmq.encode import Message
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import write
from tests.builders.java_clients import sending_back
from tests.builders.served import NOW, dispatched, request
from tests.builders.servers import Client
from tests.builders.stores import Log
from tests.builders.waiting import wait_until
from tests.remoting.server.served_process import ServedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.oracle]
CLIENTS = ["5.5.0", "4.9.8"]


def store_of(directory: Path, keys: list[str], topic: str = "t") -> None:
    log = Log()
    for number, key in enumerate(keys):
        said = {"KEYS": key, "TAGS": "A", "UNIQ_KEY": f"U{number}"}
        log.append(
            Message(topic, f"body of {key}".encode(), said, 0, number, store_timestamp=NOW + number)
        )
    dispatched(log, directory).close()


@pytest.fixture
def server(tmp_path) -> Iterator[ServedProcess]:
    store_of(tmp_path, ["good-1", "bad-1", "good-2"])
    process = ServedProcess(tmp_path, "--sent-back", "keep")
    process.start()
    yield process
    assert process.end() == 0, process.log.read_text()


def lines_of(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(path: Path, count: int, seconds: float = 60) -> None:
    wait_until(lambda: len(lines_of(path)) >= count, seconds, says=lambda: str(lines_of(path)))


@pytest.mark.parametrize("version", CLIENTS)
def test_a_message_is_tried_again_and_ends_among_the_dead(tmp_path, server, version):
    """
    Level 1 is a second. The consumer wants two more tries; the third sends it to the dead letters.
    """
    with sending_back(server.names, version, tmp_path, count=5) as taken:
        pass
    tries = [line for line in lines_of(taken) if line[0] == "bad-1"]

    assert [line[1] for line in tries] == ["0", "1", "2"]
    times = [int(line[2]) for line in tries]
    assert all(after - before >= 900 for before, after in itertools.pairwise(times))
    # Clients show the topic that the message had.
    assert {line[6] for line in tries} == {"t"}
    assert {line[4] for line in tries} == {"body of bad-1"}
    with sending_back(
        server.names, version, tmp_path, count=1, topic="%DLQ%g", group="of-the-dead"
    ) as dead:
        pass
    ((key, times_tried, *_, said),) = lines_of(dead)
    assert (key, times_tried) == ("bad-1", "3")
    assert "RETRY_TOPIC=t" in said
    assert "DELAY=0" in said


def wait_for_route(server: ServedProcess) -> None:
    """
    Return once the group's retry topic has a route; without one a consumer tries more often.
    """
    broker, names = Client(server.broker), Client(server.names)
    # It makes the group known.
    broker.ask(RequestCode.PULL_MESSAGE, **write(request(0)))
    later = "DELAY\x0118"
    said = dict.fromkeys("defghjm", "0") | {"a": "p", "b": "%RETRY%g", "c": "TBW102", "i": later}
    answer = broker.ask(RequestCode.SEND_MESSAGE_V2, b"in two hours", **said, l="16")
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    asks = RequestCode.GET_ROUTEINFO_BY_TOPIC
    wait_until(lambda: names.ask(asks, topic="%RETRY%g").code == ResponseCode.SUCCESS, pause=0.1)


@pytest.mark.parametrize("version", CLIENTS)
def test_an_orderly_consumer_gives_a_message_up(tmp_path, server, version):
    """
    It tries by itself, and sends the message to its retry topic as a producer. The group has locks,
    so it is for the dead letters at once, and the next message is consumed.
    """
    wait_for_route(server)
    with sending_back(server.names, version, tmp_path, count=5, kind="orderly") as taken:
        pass

    assert [line[0] for line in lines_of(taken)] == ["good-1", "bad-1", "bad-1", "bad-1", "good-2"]
    with sending_back(
        server.names, version, tmp_path, count=1, topic="%DLQ%g", group="of-the-dead"
    ) as dead:
        pass
    ((key, _, *_, body, _, _, said),) = lines_of(dead)
    assert (key, body) == ("bad-1", "body of bad-1")
    assert "RETRY_TOPIC=t" in said
    assert "DELAY=-1" in said
