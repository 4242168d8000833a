"""The port of metrics and health checks, whatever connects to it."""

from __future__ import annotations

import base64
import http.client
import re
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from reput.formats.errors import ReputError, UsageError
from reput.streaming.observe import server as metrics_server
from reput.streaming.observe.access import Access
from reput.streaming.observe.metrics import Metrics
from reput.streaming.observe.server import serve
from tests.builders.stores import config_of


@pytest.fixture
def start(tmp_path):
    servers = []

    def started(access=None):
        config = config_of(tmp_path / "store", tmp_path / "out")
        server = serve(Metrics({"s": config}, "c", "1"), "127.0.0.1", 0, 1 << 30, access)
        servers.append(server)
        return server.server_port

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


def get(port, path, context=None, **headers):
    """
    Return status and body.
    """
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    else:
        connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_idle_connections_take_neither_descriptors_nor_answers(start):
    """
    Many more connections that say nothing than there is room for: a scrape and a health check are
    answered all the same, and no more descriptors are taken than that room.
    """
    port = start()
    before = descriptors()
    idle = []
    try:
        idle += (
            socket.create_connection(("127.0.0.1", port), timeout=20)
            for _ in range(5 * metrics_server._MOST_CONNECTIONS)
        )
        assert get(port, "/healthz")[0] == 200
        status, text = get(port, "/metrics")
        taken = descriptors() - before - len(idle)

        assert status == 200
        assert "rocketmq_reput_start_timestamp_seconds" in text
        assert taken <= metrics_server._MOST_CONNECTIONS + 2
    finally:
        for each in idle:
            each.close()


def test_a_connection_that_says_nothing_is_closed(start, monkeypatch):
    """
    And so is one that stops in the middle of a request.
    """
    monkeypatch.setattr(metrics_server, "_TIMEOUT", 0.2)
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.2)
    port = start()
    for said in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(said)
            assert connection.recv(1) == b""


def test_no_descriptor_for_a_connection_is_no_end(start):
    """
    Where the process has none left, answers come again once it has.
    """
    port = start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [socket.socket()]
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 5, hard))
    try:
        while True:
            try:
                held.append(socket.socket())
            except OSError:
                break
        last = held.pop()
        last.close()
        with socket.create_connection(("127.0.0.1", port), timeout=20):
            pass
    finally:
        for each in held:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert get(port, "/healthz")[0] == 200


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """
    A certificate of the server, one of a client, and one that nobody has signed; made by openssl.
    """
    directory = tmp_path_factory.mktemp("tls")

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=directory)

    for name in ("ca", "other"):
        openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
            "-out", f"{name}.crt",
        )  # fmt: skip
    (directory / "names").write_text("subjectAltName=DNS:localhost")
    for name in ("server", "client"):
        openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
        )  # fmt: skip
    return directory


def client(certificates, name=None):
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    if name:
        context.load_cert_chain(certificates / f"{name}.crt", certificates / f"{name}.key")
    return context


