"""One store, two servers: the live broker that writes it, and `reput serve` that only reads it.

    python -m tests.cluster.presence [--directory DIR]

The broker expires files, deletes a topic and makes one, is killed, has its log cut, and writes it
again from there. After each of these both are asked the same, until both say the same: codes,
remarks, least, greatest and next offsets, and every byte of the messages. A broker looks after its
files each second here, and `reput serve` each second too, so that a minute is enough to agree.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.fields import write
from tests.builders.served import request
from tests.builders.servers import LOOPBACK, Client, free_port
from tests.cluster.cluster import SMALL_FILES, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.remoting.wire.command import Command

_AGREE_SECONDS = 60.0
_ANSWER_SECONDS = 60.0
# A broker looks for expired files from a minute after its start on.
_EXPIRE_SECONDS = 120.0
_QUEUES = 2
_LOG_FILE = 256 << 10
_CONF = {
    **SMALL_FILES,
    "mappedFileSizeCommitLog": str(_LOG_FILE),
    "mappedFileSizeConsumeQueue": str(300 * 20),
    "fileReservedTime": "72",
    "cleanResourceInterval": "1000",
    # Files are deleted while they are open in the other process, as always.
    "destroyMapedFileIntervalForcibly": "1000",
}
_TOO_OLD = 100 * 3600


def _ask(client: Client, code: int, body: bytes = b"", **fields: str) -> Command:
    client.send(code, body, **fields)
    return client.answer(_ANSWER_SECONDS)


class Rig:
    """Both servers of one store."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster(directory / "real", _CONF, [])
        self.directory = directory
        self.serve: subprocess.Popen[bytes] | None = None
        self.checked = 0
        self._sent = 0

    def start(self) -> None:
        self.cluster.start_broker()
        self.broker = Client(int(self.cluster.broker_address.rpartition(":")[2]))

    def start_serving(self) -> None:
        port, names = free_port(), free_port()
        words = ["--store", self.cluster.store, "--broker-conf", self.cluster.conf]
        words += ["--broker-version", "5.5", "--offsets", self.directory / "offsets"]
        words += ["--listen", f"{LOOPBACK}:{port}", "--namesrv-listen", f"{LOOPBACK}:{names}"]
        log = (self.directory / "serve.log").open("ab")
        self.serve = subprocess.Popen(
            [sys.executable, "-m", "reput", "serve", *map(str, words)], stderr=log
        )
        self.port = port
        self._until(self._connect, "reput serve answers")

    def _connect(self) -> bool:
        try:
            self.ours = Client(self.port)
        except ConnectionRefusedError:
            return False
        return True

    def _until(
        self, is_so: Callable[[], bool], what: str, seconds: float = _ANSWER_SECONDS
    ) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise RuntimeError(f"not within {seconds:g} s: {what}")
            time.sleep(0.1)

    def admin(self, code: int, **fields: str) -> None:
        answer = _ask(self.broker, code, **fields)
        if answer.code:
            raise RuntimeError(f"{code} is answered {answer.code}: {answer.remark}")

    def make_topic(self, topic: str) -> None:
        self.admin(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            topic=topic, defaultTopic="TBW102", readQueueNums=str(_QUEUES),
            writeQueueNums=str(_QUEUES), perm="6", topicFilterType="SINGLE_TAG",
            topicSysFlag="0", order="false",
        )  # fmt: skip

    def send(self, topic: str, count: int, size: int = 300) -> None:
        for _ in range(count):
            number, self._sent = self._sent, self._sent + 1
            answer = _ask(
                self.broker,
                RequestCode.SEND_MESSAGE,
                os.urandom(size),
                producerGroup="p", topic=topic, defaultTopic="TBW102", defaultTopicQueueNums="4",
                queueId=str(number % _QUEUES), sysFlag="0", flag="0", unitMode="false",
                bornTimestamp=str(time.time_ns() // 1_000_000), reconsumeTimes="0", batch="false",
                properties=f"TAGS\x01T{number % 3}\x02UNIQ_KEY\x01U{number}\x02",
            )  # fmt: skip
            if answer.code:
                raise RuntimeError(f"a message is answered {answer.code}: {answer.remark}")

    def files(self) -> list[Path]:
        return sorted((self.cluster.store / "commitlog").iterdir())

    def said(self, client: Client, topic: str) -> list[tuple]:
        """Return what one side says of a topic: offsets of its queues, and pulls around them."""
        found: list[tuple] = []
        for queue in range(_QUEUES):
            of_queue = {"topic": topic, "queueId": str(queue)}
            low, high = (
                int((_ask(client, code, **of_queue).fields or {}).get("offset", -1))
                for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
            )
            found.append((topic, queue, low, high))
            around = {0, low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 1}
            for offset in sorted(each for each in around if each >= 0):
                for expression in ("*", "T1"):
                    asked = request(offset, topic=topic, queue=queue, expression=expression)
                    answer = _ask(client, RequestCode.PULL_MESSAGE, **write(asked))
                    fields = answer.fields or {}
                    names = ("nextBeginOffset", "minOffset", "maxOffset")
                    told = tuple(fields.get(name) for name in names)
                    found.append((offset, expression, answer.code, *told, answer.body))
        return found

    def agree(self, what: str, *topics: str) -> None:
        """Wait until both say the same, and nothing else for a second look."""
        end = time.monotonic() + _AGREE_SECONDS
        for topic in topics:
            while True:
                theirs, ours = self.said(self.broker, topic), self.said(self.ours, topic)
                if theirs == ours:
                    break
                if time.monotonic() > end:
                    pairs = zip(theirs, ours, strict=False)
                    pair = next(pair for pair in pairs if pair[0] != pair[1])
                    raise RuntimeError(f"{what}: the broker says {pair[0]!r}, ours {pair[1]!r}")
                time.sleep(0.5)
            self.checked += len(theirs)
            rows = ", ".join(str(row) for row in theirs if len(row) == 4)
            print(f"{what}: {rows}", flush=True)

    def hold(self, topic: str) -> list[tuple[Client, int]]:
        """Return a client of each side whose pull waits at the end of queue 0."""
        ports = (int(self.cluster.broker_address.rpartition(":")[2]), self.port)
        of_queue = {"topic": topic, "queueId": "0"}
        end = int(_ask(self.broker, RequestCode.GET_MAX_OFFSET, **of_queue).fields["offset"])
        held = []
        for port in ports:
            client = Client(port)
            client.send(RequestCode.PULL_MESSAGE, **write(request(end, topic=topic, flags=6)))
            held.append((client, end))
        # Both have it before something comes.
        time.sleep(1)
        return held

    def close(self) -> None:
        if self.serve is not None:
            self.serve.terminate()
            code = self.serve.wait(60)
            if code:
                raise RuntimeError(f"reput serve ended with {code}")


def expire(rig: Rig) -> None:
    """Let the broker delete the first files."""
    old = rig.files()[:3]
    for path in old:
        os.utime(path, (time.time() - _TOO_OLD,) * 2)
    rig.admin(RequestCode.DELETE_EXPIRED_COMMITLOG)
    rig._until(lambda: not any(path.exists() for path in old), "files are deleted", _EXPIRE_SECONDS)


def cut(rig: Rig) -> None:
    """Kill the broker, and take the newest records from its log before it starts again."""
    rig.cluster.kill_broker()
    active = next(path for path in reversed(rig.files()) if any(path.read_bytes()[:8]))
    written = len(active.read_bytes().rstrip(b"\0"))
    # Somewhere within a record: what follows is not one.
    begin = written * 2 // 3
    with active.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(_LOG_FILE - begin))
    rig.start()


