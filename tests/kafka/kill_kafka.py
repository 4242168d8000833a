"""Kills dispatch and a real Kafka again and again while a log grows, and compares what readers see.

    python -m tests.kafka.kill_kafka --messages 1000000 --kills 50 --broker-kills 5 --job-kills 3

A log of mixed topics, with half, rolled-back and delayed messages in it, is written at a rate. A
process dispatches it and sends it (`tests.kafka.core`), or the whole job does (`reput run`). At
random times, its start included, it gets SIGKILL; at others the broker does, and is started again.
When all is sent, a read_committed reader has to find each wanted message of the log once, each
queue's in their order, with the same bytes; and the dispatched files have to be those of an
uninterrupted run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq.commitlog import COMMIT, TRANSACTION_TYPE
from reput.formats.rocketmq.encode import Message, encode, encode_blank, fits
from reput.sinks.kafka.messages.routes import NEVER, kafka_topic
from reput.streaming.dispatch.dispatcher import rebuild
from tests.builders.stores import Messages
from tests.crash.appender import LogFiles
from tests.crash.kill_job import processes_of
from tests.kafka.broker import Broker
from tests.oracle import compare

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
FILE_SIZE = 1 << 20
_SETTINGS = ("transaction_bytes=256k", "transaction_seconds=0.2", "batch_bytes=32k")
_START_SECONDS = 400.0
_END_SECONDS = 900.0
TOPICS = ("orders", "payments", "a", "stock-levels-of-all-shops", "订单", "t" * 130)
STORE = "store"


class KillError(Exception):
    """What was wrong."""


class Digest:
    """What a reader has to find, or has found: by queue, how many and a hash over all in order."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, int], int] = defaultdict(int)
        self.hashes: dict[tuple[str, int], Any] = defaultdict(hashlib.sha256)

    def add(
        self, topic: str, queue_id: int, position: int, queue_offset: int, key: bytes, body: bytes
    ) -> None:
        queue = topic, queue_id
        self.counts[queue] += 1
        head = f"{position} {queue_offset} {len(key)} {len(body)} ".encode()
        self.hashes[queue].update(head + key + body)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def differences(self, other: Digest) -> list[str]:
        """Say in which queues two are not the same."""
        found = []
        for queue in sorted(self.counts.keys() | other.counts.keys()):
            mine, theirs = self.counts[queue], other.counts[queue]
            if mine != theirs:
                found.append(f"{queue}: {mine} in the log, {theirs} in Kafka")
            elif self.hashes[queue].digest() != other.hashes[queue].digest():
                found.append(f"{queue}: {mine} messages, but not the same or not in order")
        return found


def is_wanted(message: Message) -> bool:
    """Tell whether a message goes to Kafka by the default settings."""
    kind = message.sys_flag & TRANSACTION_TYPE
    return kind in {0, COMMIT} and message.topic not in NEVER


class Producer:
    """Appends made-up messages at a rate until there are enough."""

    def __init__(self, store: Path, messages: int, rate: int, seed: int) -> None:
        self.digest = Digest()
        self.position = 0
        self.written = 0
        self._wanted = messages
        self._rate = rate
        self._messages = Messages(seed)
        self._files = LogFiles(store, FILE_SIZE)
        self._files.put(0, b"")
        self.thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def _run(self) -> None:
        began = time.monotonic()
        # What counts is what is wanted.
        while self.digest.total < self._wanted:
            due = (time.monotonic() - began) * self._rate
            if self.written > due:
                time.sleep(0.01)
                continue
            for _ in range(200):
                self._append(self._messages.next())
        self._files.close()

    def _append(self, message: Message) -> None:
        raw = encode(message, self.position)
        left = FILE_SIZE - self.position % FILE_SIZE
        if not fits(len(raw), left):
            self._files.put(self.position, encode_blank(left))
            self.position += left
            raw = encode(message, self.position)
        self._files.put(self.position, raw)
        if is_wanted(message):
            key = message.properties.get("KEYS", "")
            self.digest.add(
                message.topic, message.queue_id, self.position, message.queue_offset,
                key.encode(), message.body,
            )  # fmt: skip
        self.position += len(raw)
        self.written += 1


