"""Two brokers' stores of which one is master and the other its replica, until they change places."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster import processes
from tests.cluster.broker_queues import records_of
from tests.cluster.cluster import HERE
from tests.cluster.processes import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SECONDS = 60.0
_ELECTION_SECONDS = 10.0
_POLL_SECONDS = 0.02

State = dict[str, int]


class Ack(NamedTuple):
    """A message that a master has acknowledged.

    Attributes:
        offset: physical, in bytes.
        size: of the record in bytes; 0 where it is the first of a batch.
        topic: its topic.
        queue: its queue.
        queue_offset: in entries.
        end: physical offset after it, or after its batch.
    """

    offset: int
    size: int
    topic: str
    queue: int
    queue_offset: int
    end: int


@dataclass
class Replica:
    """A broker's store in a JVM of its own; see Replica.java.

    Attributes:
        name: of it, and of its directory.
        number: its id as a broker.
        directory: for store, logs and output, made if need be.
        prefix: as `cluster.network` gives it.
    """

    name: str
    number: int
    directory: Path
    prefix: list[str]
    conf: Path
    events: list[dict[str, Any]] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _output: Path | None = None
    _starts: int = 0
    _asked: int = 0
    _read_to: int = 0
    _replies: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        """Its storePathRootDir."""
        return self.directory / self.name

    def start(self) -> None:
        """Start it on its store, without a role, and wait until it has recovered."""
        self._starts += 1
        self._output = self.directory / f"{self.name}-{self._starts}.out"
        self._read_to = 0
        self._replies.clear()
        logs = self.directory / f"{self.name}-logs"
        logs.mkdir(exist_ok=True)
        command = [*self.prefix, str(HERE / "run.sh"), str(logs), "cluster.Replica"]
        command += [f"conf={self.conf}", f"store={self.store}", f"id={self.number}", "port=0"]
        env = {**os.environ, "HEAP": "192m", "JOPTS": "-XX:TieredStopAtLevel=1"}
        self._process = processes.spawn(command, self._output, env=env, stdin=subprocess.PIPE)
        seen = len(self.events)
        self._wait(lambda: len(self.events) > seen, "start")
        self.port = self.events[-1]["port"]

    def send(self, verb: str, **options: object) -> int:
        """Make it do something, and return the number by which its answer is waited for."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._asked += 1
        words = [str(self._asked), verb, *(f"{name}={value}" for name, value in options.items())]
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        self._process.stdin.flush()
        return self._asked

    def answer(self, number: int) -> dict[str, Any]:
        """Wait for an answer."""
        self._wait(lambda: number in self._replies, f"answer {number}")
        return self._replies.pop(number)

    def answers(self, number: int, seconds: float) -> bool:
        """Tell whether there is an answer within that many seconds."""
        end = time.monotonic() + seconds
        while number not in self._replies and time.monotonic() < end:
            self._look_until(lambda: number in self._replies, f"answer {number}")
            time.sleep(_POLL_SECONDS)
        return number in self._replies

    def ask(self, verb: str, **options: object) -> dict[str, Any]:
        """Make it do something and wait until that is done."""
        return self.answer(self.send(verb, **options))

    def state(self) -> State:
        """Return where its log and its queues are, as it says."""
        return self.ask("state")

    def is_at_rest(self, end: int) -> bool:
        """Tell whether its log ends there, and its own queues have all of it."""
        found = self.state()
        return found["max"] == found["confirmed"] == found["dispatched"] == end

    def freeze(self) -> None:
        """Make it stand still."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it continue."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Make it end as if it had crashed."""
        processes.kill(self._process)
        self.look()

    def end(self) -> None:
        """End it if it runs; nothing is read from then on."""
        processes.kill(self._process)

    def close(self) -> None:
        """End it in order."""
        self.ask("close")
        assert self._process is not None
        if self._process.wait(_SECONDS) != 0:
            raise ClusterError(f"{self.name} ended with {self._process.returncode}")

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def look(self) -> None:
        """Take what it has said since."""
        assert self._output is not None
        with self._output.open("rb") as file:
            file.seek(self._read_to)
            data = file.read()
        lines = data[: data.rfind(b"\n") + 1]
        self._read_to += len(lines)
        for line in lines.splitlines():
            if not line.startswith(b"{"):
                continue
            said = json.loads(line)
            if "reply" in said:
                self._replies[said["reply"]] = said
            elif "acks" in said:
                self.acks += [Ack(*values) for values in said["acks"]]
            else:
                self.events.append(said)

    def _look_until(self, reached: Callable[[], bool], what: str) -> None:
        """Take what it has said since; it should not have ended before it said that."""
        assert self._process is not None
        code = self._process.poll()
        self.look()
        if code is not None and not reached():
            raise ClusterError(f"{self.name}: {what}: it ended with {code}: see {self._output}")

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _SECONDS
        self.look()
        while not reached():
            self._look_until(reached, what)
            if time.monotonic() > end:
                raise ClusterError(f"{self.name}: {what}: not within {_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)


@dataclass
class Pair:
    """A master and its replica, elected in turn.

    Attributes:
        master: the one that takes messages.
        slave: the other one.
        epoch: of the last election.
        acks: of messages that were acknowledged and are in the master's log.
        lost: messages that were acknowledged and did not survive an election.
        acknowledged: messages in all; of a batch only the first one counts.
        switches: elections of the other one.
        brought_back: restarts that brought back records of before a cut; they were erased.
        stuck: elections that did not come to an end; the elected was killed and started again.
    """

    master: Replica
    slave: Replica
    epoch: int = 0
    acks: list[Ack] = field(default_factory=list)
    lost: int = 0
    acknowledged: int = 0
    switches: int = 0
    brought_back: int = 0
    stuck: int = 0

    @property
    def both(self) -> tuple[Replica, Replica]:
        """Both, in the order of their numbers."""
        one, other = sorted((self.master, self.slave), key=lambda r: r.number)
        return one, other

    def elect(self, chosen: Replica) -> None:
        """Make one the master. What it does not have is lost, acknowledged or not.

        That its log is long enough does not tell: one that is elected before it has cut what it
        alone had comes with other records, perhaps as long as the acknowledged ones.
        """
        for replica in self.both:
            self._collect(replica)
        self.epoch += 1
        number = chosen.send("master", epoch=self.epoch)
        if not chosen.answers(number, _ELECTION_SECONDS):
            # RocketMQ waits for ever for the dispatch of a last record that it has a part of only.
            self.stuck += 1
            chosen.kill()
            chosen.start()
            self.epoch += 1
            number = chosen.send("master", epoch=self.epoch)
        if not chosen.answer(number)["done"]:
            raise ClusterError(f"{chosen.name} did not become master")
        end = chosen.state()["max"]
        records = records_of(chosen.store / "commitlog", end)
        places = {name: {place for place, _ in found} for name, found in records.items()}
        kept = [
            ack for ack in self.acks if ack.offset in places.get((ack.topic, str(ack.queue)), ())
        ]
        self.lost += len(self.acks) - len(kept)
        self.acks = kept
        if chosen is self.slave:
            self.master, self.slave = self.slave, self.master
            self.switches += 1

    def restart(self, replica: Replica, end: int) -> None:
        """Start one that has ended with its log up to there.

        Recovery continues past the log's end as long as whole records of before a cut stand there.
        As slave or master this replica would then have other records than the other one within an
        epoch of both, which RocketMQ does not notice: one log comes to have records that begin in
        the middle of others, and its dispatch stands still. So they are erased.
        """
        replica.start()
        if replica.events[-1]["max"] > end:
            self.brought_back += 1
            replica.kill()
            _erase(replica.store / "commitlog", end)
            replica.start()

    def follow(self) -> None:
        """Make the other one the master's slave."""
        address = f"127.0.0.1:{self.master.port}"
        if not self.slave.ask("slave", epoch=self.epoch, address=address)["done"]:
            raise ClusterError(f"{self.slave.name} did not become slave")

    def put(self, **options: object) -> None:
        """Let the master store messages."""
        found = self.master.ask("put", **options)
        if found["refused"]:
            raise ClusterError(f"{self.master.name}: {found['refused']}")

    def settle(self) -> int:
        """Wait until both have the same log and their own queues of it; return its end."""
        deadline = time.monotonic() + _SECONDS
        while True:
            end = self.master.state()["max"]
            if all(replica.is_at_rest(end) for replica in self.both):
                break
            if time.monotonic() > deadline:
                states = [replica.state() for replica in self.both]
                raise ClusterError(f"the replica does not come to the master's end: {states}")
            time.sleep(_POLL_SECONDS)
        for replica in self.both:
            self._collect(replica)
        return end

    def _collect(self, replica: Replica) -> None:
        replica.look()
        taken, replica.acks = replica.acks, []
        self.acks += taken
        self.acknowledged += len(taken)


def _erase(directory: Path, end: int) -> None:
    """Make a log hold nothing after a physical offset."""
    for path in sorted(directory.iterdir(), reverse=True):
        base, size = int(path.name), path.stat().st_size
        if base >= end:
            path.unlink()
        elif base + size > end:
            os.truncate(path, end - base)
            os.truncate(path, size)
