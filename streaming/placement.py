"""Where stores are written: in the job's driver, or by a writer process beside an executor.

On executors, a batch is one Spark job with a task a store. The task carries an order to the store's
writer process on its host (`streaming.writer_process`), starts it if there is none, waits and
carries the answer back: the driver handles a few hundred bytes a store, whatever is dispatched.
Spark may run such a task twice, or somewhere else: an order says how far, not how much, and the
lock of the output lets one writer in. `docs/adr/0013-where-stores-are-written.md` has the reasons.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import ReputError, StoreError
from streaming.writer_process import (
    CLOSE,
    DISPATCH,
    LISTENING,
    SILENCE_SECONDS,
    TEND,
    Answer,
    Hello,
    Order,
    Spec,
    address_of,
    error_of,
    failure_of,
    is_own_user,
    receive,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark import SparkContext

    from streaming.config import FlushPolicy, StoreConfig
    from streaming.job import JobOptions

# A writer is spoken to this often while its store has nothing new.
TEND_SECONDS = SILENCE_SECONDS / 6
# A job that was killed a moment ago leaves writers that are about to end.
_OPEN_PATIENCE = 10.0
# A writer on a host that Spark has given up ends by silence.
_MOVE_PATIENCE = SILENCE_SECONDS + 15.0
# It has lost its executor and finishes its batch first.
_LEFT_PATIENCE = 300.0
_RETRY_SECONDS = 0.2
# What kills a writer so often, such as the kernel for its memory, will kill the next one too.
_MOST_DEATHS = 3
# Between the last task and these, a task that waits for its host may go to another one.
_ANCESTORS = 8

_started: list[subprocess.Popen[bytes]] = []


class Placement(StrEnum):
    """Who writes."""

    DRIVER = "driver"
    EXECUTORS = "executors"


def default_placement(master: str) -> Placement:
    """Return where stores are written if nobody says so: a cluster's driver has other work."""
    return Placement.DRIVER if master.startswith("local") else Placement.EXECUTORS


def submitted_master() -> str:
    """Return the master that spark-submit was given; without it there is no cluster."""
    from streaming.session import _submitted  # noqa: PLC0415 - Spark is slow to import

    return _submitted().get("spark.master", "local[*]")


@dataclass
class Report:
    """What is new of a store.

    Attributes:
        store: its name.
        messages: dispatched since the last report.
        bytes: of the log, since then.
        end: where the output stands.
        seconds: wall time in dispatch since then.
        cpu_seconds: of the writer process, start included, since then.
        events: since then, for the operator.
    """

    store: str
    messages: int
    bytes: int
    end: int
    seconds: float
    cpu_seconds: float
    events: list[str]


@dataclass
class _Known:
    """What the driver knows of a store's writer."""

    spec: Spec
    host: str = ""
    end: int = -1
    wanted: int = -1
    answer: Answer | None = None
    events: int = 0
    heard_at: float = field(default_factory=time.monotonic)

    @property
    def seen(self) -> tuple[str, int]:
        return (self.answer["incarnation"], self.events) if self.answer else ("", 0)


class Errand(NamedTuple):
    """What a task takes along."""

    spec: Spec
    order: Order


