"""What a task and a store's writer process say to each other.

The writer listens on a Unix socket in Linux's abstract namespace: one process can have a name, the
name ends with it, and the user of the other side decides whether it may speak. A conversation is
three frames: `Hello` (whose writer this is), `Order`, `Answer`. The first two are JSON, of which
fields that are not known are passed over: a writer of another job may be of another version of this
program.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import socket
import struct
import traceback
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import ReputError, made_again
from reput.streaming.writers.counted import Mark
from reput.streaming.writers.options import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.streaming.dispatch.batch import Batch
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.job_options import JobOptions
    from reput.streaming.writers.state import State

DISPATCH, TEND, DRAIN, END, CLOSE = "dispatch", "tend", "drain", "end", "close"
LISTENING = b"listening\n"
# A writer that hears nothing for this long ends.
SILENCE_SECONDS = 30.0
# Codes of errors that are not ours.
_SYSTEM, _UNEXPECTED = "os", "unexpected"
_CREDENTIALS = struct.Struct("3i")
_LENGTH = struct.Struct(">q")


@dataclass(frozen=True)
class Spec:
    """What a writer is for; plain values, because it goes through Spark and a pipe.

    Attributes:
        job: the only one whose orders count.
        name, path, output, version, properties, in_place, commitlog: the store, as `store_config`
            takes it.
        options: how it is written.
        kafka: the fields of a `KafkaSettings`, its security's among them; None: nothing is sent.
        turn_bytes: of log that it takes at once while it follows, None for the usual.
        follows: it follows the log by itself from the first range that Spark has planned on.
    """

    job: str
    name: str
    path: str
    output: str
    version: str
    properties: dict[str, str]
    in_place: bool
    commitlog: list[str]
    options: WriterOptions
    kafka: dict[str, Any] | None
    follows: bool
    turn_bytes: int | None = None

    @classmethod
    def of(cls, job: str, config: StoreConfig, options: JobOptions) -> Spec:
        """Return what a job's writer of a store is for."""
        return cls(
            job=job,
            name=config.name,
            path=str(config.path.absolute()),
            output=str(config.output.absolute()),
            version=config.settings.version.family,
            properties=dict(config.properties),
            in_place=config.in_place,
            commitlog=list(config.settings.commitlog_told),
            options=options.for_writers,
            kafka=asdict(config.kafka) if config.kafka is not None else None,
            follows=not options.available_now,
            turn_bytes=options.max_batch_bytes,
        )

    @classmethod
    def read(cls, text: str | bytes) -> Spec:
        """Return what `written` wrote."""
        values = json.loads(text)
        return cls(**{**values, "options": WriterOptions(**values["options"])})

    @property
    def written(self) -> bytes:
        """Return the spec as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Hello(NamedTuple):
    """What a writer says first.

    Attributes:
        job: whose it is.
        holder: its process, in words.
        is_left: its executor is gone, so it will end.
    """

    job: str
    holder: str
    is_left: bool

    @classmethod
    def read(cls, frame: bytes) -> Hello:
        """Return what a frame says, as far as this version knows it."""
        return cls(**_known(frame, cls._fields))


class Order(NamedTuple):
    """What a writer has to do.

    Attributes:
        kind: DISPATCH up to `end`, or follow the log from now on; TEND: say what is new; DRAIN:
            wait until Kafka has everything; END sending to Kafka, without waiting for that; CLOSE
            the output and end.
        end: physical offset; -1: none yet. A writer that has just been started dispatches up to
            there whatever the kind: the one before it may have died with that undone.
        starts: start a writer if there is none.
        patience: seconds to wait for another writer's lock.
        seen: what the job has already: a writer's `incarnation` and how many of its batches.
        counted: how far the store is counted, which a writer continues from.
        executor: the process that the task runs for, which the task fills in.
        seconds: that DRAIN waits at most; the driver hears in between that it has to end.
        answer_within: seconds that the task waits for the answer, 0 for the usual.
    """

    kind: str
    end: int = -1
    starts: bool = True
    patience: float = 0.0
    seen: tuple[str, int] = ("", 0)
    counted: Mark = Mark()
    executor: int = 0
    seconds: float = 0.0
    answer_within: float = 0.0

    @classmethod
    def read(cls, frame: bytes) -> Order:
        """Return what a frame says, as far as this version knows it."""
        found = cls(**_known(frame, cls._fields))
        return found._replace(counted=Mark(*found.counted))


class Failure(NamedTuple):
    """An error on its way to the driver.

    Attributes:
        code: of our own errors, theirs.
        fields: the arguments that make it again.
    """

    code: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a writer has done.

    Attributes:
        incarnation: of the process; its batches are counted from 0.
        first: number of the first batch in `batches`.
        batches: those that the order does not have as seen, so none is lost with an answer, and
            none is counted twice.
        state: where the output stands; None before the opening.
        cpu_seconds: of the process until now.
        counted: how far the store is counted with these batches.
        failure: what went wrong.
        is_drained: to DRAIN: Kafka has everything.
    """

    incarnation: str
    first: int
    batches: Sequence[Batch]
    state: State | None
    cpu_seconds: float
    counted: Mark
    failure: Failure | None
    is_drained: bool = False

    @property
    def end(self) -> int:
        """Return the physical offset that the output has come to, -1 before the opening."""
        return self.state.progress.end if self.state is not None else -1

    @property
    def seen(self) -> tuple[str, int]:
        """Return what the next order says: all of this is known."""
        return self.incarnation, self.first + len(self.batches)


def address_of(output: str) -> bytes:
    """Return the name that the writer of an output listens on, the same for all of its paths."""
    identity = f"{os.getuid()}\0{os.path.realpath(output)}"
    return b"\0reput-" + hashlib.sha256(identity.encode()).hexdigest()[:32].encode()


def is_own_user(connection: socket.socket) -> bool:
    """Tell whether the other side runs as the same user."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(raw)[1] == os.getuid())


def send(connection: socket.socket, frame: bytes) -> None:
    """Send a frame.

    Raises:
        OSError: the other side is gone.
    """
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def receive(connection: socket.socket) -> bytes:
    """Return the next frame; nothing where the other side has ended.

    Raises:
        OSError: it took too long, or broke off.
    """
    with connection.makefile("rb") as file:
        head = file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return b""
        (length,) = _LENGTH.unpack(head)
        frame = file.read(length)
        return frame if len(frame) == length else b""


def _known(frame: bytes, names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a frame that have one of these names."""
    return {name: value for name, value in json.loads(frame).items() if name in names}


def answer_of(frame: bytes) -> Answer:
    """Return an answer out of its frame, which a writer of our own has made."""
    answer: Answer = pickle.loads(frame)  # noqa: S301 - see `is_own_user`
    return answer


def failure_of(error: BaseException) -> Failure:
    """Return an error as values, so that the driver can raise it as if it were its own."""
    if isinstance(error, ReputError):
        return Failure(error.code, error.fields)
    if isinstance(error, OSError):
        # It may be the number of an open file.
        has_name = isinstance(error.filename, str | bytes | os.PathLike)
        name = os.fsdecode(error.filename) if has_name else None
        text = error.strerror or str(error)
        return Failure(_SYSTEM, {"errno": error.errno, "message": text, "filename": name})
    return Failure(_UNEXPECTED, {"message": "".join(traceback.format_exception(error))})


def error_of(failure: Failure) -> Exception:
    """Return the error that `failure_of` was given."""
    kinds = {_SYSTEM: OSError, _UNEXPECTED: RuntimeError}
    if failure.code in kinds:
        return kinds[failure.code](*failure.fields.values())
    return made_again(failure.code, failure.fields)
