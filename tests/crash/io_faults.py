"""Has every call that touches files fail once, and looks at what the dispatch core makes of it.

    python -m tests.crash.io_faults

A sequence goes through all that an output sees: a first opening, batches, flushes, rolls of all kinds, a
killed writer, its recovery, a log that is replaced, closing. It is run once to count the calls, then
again for each call of each kind, with that one call failing, or all of its kind from it on. What must
hold: an `OSError` that names number and file, or a `ReputError`; the process lives; no map, no
descriptor and no lock is left; what the progress names is still there; and once the cause is gone, a new
writer completes the output, equal to an uninterrupted run.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.checkpoints.disk import changes
from reput.formats.errors import ReputError
from reput.formats.rocketmq import names
from reput.stores.log import broker_lock
from reput.streaming.settings.config import FlushPolicy
from tests.crash.model import Boundary, Machine, Rules
from tests.crash.power_loss import KINDS, Material, State, _finish, check_end, check_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.streaming.dispatch.dispatcher import StoreDispatcher

_RECORDS = 24
_RECORDS_A_FILE = 16
_SEQUENCES = ("batch and ext", "log replaced", "in place", "corrupt", "expiring")


class Operation(NamedTuple):
    """A function that is made to fail.

    Attributes:
        owner: where it is.
        attribute: its name there.
        errors: numbers that it fails with, in turn.
        path_at: place of the path among its arguments; -1: a descriptor comes first; else see below.
    """

    owner: Any
    attribute: str
    errors: tuple[int, ...]
    path_at: int = 0

    @property
    def name(self) -> str:
        """Return what tables call it."""
        owner = "libc" if self.path_at == _LIBC else self.owner.__name__.rpartition(".")[2]
        return f"{owner}.{self.attribute}"


_DESCRIPTOR, _LIBC, _STREAM, _ADDRESS = -1, -2, -3, -4
_FULL = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
OPERATIONS = (
    Operation(changes, "make_directories", _FULL),
    Operation(changes, "make_file", _FULL),
    Operation(changes, "write_file", _FULL),
    Operation(changes, "write_pieces", _FULL),
    Operation(changes, "clear", _FULL),
    Operation(changes, "sync_file_system", (errno.EIO,)),
    Operation(changes, "rename", _FULL),
    Operation(changes, "remove_file", (errno.EIO, errno.EACCES)),
    Operation(changes, "remove_directory", (errno.EIO, errno.EACCES)),
    Operation(changes, "sync_directory", (errno.EIO,)),
    Operation(changes, "map_file", (errno.ENOMEM, errno.EMFILE)),
    Operation(changes, "populate", _FULL),
    Operation(changes, "sync_memory", (errno.EIO, errno.ENOSPC)),
    Operation(os, "open", (errno.EMFILE, errno.ENOSPC, errno.EIO)),
    Operation(os, "mkdir", _FULL),
    Operation(os, "replace", _FULL),
    Operation(os, "unlink", (errno.EIO, errno.EROFS)),
    Operation(os, "rmdir", (errno.EIO, errno.EROFS)),
    Operation(os, "ftruncate", _FULL, _DESCRIPTOR),
    Operation(os, "fsync", (errno.EIO, errno.ENOSPC), _DESCRIPTOR),
    Operation(os, "pread", (errno.EIO,), _DESCRIPTOR),
    Operation(os, "preadv", (errno.EIO,), _DESCRIPTOR),
    Operation(os, "pwrite", _FULL, _DESCRIPTOR),
    Operation(os, "lseek", (errno.EIO,), _DESCRIPTOR),
    Operation(os, "posix_fallocate", _FULL, _DESCRIPTOR),
    Operation(fcntl, "lockf", (errno.ENOLCK, errno.EIO), _DESCRIPTOR),
    Operation(io, "open", (errno.EMFILE, errno.ENOSPC, errno.EACCES)),
    Operation(io, "write", _FULL, _STREAM),
    Operation(changes, "mmap", (errno.ENOMEM, errno.ENODEV), _LIBC),
    Operation(changes, "madvise", (errno.EFAULT, errno.ENOMEM), _LIBC),
    Operation(changes, "msync", (errno.EIO, errno.ENOMEM), _LIBC),
    Operation(changes, "syncfs", (errno.EIO,), _LIBC),
)
_BY_NAME = {operation.name: operation for operation in OPERATIONS}


class Fault(NamedTuple):
    """Which call fails: the `number`-th of an operation, and perhaps all after it."""

    operation: str
    number: int
    lasts: bool = False


class Faults:
    """Counts calls that concern a directory, and has some of them fail."""

    def __init__(self, directory: Path, fault: Fault | None) -> None:
        self.directory = directory
        self.fault = fault
        self.counts: Counter[str] = Counter()
        self.hits = 0
        self._undo: list[tuple[Any, str, Any]] = []

    def check(self, operation: Operation) -> int:
        """Count a call; return the error number that it has to fail with, 0 for none."""
        name = operation.name
        self.counts[name] += 1
        fault = self.fault
        if fault is None or fault.operation != name:
            return 0
        behind = self.counts[name] - fault.number
        if behind < 0 or (behind > 0 and not fault.lasts):
            return 0
        self.hits += 1
        return operation.errors[fault.number % len(operation.errors)]

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Make calls fail for a while."""
        calls = _Calls(changes._libc, self)
        self._replace(changes, "_libc", calls)
        for operation in OPERATIONS:
            if operation.path_at not in {_LIBC, _STREAM}:
                self._wrap(operation)
        try:
            yield
        finally:
            for owner, name, inner in reversed(self._undo):
                setattr(owner, name, inner)
            self._undo = []

    def _replace(self, owner: Any, name: str, by: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, by)

    def _wrap(self, operation: Operation) -> None:
        inner = getattr(operation.owner, operation.attribute)

        @wraps(inner)
        def wrapped(*args: Any, **options: Any) -> Any:
            path = self._path(operation, args)
            if path is None:
                return inner(*args, **options)
            number = self.check(operation)
            if number and operation.path_at == _DESCRIPTOR:
                # As the system says it: of a descriptor nobody knows the name.
                if operation.attribute == "pwrite":
                    inner(args[0], args[1][: len(args[1]) // 2], *args[2:])
                raise OSError(number, os.strerror(number))
            if number:
                raise OSError(number, os.strerror(number), str(path))
            result = inner(*args, **options)
            if operation.attribute == "open" and operation.owner is io:
                return self._stream(result, args, options)
            return result

        self._replace(operation.owner, operation.attribute, wrapped)

    def _path(self, operation: Operation, args: tuple[Any, ...]) -> Path | None:
        """Return the path that a call is about, None if it is not one of ours."""
        first = args[0] if args else None
        try:
            if operation.path_at == _DESCRIPTOR:
                number = getattr(first, "fileno", lambda: first)()
                first = Path(f"/proc/self/fd/{number}").readlink()
            path = Path(os.fspath(first))  # type: ignore[arg-type]
        except (OSError, TypeError):
            return None
        is_ours = path.is_relative_to(self.directory) or (
            # The log is reached by a link.
            names.COMMITLOG in path.parts and path.is_relative_to(self.directory.parent)
        )
        return path if is_ours else None

    def _stream(self, stream: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        mode = args[1] if len(args) > 1 else options.get("mode", "r")
        return _Stream(stream, self) if mode == "wb" else stream


class _Stream:
    """A file that is written, the writing of which may fail in the middle."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def write(self, data: bytes) -> int:
        number = self._faults.check(_BY_NAME["io.write"])
        if number:
            self._inner.write(data[: len(data) // 2])
            raise OSError(number, os.strerror(number))
        return int(self._inner.write(data))


class _Calls:
    """The C library, some of whose calls fail."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)
        operation = _BY_NAME.get(f"libc.{name}")
        if operation is None:
            return inner

        def call(*args: Any) -> Any:
            number = self._faults.check(operation)
            if not number:
                return inner(*args)
            import ctypes

            ctypes.set_errno(number)
            return changes._FAILED if name == "mmap" else -1

        return call


class FaultError(Exception):
    """Something that must not be has come of a fault."""


class Sequence:
    """One output's life, which can be cut short by an error at any place."""

    def __init__(self, material: Material, directory: Path) -> None:
        self.material = material
        self.directory = directory
        self.log = 0
        self._dispatcher: StoreDispatcher | None = None
        material.link(directory, 0)
        self.config = material.config(directory)

    def run(self) -> None:
        """Go through it; whatever is raised comes out, with everything closed."""
        try:
            self._first_life()
            self._second_life()
        except BaseException:
            if self._dispatcher is not None:
                self._refuse_and_close(self._dispatcher)
            raise

    def _open(self) -> StoreDispatcher:
        self._dispatcher = None
        self._dispatcher = self.material.open(self.config)
        return self._dispatcher

    def _first_life(self) -> None:
        ends = self.material.boundaries[0]
        dispatcher = self._open()
        dispatcher.dispatch(ends[len(ends) // 4])
        dispatcher.flush()
        dispatcher.dispatch(ends[len(ends) // 2])
        dispatcher.parts.flushing.policy = FlushPolicy(seconds=0, least_pages=0)
        dispatcher.flush_if_due()
        dispatcher.dispatch(ends[len(ends) * 5 // 8])
        dispatcher.abandon()

    def _second_life(self) -> None:
        ends = self.material.boundaries[0]
        dispatcher = self._open()
        dispatcher.dispatch(ends[len(ends) * 3 // 4])
        if self.material.kind.expires:
            dispatcher.dispatch(ends[-1])
            dispatcher.flush()
        if len(self.material.stores) > 1:
            self.material.link(self.directory, 1)
            self.log = 1
        dispatcher.dispatch(self.material.boundaries[-1][-1])
        dispatcher.flush()
        dispatcher.close()
        self._dispatcher = None

    def _refuse_and_close(self, dispatcher: StoreDispatcher) -> None:
        """Close after an error; while the cause lasts that may fail as well."""
        with contextlib.suppress(OSError, ReputError):
            dispatcher.close()


def left_behind(directory: Path) -> str:
    """Say what this process still has open of a directory, "" for nothing."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            path = link.readlink()
            if path.is_relative_to(directory):
                found.append(f"descriptor of {path}")
    maps = Path("/proc/self/maps").read_text("utf-8").splitlines()
    found += [f"map of {m.split(maxsplit=5)[-1]}" for m in maps if str(directory) in m]
    found += [f"lock of {path}" for path in broker_lock.HELD if path.startswith(str(directory))]
    return ", ".join(sorted(set(found)))


@dataclass
class Row:
    """What came of faults in one operation.

    Attributes:
        tried: faults.
        raised: that came out as errors.
        absorbed: that nobody had to know of.
        unequal: that something was wrong after it.
    """

    tried: int = 0
    raised: int = 0
    absorbed: int = 0
    unequal: int = 0


@dataclass
class Result:
    """What was done, by operation, and what was wrong, with how often it was."""

    rows: dict[str, Row] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def row(self, operation: str) -> Row:
        """Return the row of an operation."""
        return self.rows.setdefault(operation, Row())

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "operations": {name: vars(row) for name, row in sorted(self.rows.items())},
            "tried": sum(row.tried for row in self.rows.values()),
            "raised": sum(row.raised for row in self.rows.values()),
            "unequal": sum(row.unequal for row in self.rows.values()),
            "errors": dict(self.errors),
            "failures": dict(self.failures),
            "seconds": round(self.seconds, 1),
        }


def try_fault(material: Material, directory: Path, fault: Fault, result: Result) -> None:
    """Go through a sequence with a fault, then without, and note what came of it."""
    directory.mkdir()
    row = result.row(fault.operation)
    row.tried += 1
    sequence = Sequence(material, directory)
    faults = Faults(directory, fault)
    problems = []
    raised: Exception | None = None
    with faults.installed():
        try:
            sequence.run()
        except (OSError, ReputError) as error:
            raised = error
        except Exception as error:  # noqa: BLE001 - anything else is what is looked for
            raised = error
            problems.append(f"raised {traceback.format_exception_only(error)[-1].strip()}")
    if raised is None:
        row.absorbed += 1
    else:
        row.raised += 1
        result.errors[type(raised).__name__] += 1
        if isinstance(raised, OSError) and (raised.errno is None or raised.filename is None):
            problems.append(f"an error that names no file: {_where(raised)}")
    left = left_behind(directory)
    if left:
        kinds = sorted({part.split(" of ")[0] for part in left.split(", ")})
        problems.append(f"left behind: {' and '.join(kinds)} by {_where(raised or FaultError())}")
    raised = None
    problems += _aftermath(sequence, directory)
    if problems:
        row.unequal += 1
        for problem in problems:
            result.failures[f"{fault.operation}: {problem}"] += 1
    shutil.rmtree(directory)


def _where(error: BaseException) -> str:
    """Return which of our functions an error came through last."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/tests/" not in f.filename and "/lib/python" not in f.filename]
    return " < ".join(f"{Path(f.filename).stem}.{f.name}" for f in ours[:-5:-1]) or "?"


def _aftermath(sequence: Sequence, directory: Path) -> list[str]:
    """Look at what is there after an error, then complete it."""
    material = sequence.material
    boundary = Boundary("", "")
    image: Any = None
    state = State(image, sequence.log, has_progress=False, phase="", boundary=boundary, cuts=0)
    problems = []
    try:
        problem = check_state(material, state, directory)
        if problem:
            problems.append(f"damaged: {problem}")
        _finish(material, directory, sequence.log, random.Random(0))
        problem = check_end(material, directory)
        if problem:
            problems.append(f"unequal: {problem}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        problems.append(f"does not continue: {_where(error)}: {error}".replace(str(directory), ""))
    return problems


def count_calls(material: Material, directory: Path) -> Counter[str]:
    """Return the calls of each operation in a sequence without faults."""
    directory.mkdir()
    faults = Faults(directory, None)
    with faults.installed():
        Sequence(material, directory).run()
    left = left_behind(directory)
    if left:
        raise FaultError(f"without a fault: {left}")
    problem = check_end(material, directory)
    if problem:
        raise FaultError(f"without a fault: {problem}")
    shutil.rmtree(directory)
    return faults.counts


def try_all(
    directory: Path, sequences: tuple[str, ...], *, records: int, seed: int, lasting: bool
) -> Result:
    """Make every call of some sequences fail."""
    began = time.monotonic()
    result = Result()
    for name in sequences:
        home = directory / name.replace(" ", "-").replace(",", "")
        # Files of the log can only expire where there are some.
        count = max(records, 3 * _RECORDS_A_FILE) if KINDS[name].expires else records
        material = Material(name, KINDS[name], home / "material", seed, count)
        counts = count_calls(material, home / "counted")
        for operation in OPERATIONS:
            for number in range(1, counts[operation.name] + 1):
                for lasts in (False, True) if lasting else (number % 4 == 0,):
                    fault = Fault(operation.name, number, lasts)
                    # Each in a directory of its own: what one leaves behind does not spoil others.
                    tried = home / f"{fault.operation}-{number}-{int(lasts)}"
                    try_fault(material, tried, fault, result)
        shutil.rmtree(home)
    result.seconds = time.monotonic() - began
    return result


def try_lost_syncs(directory: Path, name: str, *, records: int, seed: int) -> Result:
    """Make every sync fail and lose what it was to have on disk, and cut the power in the end.

    A kernel says of pages that it could not write back only once that it could not: a sync that is
    tried again has nothing left to do, and says that all is well.
    """
    began = time.monotonic()
    result = Result()
    home = directory / "lost"
    material = Material(name, KINDS[name], home / "material", seed, records)
    counts = count_calls(material, home / "counted")
    pick = random.Random(seed)
    for operation in ("libc.msync", "os.fsync"):
        for number in range(1, counts[operation] + 1):
            _lose_sync(material, home / "tried", Fault(operation, number), result, pick)
    shutil.rmtree(home)
    result.seconds = time.monotonic() - began
    return result


def _lose_sync(
    material: Material, directory: Path, fault: Fault, result: Result, pick: random.Random
) -> None:
    directory.mkdir()
    sequence = Sequence(material, directory)
    faults = Faults(directory, fault)
    machine = Machine(directory, Rules())
    row = result.row(f"{fault.operation}, then a power cut")
    row.tried += 1
    with contextlib.suppress(OSError), faults.installed(), machine.installed():
        try:
            sequence.run()
            row.absorbed += 1
        except OSError:
            row.raised += 1
            faults.fault = None
            _finish(material, directory, sequence.log, random.Random(0))
    for _ in range(3):
        cut = directory.with_name("cut")
        cut.mkdir()
        machine.image(pick).write(cut)
        material.link(cut, len(material.stores) - 1)
        problem = check_end(material, cut)
        if problem:
            row.unequal += 1
            result.failures[f"{fault.operation}, then a power cut: {problem}"] += 1
        shutil.rmtree(cut)
    machine.revive()
    shutil.rmtree(directory)


def in_child(work: Callable[[], str]) -> str:
    """Do something in a child; return what it says, or what has killed it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = work()
        except BaseException:  # noqa: BLE001 - the parent shows it
            said = traceback.format_exc()
        os.write(writing, said.encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return said


@contextlib.contextmanager
def small_disk(path: Path, size: int) -> Iterator[None]:
    """Make a file system of that many bytes at `path`; only root may."""
    path.mkdir()
    options = f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)
        path.rmdir()


def remount(path: Path, options: str) -> None:
    """Change the options of a mount."""
    subprocess.run(["mount", "-o", f"remount,{options}", path], check=True)


def try_full_disks(directory: Path, name: str, *, records: int, seed: int, step: int) -> Result:
    """Let file systems of all sizes fill up, make room, and complete the output."""
    began = time.monotonic()
    result = Result()
    home = directory / "full"
    material = Material(name, KINDS[name], home / "material", seed, records)
    row = result.row("a full disk")
    size = 2 * changes.PAGE
    while True:
        row.tried += 1
        said = _fill(material, home / "disk", size)
        if said == "enough":
            row.absorbed += 1
            break
        row.raised += 1
        result.errors[said.partition(":")[0]] += 1
        if not said.startswith(("OSError", "ReputError")) or "then" in said:
            row.unequal += 1
            result.failures[f"{size} bytes: {said}"] += 1
        size += step
    shutil.rmtree(home)
    result.seconds = time.monotonic() - began
    return result


def _fill(material: Material, path: Path, size: int) -> str:
    with small_disk(path, size):
        log = [0]

        def until_full() -> str:
            sequence = Sequence(material, path)
            try:
                sequence.run()
            except OSError as error:
                left = left_behind(path / "output")
                if error.errno != errno.ENOSPC or error.filename is None:
                    return f"OSError {error!r}, then no file named: {_where(error)}"
                return f"OSError:{sequence.log}" + (f" then {left}" if left else "")
            return "enough"

        said = in_child(until_full)
        if not said.startswith("OSError:"):
            return said
        remount(path, f"size={size + (8 << 20)}")
        log[0] = int(said.split(":")[1].split()[0])

        def complete() -> str:
            material.link(path, log[0])
            _finish(material, path, log[0], random.Random(0))
            return check_end(material, path)

        behind = in_child(complete)
        return f"{said}, then {behind}" if behind else said


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sequence", action="append", choices=sorted(KINDS))
    parser.add_argument("--records", type=int, default=_RECORDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--scratch", type=Path, help="where to write; memory is fastest")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="faults-", dir=options.scratch))
    records, seed = options.records, options.seed
    sequences = tuple(options.sequence or _SEQUENCES)
    results = [
        try_all(directory, sequences, records=records, seed=seed, lasting=True),
        try_lost_syncs(directory, "batch and ext", records=records, seed=seed),
        try_full_disks(directory, "batch and ext", records=records, seed=seed, step=changes.PAGE),
    ]
    whole = Result(seconds=sum(r.seconds for r in results))
    for result in results:
        whole.rows |= result.rows
        whole.errors += result.errors
        whole.failures += result.failures
    if options.json:
        print(json.dumps(whole.document(), indent=1))
    else:
        _show(whole)
    shutil.rmtree(directory)
    return 1 if whole.failures else 0


def _show(result: Result) -> None:
    print(f"{'operation':<34}{'tried':>7}{'errors':>8}{'absorbed':>10}{'wrong':>7}")
    for name, row in result.rows.items():
        print(f"{name:<34}{row.tried:>7}{row.raised:>8}{row.absorbed:>10}{row.unequal:>7}")
    print(", ".join(f"{name}: {number}" for name, number in result.errors.most_common()))
    for failure, number in result.failures.most_common(60):
        print(f"{number:>5} x {failure}")
    print(f"{result.seconds:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