@dataclass
class Result:
    """What a run did.

    Attributes:
        core_kills: of the process without Spark.
        job_kills: of the whole job's driver.
        broker_kills: of Kafka.
        messages: in the log that go to Kafka.
        records: in the log.
        committed: records that a read_committed reader has seen.
        uncommitted: records that any reader has seen: those of transactions that were killed too.
        seconds: wall time.
        failure: what was wrong, "" for nothing.
        lost_ends: partitions that Kafka itself keeps shut for ever, see `Broker.lost_ends`.
    """

    core_kills: int = 0
    job_kills: int = 0
    broker_kills: int = 0
    messages: int = 0
    records: int = 0
    committed: int = 0
    uncommitted: int = 0
    seconds: float = 0.0
    failure: str = ""
    lost_ends: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class Loop:
    """Kills until all is sent, and at least this often."""

    def __init__(
        self, directory: Path, *, messages: int, kills: int, broker_kills: int, job_kills: int,
        rate: int, seed: int, settings: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self._directory = directory
        self._pick = random.Random(seed)
        self._left = ["core"] * kills + ["broker"] * broker_kills
        self._pick.shuffle(self._left)
        # Starting the whole job takes longest: a few times, in between.
        for i in range(job_kills):
            self._left.insert(len(self._left) * (i + 1) // (job_kills + 1), "job")
        self._settings = [*_SETTINGS, *settings]
        self.result = Result()
        self._store = directory / STORE
        conf = "".join(f"{k}={v}\n" for k, v in CONF.items())
        (directory / "broker.conf").write_text(conf)
        self._broker = Broker(directory / "kafka")
        self._producer = Producer(self._store, messages, rate, seed)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_job = False
        self._starts = 0

    def run(self) -> Result:
        """Kill, let the rest be sent, and compare."""
        began = time.monotonic()
        self._broker.start()
        try:
            for topic in TOPICS:
                self._broker.make_topic(kafka_topic("{topic}", topic, STORE), 3)
            self._producer.thread.start()
            while self._left:
                self._cycle(self._left.pop())
            self._producer.thread.join()
            self._finish()
            self._compare()
        except KillError as error:
            self.result.failure = str(error)
            if "stays open" in self.result.failure:
                self.result.lost_ends = self._broker.lost_ends("reput-progress")
        finally:
            self._end_process()
            self._broker.stop()
        self.result.seconds = time.monotonic() - began
        return self.result

    def _cycle(self, what: str) -> None:
        if what == "job":
            self._end_process()
        self._start(is_job=what == "job")
        if what == "broker":
            time.sleep(self._pick.uniform(0.0, 4.0))
            self._broker.kill()
            time.sleep(self._pick.uniform(0.0, 1.0))
            self._broker.start(waits=self._pick.random() < 0.5)
            self.result.broker_kills += 1
            return
        if self._pick.random() < 0.8:
            self._wait_until_open()
            # Kafka's client needs a second or so to begin.
            time.sleep(self._pick.uniform(0.3, 3.0))
        else:
            time.sleep(self._pick.uniform(0.0, 2.0))
        self._check_alive()
        self._end_process()
        if what == "job":
            self.result.job_kills += 1
        else:
            self.result.core_kills += 1

    def _start(self, *, is_job: bool) -> None:
        if self._process is not None:
            return
        self._starts += 1
        self._is_job = is_job
        output = self._directory / "output"
        if is_job:
            command = [sys.executable, "-m", "reput", "run", "--store", str(self._store)]
            command += ["--output", str(output), "--broker-conf", f"{self._directory}/broker.conf"]
            command += ["--kafka-bootstrap", self._broker.address, "--flush-seconds", "0.5"]
            for each in self._settings:
                command += ["--kafka", each]
        else:
            command = [sys.executable, "-m", "tests.kafka.core", str(self._store), str(output)]
            command += [self._broker.address, str(1 << 60), f"name={STORE}", *self._settings]
        self._log = self._directory / f"process-{self._starts}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )

    @property
    def _text(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def _wait_until_open(self) -> None:
        end = time.monotonic() + _START_SECONDS
        word = " messages, " if self._is_job else "open"
        while word not in self._text:
            self._check_alive()
            if self._is_job and not self._producer.thread.is_alive():
                # Where all is dispatched, a job says nothing.
                return
            if time.monotonic() > end:
                raise KillError(f"not open in {_START_SECONDS} s:\n{self._text[-3000:]}")
            time.sleep(0.02)

    def _check_alive(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            code = self._process.returncode
            raise KillError(f"it ended by itself, exit {code}:\n{self._text[-3000:]}")

    def _end_process(self) -> None:
        """Kill the process and all that it has started."""
        if self._process is None:
            return
        found = processes_of(self._process.pid)
        self._process.kill()
        self._process.wait()
        for each in found.values():
            for process in each:
                end = time.monotonic() + 120.0
                # What a killed driver leaves behind ends by itself; the next start is not to wait.
                while process.is_alive and time.monotonic() < end:
                    time.sleep(0.05)
        self._process = None

    def _finish(self) -> None:
        """Send the rest by a process that nobody kills."""
        self._end_process()
        end = self._producer.position
        command = [sys.executable, "-m", "tests.kafka.core", str(self._store),
                   str(self._directory / "output"), self._broker.address, str(end),
                   f"name={STORE}", *self._settings]  # fmt: skip
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_END_SECONDS, check=False
        )
        if done.returncode:
            raise KillError(f"the last run ended with {done.returncode}:\n{done.stderr[-3000:]}")

    def _compare(self) -> None:
        result, wanted = self.result, self._producer.digest
        result.messages, result.records = wanted.total, self._producer.written
        names = [kafka_topic("{topic}", topic, STORE) for topic in TOPICS]
        found = Digest()
        for record in self._broker.read(*names):
            headers = dict(record.headers)
            found.add(
                headers["rmq.topic"].decode(), int(headers["rmq.queueId"]),
                int(headers["rmq.physicalOffset"]), int(headers["rmq.queueOffset"]),
                record.key or b"", record.value,
            )  # fmt: skip
        result.committed = found.total
        result.uncommitted = sum(1 for _ in self._broker.read(*names, level="read_uncommitted"))
        if differences := wanted.differences(found):
            lines = "\n    ".join(differences[:20])
            raise KillError(f"{len(differences)} queues differ:\n    {lines}")
        anew = self._directory / "anew"
        rebuild(self._store, anew, broker_version="5.5", broker_conf=CONF)
        if differences := compare.differences(self._directory / "output", anew):
            lines = "\n    ".join(differences[:12])
            raise KillError(f"dispatched files differ from an uninterrupted run:\n    {lines}")


CONF = {"mappedFileSizeCommitLog": str(FILE_SIZE)}


def run(directory: Path, **options: Any) -> Result:
    """Run the loop in a directory; see `Loop`."""
    return Loop(directory, **options).run()


def table(result: Result) -> str:
    """Return what was killed and what was found, to be read."""
    lines = [
        f"kill -9 of dispatch        {result.core_kills:>10,}",
        f"kill -9 of the whole job   {result.job_kills:>10,}",
        f"kill -9 of Kafka           {result.broker_kills:>10,}",
        f"records in the log         {result.records:>10,}",
        f"of these for Kafka         {result.messages:>10,}",
        f"read_committed             {result.committed:>10,}",
        f"read_uncommitted           {result.uncommitted:>10,}",
        f"seconds                    {result.seconds:>10,.0f}",
        "",
        f"FAILED: {result.failure}" if result.failure else "no differences",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the loop; the exit code says whether anything was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--broker-kills", type=int, default=2)
    parser.add_argument("--job-kills", type=int, default=1)
    parser.add_argument("--rate", type=int, default=5000, help="records a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="for all files; a temporary one by default")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        help="KEY=VALUE; with mode=idempotent messages may come twice",
    )
    parser.add_argument("--json", dest="as_json", action="store_true")
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kill-kafka-", dir=args.directory))
    result = run(
        directory,
        messages=args.messages,
        kills=args.kills,
        broker_kills=args.broker_kills,
        job_kills=args.job_kills,
        rate=args.rate,
        seed=args.seed,
        settings=args.setting,
    )
    print(json.dumps(vars(result)) if args.as_json else table(result), flush=True)
    if result.failure:
        print(f"kept: {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory)
    return 1 if result.failure else 0


if __name__ == "__main__":
    sys.exit(main())