class ExecutorWriters:
    """The driver's side: all stores' writers, wherever they are."""

    def __init__(
        self, context: SparkContext, configs: Iterable[tuple[StoreConfig, FlushPolicy]],
        options: JobOptions,
    ) -> None:
        """Remember what the writers are for; `open` starts them."""
        self._context = context
        job = f"{context.applicationId}-{uuid.uuid4().hex}"
        self._stores = {
            config.name: _Known(_spec(job, config, flush, options)) for config, flush in configs
        }

    def open(self) -> list[Report]:
        """Open all outputs: what is wrong with one is said before the first batch.

        Raises:
            ReputError: a store or an output that cannot be used; who else writes to it.
            OSError: no permission, no space.
        """
        return self._send(dict.fromkeys(self._stores, TEND), _OPEN_PATIENCE)

    @property
    def ends(self) -> dict[str, int]:
        """Return where each output stands; -1 for a new one."""
        return {name: known.end for name, known in self._stores.items()}

    def dispatch(self, ends: Mapping[str, int]) -> list[Report]:
        """Have every store dispatched up to its end, all at once as far as there are cores.

        Raises:
            ReputError: see `StoreDispatcher.dispatch`; of several, the first.
            OSError: an output cannot be written.
        """
        for name, end in ends.items():
            self._stores[name].wanted = end
        quiet = dict.fromkeys(self._due(), TEND)
        return self._send(quiet | dict.fromkeys(ends, DISPATCH), _MOVE_PATIENCE)

    def tend(self) -> list[Report]:
        """Speak to the writers that have not been spoken to for a while; most often to none.

        Raises:
            ReputError, OSError: what went wrong since then.
        """
        due = self._due()
        return self._send(dict.fromkeys(due, TEND), _MOVE_PATIENCE) if due else []

    def close(self, *, has_failed: bool) -> list[Report]:
        """Have all outputs closed in order.

        Args:
            has_failed: the job ends by an error; a writer that is gone is not made up for then.

        Raises:
            ReputError, OSError: an output that could not be.
        """
        opened = [name for name, known in self._stores.items() if known.answer is not None]
        return self._send(dict.fromkeys(opened, CLOSE), _MOVE_PATIENCE, starts=not has_failed)

    def _due(self) -> list[str]:
        now = time.monotonic()
        return [n for n, known in self._stores.items() if now - known.heard_at > TEND_SECONDS]

    def _send(
        self, kinds: Mapping[str, str], patience: float, *, starts: bool = True
    ) -> list[Report]:
        """Run one Spark job that carries the orders; return the reports, raise the first error."""
        errands = []
        for name, kind in kinds.items():
            known = self._stores[name]
            order = Order(
                kind=kind,
                end=known.wanted,
                starts=starts,
                patience=patience,
                seen=known.seen,
                executor=0,
            )
            errands.append((Errand(known.spec, order), known.host))
        if not errands:
            return []
        answers = _run(self._context, errands)
        reports = []
        failure = None
        for name, answer in zip(kinds, answers, strict=True):
            if answer is not None:
                reports.append(self._take(name, answer))
                failure = failure or answer["failure"]
        if failure is not None:
            raise WritersError(reports, error_of(failure))
        return reports

    def _take(self, name: str, answer: Answer) -> Report:
        """Return what is new in an answer; a new writer's figures begin at nothing."""
        known = self._stores[name]
        before = known.answer
        if before is None or before["incarnation"] != answer["incarnation"]:
            before, known.events = None, 0
        known.events += len(answer["events"])
        known.answer = answer
        known.end, known.host = answer["end"], answer["host"]
        known.heard_at = time.monotonic()
        return Report(
            store=name,
            messages=answer["messages"] - (before["messages"] if before else 0),
            bytes=answer["bytes"] - (before["bytes"] if before else 0),
            end=answer["end"],
            seconds=answer["seconds"] - (before["seconds"] if before else 0.0),
            cpu_seconds=answer["cpu_seconds"] - (before["cpu_seconds"] if before else 0.0),
            events=answer["events"],
        )


class WritersError(Exception):
    """An error of a writer, and what the others have done all the same."""

    def __init__(self, reports: Sequence[Report], error: Exception) -> None:
        super().__init__(str(error))
        self.reports = reports
        self.error = error


def _spec(job: str, config: StoreConfig, flush: FlushPolicy, options: JobOptions) -> Spec:
    return Spec(
        job=job,
        name=config.name,
        path=str(config.path.absolute()),
        output=str(config.output.absolute()),
        version=config.settings.version.family,
        properties=dict(config.properties),
        in_place=config.in_place,
        threads=options.threads,
        fail_on_data_loss=options.fail_on_data_loss,
        skips_corrupt=options.skips_corrupt,
        removes_expired=options.removes_expired,
        flush=asdict(flush),
    )