def run(directory: Path) -> int:
    """Do all of it; return how many answers were compared."""
    rig = Rig(directory)
    try:
        rig.start()
        for topic in ("t", "u"):
            rig.make_topic(topic)
        for topic, count in (("u", 50), ("t", 4000), ("u", 50)):
            rig.send(topic, count)
        rig.start_serving()
        rig.agree("at first", "t", "u")
        held = rig.hold("t")
        rig.send("t", 4)
        answers = [client.answer(_ANSWER_SECONDS) for client, _ in held]
        assert [each.code for each in answers] == [0, 0], answers
        rig.agree("more came", "t")
        held = rig.hold("t")
        expire(rig)
        # Their time was up meanwhile.
        theirs, ours = (client.answer(_ANSWER_SECONDS) for client, _ in held)
        assert (theirs.code, theirs.remark, theirs.fields) == (ours.code, ours.remark, ours.fields)
        rig.agree("files expired", "t", "u")
        rig.admin(RequestCode.DELETE_TOPIC_IN_BROKER, topic="u")
        rig.agree("a topic was deleted", "t", "u")
        rig.make_topic("v")
        rig.send("v", 10)
        rig.agree("a topic was made", "t", "u", "v")
        before = rig.said(rig.ours, "t")
        cut(rig)
        rig.agree("the log was cut", "t", "v")
        assert rig.said(rig.ours, "t")[0] < before[0], "nothing was cut"
        rig.send("t", 300)
        rig.send("v", 10)
        rig.agree("it was written again", "t", "v")
    finally:
        rig.close()
        rig.cluster.close()
    said = (directory / "serve.log").read_text()
    if "Traceback" in said or "ERROR" in said:
        raise RuntimeError(f"the log of reput serve: {said[-2000:]}")
    return rig.checked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        checked = run(said.directory or Path(temporary))
    print(f"{checked} answers, 0 different")


if __name__ == "__main__":
    main()
