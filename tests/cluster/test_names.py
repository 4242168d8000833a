"""A real name server and a real broker beside ours: each registers at the other's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from reput.remoting.wire import bodies
from reput.streaming.endings.exit_codes import OK, USAGE
from tests.builders.served import dispatched, messages
from tests.builders.servers import LOOPBACK, free_port
from tests.builders.stores import SMALL
from tests.cluster import cluster, processes
from tests.remoting.server.test_clients import consume

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle

COUNT, QUEUES = 1000, 4
ARCHIVE = "archive"
SECONDS = 60.0


class Rig:
    """A real name server and broker, and `reput serve` on a small store, on one loopback."""

    def __init__(self, directory: Path, prefix: list[str]) -> None:
        self.directory, self.prefix = directory, prefix
        self.names, self.port = (9870, 10920) if prefix else (free_port(), free_port())
        self.store = dispatched(messages(COUNT, queues=QUEUES), directory)
        real = {**cluster.SMALL_FILES, "namesrvAddr": ""}
        self.real = cluster.Cluster(directory / "real", real, prefix)
        conf = self.real.conf
        both = f"{self.real.name_server_address};{LOOPBACK}:{self.names}"
        conf.write_text(conf.read_text().replace("namesrvAddr=", f"namesrvAddr={both}"))
        self.log = directory / "serve.log"
        self.serve: subprocess.Popen[bytes] | None = None

    @property
    def real_names(self) -> int:
        return int(self.real.name_server_address.rpartition(":")[2])

    def command(self, name: str, *words: str) -> list[str]:
        conf = self.directory / "served.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in SMALL.items()))
        at = self.directory
        named = ["--store", at / "store", "--output", at / "out", "--broker-conf", conf]
        named += ["--offsets", at / "offsets", "--broker-name", name, "--cluster", cluster.CLUSTER]
        served = [*self.prefix, sys.executable, "-m", "reput", "serve", *map(str, named)]
        return [*served, "--register", self.real.name_server_address, *words]

    def start_serving(self) -> None:
        words = ["--listen", f"{LOOPBACK}:{self.port}", "--accept-brokers"]
        words += ["--namesrv-listen", f"{LOOPBACK}:{self.names}"]
        self.serve = processes.spawn(self.command(ARCHIVE, *words), self.log)
        said = b"broker archive is registered at name server"
        processes.wait_until(
            lambda: said in self.log.read_bytes(),
            f"registered, see {self.log}",
            self.serve,
            SECONDS,
        )

    def mqadmin(self, names: int, *words: str) -> str:
        logs = self.directory / "tool"
        (logs / "conf").mkdir(parents=True, exist_ok=True)
        run = [str(cluster.HERE / "run.sh"), str(logs)]
        main = "org.apache.rocketmq.tools.command.MQAdminStartup"
        done = subprocess.run(
            [*self.prefix, *run, main, *words, "-n", f"{LOOPBACK}:{names}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={k: v for k, v in os.environ.items() if k != "NAMESRV_ADDR"} | {"HEAP": "128m"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def brokers(self, names: int) -> set[tuple[str, str]]:
        """Return name and address of the brokers that `clusterList` shows."""
        rows = [line.split() for line in self.mqadmin(names, "clusterList").splitlines()]
        return {(row[1], row[3]) for row in rows if row and row[0] == cluster.CLUSTER}

    def route(self, names: int, topic: str) -> dict:
        """Return what `topicRoute` shows, brokers in order of their names."""
        printed = self.mqadmin(names, "topicRoute", "-t", topic)
        route = bodies.loads(printed[printed.index("{") :].encode())
        for part in ("brokerDatas", "queueDatas"):
            route[part].sort(key=lambda each: each["brokerName"])
        return route

    def route_of(self, names: int, topic: str, brokers: int) -> dict:
        """Return the route once that many brokers are in it."""
        until = time.monotonic() + SECONDS
        while len((found := self.route(names, topic))["queueDatas"]) != brokers:
            assert time.monotonic() < until, found
        return found

    def wait_for(self, names: int, brokers: set[tuple[str, str]]) -> None:
        until = time.monotonic() + SECONDS
        while (found := self.brokers(names)) != brokers:
            assert time.monotonic() < until, found

    def close(self) -> None:
        processes.kill(self.serve)
        self.real.close()
        self.store.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    cluster.build()
    with cluster.network() as prefix:
        made = Rig(tmp_path_factory.mktemp("names"), prefix)
        try:
            made.start_serving()
            yield made
        finally:
            made.close()


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_a_consumer_finds_our_broker_through_the_real_name_server(rig, tmp_path, version):
    expected = {
        (queue, offset): record.physical_offset
        for queue in range(QUEUES)
        for offset, record in rig.store.messages("t", queue, 0)
    }
    # Groups keep their offsets: the second one begins where the first one ended.
    kind = {"5.5.0": "push", "4.9.8": "orderly"}[version]
    taken = consume(rig.real_names, version, kind, tmp_path, prefix=rig.prefix)

    got = [((int(queue), int(offset)), int(place)) for queue, offset, place, *_ in taken]
    assert Counter(got) == Counter(expected.items())


def test_brokers_and_topics_are_the_same_at_both_name_servers(rig):
    """
    The broker tells of itself at its start, and later of one topic alone.
    """
    ours = (ARCHIVE, f"{LOOPBACK}:{rig.port}")
    rig.real.start_broker()
    real = (cluster.BROKER, rig.real.broker_address)
    for names in (rig.names, rig.real_names):
        rig.wait_for(names, {ours, real})

    words = ("-t", "t", "-b", rig.real.broker_address, "-r", "8", "-w", "8")
    rig.mqadmin(rig.names, "updateTopic", *words)
    route = rig.route_of(rig.names, "t", 2)
    assert [(each["brokerName"], each["perm"]) for each in route["queueDatas"]] == [
        (ARCHIVE, 4),
        (cluster.BROKER, 6),
    ]
    assert [each["readQueueNums"] for each in route["queueDatas"]] == [QUEUES, 8]
    assert route == rig.route_of(rig.real_names, "t", 2)

    # A name that a broker has is not ours to take.
    done = subprocess.run(
        rig.command(cluster.BROKER, "--listen", f"{LOOPBACK}:0", "--namesrv-listen", "off"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == USAGE
    assert f"lives there already, at {rig.real.broker_address}" in done.stderr
    assert rig.brokers(rig.real_names) == {ours, real}

    rig.real.stop_broker()
    for names in (rig.names, rig.real_names):
        rig.wait_for(names, {ours})


def test_our_broker_leaves_the_real_name_server_as_it_ends(rig):
    assert processes.terminate(rig.serve, 30) == OK
    rig.wait_for(rig.real_names, set())