def test_metrics_by_tls(start, certificates):
    """
    A client that checks the certificate gets an answer; one that speaks no TLS, or says nothing, gets
    none and holds up nobody. A certificate that is replaced counts for the next connection.
    """
    copied = {}
    for name in ("server.crt", "server.key"):
        copied[name] = certificates / f"used-{name}"
        copied[name].write_bytes((certificates / name).read_bytes())
    port = start(Access(certificate=copied["server.crt"], key=copied["server.key"]))
    with socket.create_connection(("127.0.0.1", port), timeout=20):
        assert get(port, "/metrics", client(certificates))[0] == 200
        assert get(port, "/readyz", client(certificates))[0] == 503
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        get(port, "/metrics")
    for name in ("crt", "key"):
        copied[f"server.{name}"].write_bytes((certificates / f"other.{name}").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        get(port, "/metrics", client(certificates))


@pytest.mark.parametrize(
    "half",
    [
        lambda crt, key, other: crt.write_bytes(other[0]),
        lambda crt, key, other: key.write_bytes(other[1]),
        lambda crt, key, other: key.unlink(),
        lambda crt, key, other: crt.unlink(),
        lambda crt, key, other: crt.write_bytes(b""),
    ],
    ids=["certificate", "key", "no key", "no certificate", "empty"],
)
def test_half_a_new_certificate_is_none_yet(start, certificates, tmp_path, caplog, half):
    """
    Two files are not replaced at one moment. Until they go together the port answers with what it
    had, for a liveness probe would end a job that is well; the log says so once. Then the new ones
    count.
    """
    crt, key = tmp_path / "used.crt", tmp_path / "used.key"
    crt.write_bytes((certificates / "server.crt").read_bytes())
    key.write_bytes((certificates / "server.key").read_bytes())
    other = tuple((certificates / f"other.{kind}").read_bytes() for kind in ("crt", "key"))
    port = start(Access(certificate=crt, key=key))
    half(crt, key, other)
    for _ in range(3):
        assert get(port, "/healthz", client(certificates))[0] == 200
    said = [each for each in caplog.records if "TLS of the metrics port" in each.getMessage()]

    assert len(said) == 1
    assert said[0].levelname == "WARNING"
    crt.write_bytes(other[0])
    key.write_bytes(other[1])
    with pytest.raises(ssl.SSLCertVerificationError):
        get(port, "/healthz", client(certificates))


def test_a_connection_without_a_thread_is_given_back(start, monkeypatch):
    """
    Where no thread can be started for a while, more connections than there is room for break off;
    after that, answers come again.
    """
    port = start()
    refused = []

    def refuse(thread):
        refused.append(thread)
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(metrics_server._MOST_CONNECTIONS + 6):
            with pytest.raises((http.client.HTTPException, OSError)):
                get(port, "/healthz")
    assert len(refused) > metrics_server._MOST_CONNECTIONS

    for _ in range(3):
        assert get(port, "/healthz")[0] == 200


def test_metrics_for_clients_with_a_certificate(start, certificates):
    """
    /metrics is for those whose certificate the authority has signed; a kubelet has none, and its
    health checks are answered.
    """
    access = Access(
        certificate=certificates / "server.crt",
        key=certificates / "server.key",
        client_authority=certificates / "ca.crt",
    )
    port = start(access)

    assert get(port, "/metrics", client(certificates, "client"))[0] == 200
    assert get(port, "/metrics", client(certificates))[0] == 403
    assert get(port, "/healthz", client(certificates))[0] == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(port, "/metrics", client(certificates, "other"))


def test_metrics_for_those_who_know_a_secret(start, tmp_path):
    """
    By bearer token or by user and password; a file that is replaced counts at once.
    """
    token, credentials = tmp_path / "token", tmp_path / "credentials"
    token.write_text("open-sesame\n")
    credentials.write_text("prometheus:p:w\u00f6rd\n")
    port = start(Access(token=token, credentials=credentials))
    basic = "Basic " + base64.b64encode("prometheus:p:w\u00f6rd".encode()).decode()

    assert get(port, "/metrics")[0] == 401
    assert get(port, "/metrics", Authorization="Bearer open-sesame")[0] == 200
    assert get(port, "/metrics", Authorization=basic)[0] == 200
    for wrong in ("Bearer nonsense", "Bearer ", "Basic !!!", "Basic eDp5", "Digest open-sesame"):
        assert get(port, "/metrics", Authorization=wrong)[0] == 401
    assert get(port, "/healthz")[0] == 200
    token.write_text("closed")
    assert get(port, "/metrics", Authorization="Bearer open-sesame")[0] == 401
    token.unlink()
    assert get(port, "/metrics", Authorization="Bearer ")[0] == 401


def test_the_command_beside_a_broker_without_messages(tmp_path, certificates):
    """
    The whole command: ready though nothing was dispatched yet, so that an installation that waits
    for it is done; by TLS and with a token, as its options say.
    """
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    conf, token = tmp_path / "broker.conf", tmp_path / "token"
    conf.write_text("brokerClusterName=prod\n")
    token.write_text("sesame")
    command = [
        sys.executable, "-m", "reput", "run", "--store", str(tmp_path / "store"),
        "--output", str(tmp_path / "out"), "--broker-conf", str(conf), "--metrics-port", "0",
        "--metrics-tls-cert", str(certificates / "server.crt"),
        "--metrics-tls-key", str(certificates / "server.key"),
        "--metrics-token-file", str(token),
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr if "metrics on https://" in line)
            port = int(re.search(r":(\d+)/metrics", line)[1])
            context = client(certificates)
            while get(port, "/readyz", context)[0] != 200:
                assert process.poll() is None
                time.sleep(0.1)
            assert get(port, "/metrics", context)[0] == 401
            _, text = get(port, "/metrics", context, Authorization="Bearer sesame")
        finally:
            process.terminate()

    name = "rocketmq_reput_first_message_awaited"
    assert f'{name}{{cluster="prod",node_type="dispatcher",store="store"}} 1.0' in text


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (Access(certificate=Path("a")), "together"),
        (Access(client_authority=Path("a")), "--metrics-tls-client-ca needs"),
        (Access(certificate=Path("/no/a"), key=Path("/no/b")), "TLS of the metrics port"),
        (Access(token=Path("/no/token")), "--metrics-token-file /no/token"),
        (Access(token=Path("/dev/null")), "the file is empty"),
        (Access(credentials=Path("/proc/sys/kernel/ostype")), "a line user:password"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(access, said):
    """
    Before the port is opened: a server that lets nobody in, or everybody, is not what was meant.
    """
    with pytest.raises(UsageError, match=said):
        access.check()


def test_where_it_cannot_listen_the_options_are_named(tmp_path):
    """
    "Cannot assign requested address" alone says nothing of what to change.
    """
    metrics = Metrics({"s": config_of(tmp_path / "store", tmp_path / "out")}, "c", "1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ReputError, match=f"--metrics-host 127.0.0.1, --metrics-port {port}:"):
            serve(metrics, "127.0.0.1", port, 0)
