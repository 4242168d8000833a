"""What a consumer gets: every queue of a served store, pulled over the wire to its end.

It is as plain as a client can be: it asks the name server for topics and routes, then the broker
for each queue, one request at a time.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import ReputError
from reput.formats.rocketmq.commitlog import PHYSICAL_OFFSET_AT
from reput.formats.rocketmq.consumequeue import has_entry
from reput.remoting.wire import frames
from reput.remoting.wire.codes import RequestCode, ResponseCode
from reput.remoting.wire.command import Command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.stores.query.message_store import MessageStore

_SECONDS = 60.0
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
# What a pull says that brings its subscription along, and commits nothing (`PullSysFlag`).
_FLAGS = "4"
# Log lines that tell where the server is.
_NAMES, _DIALLED = "name server on ", "clients dial "


class Consumed(NamedTuple):
    """What was read.

    Attributes:
        topics: how many there are.
        queues: how many of them have messages.
        messages: how many were read.
        differing: how many of the log were not read as they stand there, or were not read.
        seconds: that reading took.
    """

    topics: int
    queues: int
    messages: int
    differing: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Tell whether each message was read once, as it stands in the log."""
        return self.messages > 0 and not self.differing


class _Client:
    """One connection; requests and answers by turns."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _SECONDS)
        self._decoder = frames.FrameDecoder()
        self._opaque = 0

    def ask(self, code: int, **fields: str) -> Command:
        """Return the answer to a request.

        Raises:
            ReputError: the server closed the connection.
        """
        self._opaque += 1
        command = Command(code, self._opaque, fields=fields)
        self._socket.sendall(frames.encode(command))
        while True:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ReputError("the server closed the connection of the demonstration")
            for each in self._decoder.feed(data):
                return each._replace(body=bytes(each.body))

    def close(self) -> None:
        self._socket.close()


def consume(store: MessageStore, conf: Path, offsets: Path) -> Consumed:
    """Serve a store on ports of its own on loopback, read all of it, and compare.

    Args:
        store: what is served; it is at rest.
        conf: the broker's settings.
        offsets: directory for the server's offsets.

    Raises:
        ReputError: the server did not start, or refused something.
        OSError: no connection.
    """
    with _serving(store, conf, offsets) as (names, broker):
        began = time.monotonic()
        queues = _queues(names)
        client = _Client(broker)
        read: dict[int, list[int]] = {}
        filled = 0
        for topic, queue_id in queues:
            before = len(read)
            for record in _pulled(client, topic, queue_id):
                (position,) = _LONG.unpack_from(record, PHYSICAL_OFFSET_AT)
                read.setdefault(position, []).append(zlib.crc32(record))
            filled += len(read) > before
        client.close()
        seconds = time.monotonic() - began
    topics = len({topic for topic, _ in queues})
    messages = sum(map(len, read.values()))
    return Consumed(topics, filled, messages, _differing(store, read), seconds)


def _differing(store: MessageStore, read: dict[int, list[int]]) -> int:
    """Return how many messages of the log, or of those read, are not the same in both."""
    differing = 0
    left = dict(read)
    for record in store.records_from(store.log.min_offset):
        if has_entry(record.sys_flag):
            raw = store.log.bytes_at(record.physical_offset, record.size)
            differing += left.pop(record.physical_offset, None) != [zlib.crc32(raw)]
    return differing + len(left)


@contextlib.contextmanager
def _serving(store: MessageStore, conf: Path, offsets: Path) -> Iterator[tuple[str, str]]:
    """Run `reput serve`; yield the addresses of name server and broker."""
    words = ["--store", store.root, "--output", store.output, "--broker-conf", conf]
    words += ["--offsets", offsets, "--listen", "127.0.0.1:0", "--namesrv-listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "reput", "serve", *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C is for the demonstration, which ends its server.
        process_group=0,
    )
    with process:
        try:
            yield _addresses(process)
        finally:
            process.terminate()


def _addresses(process: subprocess.Popen[str]) -> tuple[str, str]:
    assert process.stderr is not None
    said = []
    names = ""
    for line in process.stderr:
        said.append(line)
        if _NAMES in line:
            names = line.rpartition(_NAMES)[2].strip()
        elif _DIALLED in line:
            return names, line.rpartition(_DIALLED)[2].strip()
    raise ReputError(f"the server of the demonstration did not start: {''.join(said)[-500:]}")


def _queues(names: str) -> list[tuple[str, int]]:
    """Return topics and queue ids, as the name server tells them."""
    client = _Client(names)
    found = []
    listed = json.loads(bytes(client.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body))
    for topic in sorted(listed["topicList"]):
        route = client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        for data in json.loads(bytes(route.body))["queueDatas"]:
            found += [(topic, number) for number in range(data["readQueueNums"])]
    client.close()
    return found


def _pulled(client: _Client, topic: str, queue_id: int) -> Iterator[bytes]:
    """Yield the records of a queue, from its first to its last."""
    offset = 0
    while True:
        answer = client.ask(
            RequestCode.PULL_MESSAGE,
            consumerGroup="reput-demo",
            topic=topic,
            queueId=str(queue_id),
            queueOffset=str(offset),
            maxMsgNums="32",
            sysFlag=_FLAGS,
            commitOffset="0",
            suspendTimeoutMillis="0",
            subVersion="0",
            subscription="*",
        )
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return
        if answer.code != ResponseCode.SUCCESS:
            raise ReputError(f"a pull of {topic} was answered {answer.code}: {answer.remark}")
        body, at = bytes(answer.body), 0
        while at < len(body):
            (size,) = _INT.unpack_from(body, at)
            yield body[at : at + size]
            at += size
        offset = int((answer.fields or {})["nextBeginOffset"])
