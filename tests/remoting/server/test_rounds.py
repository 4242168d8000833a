"""Connections that a kernel reads: what they get, and how they come and go."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reput.remoting.wire import fields, frames
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import Client, serving
from tests.builders.waiting import wait_until
from tests.remoting.server.test_lanes import wait_for_lanes

COUNT = 400
_PULL = RequestCode.PULL_MESSAGE


def _uvloop():
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.fixture(params=[asyncio.new_event_loop, _uvloop], ids=["asyncio", "uvloop"])
def served(request, tmp_path):
    """A server of a queue, its rounds, and the store."""
    large = {"mappedFileSizeConsumeQueue": str(1000 * 20)}
    with (
        dispatched(messages(COUNT, size=200), tmp_path, **large) as store,
        serving(store, new_loop=request.param) as running,
    ):
        yield running, wait_for_lanes(running).desk.lanes.rounds, store


def pull(offset, **said):
    return fields.write(request(offset, **said))


def joined(running, rounds, count=1):
    """Return clients that have joined the rounds."""
    clients = [Client(running.broker) for _ in range(count)]
    for client in clients:
        for _ in range(8):
            assert client.ask(_PULL, **pull(0)).code == ResponseCode.SUCCESS
    wait_until(lambda: len(rounds) == count)
    return clients


def bodies(store):
    """Return the body of a pull of 32 from each offset."""
    records = [
        bytes(store.log.bytes_at(each.physical_offset, each.size))
        for _, each in store.messages("t", 0, 0)
    ]
    return [b"".join(records[at : at + 32]) for at in range(COUNT - 64)]


def test_many_clients_each_get_what_they_ask_for(served):
    """
    Also with other requests between pulls, for which they leave and join again.
    """
    running, rounds, store = served
    clients = joined(running, rounds, 40)
    expected = bodies(store)

    def follow(number):
        client = clients[number]
        for turn in range(150):
            offset = (number * 7 + turn * 3) % len(expected)
            answer = client.ask(_PULL, **pull(offset))
            assert answer.fields["nextBeginOffset"] == str(offset + 32)
            assert answer.body == expected[offset]
            if turn % 50 == number % 50:
                asked = client.ask(RequestCode.GET_MAX_OFFSET, topic="t", queueId="0")
                assert asked.fields == {"offset": str(COUNT)}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(follow, range(len(clients))))
    wait_until(lambda: len(rounds) == len(clients))
    for client in clients:
        client.close()
    wait_until(lambda: len(rounds) == 0)
    running.wait_for(lambda count: count == 0)


def test_requests_of_one_piece_are_answered_in_their_order(served):
    """
    Pulls, then what Python answers, then pulls: all of it in one piece, and again byte by byte.
    """
    running, rounds, store = served
    (client,) = joined(running, rounds)
    expected = bodies(store)
    commands = []
    for opaque in range(100):
        if opaque % 40 == 39:
            said = {"topic": "t", "queueId": "0"}
            commands.append(Command(RequestCode.GET_MIN_OFFSET, opaque, fields=said))
        else:
            commands.append(Command(_PULL, opaque, fields=pull(opaque)))
    data = b"".join(map(frames.encode, commands))
    for size in (len(data), 1, 700):
        for at in range(0, len(data), size):
            client.socket.sendall(data[at : at + size])
        answers = [client.answer() for _ in commands]
        assert [each.opaque for each in answers] == list(range(100))
        for opaque, each in enumerate(answers):
            assert each.body == (b"" if opaque % 40 == 39 else expected[opaque])


def test_a_client_that_does_not_read(served):
    """
    It gets all in order once it reads.
    """
    running, rounds, store = served
    (client,) = joined(running, rounds)
    expected = bodies(store)
    count = 2000
    data = b"".join(
        frames.encode(Command(_PULL, opaque, fields=pull(opaque % 300))) for opaque in range(count)
    )
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(client.socket.sendall, data)
        time.sleep(0.5)
        for opaque in range(count):
            answer = client.answer(60)
            assert answer.opaque == opaque
            assert answer.body == expected[opaque % 300]
        sending.result(60)


def test_what_the_server_says_by_itself_comes_between_answers(served):
    running, rounds, _ = served
    (client,) = joined(running, rounds)
    (connection,) = rounds._riders.values()
    loop = running.store_loop
    for turn in range(200):
        offset = turn % 200
        loop.call_soon_threadsafe(
            connection.ask, Command(RequestCode.GET_CONSUMER_RUNNING_INFO, 0), lambda _: None
        )
        for _ in range(3):
            assert client.ask(_PULL, **pull(offset)).fields["nextBeginOffset"] == str(offset + 32)
    wait_until(lambda: not client.socket.settimeout(1) and _heard(client) == 200)


def _heard(client):
    client.ask(_PULL, **pull(0))
    return len(client.told)


def test_a_client_that_resets_its_connection_is_forgotten(served):
    running, rounds, _ = served
    (client,) = joined(running, rounds)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    wait_until(lambda: len(rounds) == 0)
    running.wait_for(lambda count: count == 0)


def test_a_failure_closes_the_connection_whose_requests_are_lost(served, monkeypatch):
    running, rounds, _ = served
    (client,) = joined(running, rounds)

    def fail(_data, _connection):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(rounds._lanes, "take", fail)
    client.send(RequestCode.GET_MIN_OFFSET, topic="t", queueId="0")
    assert client.is_closed()
    assert len(rounds) == 0


def test_a_connection_that_the_server_closes_leaves(served):
    running, rounds, _ = served
    (client,) = joined(running, rounds)
    (connection,) = rounds._riders.values()
    running.store_loop.call_soon_threadsafe(connection.close)
    assert client.is_closed()
    assert len(rounds) == 0
    running.wait_for(lambda count: count == 0)


def test_a_connection_that_moves_is_active_and_one_at_rest_is_not(served):
    running, rounds, _ = served
    busy, resting = joined(running, rounds, 2)
    by_port = {each._socket: each for each in rounds._riders.values()}
    # The next tick tells of what was before.
    time.sleep(1.2)
    began = {number: each.active_at for number, each in by_port.items()}
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        busy.ask(_PULL, **pull(1))
        time.sleep(0.05)
    later = sorted(each.active_at - began[number] for number, each in by_port.items())
    assert later[0] == 0
    assert later[1] > 1
    assert resting.ask(_PULL, **pull(2)).code == ResponseCode.SUCCESS


def test_connections_leave_once_they_may_not_pass(served):
    running, rounds, _ = served
    (client,) = joined(running, rounds)
    rounds._lanes._may_pass = lambda _: False
    wait_until(lambda: len(rounds) == 0)
    for _ in range(10):
        assert client.ask(_PULL, **pull(0)).code == ResponseCode.SUCCESS
    assert len(rounds) == 0


def test_connections_leave_where_the_log_is_away(served, tmp_path):
    running, rounds, _ = served
    (client,) = joined(running, rounds)
    (tmp_path / "store" / "commitlog").rename(tmp_path / "away")
    wait_until(lambda: client.ask(_PULL, **pull(0)).code != ResponseCode.SUCCESS)
    assert len(rounds) == 0
    (tmp_path / "away").rename(tmp_path / "store" / "commitlog")
    wait_until(lambda: client.ask(_PULL, **pull(0)).code == ResponseCode.SUCCESS)


def test_where_nothing_can_be_watched_the_loop_reads_on(served, monkeypatch):
    running, rounds, _ = served

    def refuse():
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr("reput.remoting.lanes.rounds.select.epoll", refuse)
    client = Client(running.broker)
    for offset in range(20):
        assert client.ask(_PULL, **pull(offset)).fields["nextBeginOffset"] == str(offset + 32)
    assert len(rounds) == 0


def test_offsets_that_pulls_commit_are_kept(served):
    running, rounds, _ = served
    (client,) = joined(running, rounds)
    for offset in range(20):
        client.ask(_PULL, **pull(offset, flags=5) | {"commitOffset": str(offset)})
    wait_until(lambda: len(rounds) == 1)
    client.ask(_PULL, **pull(0, flags=5) | {"commitOffset": "77"})
    assert len(rounds) == 1
    found = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="g", topic="t", queueId="0")
    assert found.fields == {"offset": "77"}
