"""docs/serve.md is right to the letter: each use is tried with stock clients, by its own commands."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.java_clients import java_command, run_tool
from tests.builders.served import messages
from tests.builders.servers import free_port
from tests.builders.stores import SMALL

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "serve.md").read_text("utf-8")
COUNT, QUEUES = 300, 3


def commands(title):
    """Return the commands of a chapter, each as its words."""
    chapter = re.search(rf"^## {title}\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]
    blocks = re.findall(r"^```sh\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [shlex.split(line) for line in lines]


class Place:
    """What stands in the place of the page's directories, addresses and ports."""

    def __init__(self, directory):
        self.directory = directory
        self.names, self.broker, self.metrics = free_port(), free_port(), free_port()
        conf = "".join(f"{name}={value}\n" for name, value in SMALL.items())
        (directory / "fixtures").mkdir()
        for place in (directory, directory / "fixtures"):
            (place / "broker.conf").write_text(conf)
        self.log = messages(COUNT, queues=QUEUES, size=50)

    def words(self, words):
        """Return a command with what is here."""
        said = {
            "$(mktemp -d)": str(self.directory / "new"),
            "/data": str(self.directory),
            "fixtures": str(self.directory / "fixtures"),
            "0.0.0.0:10911": f"127.0.0.1:{self.broker}",
            "0.0.0.0:9876": f"127.0.0.1:{self.names}",
            "10.0.0.7": "127.0.0.1",
            "9464": str(self.metrics),
        }
        for theirs, ours in said.items():
            words = [word.replace(theirs, ours) for word in words]
        if words[1] == "serve" and "--listen" not in words:
            words += ["--listen", f"127.0.0.1:{self.broker}"]
            words += ["--namesrv-listen", f"127.0.0.1:{self.names}"]
        program, *rest = words
        assert program == "reput"
        return [sys.executable, "-m", "reput", *rest]

    @contextlib.contextmanager
    def served(self, title):
        """Run a chapter's commands; the server ends with 0 when the block does."""
        *before, serve = [each for each in commands(title) if each[0] == "reput"]
        for each in before:
            subprocess.run(self.words(each), check=True, cwd=self.directory, stdout=subprocess.PIPE)
        with subprocess.Popen(self.words(serve), cwd=self.directory) as process:
            try:
                self._wait(process)
                yield
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            finally:
                process.kill()

    def _wait(self, process):
        until = time.monotonic() + 60
        for port in (self.names, self.broker):
            while True:
                assert process.poll() is None
                with contextlib.suppress(ConnectionError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                assert time.monotonic() < until
                time.sleep(0.05)

    def consume(self, group, count=COUNT):
        """Return what a stock consumer gets: queue id and queue offset."""
        taken = self.directory / f"taken-{group}-{time.monotonic_ns()}"
        words = (f"127.0.0.1:{self.names}", "push", "t", group, "*", count, 60, taken)
        command = java_command("5.5.0", self.directory, "oracle.Consume")
        done = subprocess.run(
            [*command, *map(str, words)], capture_output=True, text=True, timeout=150, check=False
        )
        assert done.returncode == 0, done.stderr
        return Counter(tuple(map(int, line.split()[:2])) for line in taken.read_text().splitlines())


ALL = Counter(divmod(i, QUEUES)[::-1] for i in range(COUNT))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_dead_brokers_backlog(place):
    """
    A group resumes where it was, and its offsets are in a file that a broker reads.
    """
    store = place.directory / "rocketmq" / "store"
    place.log.write(store)
    conf = ["--broker-version", "5.3", "--broker-conf", str(place.directory / "broker.conf")]
    made = ["rebuild", "--store", str(store), "--output", str(place.directory / "made"), *conf]
    subprocess.run([sys.executable, "-m", "reput", *made], check=True, stdout=subprocess.PIPE)
    for name in ("consumequeue", "index"):
        shutil.copytree(place.directory / "made" / name, store / name)
    (store / "config").mkdir()
    # A group that has consumed has a topic for what it sends back.
    topics = {
        name: {"topicName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
        for name in ("t", "%RETRY%my-group")
    }
    known = json.dumps({"topicConfigTable": topics})
    (store / "config" / "topics.json").write_text(known)
    begun = {"offsetTable": {"t@my-group": {"0": 90, "1": 80, "2": 100}}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(begun))
    left = Counter({(queue, n): 1 for queue, n in ALL if n >= {0: 90, 1: 80, 2: 100}[queue]})
    (tool,) = [
        each for each in commands("Drain the backlog of a dead broker") if each[0] != "reput"
    ]

    with place.served("Drain the backlog of a dead broker"):
        assert place.consume("my-group", left.total()) == left
        words = [word for word in tool[1:] if word not in {"-n", "10.0.0.7:9876"}]
        shown = run_tool(place.names, "5.5.0", place.directory, *words)
        assert re.search(r"Diff Total: 0\b", shown), shown

    kept = json.loads((place.directory / "offsets" / "broker-a.json").read_text())
    end = {str(queue): COUNT // QUEUES for queue in range(QUEUES)}
    assert kept["offsetTable"]["t@my-group"] == end
    assert json.loads((store / "config" / "consumerOffset.json").read_text()) == begun


def test_a_cold_archive(place):
    """
    The log alone is enough, and any group begins with the first message.
    """
    place.log.write(place.directory / "archive" / "store")
    with place.served("Read a cold archive"):
        assert place.consume("one") == ALL
        assert place.consume("two") == ALL


def test_consumers_against_a_fixed_store(place):
    """
    Two runs find the same.
    """
    place.log.write(place.directory / "fixtures" / "store")
    with place.served("Test consumers against a fixed store"):
        curl = re.search(r"`(curl [^`]+)`", PAGE)[1].replace("9464", str(place.metrics))
        subprocess.run(shlex.split(curl), check=True, stdout=subprocess.PIPE)
        assert place.consume("tested") == ALL
    shutil.rmtree(place.directory / "new")
    with place.served("Test consumers against a fixed store"):
        assert place.consume("tested") == ALL
