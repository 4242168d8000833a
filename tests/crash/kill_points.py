"""What a child can be killed at: every operation on files, by the phase that it comes in.

Nothing in the code under test knows of this: the functions are wrapped in the child, after the fork.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from reput.checkpoints.disk import changes, marking, recording
from reput.formats.kernels import consumequeue
from reput.formats.kernels import indexfile as indexfile_kernels
from reput.formats.kernels.indexfile import State
from reput.formats.rocketmq import indexfile
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.sinks.files.mapped_file import MappedFile
from reput.sinks.upkeep import rollback
from reput.streaming.dispatch.flushing import Flushing
from reput.streaming.dispatch.resuming import recovery, resume

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable
    from pathlib import Path

PHASES = ("open", "recover", "dispatch", "flush", "close")
BEFORE, WITHIN, AFTER = "before", "within", "after"


def _part_of_directories(pick: random.Random, path: Path) -> None:
    missing = [above for above in (path, *path.parents) if not above.is_dir()]
    for directory in missing[len(missing) - pick.randint(0, len(missing)) :][::-1]:
        directory.mkdir()


def _part_of_making(_: random.Random, path: Path, _size: int) -> None:
    path.write_bytes(b"")


def _part_of_file(pick: random.Random, path: Path, data: bytes) -> None:
    path.write_bytes(data[: pick.randint(0, len(data))])


def _part_of_pieces(pick: random.Random, path: Path, pieces: Iterable[bytes]) -> None:
    _part_of_file(pick, path, b"".join(pieces))


def _part_of_clearing(pick: random.Random, path: Path, start: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        rest = file.read().rstrip(b"\0")
        file.seek(start)
        file.write(bytes(pick.randint(0, len(rest))))


def _part_of_write(pick: random.Random, file: MappedFile, at: int, data: bytes) -> None:
    done = data[: pick.randint(0, len(data))]
    file.data[at : at + len(done)] = np.frombuffer(done, np.uint8)


def _part_of_put(pick: random.Random, first: int, count: int, *rest: Any) -> None:
    """Put some rows, then the beginning of the entry of the next one."""
    done = int(_PUT(first, pick.randint(first, count), *rest))
    queue, offset = rest[0], rest[1]
    next_entry, window_address, window_end = rest[7], rest[9], rest[10]
    if done < count:
        number, entry = queue[done], int(offset[done])
        if entry == next_entry[number] and entry < window_end[number]:
            # Its size comes last.
            torn = rest[2][done].tobytes()[::-1]
            address = int(window_address[number]) + entry * ENTRY_SIZE
            ctypes.memmove(address, torn, len(torn))


def _part_of_insert(pick: random.Random, first: int, key: int, count: int, *rest: Any) -> None:
    """Insert the keys of some rows, then the beginning of an item that no slot leads to."""
    _INSERT(first, key, pick.randint(first, count), *rest)
    file, slots, items, state = rest[5], rest[6], rest[7], rest[8]
    number = int(state[State.COUNT])
    if number < items:
        at = indexfile.item_position(number, slots)
        torn = pick.randbytes(pick.randint(0, indexfile.ITEM_SIZE))
        file[at : at + len(torn)] = np.frombuffer(torn, np.uint8)


def _part_of_slots(pick: random.Random, file: Any, count: int, slots: int, heads: Any) -> None:
    """Restore the first slots only."""
    kept = file[indexfile.HEADER_SIZE :].copy()
    _RESTORE_SLOTS(file, count, slots, heads)
    done = pick.randint(0, slots) * indexfile.SLOT_SIZE
    end = slots * indexfile.SLOT_SIZE
    file[indexfile.HEADER_SIZE + done : indexfile.HEADER_SIZE + end] = kept[done:end]


_PUT, _INSERT, _RESTORE_SLOTS = (
    consumequeue.put,
    indexfile_kernels.insert,
    indexfile_kernels.restore_slots,
)


class Operation(NamedTuple):
    """Something that changes files: where its function is, and how a part of it is done."""

    owner: Any
    attribute: str
    part: Callable[..., None] | None = None

    @property
    def name(self) -> str:
        owner = getattr(self.owner, "__name__", "").rpartition(".")[2]
        return f"{owner}.{self.attribute}"


OPERATIONS = (
    Operation(changes, "make_directories", _part_of_directories),
    Operation(changes, "make_file", _part_of_making),
    Operation(changes, "write_file", _part_of_file),
    Operation(changes, "write_pieces", _part_of_pieces),
    Operation(changes, "clear", _part_of_clearing),
    Operation(changes, "sync_file_system"),
    Operation(changes, "rename"),
    Operation(changes, "remove_file"),
    Operation(changes, "remove_directory"),
    Operation(changes, "sync_directory"),
    Operation(changes, "map_file"),
    Operation(changes, "unmap"),
    Operation(changes, "populate"),
    Operation(changes, "sync_memory"),
    Operation(MappedFile, "write", _part_of_write),
    Operation(consumequeue, "put", _part_of_put),
    Operation(indexfile_kernels, "insert", _part_of_insert),
    Operation(indexfile_kernels, "restore_slots", _part_of_slots),
    Operation(recording, "save"),
    Operation(marking, "set_abort"),
    Operation(marking, "clear_abort"),
    Operation(marking, "write_checkpoint"),
)


class Point(NamedTuple):
    """A phase, an operation in it, and when to be killed at it."""

    phase: int
    operation: int
    moment: str
    ordinal: int

    @property
    def label(self) -> tuple[str, str]:
        """Return phase and operation in words."""
        return PHASES[self.phase], OPERATIONS[self.operation].name


class Board:
    """Memory that parent and child share: what the child has done, and whether it is to stop."""

    def __init__(self) -> None:
        size = len(PHASES) * len(OPERATIONS)
        memory = np.frombuffer(mmap.mmap(-1, 8 * (size + 8)), np.int64)
        self.counts = memory[:size].reshape(len(PHASES), len(OPERATIONS))
        self._rest = memory[size:]

    def clear(self) -> None:
        """Begin again."""
        self.counts[:] = 0
        self._rest[:] = 0

    @property
    def phase(self) -> int:
        """What the child is at."""
        return int(self._rest[0])

    @phase.setter
    def phase(self, value: int) -> None:
        self._rest[0] = value

    @property
    def stops(self) -> bool:
        """Whether the child is to stop in order."""
        return bool(self._rest[1])

    @stops.setter
    def stops(self, value: bool) -> None:
        self._rest[1] = value


class Instruments:
    """Counts operations, and kills this process at one of them."""

    def __init__(self, board: Board, point: Point | None, pick: random.Random) -> None:
        self._board = board
        self._point = point
        self._pick = pick

    def install(self) -> None:
        """Put wrappers around all operations and phases; for good, the process is a child."""
        for i, operation in enumerate(OPERATIONS):
            setattr(operation.owner, operation.attribute, self._counted(i, operation))
        self._phase(resume, "resume", "recover")
        self._phase(Flushing, "flush", "flush", unless="close")

    def _counted(self, number: int, operation: Operation) -> Callable[..., Any]:
        inner, board, point = (
            getattr(operation.owner, operation.attribute),
            self._board,
            self._point,
        )

        @wraps(inner)
        def counted(*args: Any, **options: Any) -> Any:
            phase = board.phase
            board.counts[phase, number] += 1
            if (
                point is None
                or point[:2] != (phase, number)
                or board.counts[phase, number] != point.ordinal
            ):
                return inner(*args, **options)
            if point.moment == AFTER:
                inner(*args, **options)
            elif point.moment == WITHIN and operation.part is not None:
                operation.part(self._pick, *args, **options)
            _die()

        return counted

    def _phase(self, owner: Any, attribute: str, phase: str, *, unless: str = "") -> None:
        inner, board = getattr(owner, attribute), self._board

        @wraps(inner)
        def phased(*args: Any, **options: Any) -> Any:
            before = board.phase
            if PHASES[before] != unless:
                board.phase = PHASES.index(phase)
            try:
                return inner(*args, **options)
            finally:
                board.phase = before

        setattr(owner, attribute, phased)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(1)


BREAKS: dict[str, tuple[Any, str, Any]] = {
    "restore": (rollback, "restore", lambda *_args: rollback.RolledBack()),
    "restore_slots": (indexfile_kernels, "restore_slots", lambda *_args: None),
    "clear": (changes, "clear", lambda *_args: 0),
    "progress": (recovery, "roll_back_to", lambda *_args: None),
}
"""Ways to break the code on purpose, to see that the loop finds it."""