def _run(context: SparkContext, errands: Sequence[tuple[Errand, str]]) -> list[Answer | None]:
    """Run a task an errand, on the host that it names if that has room, and return the answers.

    Raises:
        ReputError: Spark could not.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - who carries needs no driver's part
    from pyspark import RDD  # noqa: PLC0415
    from pyspark.serializers import CPickleSerializer  # noqa: PLC0415

    # Python's own `parallelize` knows no preferred hosts; Scala's `makeRDD` does.
    jvm: Any = context._jvm  # noqa: SLF001
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    rows = jvm.java.util.ArrayList()
    try:
        for errand, host in errands:
            hosts = jvm.java.util.ArrayList()
            if host:
                hosts.add(host)
            raw = bytearray(pickle.dumps(tuple(errand)))
            rows.add(jvm.scala.Tuple2(raw, convert.asScala(hosts).toSeq()))
        tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        java: Any = context._jsc.sc()  # noqa: SLF001
        located = java.makeRDD(convert.asScala(rows).toSeq(), tag).toJavaRDD()
        tasks: RDD[Any] = RDD(located, context, CPickleSerializer())
        return tasks.map(carry).collect()
    except (Py4JError, OSError) as error:
        # A JVM that is gone is an OSError of its connection, and no matter of files.
        text = str(error).strip()[:2000]
        raise ReputError(f"Spark could not reach the stores' writers: {text}") from error


def carry(errand: tuple[Spec, Order]) -> Answer | None:
    """Take an order to a store's writer and bring its answer; what a task does.

    Errors come back in the answer: Spark would repeat a task that raises, and wrap what it says.
    None: there is no writer, and none is wanted.
    """
    spec, order = errand
    process, host = executor()
    order["executor"] = process
    try:
        answer = _speak(spec, order)
    except Exception as error:  # noqa: BLE001 - whatever it is, the driver has to know
        answer = _no_answer(error)
    if answer is not None:
        answer["host"] = host
    return answer


def _no_answer(error: Exception) -> Answer:
    return Answer(
        incarnation="",
        messages=0,
        bytes=0,
        batches=0,
        end=-1,
        seconds=0.0,
        cpu_seconds=0.0,
        store_timestamp=0,
        events=[],
        failure=failure_of(error),
        host="",
    )


def _speak(spec: Spec, order: Order) -> Answer | None:
    """Speak to the writer of an output until it has answered.

    Raises:
        ReputError: another job's writer is there; ours cannot be started, or dies each time.
    """
    deaths = 0
    began = time.monotonic()
    while True:
        connection = _connect(spec)
        if connection is None:
            if not order["starts"]:
                return None
            _start(spec, order["executor"])
            continue
        with connection:
            hello = _hear(connection)
            if hello is not None and hello["job"] == spec["job"]:
                answer = _ask(connection, order)
                if answer is not None:
                    return answer
                deaths += 1
                if deaths == _MOST_DEATHS:
                    raise ReputError(
                        f"{spec['output']}: its writer process has died {deaths} times in this "
                        "batch; look for the reason in the kernel's log (memory) and the "
                        "executor's standard error, then start the job again: it goes on"
                    )
            elif hello is not None:
                patience = _LEFT_PATIENCE if hello["is_left"] else _RETRY_SECONDS * 10
                if time.monotonic() - began > patience:
                    raise StoreError(
                        spec["output"],
                        f"{hello['holder']} is writing to this output for another job",
                        "Stop it first, or give another --output; two writers would corrupt the "
                        "files",
                    )
        time.sleep(_RETRY_SECONDS)


def _connect(spec: Spec) -> socket.socket | None:
    """Return a connection to the process that has the output's name, None if there is none.

    Raises:
        ReputError: it is another user's.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address_of(spec["output"]))
    except ConnectionError:
        connection.close()
        return None
    if not is_own_user(connection):
        connection.close()
        raise ReputError(f"{spec['output']}: a process of another user has its writer's name")
    return connection


def _hear(connection: socket.socket) -> Hello | None:
    """Return a writer's greeting, None if it was about to end."""
    with contextlib.suppress(ConnectionError):
        hello: Hello | None = receive(connection)
        return hello
    return None


def _ask(connection: socket.socket, order: Order) -> Answer | None:
    """Return a writer's answer, None if it died meanwhile."""
    with contextlib.suppress(ConnectionError):
        send(connection, order)
        answer: Answer | None = receive(connection)
        return answer
    return None


def _start(spec: Spec, executor_process: int) -> None:
    """Start a writer process and return when it listens, or another one does.

    Raises:
        ReputError: it ended before that.
    """
    # Those that have ended leave nothing behind once they are asked for.
    _started[:] = [process for process in _started if process.poll() is None]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHON_WORKER_FACTORY_SECRET"}
    # What the job was given to import, by whatever way it came to this worker.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-m", "streaming.writer_process", str(executor_process)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        # Spark ends its workers by their group; this one outlives them.
        start_new_session=True,
    )
    _started.append(process)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a pipe was asked for")
    with process.stdin, process.stdout:
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        process.stdin.close()
        is_listening = process.stdout.readline() == LISTENING
    if not is_listening and process.wait() != 0:
        raise ReputError(
            f"{spec['output']}: its writer process ended at once with code {process.returncode}; "
            "the executor's standard error says why"
        )


def executor() -> tuple[int, str]:
    """Return the executor's process, and its host by the name that Spark has for it.

    A task is told neither, so they are looked for among the processes above it. Without a name, as
    in local mode, there is only one host. Without a JVM, the process right above has to do.
    """
    process = os.getppid()
    for _ in range(_ANCESTORS):
        directory = Path("/proc", str(process))
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
            above = int((directory / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            break
        if os.path.basename(words[0]) == b"java":
            named = b"--hostname" in words[:-1]
            return process, words[words.index(b"--hostname") + 1].decode() if named else ""
        process = above
    return os.getppid(), ""
