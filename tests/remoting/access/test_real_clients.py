"""Stock Java clients over real sockets: they sign, they speak TLS, and the ACL judges them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from reput.remoting.access.check import Access
from reput.remoting.access.tls import ClientAuth, TlsFiles, context
from reput.remoting.wire import frames
from reput.remoting.wire.command import Command
from tests.oracle.acl import judge
from tests.remoting.access import certificates

pytestmark = pytest.mark.oracle

ACCOUNTS = "accounts: [{accessKey: reader-one, secretKey: '12345678', topicPerms: [orders=SUB]}]"


class Served(asyncio.Protocol):
    """Answers what the ACL allows with 0."""

    def __init__(self, access):
        self.access = access
        self.decoder = frames.FrameDecoder()

    def connection_made(self, transport):
        self.transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        self.peer = f"{host}:{port}"

    def data_received(self, data):
        for request in self.decoder.feed(data):
            refused = self.access.check(request, self)
            code, remark = (0, "answered") if refused is None else (refused.code, refused.remark)
            answer = request.answer(code, 513, remark)
            self.transport.write(frames.encode(answer))


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def begin(tmp_path):
    """Start a server on a thread of its own; `begin` returns its port."""
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = []

    def begin(version, tls=None):
        access = Access(tmp_path, judge.VERSIONS[version])

        async def serve():
            return await loop.create_server(lambda: Served(access), "127.0.0.1", 0, ssl=tls)

        servers.append(asyncio.run_coroutine_threadsafe(serve(), loop).result(10))
        return servers[-1].sockets[0].getsockname()[1]

    yield begin
    for server in servers:
        loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def call(version, port, *options, secret="12345678", topic="orders"):
    """Return what a real client is answered."""
    judge.build(version)
    key, secret = judge.coded("reader-one"), judge.coded(secret)
    request = judge.said(Command(12, version=513, fields={"topic": topic, "key": "k"}))
    question = f"CALL\t127.0.0.1:{port}\t{key}\t{secret}\t{request}"
    return judge.ask(version, [question], *options)[0]


def tls_of(certs, name=None):
    """Return a client's system properties; `name` is whose certificate it shows."""
    given = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.config.file": "/nowhere",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": certs / "ca.pem",
    }
    if name:
        given |= {
            "tls.client.certPath": certs / f"{name}.pem",
            "tls.client.keyPath": certs / f"{name}.key",
        }
    return [f"-D{key}={value}" for key, value in given.items()]


@pytest.mark.parametrize("version", judge.VERSIONS)
class TestClients:
    def test_a_client_that_signs_is_answered_and_others_are_told_why_not(self, version, begin):
        port = begin(version)

        assert call(version, port) == "0 answered"
        assert "Check signature failed for accessKey=reader-one" in call(version, port, secret="x")
        assert call(version, port, topic="audit").startswith(
            "1 org.apache.rocketmq.acl.common.AclException: No default permission for topic:audit"
        )

    def test_a_client_speaks_tls_and_shows_its_certificate(self, version, begin, certs):
        files = TlsFiles(
            certs / "server.pem",
            certs / "locked.key",
            certs / "password",
            trusted=certs / "ca.pem",
            client_auth=ClientAuth.REQUIRE,
        )
        port = begin(version, context(files))

        assert call(version, port, *tls_of(certs, "client")) == "0 answered"
        for name in (None, "stranger"):
            assert call(version, port, *tls_of(certs, name)).startswith("!")
        assert call(version, port).startswith("!")
