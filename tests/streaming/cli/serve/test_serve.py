"""`reput serve` as a process: what it refuses, what it says, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from reput.formats.errors import UsageError
from reput.formats.rocketmq import names
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.fields import write
from reput.streaming.cli.serve.places import places_of
from reput.streaming.endings.exit_codes import FAILED, OK, USAGE
from reput.streaming.settings.model.serving import ServeOptions
from tests.builders.served import dispatched, messages, request
from tests.builders.servers import LOOPBACK, Client, free_port, serving
from tests.builders.stores import SMALL
from tests.builders.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput.remoting.wire.command import Command
    from reput.remoting.wire.pull_headers import PullMessageRequestHeader

IMPORTS = """
import os, sys
from reput.streaming.cli.main import main
os._exit = sys.exit
try:
    main()
finally:
    slow = {'pyspark', 'py4j', 'numba', 'llvmlite', 'pandas'} & set(sys.modules)
    print('imported', sorted(slow), file=sys.stderr)
"""
PATIENT = """
from reput.remoting.server import enrolment
from reput.streaming.cli.main import main
enrolment._ANSWER_SECONDS = 3600
main()
"""
COMPILING = """
import time
from reput.remoting.server import compiled
from reput.streaming.cli.main import main
compiled.load = lambda: time.sleep(3600)
main()
"""
LOOKING_AGAIN = """
from reput.remoting.server import following
from reput.streaming.cli.main import main
following._DOUBT_SECONDS = 0.1
main()
"""
COMMAND = [sys.executable, "-m", "reput", "serve"]
# Root, too, may then read only what it is let read.
RESTRAINED = () if os.geteuid() else ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


@pytest.fixture
def options(tmp_path):
    """Return what names a small store with its queues elsewhere."""
    dispatched(messages(10), tmp_path).close()
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in SMALL.items()))
    named = ["--store", tmp_path / "store", "--output", tmp_path / "out", "--broker-conf", conf]
    return [*map(str, named), "--offsets", str(tmp_path / "offsets")]


def refused(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--listen", "0.0.0.0:1"], "--advertise HOST"),
            (["--listen", "[::]:1"], "--advertise HOST"),
            (["--listen", "127.0.0.1"], "not HOST:PORT"),
            (["--listen", "127.0.0.1:65536"], "not HOST:PORT"),
            (["--listen", "127.0.0.1:²"], "not HOST:PORT"),
            (["--namesrv-listen", "of"], 'not HOST:PORT with a port up to 65535 or "off"'),
            (["--advertise", "10.0.0.256"], "clients dial one HOST"),
            (["--advertise", "0.0.0.0"], "no client can dial"),
            (["--advertise", "::"], "no client can dial"),
            (["--advertise", "10.0.0.7:0"], "no client can dial port 0"),
            (["--advertise", "http://10.0.0.7:10911"], "clients dial one HOST"),
            (["--advertise", "10.0.0.7,10.0.0.8"], "clients dial one HOST"),
            (["--advertise", "2001:db8::7:10911:1:1:1:1"], "clients dial one HOST"),
            (["--advertise", " 10.0.0.7"], "clients dial one HOST"),
            (["--broker-name", "../b7"], "a broker called '../b7' has no file of offsets"),
            (["--tls-key", "key.pem"], "--tls-cert"),
            (["--tls-cert", "nothing.pem"], "nothing.pem"),
            (["--sent-back-bytes", "zzz"], "--sent-back-bytes zzz: nothing is kept"),
            (["--sent-back", "keep", "--sent-back-bytes", "zzz"], "'zzz' is not a number of bytes"),
            (["--metrics-port", "10911"], "10911: clients are answered there, by --listen"),
            (["--offsets", __file__], "test_serve.py is not a directory"),
            (["--offsets", f"{__file__}/of/groups"], "test_serve.py is not a directory"),
            (["--acl", "nothing.yml"], "--acl nothing.yml"),
            (["--register", "names"], "--register 'names' is not HOST:PORT"),
            (["--register", "10.0.0.5:9876,10.0.0.6:9876"], "have a semicolon between them"),
            (["--register", "http://10.0.0.5:9876"], "a name server is one HOST:PORT"),
            (["--register", "10.0.0.5:0"], "a name server is one HOST:PORT"),
            (["--register", ""], "--register '': nothing is named"),
            (["--register", " ; "], "--register ' ; ': nothing is named"),
            (["--broker-name", " "], "--broker-name ' ': nothing is named"),
            (["--cluster", ""], "--cluster '': nothing is named"),
            (["--sent-back", "keep", "--sent-back-bytes", ""], "--sent-back-bytes '': nothing"),
            (["--metrics-port", "0", "--metrics-host", ""], "--metrics-host '': nothing is named"),
            (["--register", "10.0.0.5:9876"], "which each of them takes for itself"),
            (["--namesrv-listen", "0.0.0.0:0"], "which each of them takes for itself"),
            (
                ["--broker-name", "namesrv", "--metrics-port", "0"],
                "called 'namesrv' has the series",
            ),
            (["--namesrv-listen", "off", "--accept-brokers"], "--accept-brokers is about the name"),
        ],
    )
    def test_what_cannot_be_meant(self, options, words, said):
        code, error = refused(*options, "--namesrv-listen", f"{LOOPBACK}:0", *words)

        assert code == USAGE
        assert said in error

    def test_an_output_that_is_not_there(self, options, tmp_path):
        code, error = refused(*options, "--output", str(tmp_path / "otu"))

        assert code == FAILED
        assert f"{tmp_path / 'otu'}: no such directory. Point --output" in error

    @pytest.mark.parametrize("place", ["", "config", "consumequeue/t"])
    def test_offsets_in_the_store(self, options, tmp_path, place):
        before = sorted((tmp_path / "store").rglob("*"))
        code, error = refused(*options, "--offsets", str(tmp_path / "store" / place))

        assert code == USAGE
        assert "where nothing is written" in error
        assert sorted((tmp_path / "store").rglob("*")) == before

    def test_a_port_that_is_taken(self, options):
        with socket.create_server((LOOPBACK, 0)) as taken:
            place = f"{LOOPBACK}:{taken.getsockname()[1]}"
            code, error = refused(*options, "--listen", place, "--namesrv-listen", "off")

        assert code == FAILED
        assert place in error
        assert "Address already in use" in error

    def test_a_name_that_another_broker_has(self, options, tmp_path):
        with serving(dispatched(messages(1), tmp_path / "other"), name="b7") as other:
            words = ["--register", f"{LOOPBACK}:{other.names}", "--broker-name", "b7"]
            words += ["--listen", f"{LOOPBACK}:0", "--namesrv-listen", "off"]
            code, error = refused(*options, *words)

        assert code == USAGE
        assert f"a broker b7 lives there already, at {LOOPBACK}:{other.broker}" in error

    @pytest.mark.parametrize("host", [LOOPBACK, "localhost", "LOCALHOST", "127.0.0.2", "[::1]"])
    def test_a_name_server_that_only_this_machine_reaches_is_none(self, host):
        """
        Its name may say so, too: that of a machine often leads to itself.
        """
        given = ServeOptions(namesrv_listen=f"{host}:0")
        assert places_of(given, 1).names is not None

    def test_a_name_that_others_have_at_an_address_of_ipv6(self, monkeypatch):
        """
        It is not listened at: where a name is given, that is done by IPv4.
        """
        found = {
            socket.AF_INET: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))],
            socket.AF_INET6: [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::5", 0))],
        }
        everything = [*found[socket.AF_INET], *found[socket.AF_INET6]]
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda _host, _port, family=0, *_: found.get(family, everything)
        )
        assert places_of(ServeOptions(namesrv_listen="this-one:0"), 1).names is not None

    def test_a_name_server_at_a_name_that_leads_nowhere(self):
        with pytest.raises(UsageError, match=r"nothing can listen at 'a\.\.b'"):
            places_of(ServeOptions(namesrv_listen="a..b:0"), 1)

    def test_a_broker_whose_name_no_file_can_have(self, options, tmp_path):
        conf = tmp_path / "broker.conf"
        conf.write_text(conf.read_text() + "\nbrokerName=b\\ud800\n")
        code, error = refused(*options)

        assert code == USAGE
        assert "has no file of offsets, as files are called: give --broker-name" in error

    def test_a_store_whose_broker_checked_who_asks(self, options, tmp_path):
        conf = tmp_path / "broker.conf"
        conf.write_text(conf.read_text() + "\naclEnable=true\n")
        code, error = refused(*options)

        assert code == USAGE
        assert "--open-access" in error


class TestServed:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_it_answers_until_a_signal_and_ends_with_0(self, options, tmp_path, number):
        names, broker = free_port(), free_port()
        words = ["--listen", f"0.0.0.0:{broker}", "--namesrv-listen", f"{LOOPBACK}:{names}"]
        words += ["--advertise", f"{LOOPBACK}:{broker}", "--broker-name", "b7", "--log-format"]
        process = subprocess.Popen(
            [*COMMAND, *options, *words, "json"], stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        lines = []
        while not any("clients dial" in line for line in lines):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        route = Client(names).ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t").body
        client = Client(broker)
        # It makes the group known, as it does to a broker.
        client.ask(RequestCode.PULL_MESSAGE, **write(request(0)))
        said = {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "7"}
        assert client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **said).code == ResponseCode.SUCCESS
        os.kill(process.pid, number)
        _, rest = process.communicate(timeout=30)

        assert process.returncode == OK, rest
        assert json.loads(route)["brokerDatas"][0]["brokerAddrs"] == {"0": f"{LOOPBACK}:{broker}"}
        assert client.is_closed()
        warnings = [json.loads(line) for line in lines if "WARNING" in line]
        assert "anybody who can connect reads every message" in str(warnings)
        assert json.loads(lines[-1])["store"] == "b7"
        saved = json.loads((tmp_path / "offsets" / "b7.json").read_text())
        assert saved["offsetTable"]["t@g"] == {"0": 7}

    def test_a_signal_before_it_serves_is_an_end_too(self, options, tmp_path):
        """
        A service manager that stops it early takes another code for a failure.
        """
        acl = tmp_path / "acl.yml"
        os.mkfifo(acl)
        process = subprocess.Popen(
            [*COMMAND, *options, "--acl", str(acl)], stderr=subprocess.PIPE, text=True
        )
        # The pipe is open for writing once the server reads it.
        with acl.open("wb"):
            process.terminate()
            _, said = process.communicate(timeout=30)

        assert (process.returncode, said) == (OK, "")

    def test_a_signal_while_a_name_server_does_not_answer(self, options):
        with socket.create_server((LOOPBACK, 0)) as hung:
            place = f"{LOOPBACK}:{hung.getsockname()[1]}"
            words = ["--listen", f"{LOOPBACK}:0", "--namesrv-listen", "off", "--register", place]
            process = subprocess.Popen(
                [sys.executable, "-c", PATIENT, "serve", *options, *words],
                stderr=subprocess.PIPE,
                text=True,
            )
            asked, _ = hung.accept()
            with asked:
                assert asked.recv(1)
                process.terminate()
                _, said = process.communicate(timeout=60)

        assert process.returncode == OK
        assert "ended" in said

    def test_a_signal_while_it_compiles(self, options, tmp_path):
        words = ["--listen", f"{LOOPBACK}:0", "--namesrv-listen", "off", "--broker-name", "b7"]
        process = subprocess.Popen(
            [sys.executable, "-c", COMPILING, "serve", *options, *words],
            stderr=subprocess.PIPE,
            text=True,
        )
        port = dialled(process, 1)["store"]
        said = {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "7"}
        Client(port).ask(RequestCode.PULL_MESSAGE, **write(request(0)))
        Client(port).ask(RequestCode.UPDATE_CONSUMER_OFFSET, **said)
        process.terminate()
        process.communicate(timeout=60)

        assert process.returncode == OK
        saved = json.loads((tmp_path / "offsets" / "b7.json").read_text())
        assert saved["offsetTable"]["t@g"] == {"0": 7}

    def test_it_needs_neither_spark_nor_a_compiler(self, options):
        """
        What is compiled comes later and makes it faster; numba's own switch keeps it away.
        """
        words = [
            "serve",
            *options,
            "--listen",
            f"{LOOPBACK}:0",
            "--namesrv-listen",
            f"{LOOPBACK}:0",
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", IMPORTS, *words],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        )
        assert process.stderr is not None
        line = ""
        while "clients dial" not in line:
            line = process.stderr.readline()
            assert line
        port = int(line.rpartition(":")[2])
        answer = Client(port).ask(RequestCode.PULL_MESSAGE, **write(request(0)))
        process.terminate()
        _, rest = process.communicate(timeout=30)

        assert answer.code == ResponseCode.SUCCESS
        assert "imported []" in rest


def test_an_output_without_a_file_is_told_of_until_it_is_whole(options, tmp_path):
    metrics = free_port()
    queue = tmp_path / "out" / "consumequeue" / "t" / "0"
    queue.rename(tmp_path / "kept")
    words = ["--listen", f"{LOOPBACK}:0", "--namesrv-listen", "off", "--metrics-port", str(metrics)]
    process = subprocess.Popen(
        [sys.executable, "-c", LOOKING_AGAIN, "serve", *options, *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    said = line_with(process, "clients may miss messages")
    dialled(process, 1)
    wait_until(lambda: gaps(metrics) == 1)
    (tmp_path / "kept").rename(queue)
    line_with(process, "the output is whole again")
    wait_until(lambda: gaps(metrics) == 0)
    # The same while it is served.
    queue.rename(tmp_path / "kept")
    later = line_with(process, "clients may miss messages")
    wait_until(lambda: gaps(metrics) == 1)
    (tmp_path / "kept").rename(queue)
    line_with(process, "the output is whole again")
    process.terminate()
    process.communicate(timeout=30)

    assert f"{tmp_path}/out: {queue}" in said
    assert f"{tmp_path}/out: {queue}" in later
    assert process.returncode == OK


def answers_pulls(client: Client, topic: str) -> bool:
    client.send(RequestCode.PULL_MESSAGE, **write(pull_of(topic)))
    try:
        client.answer(0.5)
    except TimeoutError:
        return False
    return True


def gaps(metrics: int) -> float:
    return figure(metrics, "gaps")


def figure(metrics: int, series: str, name: str = "") -> float:
    """Return what /metrics says in a series of a broker."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{metrics}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    pattern = rf"^rocketmq_reput_serve_{series}\{{.*{name}.*\}} (\S+)$"
    found = re.search(pattern, text, re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.fixture
def two(tmp_path):
    """Return what names two stores, of which the second one's log is away for now."""
    text = ""
    for name in ("left", "right"):
        dispatched(messages(10, topic=name), tmp_path / name).close()
        conf = tmp_path / f"{name}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in SMALL.items()))
        root = tmp_path / name
        text += f'[[store]]\nname = "{name}"\npath = "{root}/store"\noutput = "{root}/out"\n'
        text += f'broker_conf = "{conf}"\n'
    (tmp_path / "right" / "store").rename(tmp_path / "away")
    (tmp_path / "reput.toml").write_text(text)
    return ["--config", str(tmp_path / "reput.toml"), "--offsets", str(tmp_path / "offsets")]


# A server lives no longer.
_MOST_SECONDS = 240.0
# Offsets of no group.
OFFSETS = '{"offsetTable":{}}'

# The store on the right fails while a file is there, and cannot be opened.
FAILING = """
from pathlib import Path

from reput.remoting.server.broker import StoreBroker
from reput.streaming.cli.serve import stands

tick, open_reader = StoreBroker.tick, stands.open_reader


def fail(name, said):
    if name == "right" and Path({flag!r}).exists():
        raise RuntimeError(said)


def failing(self):
    fail(self.described().name, "unforeseen")
    tick(self)


def failing_to_open(path, *rest):
    fail(path.parent.name, "no more foreseen")
    return open_reader(path, *rest)


StoreBroker.tick, stands.open_reader = failing, failing_to_open
stands._AGAIN_TICKS = 1
"""
# The same, in a part that has to be closed before the offsets are.
FAILING_LANES = """
from pathlib import Path

from reput.remoting.lanes.lanes import Lanes
from reput.streaming.cli.serve import stands

tick = Lanes.tick


def failing(self):
    if self._served.store.root.parent.name == "right" and Path({flag!r}).exists():
        raise RuntimeError("unforeseen")
    tick(self)


Lanes.tick = failing
stands._AGAIN_TICKS = 1
"""


class TestSeveralStores:
    """One store that cannot be served keeps no other one from its clients."""

    def test_a_store_that_comes_late(self, two, tmp_path):
        names, metrics = free_port(), free_port()
        process, ports = started(
            two, "--namesrv-listen", f"{LOOPBACK}:{names}", "--metrics-port", str(metrics)
        )
        served = Client(ports["left"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        before = brokers(names), answer(metrics, "healthz"), answer(metrics, "readyz")
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        ports |= dialled(process, 1)
        late = Client(ports["right"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("right")))
        after = brokers(names), answer(metrics, "healthz"), answer(metrics, "readyz")
        process.terminate()
        _, rest = process.communicate(timeout=30)

        assert served.code == late.code == ResponseCode.SUCCESS
        assert before == ({"left"}, 200, 503)
        assert after == ({"left", "right"}, 200, 200)
        assert process.returncode == OK, rest

    def test_a_store_that_may_not_be_read(self, two, tmp_path):
        """
        A restored volume belongs to somebody else: the others are served, and it is, too, once it
        may be read. Its directory is looked into when the file of stores is read.
        """
        right = tmp_path / "right" / "store"
        (tmp_path / "away").rename(right)
        right.chmod(0)
        process, ports = started(two, "--namesrv-listen", f"{LOOPBACK}:0", before=RESTRAINED)
        right.chmod(0o755)
        ports |= dialled(process, 1)
        found = Client(ports["right"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("right")))
        process.terminate()
        _, rest = process.communicate(timeout=30)

        assert found.code == ResponseCode.SUCCESS
        assert process.returncode == OK, rest

    def test_a_store_whose_disk_does_not_answer(self, two, tmp_path):
        """
        It neither keeps a third one from its clients, nor the server from its end.
        """
        (tmp_path / "late").mkdir()
        dispatched(messages(10, topic="late"), tmp_path / "late").close()
        text = (tmp_path / "reput.toml").read_text()
        more = text[text.index('[[store]]\nname = "right"') :]
        more = more.replace(f"{tmp_path}/right/", f"{tmp_path}/late/").replace('"right"', '"late"')
        (tmp_path / "reput.toml").write_text(text + more)
        (tmp_path / "late" / "store").rename(tmp_path / "late" / "away")
        process, _ = started(two, "--namesrv-listen", f"{LOOPBACK}:0")
        progress = tmp_path / "right" / "out" / ".reput" / "progress.json"
        progress.unlink()
        os.mkfifo(progress)
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        # Once it is opened for writing, somebody waits for what is to be read.
        writer = os.open(progress, os.O_WRONLY)
        try:
            (tmp_path / "late" / "away").rename(tmp_path / "late" / "store")
            ports = dialled(process, 1)
            late = Client(ports["late"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("late")))
            process.terminate()
            process.communicate(timeout=30)
        finally:
            os.close(writer)

        assert late.code == ResponseCode.SUCCESS
        assert process.returncode == FAILED

    def test_a_disk_that_answers_after_the_start(self, two, tmp_path):
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        progress = tmp_path / "right" / "out" / ".reput" / "progress.json"
        text = progress.read_text()
        progress.unlink()
        os.mkfifo(progress)

        with left_is_served(two), progress.open("w") as file:
            progress.unlink()
            progress.write_text(text)
            file.write(text)

    def test_a_disk_that_does_not_answer_where_the_log_ends(self, two, tmp_path):
        """
        The store has been opened by then: the broker's lock is asked for what is past the end.
        """
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        lock = tmp_path / "right" / "store" / names.LOCK
        lock.unlink(missing_ok=True)
        os.mkfifo(lock)

        with left_is_served(two), lock.open("w"):
            lock.unlink()

    def test_a_disk_of_offsets_that_does_not_answer(self, two, tmp_path):
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        offsets = tmp_path / "offsets" / "right.json"
        offsets.parent.mkdir()
        os.mkfifo(offsets)

        with left_is_served(two), offsets.open("w") as file:
            offsets.unlink()
            offsets.write_text(OFFSETS)
            file.write(OFFSETS)

    def test_a_disk_that_stops_to_answer(self, two, tmp_path):
        """
        To open a pipe is to wait, as for such a disk.
        """
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        metrics = free_port()
        process, ports = all_started(
            two, "--namesrv-listen", f"{LOOPBACK}:0", "--metrics-port", str(metrics)
        )
        entries = tmp_path / "right" / "out" / "consumequeue" / "right" / "0" / names.offset_file(0)
        entries.unlink()
        os.mkfifo(entries)
        waits = Client(ports["right"])
        waits.send(RequestCode.PULL_MESSAGE, **write(pull_of("right")))
        with pytest.raises(TimeoutError):
            waits.answer(0.5)
        served = Client(ports["left"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        health = answer(metrics, "healthz")
        said = line_with(process, "get no answers")
        entries = tmp_path / "left" / "out" / "consumequeue" / "left" / "0" / names.offset_file(0)
        entries.unlink()
        os.mkfifo(entries)
        waits = Client(ports["left"])
        wait_until(lambda: not answers_pulls(waits, "left"))
        process.terminate()
        _, rest = process.communicate(timeout=60)

        assert served.code == ResponseCode.SUCCESS
        assert health == 200
        assert f"{tmp_path}/right/store: its clients get no answers" in said
        assert process.returncode == FAILED
        for name in ("left", "right"):
            assert f"{tmp_path}/{name}/store: it does not end. Its disk does not answer" in rest

    def test_a_store_that_fails_is_tried_again(self, two, tmp_path):
        """
        Whatever is wrong with it: the others are served meanwhile, and their name server is there.
        """
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        (tmp_path / "sitecustomize.py").write_text(FAILING.format(flag=str(tmp_path / "fails")))
        names, metrics = free_port(), free_port()
        words = "--namesrv-listen", f"{LOOPBACK}:{names}", "--metrics-port", str(metrics)
        process, ports = all_started(two, *words, before=("env", f"PYTHONPATH={tmp_path}"))
        both = brokers(names)
        client = Client(ports["right"])
        (tmp_path / "fails").touch()
        line_with(process, "store right has failed, and is tried again")
        line_with(process, "RuntimeError: unforeseen")
        line_with(process, "store right is not served, the others are: RuntimeError: no more")
        one = brokers(names)
        # Its clients are told at once, so that they ask again.
        is_told = client.is_closed()
        # The client may see its end before the server counts it.
        wait_until(lambda: figure(metrics, "connections", "right") == 0)
        served = Client(ports["left"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        (tmp_path / "fails").unlink()
        served_late(process, served)

        assert (both, one) == ({"left", "right"}, {"left"})
        assert is_told

    def test_a_store_that_fails_as_it_is_closed_lets_go_of_its_offsets(self, two, tmp_path):
        """
        It needs their file when it is opened again.
        """
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        flag = tmp_path / "fails"
        (tmp_path / "sitecustomize.py").write_text(FAILING_LANES.format(flag=str(flag)))
        words = "--namesrv-listen", f"{LOOPBACK}:0"
        process, ports = all_started(two, *words, before=("env", f"PYTHONPATH={tmp_path}"))
        served = Client(ports["left"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        line_with(process, "pulls that repeat are answered by compiled code")
        flag.touch()
        line_with(process, "store right has failed, and is tried again")
        flag.unlink()
        served_late(process, served)

    @pytest.mark.parametrize("ends_before", [False, True])
    def test_a_store_whose_opening_fails_is_tried_again(self, two, tmp_path, ends_before):
        """
        By an error that nobody has foreseen, too: its traceback is logged.
        """
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        (tmp_path / "sitecustomize.py").write_text(FAILING.format(flag=str(tmp_path / "fails")))
        (tmp_path / "fails").touch()
        process = begun(
            two, "--namesrv-listen", f"{LOOPBACK}:0", before=("env", f"PYTHONPATH={tmp_path}")
        )
        line_with(process, "store right is not served, the others are: RuntimeError: no more")
        line_with(process, "raise RuntimeError(said)")
        served = Client(dialled(process, 1)["left"]).ask(
            RequestCode.PULL_MESSAGE, **write(pull_of("left"))
        )
        if not ends_before:
            (tmp_path / "fails").unlink()
            served_late(process, served)
            return
        process.terminate()
        process.communicate(timeout=30)

        assert served.code == ResponseCode.SUCCESS
        assert process.returncode == FAILED

    def test_a_store_that_fails_as_it_is_opened_is_tried_again(self, two, tmp_path):
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        (tmp_path / "sitecustomize.py").write_text(FAILING.format(flag=str(tmp_path / "fails")))
        (tmp_path / "fails").touch()
        words = ("--namesrv-listen", f"{LOOPBACK}:0")
        process, ports = started(two, *words, before=("env", f"PYTHONPATH={tmp_path}"))
        served = Client(ports["left"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        (tmp_path / "fails").unlink()

        served_late(process, served)

    def test_a_disk_that_answers_again(self, two, tmp_path):
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        process, ports = all_started(two, "--namesrv-listen", f"{LOOPBACK}:0")
        entries = tmp_path / "right" / "out" / "consumequeue" / "right" / "0" / names.offset_file(0)
        entries.rename(tmp_path / "entries")
        os.mkfifo(entries)
        waits = Client(ports["right"])
        waits.send(RequestCode.PULL_MESSAGE, **write(pull_of("right")))
        line_with(process, "get no answers")
        entries.rename(tmp_path / "pipe")
        (tmp_path / "entries").rename(entries)
        os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
        line_with(process, "its clients are answered again")
        # What came meanwhile is answered somehow, what comes now as ever.
        waits.answer()
        again = Client(ports["right"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("right")))
        process.terminate()
        process.communicate(timeout=60)

        assert again.code == ResponseCode.SUCCESS
        assert process.returncode == OK

    def test_no_disk_that_answers_at_the_start_is_said(self, two, tmp_path):
        progress = tmp_path / "left" / "out" / ".reput" / "progress.json"
        progress.unlink()
        os.mkfifo(progress)
        process = begun(two, "--namesrv-listen", f"{LOOPBACK}:0")
        waits = line_with(process, "store left is waited for")
        wrong = line_with(process, "store right cannot be served")
        process.terminate()
        process.communicate(timeout=60)

        assert f"{tmp_path}/left/store: it is still being opened. See whether its disk" in waits
        assert "no such directory" in wrong
        assert process.returncode == OK

    def test_a_wrong_option_while_no_disk_answers(self, two, tmp_path):
        progress = tmp_path / "left" / "out" / ".reput" / "progress.json"
        progress.unlink()
        os.mkfifo(progress)
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        process = begun(two, "--namesrv-listen", f"{LOOPBACK}:0", "--acl", f"{tmp_path}/none.yml")
        _, said = process.communicate(timeout=60)

        assert f"--acl {tmp_path}/none.yml: No such file or directory" in said
        assert process.returncode == USAGE

    def test_no_descriptors_for_one_that_is_tried_again(self, two, tmp_path):
        """
        Clients have them all; the store is opened once some have gone.
        """
        process, ports = started(two, "--namesrv-listen", f"{LOOPBACK}:0")
        line_with(process, "answered by compiled code")
        client = Client(ports["left"])
        client.ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
        line_with(process, "store right is not served, the others are: [Errno 24] Too many open")
        served = client.ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        served_late(process, served)

    def test_a_store_that_never_comes_is_in_the_exit_code(self, two, tmp_path):
        process, _ = started(two, "--namesrv-listen", f"{LOOPBACK}:0")
        process.terminate()
        _, rest = process.communicate(timeout=30)

        assert process.returncode == FAILED
        assert f"{tmp_path / 'right' / 'store'}" in rest

    def test_each_store_that_never_came_is_named_at_the_end(self, two, tmp_path):
        file = tmp_path / "reput.toml"
        file.write_text(f'{file.read_text()}[[store]]\nname = "third"\npath = "{tmp_path}/third"\n')
        process, _ = started(two, "--namesrv-listen", f"{LOOPBACK}:0")
        process.terminate()
        _, rest = process.communicate(timeout=30)

        assert process.returncode == FAILED
        for name, path in (("right", tmp_path / "right" / "store"), ("third", tmp_path / "third")):
            assert f"store {name} cannot be served: {path}: no such directory" in rest

    def test_without_any_store_nothing_is_served(self, two, tmp_path):
        (tmp_path / "left" / "store").rename(tmp_path / "away too")
        code, error = refused(*two, "--namesrv-listen", f"{LOOPBACK}:0")

        assert code == FAILED
        assert "clients dial" not in error
        for name in ("left", "right"):
            assert f"store {name} cannot be served: {tmp_path / name / 'store'}" in error

    def test_remedies_are_keys_of_the_file(self, two, tmp_path):
        (tmp_path / "away").rename(tmp_path / "right" / "store")
        (tmp_path / "right.conf").write_text("mappedFileSizeCommitLog=8192\n")
        file = tmp_path / "reput.toml"
        file.write_text(file.read_text().replace(f'output = "{tmp_path}/right/out"', ""))
        process, _ = started(two, "--namesrv-listen", f"{LOOPBACK}:0", said="in broker_conf")
        process.terminate()
        process.communicate(timeout=30)

        assert process.returncode == FAILED

    def test_a_port_that_is_taken_when_a_store_comes(self, two, tmp_path):
        with pair_of_ports() as (port, taken):
            process, _ = started(
                two, "--namesrv-listen", f"{LOOPBACK}:0", "--listen", f"{LOOPBACK}:{port}"
            )
            (tmp_path / "away").rename(tmp_path / "right" / "store")
            said = line_with(process, "cannot listen there")
        assert said.rstrip().endswith(
            f"store right is not served, the others are: {LOOPBACK}:{taken}: cannot listen there: "
            "Address already in use; name an address of this machine, and a port that is free, "
            "with --listen and --namesrv-listen (it is tried again every 5 s, with the settings "
            "of the start)"
        )
        # The port is free again.
        assert dialled(process, 1)["right"] == taken
        process.terminate()
        process.communicate(timeout=30)


@contextlib.contextmanager
def pair_of_ports() -> Iterator[tuple[int, int]]:
    """Yield a port that is free and the next one, which is taken."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), socket.create_server((LOOPBACK, port + 1)):
            yield port, port + 1
            return


def started(
    options: list[str], *words: str, said: str = "", before: Sequence[str] = ()
) -> tuple[subprocess.Popen[str], dict[str, int]]:
    """Start a server of two stores, one of which is away, and return the other one's port."""
    process = begun(options, *words, before=before)
    assert process.stderr is not None
    line = ""
    while "is not served, the others are" not in line:
        line = process.stderr.readline()
        assert line
    assert "store right" in line
    assert said in line
    return process, dialled(process, 1)


def all_started(
    options: list[str], *words: str, before: Sequence[str] = ()
) -> tuple[subprocess.Popen[str], dict[str, int]]:
    """Start a server of two stores, and return their ports."""
    process = begun(options, *words, before=before)
    return process, dialled(process, 2)


def begun(options: list[str], *words: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    command = [*before, *COMMAND, *options, "--listen", f"{LOOPBACK}:0", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    # What is waited for may never be said: the test fails then, and does not wait for ever.
    ended = threading.Timer(_MOST_SECONDS, process.kill)
    ended.daemon = True
    ended.start()
    return process


@contextlib.contextmanager
def left_is_served(options: list[str]) -> Iterator[None]:
    """Serve one store while the disk of another does not answer, and both after the block."""
    process, ports = started(options, "--namesrv-listen", f"{LOOPBACK}:0")
    served = Client(ports["left"]).ask(RequestCode.PULL_MESSAGE, **write(pull_of("left")))
    yield
    served_late(process, served)


def served_late(process: subprocess.Popen[str], served: Command) -> None:
    """See that the other store is served once it is there, as one was before, and end the server."""
    port = dialled(process, 1)["right"]
    late = Client(port).ask(RequestCode.PULL_MESSAGE, **write(pull_of("right")))
    process.terminate()
    process.communicate(timeout=30)

    assert served.code == late.code == ResponseCode.SUCCESS
    assert process.returncode == OK


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """Return the next line of the server that has some words."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(words)


def dialled(process: subprocess.Popen[str], count: int) -> dict[str, int]:
    """Return the ports of as many stores as are to be served, by name."""
    assert process.stderr is not None
    ports: dict[str, int] = {}
    while len(ports) < count:
        line = process.stderr.readline()
        assert line
        found = re.search(r"store (\w+): .* clients dial .*:(\d+)$", line)
        if found is not None:
            ports[found[1]] = int(found[2])
    return ports


def pull_of(topic: str) -> PullMessageRequestHeader:
    return request(0, topic=topic)


def brokers(names: int) -> set[str]:
    body = Client(names).ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
    return set(json.loads(body)["brokerAddrTable"])


def answer(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/{path}", timeout=10) as said:
            return said.status
    except urllib.error.HTTPError as error:
        return error.code
