"""The commitlog of what is kept: records as a broker writes them, in files of 16 MiB.

Its physical offsets begin at 2^60, where no broker's log comes: an offset tells which log it is of.

What is appended is written, then flushed, and only then answered. After a crash the last append
may be there in part: what follows the last whole record is made zeros again. The records of one
append have the same store timestamp, later than all before. So records of two appends after a
place that is not a record say that it is not what a crash leaves: that is an error.

No checksum covers a record's topic and properties. What a crash leaves out of them is zeros, so a
record with a zero there is not whole, and a message that has one itself is not taken.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints.disk import appending, changes
from reput.formats.errors import FormatError
from reput.formats.rocketmq import commitlog, names
from reput.formats.rocketmq.commitlog import MAGIC_V1, MAGIC_V2, Record, Verdict
from reput.formats.rocketmq.encode import encode, encode_blank, fits
from reput.stores.log.records import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.encode import Message

FIRST = 1 << 60
FILE_SIZE = 16 << 20
_MAGICS = tuple(struct.pack(">i", magic) for magic in (MAGIC_V1, MAGIC_V2))
_REMEDY = "Restore the file; or move the directory away to begin without what is kept in it"


class Placed(NamedTuple):
    """A message that stands in the log."""

    message: Message
    position: int
    size: int


class KeptLog:
    """The files. One thread appends.

    Attributes:
        end: the physical offset after the last record.
        bases: where the files begin, in order.
    """

    def __init__(
        self, directory: Path, visit: Callable[[Record], None], file_size: int = FILE_SIZE
    ) -> None:
        """Read all that is there, and make the first file if there is none.

        Args:
            directory: `commitlog` of the store.
            visit: gets each record in order.
            file_size: bytes of each file; a power of two.

        Raises:
            FormatError: a record is damaged.
            OSError: a file cannot be read or made.
        """
        self._directory = directory
        self._file_size = file_size
        self._is_clean = True
        self._stored_at = 0
        for above in changes.make_directories(directory):
            changes.sync_directory(above)
        found = (names.parse_offset_file(path.name) for path in directory.iterdir())
        self.bases = sorted(base for base in found if base is not None)
        self._drop_unmade()
        self.cut = 0
        """Bytes of an append that a crash had left in part."""
        self.end = self.bases[0] if self.bases else FIRST
        if not self.bases:
            self._begin_file(FIRST)
        self._recover(visit)

    def path(self, base: int) -> Path:
        """Return the file that begins at a physical offset."""
        return self._directory / names.offset_file(base)

    def base_of(self, position: int) -> int:
        """Return where the file of a physical offset begins."""
        return position - position % self._file_size

    def record_at(self, position: int, size: int) -> Record:
        """Return a record of this log.

        Raises:
            FormatError: it is damaged.
            OSError: it cannot be read.
        """
        base = self.base_of(position)
        with self.path(base).open("rb") as file:
            file.seek(position - base)
            raw = file.read(size)
        verdict, record = commitlog.read(raw, 0, position, base + self._file_size)
        if not isinstance(record, Record):
            raise FormatError(self.path(base), position - base, verdict.explanation, _REMEDY)
        return record

    def append(self, messages: Sequence[Message], now_ms: int) -> list[Placed]:
        """Write messages one after the other, and have them on disk.

        Args:
            messages: with their queues and queue offsets.
            now_ms: the time; all of them get it, or a later one.

        Returns:
            Where they stand, and what they have become.

        Raises:
            ValueError: one does not fit into a record, or has a zero in its topic or properties;
                nothing is written.
            OSError: no space, or the disk failed; nothing counts as written.
        """
        stamp = max(now_ms, self._stored_at + 1)
        placed, pieces = [], []
        at = self.end
        for message in messages:
            stamped = message._replace(store_timestamp=stamp)
            raw = encode(stamped, at)
            left = self._file_size - at % self._file_size
            if not fits(len(raw), left):
                pieces.append(encode_blank(left))
                at += left
                raw = encode(stamped, at)
            if not fits(len(raw), self._file_size):
                raise ValueError(f"a record of {len(raw)} bytes does not fit into a file")
            if _has_zero(raw):
                raise ValueError("a zero byte in the topic or in a property")
            placed.append(Placed(stamped, at, len(raw)))
            pieces.append(raw)
            at += len(raw)
        self._write(b"".join(pieces))
        self.end, self._stored_at = at, stamp
        return placed

    def _write(self, data: bytes) -> None:
        if not self._is_clean:
            self._clear()
        self._is_clean = False
        at, left = self.end, memoryview(data)
        while left:
            base = self.base_of(at)
            if base not in self.bases:
                self._begin_file(base)
            room = self._file_size - (at - base)
            appending.write_into(self.path(base), at - base, bytes(left[:room]))
            at, left = at + len(left[:room]), left[room:]
        self._is_clean = True

    def _clear(self) -> None:
        """Make what follows the end zeros again: an append has failed."""
        for base in self.bases:
            if base + self._file_size > self.end:
                self.cut += changes.clear(self.path(base), max(self.end - base, 0))
                appending.sync_file(self.path(base))
        self._is_clean = True

    def take_back(self, end: int) -> None:
        """Remove the records from a physical offset on, the last ones that were appended.

        Raises:
            OSError: the disk failed; the next append tries it again.
        """
        self.end, self._is_clean = end, False
        self._clear()

    def _drop_unmade(self) -> None:
        """Remove the last file if it was never made whole: there was no space for it, or a kill."""
        if self.bases:
            path = self.path(self.bases[-1])
            if not path.stat().st_size:
                changes.remove_file(path)
                changes.sync_directory(self._directory)
                del self.bases[-1]

    def _begin_file(self, base: int) -> None:
        appending.make_full_file(self.path(base), self._file_size)
        changes.sync_directory(self._directory)
        self.bases.append(base)

    def remove_first(self) -> None:
        """Remove the oldest file.

        Raises:
            OSError: it cannot be removed.
        """
        changes.remove_file(self.path(self.bases[0]))
        changes.sync_directory(self._directory)
        del self.bases[0]

    def _recover(self, visit: Callable[[Record], None]) -> None:
        for number, base in enumerate(self.bases):
            if base != self.bases[0] + number * self._file_size:
                missing = self.path(self.bases[0] + number * self._file_size)
                raise FormatError(missing, 0, "the file is not there", _REMEDY)
        for base in list(self.bases):
            data = self.path(base).read_bytes().ljust(self._file_size, b"\0")
            verdict = self._walk(data, base, visit)
            if verdict != Verdict.ROLL:
                break
        rest = self._rest()
        stamps = {each.store_timestamp for each in self._records_in(rest)}
        if len(stamps) > 1:
            base = self.base_of(self.end)
            found = f"{verdict.explanation}, and records follow"
            raise FormatError(self.path(base), self.end - base, found, _REMEDY)
        self._clear()

    def _walk(self, data: bytes, base: int, visit: Callable[[Record], None]) -> Verdict:
        """Visit the records of a file; return what ends them."""
        at = 0
        while True:
            verdict, found = commitlog.read(data, at, base + at, base + self._file_size)
            if isinstance(found, Record) and _has_zero(data[at : at + found.size]):
                return Verdict.SHORT
            if isinstance(found, Record):
                visit(found)
                self._stored_at = found.store_timestamp
                at += found.size
                self.end = base + at
                continue
            if verdict == Verdict.ROLL:
                self.end = base + self._file_size
            return verdict

    def _rest(self) -> bytes:
        pieces = []
        for base in self.bases:
            if base + self._file_size > self.end:
                data = self.path(base).read_bytes().ljust(self._file_size, b"\0")
                pieces.append(data[max(self.end - base, 0) :])
        return b"".join(pieces)

    def _records_in(self, rest: bytes) -> Iterator[Record]:
        """Yield whole records wherever they stand in what follows the end."""
        if not rest.strip(b"\0"):
            return
        for magic in _MAGICS:
            at = rest.find(magic)
            while at >= 0:
                position = self.end + at - len(magic)
                stop = self.base_of(position) + self._file_size
                if at >= len(magic):
                    found = commitlog.read(rest, at - len(magic), position, stop)[1]
                    if isinstance(found, Record):
                        yield found
                at = rest.find(magic, at + 1)


def _has_zero(raw: bytes) -> bool:
    """Tell whether a zero byte stands in the topic or the properties of a record."""
    return any(0 in text for text in texts_of(raw))
