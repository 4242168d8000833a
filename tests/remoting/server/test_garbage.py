"""Peers that never become clients, at a server that speaks TLS: nothing stays, nobody waits."""

from __future__ import annotations

import random
import socket
import ssl
import time

import pytest

from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.fields import write
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import LOOPBACK, Client
from tests.remoting.access import certificates
from tests.remoting.server.served_process import ServedProcess

EACH = 100
_HELLO = bytes.fromhex("1603010200010001fc0303")
# The server knows these by then: each handshake has 10 s, and clients are asked each second.
SECONDS = 30.0


@pytest.fixture
def server(tmp_path):
    dispatched(messages(64), tmp_path).close()
    certificates.make(tmp_path)
    made = ServedProcess(
        tmp_path, "--tls-cert", tmp_path / "server.pem", "--tls-key", tmp_path / "server.key"
    )
    made.start()
    yield made
    made.end()


def pull(client):
    asked = write(request(0))
    return client.ask(RequestCode.PULL_MESSAGE, **asked)


def peers(port, seed):
    """Return peers that say nothing, half a hello, garbage after one, and garbage without."""
    pick = random.Random(seed)
    said = [
        lambda: b"",
        lambda: _HELLO[: pick.randint(1, len(_HELLO))],
        lambda: _HELLO + pick.randbytes(pick.randint(1, 600)),
        lambda: b"\x16" + pick.randbytes(40),
        lambda: b"\0" + pick.randbytes(2),
    ]
    made = []
    for _ in range(EACH):
        for words in said:
            made.append(socket.create_connection((LOOPBACK, port), SECONDS))
            made[-1].sendall(words())
    return made


def test_garbage_instead_of_tls_harms_nobody_and_leaves_nothing(server, tmp_path):
    plain, secret = Client(server.broker), Client(server.broker)
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    secret.socket = context.wrap_socket(secret.socket, server_hostname=LOOPBACK)
    assert pull(plain).body == pull(secret).body
    server.settle()
    files, memory = server.files(), server.rss()

    for seed in range(2):
        garbage = peers(server.broker, seed)
        for client in (plain, secret):
            assert pull(client).body
        for peer in garbage:
            peer.close()
    until = time.monotonic() + SECONDS
    while server.files() > files and time.monotonic() < until:
        assert pull(plain).body
        time.sleep(0.1)

    assert server.files() <= files
    assert server.rss() - memory < 32 << 20
    assert pull(plain).body == pull(secret).body
    assert server.end() == 0
    said = server.log.read_text()
    assert "Traceback" not in said
    assert "ERROR" not in said
