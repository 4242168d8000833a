"""Stores, and what serves them: `reput serve` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.logs import QUEUES_A_TOPIC, topic_name, write_log
from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command
from reput.stores.log.tail import find_tail
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from reput.streaming.settings.config import store_config
from tests.cluster.cluster import Cluster, build, network
from tests.cluster.rig import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
# Records of 300 bytes.
_BODY = 110
_START_SECONDS = 60.0


class Made(NamedTuple):
    """A store.

    Attributes:
        store: with the log and the topics.
        output: with the queues.
        queues: how many have messages.
        ends: messages of the first topic's queues.
    """

    store: Path
    output: Path
    queues: int
    ends: list[int]


def make(directory: Path, gib: float, queues: int) -> Made:
    """Write a log and dispatch it."""
    store, output = directory / "store", directory / "output"
    write_log(store / "commitlog", int(gib * (1 << 30)), _BODY, queues)
    topics = {
        topic_name(number): {
            "topicName": topic_name(number),
            "readQueueNums": QUEUES_A_TOPIC,
            "writeQueueNums": QUEUES_A_TOPIC,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        for number in range(-(-queues // QUEUES_A_TOPIC))
    }
    version = {"counter": 1, "timestamp": 1_700_000_000_000, "stateVersion": 0}
    (store / "config").mkdir()
    document = {"topicConfigTable": topics, "dataVersion": version}
    (store / "config" / "topics.json").write_text(json.dumps(document))
    dispatcher = StoreDispatcher(store_config(store, output, broker_version="5.5"))
    dispatcher.dispatch(find_tail(dispatcher.log).end)
    dispatcher.close()
    with MessageStore.open(store, output) as reader:
        ends = [reader.queue(topic_name(0), number) for number in range(QUEUES_A_TOPIC)]
    found = sum(1 for _ in (output / "consumequeue").glob("*/*"))
    return Made(store, output, found, [each.max_offset for each in ends if each is not None])


@contextlib.contextmanager
def broker(directory: Path, made: Made) -> Iterator[tuple[Cluster, list[str]]]:
    """Have a real broker on a copy of the store; yield it, and what its clients begin with."""
    build()
    store = directory / "broker" / "store"
    store.parent.mkdir()
    subprocess.run(["cp", "-a", "--sparse=always", made.store, store], check=True)
    with network() as prefix:
        cluster = Cluster(directory / "broker", {}, prefix, heap="1g", store=store)
        try:
            cluster.start_broker()
            yield cluster, prefix
        finally:
            cluster.close()


class Serving(NamedTuple):
    """`reput serve` that runs.

    Attributes:
        port: of its broker.
        process: its id.
        seconds: from its command to its first answer.
        names: port of its name server.
    """

    port: int
    process: int
    seconds: float
    names: int


@contextlib.contextmanager
def served(made: Made, offsets: Path, *options: str) -> Iterator[Serving]:
    """Serve a store, with more options of the command."""
    store = ("--store", made.store, "--output", made.output, "--broker-version", "5.5")
    with _serving((free_port(),), offsets, *map(str, store), *options) as serving:
        yield serving


@contextlib.contextmanager
def all_served(stores: Sequence[Made], directory: Path) -> Iterator[tuple[Serving, list[int]]]:
    """Serve several stores by one process; yield it, and the port of each."""
    config = directory / "reput.toml"
    config.write_text(
        "".join(
            f'[[store]]\nname = "s{number}"\npath = "{made.store}"\noutput = "{made.output}"\n'
            'broker_version = "5.5"\n'
            for number, made in enumerate(stores)
        )
    )
    ports = _free_ports(len(stores))
    with _serving(ports, directory / "offsets", "--config", str(config)) as serving:
        yield serving, ports


@contextlib.contextmanager
def _serving(ports: Sequence[int], offsets: Path, *options: str) -> Iterator[Serving]:
    names = free_port()
    command = [
        sys.executable, "-m", "reput", "serve", *options, "--offsets", str(offsets),
        "--listen", f"127.0.0.1:{ports[0]}", "--namesrv-listen", f"127.0.0.1:{names}",
    ]  # fmt: skip
    log = offsets.with_suffix(".log")
    began = time.monotonic()
    with log.open("ab") as said:
        process = subprocess.Popen(command, cwd=ROOT, stderr=said)
    try:
        while not all(map(_answers, ports)):
            if process.poll() is not None or time.monotonic() - began > _START_SECONDS:
                raise RuntimeError(f"reput serve does not answer: {log.read_text()[-2000:]}")
            time.sleep(0.005)
        yield Serving(ports[0], process.pid, time.monotonic() - began, names)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    """Return free ports that follow each other, below those that the system hands out."""
    for first in range(20_000, 30_000, count):
        ports = list(range(first, first + count))
        with contextlib.ExitStack() as stack:
            try:
                for port in ports:
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return ports
    raise RuntimeError(f"no {count} free ports follow each other")


def _answers(port: int) -> bool:
    fields = {"topic": topic_name(0), "queueId": "0"}
    try:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(frames.encode(Command(RequestCode.GET_MAX_OFFSET, 1, fields=fields)))
            decoder = frames.FrameDecoder()
            while data := client.recv(1 << 16):
                for answer in decoder.feed(data):
                    return answer.code == ResponseCode.SUCCESS
    except ConnectionRefusedError:
        pass
    return False
