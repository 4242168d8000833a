"""A commitlog's files as a history sees them: which records are there, and bytes that change."""

from __future__ import annotations

import mmap
import os
import struct
import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import names, properties
from reput.formats.rocketmq.commitlog import (
    BLANK_SIZE,
    BORN_HOST_V6,
    MAGIC_BLANK,
    STORE_HOST_V6,
    Record,
    read,
)
from tests.histories.messages import is_poison

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HEAD = struct.Struct(">ii")
# where a body begins: after hosts of IP version 4, and its length.
_BODY_AT = 88


class Rec(NamedTuple):
    """A record: where it stands, and its bytes."""

    position: int
    raw: bytes

    @property
    def end(self) -> int:
        """Return the physical offset after it."""
        return self.position + len(self.raw)

    @property
    def uncovered(self) -> int:
        """Return the physical offset after the body: what follows has no CRC."""
        assert not self.record.sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)
        return self.position + _BODY_AT + len(self.record.body)

    @property
    def record(self) -> Record:
        """Return what it says, by the readable reader."""
        return _read(self)

    def is_poison(self, version: str) -> bool:
        """Tell whether a broker of that version cannot parse it."""
        return is_poison(self.record.topic, dict(self.record.properties), version)


@lru_cache(maxsize=20_000)
def _read(rec: Rec) -> Record:
    # The file's end matters for BLANKs only.
    _, found = read(rec.raw, 0, rec.position, rec.position + len(rec.raw) + BLANK_SIZE)
    assert isinstance(found, Record), rec
    return found


class Files:
    """The files of one log, written with `pwrite` into the inodes that readers have open."""

    def __init__(self, store: Path, file_size: int, *, is_quiet: bool = False) -> None:
        """Take the files as they are.

        Args:
            store: the broker's storePathRootDir.
            file_size: bytes of each.
            is_quiet: writes go through a map that stays, as a broker's do, and nobody flushes: a
                page that is dirty already changes no time.
        """
        self.directory = store / names.COMMITLOG
        self.file_size = file_size
        self._is_quiet = is_quiet
        self._maps: dict[int, mmap.mmap] = {}

    @property
    def bases(self) -> list[int]:
        """Return the physical offsets of the files, oldest first."""
        if not self.directory.is_dir():
            return []
        return sorted(int(path.name) for path in self.directory.iterdir())

    def path(self, base: int) -> Path:
        """Return the file that begins there."""
        return self.directory / names.offset_file(base)

    def base_of(self, position: int) -> int:
        """Return where the file begins that has a physical offset."""
        return position - position % self.file_size

    def make(self, base: int) -> None:
        """Make a file of zeros if it is not there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.path(base).exists():
            with self.path(base).open("wb") as file:
                file.truncate(self.file_size)

    def write(self, position: int, data: bytes) -> None:
        """Write bytes of one file."""
        base = self.base_of(position)
        self.make(base)
        if self._is_quiet:
            self._map(base)[position - base : position - base + len(data)] = data
            return
        descriptor = os.open(self.path(base), os.O_RDWR)
        os.pwrite(descriptor, data, position - base)
        os.close(descriptor)
        self.touch(base)

    def _map(self, base: int) -> mmap.mmap:
        if base not in self._maps:
            with self.path(base).open("r+b") as file:
                self._maps[base] = mmap.mmap(file.fileno(), self.file_size)
        return self._maps[base]

    def unmap(self) -> None:
        """Give the maps back, as a process does that ends."""
        while self._maps:
            self._maps.popitem()[1].close()

    def _remove(self, base: int) -> None:
        self._maps.pop(base, None)
        self.path(base).unlink()

    def touch(self, base: int) -> None:
        """Make a file's time tell of a write.

        A broker flushes between two steps of a history: then each of them shows, though two that
        come within a tick of the clock, or in a file system in memory, would not.
        """
        now = time.time_ns()
        os.utime(self.path(base), ns=(now, now))

    def read(self, base: int) -> bytes:
        """Return a file's bytes, none where there is no file."""
        path = self.path(base)
        return path.read_bytes() if path.exists() else b""

    def remove_behind(self, position: int, kept: Sequence[int] = ()) -> None:
        """Remove the files that begin beyond a physical offset, but for some."""
        for base in self.bases:
            if base > position and base not in kept:
                self._remove(base)

    def remove_first(self, count: int, end: int) -> int:
        """Remove the oldest files, never one after which the log has nothing; how many went."""
        gone = [base for base in self.bases if base + self.file_size < end][:count]
        for base in gone:
            self._remove(base)
        return len(gone)

    def is_blank(self, position: int) -> bool:
        """Tell whether a BLANK stands at a physical offset, whatever its size."""
        head = self.read(self.base_of(position))[position - self.base_of(position) :][:BLANK_SIZE]
        return len(head) == BLANK_SIZE and _HEAD.unpack(head)[1] == MAGIC_BLANK

    def records(self, start: int, end: int) -> list[Rec]:
        """Return the records in [start, end), which is known to hold whole records only."""
        found = []
        base, data = -1, b""
        while start < end:
            if self.base_of(start) != base:
                base = self.base_of(start)
                data = self.read(base)
            at = start - base
            size, magic = _HEAD.unpack_from(data, at)
            if magic == MAGIC_BLANK:
                start = base + self.file_size
                continue
            assert size > 0, (start, end)
            found.append(Rec(start, data[at : at + size]))
            start += size
        return found

    def scan(self, start: int, version: str = "") -> tuple[list[Rec], int]:
        """Return the records that line up from a position on.

        Args:
            start: physical offset.
            version: of the broker whose recovery sees them: it ends at what that cannot parse.

        Returns:
            The records, and where recovery takes the log to end.
        """
        found = []
        while True:
            base = self.base_of(start)
            data = self.read(base)
            at = start - base
            if len(data) - at < BLANK_SIZE:
                return found, start
            size, magic = _HEAD.unpack_from(data, at)
            if magic == MAGIC_BLANK:
                # Whatever its size: that is all a broker looks at.
                if not self.path(base + self.file_size).exists():
                    return found, start
                start = base + self.file_size
                continue
            _, record = read(data, at, start, base + self.file_size)
            if not isinstance(record, Record):
                return found, start
            if version and is_poison(record.topic, dict(record.properties), version):
                return found, start
            found.append(Rec(start, data[at : at + size]))
            start += size


def properties_of(text: str) -> dict[str, str]:
    """Return properties as a store reads them."""
    return properties.parse(text.encode())
