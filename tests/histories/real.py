"""A broker that is real: the store classes of a RocketMQ, in one JVM that takes commands.

One process serves many histories; `Jvm` speaks to it, `Real` is one store of it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from tests.histories.logs import Files
from tests.histories.messages import BATCHES, FAN
from tests.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.histories.messages import Put, Traits

_HEAP = "256m"
_LIMIT = 6 * 3600
_BRIEF = 2000


class BrokerError(RuntimeError):
    """The broker's classes have failed: the history cannot continue."""


class Jvm:
    """The driver's main `Follow` of one version, as a process."""

    def __init__(self, version: str) -> None:
        """Start it; its classes are compiled first if need be."""
        oracle.build(version)
        self.version = version
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        env = {**os.environ, "HEAP": _HEAP, "LIMIT": str(_LIMIT)}
        env["JOPTS"] = "-XX:TieredStopAtLevel=1 -XX:MaxDirectMemorySize=1g"
        self._process = subprocess.Popen(
            [str(oracle.HERE / "run.sh"), version, "Follow"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=env,
        )

    def ask(self, *words: object) -> Any:
        """Run one command and return the answer.

        Raises:
            BrokerError: what it said instead.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(map(str, words)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.errors.seek(0)
            said = self.errors.read().decode("utf-8", "replace")[-_BRIEF:]
            raise BrokerError(f"{words[0]}: the JVM has ended: {said}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise BrokerError(f"{' '.join(map(str, words))[:_BRIEF]}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self.errors.close()


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Real:
    """One store of the real classes; what can be asked is what `Modelled` has."""

    def __init__(self, jvm: Jvm, store: Path, traits: Traits, conf: Mapping[str, str]) -> None:
        self.store = store
        self.traits = traits
        self.files = Files(store, traits.log_file)
        self.begin = self.end = 0
        self.keeps_expired = False
        self.is_running = False
        self._jvm = jvm
        self._conf = ",".join(f"{key}={value}" for key, value in conf.items())
        self._topics = f"{BATCHES}=BatchCQ" if traits.has_batches else ""

    def start(self) -> None:
        """Start the broker; it recovers."""
        self._take_ends(self._ask("open", self._conf, self._topics))
        self.is_running = True

    def _ask(self, command: str, *words: object) -> Any:
        return self._jvm.ask(command, self.store, *words)

    def stop(self) -> None:
        """Stop the broker in order."""
        self._ask("close")
        self.is_running = False

    def crash(self) -> None:
        """Kill the broker."""
        self._ask("crash")
        self.is_running = False

    def truncate(self, position: int) -> None:
        """Cut the log at a record, as a replica does."""
        if not self._ask("cut", position)["done"]:
            raise BrokerError(f"truncateFiles({position}) was refused")
        self._look()

    def left_behind(self) -> list[int]:
        """Return where files begin that a cut has not removed, as the broker has them open.

        `DefaultMessageStore#isOffsetAligned`, its own look before a cut, releases nothing.
        """
        end = self.files.base_of(self.end)
        return [b for b in self.files.bases if b > end and any(self.files.read(b)[:4])]

    def expire(self, count: int) -> int:
        """Remove the oldest files, never the last one."""
        if self.is_running:
            gone: int = self._ask("expire", count)["gone"]
            self._look()
            return gone
        gone = self.files.remove_first(count, self.end)
        self.begin = self.files.bases[0] if self.files.bases else 0
        return gone

    def put(self, puts: Sequence[Put]) -> None:
        """Append messages; their time is set."""
        words = []
        for put in puts:
            body = base64.b64encode(put.body).decode()
            parts = (put.stored, _coded(put.topic), put.queue_id, put.flag, put.sys_flag)
            words.append(" ".join(map(str, (*parts, _coded(put.properties), body, put.born))))
        for result in self._ask("put", *words):
            if result[0] != "PUT_OK":
                raise BrokerError(f"put: {result[0]}")
        before = self.end
        self._look()
        for base in [] if self.traits.is_quiet else self.files.bases:
            if before < base + self.files.file_size and base < self.end:
                self.files.touch(base)

    def _look(self) -> None:
        self._take_ends(self._ask("where"))

    def _take_ends(self, ends: Sequence[int]) -> None:
        # Without a file a broker says -1 and 0.
        self.begin, self.end = max(ends[0], 0), ends[1]
        # A file that expired while it was held is removed later; until then it is out of reach
        # (`MappedFileQueue#getMinOffset` asks whether a file is available).
        bases = self.files.bases
        self.keeps_expired = bool(bases) and bases[0] < self.files.base_of(self.begin)
        if self.keeps_expired:
            self.begin = bases[0]

    def fan_offset(self, queue_id: int) -> int:
        """Return the next offset of the queue that messages fan out to."""
        found = [
            high for topic, number, _, high in self.queues() if (topic, number) == (FAN, queue_id)
        ]
        return int(found[0]) if found else 0

    def queues(self) -> list[list[Any]]:
        """Return topic, queue, and the ends of each, as the broker says."""
        answer: list[list[Any]] = self._ask("queues")
        return answer

    def answers(self, requests: Sequence[Sequence[str]]) -> list[Any]:
        """Return what the broker's classes answer."""
        found: list[Any] = self._ask("ask", *(" ".join(words) for words in requests))
        return found

    def answers_after_start(
        self, requests: Sequence[Sequence[str]], ask_files: Callable[[Path], list[Any]]
    ) -> tuple[list[Any], list[Any]] | None:
        """Return what a broker of this version answers that starts with these files as they are.

        Args:
            requests: what it is asked.
            ask_files: asks the same of the files, as they are once that broker has started.

        Returns:
            The broker's answers, and those from the files. None if it cannot start: 5.3.3 does not
            load some, where entries of a queue lead past the log.
        """
        copy = self.store.with_name(f"{self.store.name}-started")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.store, copy)
        (copy / names.ABORT).unlink(missing_ok=True)
        for base in self.left_behind():
            # By stale entries its recovery could begin in such a file, and take it for the log's.
            (copy / names.COMMITLOG / names.offset_file(base)).unlink()
        try:
            self._jvm.ask("open", copy, self._conf, self._topics)
        except BrokerError as error:
            shutil.rmtree(copy)
            if "load failed" in str(error):
                return None
            raise
        try:
            words = (" ".join(request) for request in requests)
            found: list[Any] = self._jvm.ask("ask", copy, *words)
            return found, ask_files(copy)
        finally:
            self._jvm.ask("close", copy)
            shutil.rmtree(copy)

    def rebuild(self, target: Path) -> int:
        """Let the broker's own dispatch rebuild all from the log as it is; where it ends."""
        answer: int = self._ask("rebuild", target, self._conf, self._topics)
        return answer
