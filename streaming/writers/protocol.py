"""What is said between a task and a store's writer process.

The writer listens on a Unix socket in Linux's abstract namespace: one process can have a name, the
name ends with it, and who may speak is decided by the user of the other side. A conversation is
three frames: `Hello` (whose writer this is), `Order`, `Answer`.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
import struct
import traceback
from typing import TYPE_CHECKING, Any, TypedDict

from reput.formats.errors import (
    ExpiredError,
    FormatError,
    KafkaError,
    ReputError,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from reput.streaming.dispatch.dispatcher import Batch

DISPATCH, TEND, CLOSE = "dispatch", "tend", "close"
LISTENING = b"listening\n"
# A writer that nobody has spoken to for so long ends.
SILENCE_SECONDS = 30.0
# Errors that can be pickled, as all of a format can; what has other arguments goes as a plain one.
_WHOLE = {ReputError, UsageError, StoreError, ExpiredError, KafkaError}
_CREDENTIALS = struct.Struct("3i")
_LENGTH = struct.Struct(">q")


class Spec(TypedDict):
    """What a writer is for; plain values, for it goes through Spark and a pipe.

    Attributes:
        job: who may give orders.
        name, path, output, version, properties, in_place, commitlog: the store, as `store_config`
            takes it.
        threads, fail_on_data_loss, skips_corrupt, removes_expired, only_flushed: as
            `StoreDispatcher` has them.
        flush: the fields of a `FlushPolicy`.
        kafka: the fields of a `KafkaSettings`, its security's among them; None: nothing is sent.
        drains_kafka: a writer that is closed waits until Kafka has everything.
    """

    job: str
    name: str
    path: str
    output: str
    version: str
    properties: dict[str, str]
    in_place: bool
    commitlog: list[str]
    threads: int
    fail_on_data_loss: bool
    skips_corrupt: bool
    removes_expired: bool
    only_flushed: bool
    flush: dict[str, Any]
    kafka: dict[str, Any] | None
    drains_kafka: bool


class Hello(TypedDict):
    """What a writer says first.

    Attributes:
        job: whose it is.
        holder: its process, in words.
        is_left: its executor is gone, so it will end.
    """

    job: str
    holder: str
    is_left: bool


class Order(TypedDict):
    """What a writer has to do.

    Attributes:
        kind: DISPATCH up to `end`; TEND: say what is new; CLOSE the output and end.
        end: physical offset; -1: none yet. A writer that has just been started dispatches up to
            there whatever the kind, for the one before it may have died with that undone.
        starts: start a writer if there is none.
        patience: wait so long for another writer's lock, seconds.
        seen: what the job has already: a writer's `incarnation` and how many of its batches.
        counted: physical offset up to which the job has counted, -1 for nothing, and the messages
            that the output's record had there; see `streaming.writers.counted`.
        executor: the process that the task runs for.
    """

    kind: str
    end: int
    starts: bool
    patience: float
    seen: tuple[str, int]
    counted: tuple[int, int]
    executor: int


class Failure(TypedDict):
    """An error on its way to the driver.

    Attributes:
        kind: the class that it is raised as there.
        error: of our own errors, itself.
        message, errno, filename: of the others.
    """

    kind: str
    error: ReputError | None
    message: str
    errno: int | None
    filename: str | None


class Answer(TypedDict):
    """What a writer has done.

    Attributes:
        incarnation: of the process; its batches are counted from 0.
        first: number of the first batch in `batches`.
        batches: those that the order does not have as seen, so none is lost with an answer, and
            none is counted twice.
        end: where the output stands.
        state: the fields of a `store_metrics.State`, without what is long; None before the opening.
        cpu_seconds: of the process until now.
        failure: what went wrong.
    """

    incarnation: str
    first: int
    batches: list[Batch]
    end: int
    state: dict[str, Any] | None
    cpu_seconds: float
    failure: Failure | None


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


def answer_of(frame: bytes) -> Answer:
    """Return an answer out of its frame, which a writer of our own has made."""
    answer: Answer = pickle.loads(frame)  # noqa: S301 - see `is_own_user`
    return answer


def failure_of(error: BaseException) -> Failure:
    """Return an error as values, so that the driver can raise it as if it were its own."""
    if isinstance(error, ReputError):
        plain = KafkaError if isinstance(error, KafkaError) else ReputError
        is_whole = isinstance(error, FormatError) or type(error) in _WHOLE
        whole = error if is_whole else plain(str(error))
        return Failure(kind="reput", error=whole, message=str(whole), errno=None, filename=None)
    if isinstance(error, OSError):
        # It may be the number of an open file.
        has_name = isinstance(error.filename, str | bytes | os.PathLike)
        name = os.fsdecode(error.filename) if has_name else None
        text = error.strerror or str(error)
        return Failure(kind="os", error=None, message=text, errno=error.errno, filename=name)
    text = "".join(traceback.format_exception(error))
    return Failure(kind="unexpected", error=None, message=text, errno=None, filename=None)


def error_of(failure: Failure) -> Exception:
    """Return the error that `failure_of` was given."""
    if failure["error"] is not None:
        return failure["error"]
    if failure["kind"] == "os":
        return OSError(failure["errno"], failure["message"], failure["filename"])
    return RuntimeError(failure["message"])
