"""Appends to a commitlog as a broker does: records into files of one size, through memory.

`Appender` has the frames of a finished log stand for what comes in, a few at a time: now and then
it leaves the last one torn, makes the next file ahead, or cuts its log and continues with another one.
`Producer` makes up messages at a rate, in a thread of its own.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import names
from reput.formats.rocketmq.encode import encode, encode_blank, fits
from tests.builders.stores import Messages

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

_SIZE = struct.Struct(">i")
_PRODUCER_PAUSE = 0.01


class Frame(NamedTuple):
    """A record or a BLANK, and where it stands."""

    position: int
    raw: bytes

    @property
    def end(self) -> int:
        """Return the physical offset after it."""
        return self.position + len(self.raw)


def frames_of(store: Path) -> list[Frame]:
    """Return what stands in a store's log, up to its first zeros."""
    found: list[Frame] = []
    for path in sorted((store / names.COMMITLOG).iterdir()):
        data, at = path.read_bytes(), 0
        while at + _SIZE.size <= len(data) and (size := _SIZE.unpack_from(data, at)[0]) > 0:
            found.append(Frame(int(path.name) + at, data[at : at + size]))
            at += size
        if at < len(data):
            break
    return found


class LogFiles:
    """The files of a commitlog that is written."""

    def __init__(self, store: Path, file_size: int) -> None:
        """Begin without files, or continue with those that are there."""
        self._directory = store / names.COMMITLOG
        self._directory.mkdir(parents=True, exist_ok=True)
        self._file_size = file_size
        self._maps: dict[int, mmap.mmap] = {}

    def _map(self, base: int) -> mmap.mmap:
        if base not in self._maps:
            path = self._directory / names.offset_file(base)
            with path.open("r+b" if path.exists() else "w+b") as file:
                # As with a broker there is a moment in which it is empty.
                file.truncate(self._file_size)
                self._maps[base] = mmap.mmap(file.fileno(), self._file_size)
        return self._maps[base]

    def put(self, position: int, data: bytes) -> None:
        """Write bytes, in a new file if need be."""
        base = position - position % self._file_size
        self._map(base)[position - base : position - base + len(data)] = data
        for full in [known for known in self._maps if known < base]:
            self._maps.pop(full).close()

    def make_ahead(self, position: int) -> None:
        """Make the file after the one that `position` is in."""
        base = position - position % self._file_size
        self._map(base)
        self._map(base + self._file_size)

    def cut(self, position: int) -> None:
        """Keep nothing from `position` on: zeros in its file, no files after it."""
        for opened in self._maps.values():
            opened.close()
        self._maps = {}
        for path in self._directory.iterdir():
            base = int(path.name)
            if base > position:
                path.unlink()
            elif base + self._file_size > position:
                kept = path.read_bytes()[: position - base]
                with path.open("r+b") as file:
                    file.write(kept.ljust(self._file_size, b"\0"))

    def close(self) -> None:
        """Give all maps back."""
        for opened in self._maps.values():
            opened.close()
        self._maps = {}


class Appender:
    """Lets a log grow by the frames of a finished one."""

    def __init__(
        self, frames: Sequence[Frame], store: Path, file_size: int, pick: random.Random
    ) -> None:
        """Write nothing yet but an empty file.

        Args:
            frames: what comes in, in order.
            store: where to write its log.
            file_size: of the log.
            pick: decides.
        """
        self._frames = frames
        self._next = 0
        self._files = LogFiles(store, file_size)
        self._pick = pick
        self._files.put(frames[0].position, b"")

    @property
    def is_done(self) -> bool:
        """Tell whether everything is in the log, and whole."""
        return self._next == len(self._frames)

    def append(self, count: int) -> None:
        """Append frames; one that was torn becomes whole first."""
        for frame in self._frames[self._next : self._next + count]:
            self._files.put(frame.position, frame.raw)
        self._next = min(self._next + count, len(self._frames))

    def tear(self) -> None:
        """Append the beginning of the next frame, some of its bytes.

        Not of the first: with no broker's lock it may count as whole, and an output that has
        nothing else is another log's once it is.
        """
        if self._next > 0 and not self.is_done:
            frame = self._frames[self._next]
            self._files.put(frame.position, frame.raw[: self._pick.randrange(len(frame.raw))])

    def step(self) -> None:
        """Do one of the things that a broker does."""
        chance = self._pick.random()
        if chance < 0.15:
            self.tear()
        elif chance < 0.2 and not self.is_done:
            self._files.make_ahead(self._frames[self._next].position)
        else:
            self.append(self._pick.choice((1, 1, 2, 3, 8)))

    def cut(self, frames: Sequence[Frame]) -> None:
        """Go back to where this log and another one part, and continue with that one."""
        common = 0
        while common < min(len(frames), self._next) and frames[common] == self._frames[common]:
            common += 1
        if common < self._next:
            self._files.cut(self._frames[common].position)
        self._next = common
        self._frames = frames

    def close(self) -> None:
        """Give all maps back."""
        self._files.close()


class Producer:
    """Appends made-up messages at a rate until told to stop."""

    def __init__(self, store: Path, file_size: int, rate: int, seed: int) -> None:
        """Write nothing yet but an empty file; `position` is where the log ends.

        Args:
            store: where to write its log.
            file_size: of the log.
            rate: messages a second.
            seed: decides the messages.
        """
        self.records = 0
        self.error: BaseException | None = None
        self._file_size = file_size
        self._rate = rate
        self._messages = Messages(seed, multi=True, batches=True)
        self._files = LogFiles(store, file_size)
        self._files.put(0, b"")
        self.position = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after a whole record."""
        self._stopping.set()
        self._thread.join()
        self._files.close()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            last = time.monotonic()
            due = 0.0
            while not self._stopping.wait(_PRODUCER_PAUSE):
                now = time.monotonic()
                # What a slow machine could not write in time is left out.
                due = min(due + (now - last) * self._rate, self._rate / 4)
                last = now
                while due >= 1:
                    self._append()
                    due -= 1
        except BaseException as error:  # noqa: BLE001 - raised by `stop`
            self.error = error

    def _append(self) -> None:
        message = self._messages.next()._replace(store_timestamp=time.time_ns() // 1_000_000)
        raw = encode(message, self.position)
        left = self._file_size - self.position % self._file_size
        if not fits(len(raw), left):
            self._files.put(self.position, encode_blank(left))
            self.position += left
            raw = encode(message, self.position)
        self._files.put(self.position, raw)
        self.position += len(raw)
        self.records += 1
