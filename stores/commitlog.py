"""The files of a commitlog: finding them, reading them, and where in them a record begins.

All reading is `pread` into memory of our own: a file that is cut or replaced under us then gives
fewer bytes, which is an answer, where a mapping would give a SIGBUS, which is none.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from formats import frames, names
from formats.commitlog import MIN_SIZE, Verdict
from formats.errors import FormatError, ReputError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.broker import BrokerSettings
    from formats.memory import Bytes

# Kernels load whole vectors: so many bytes must be readable on either side of what is read.
PAD = 128
_FIRST_STEP = 256 << 10
_STEP = 16 << 20
_OPEN_FILES = 64
_DLEDGER_PREFIX = "dledger-"


class LogChangedError(ReputError):
    """A file went while it was to be read: it has expired, or its broker has cut the log."""


class CommitLog:
    """The commitlog of one store, as it is now; `refresh` looks again."""

    def __init__(self, directories: Sequence[Path], settings: BrokerSettings) -> None:
        """Look at the files.

        Args:
            directories: where they stand; several when the broker has several paths.
            settings: file size, how records are read.

        Raises:
            StoreError: there is none, or a file that is none of a commitlog's, or a gap.
        """
        self.directories = list(directories)
        self.settings = settings
        self.file_size = settings.commitlog_file_size
        rules = settings.read_rules
        self.rules = (
            (frames.CHECK_BODY_CRC if rules.checks_body_crc else 0)
            | (frames.CHECK_PROPERTY_CRC if rules.checks_property_crc else 0)
            | (frames.REQUIRE_PROPERTY_CRC if rules.requires_property_crc else 0)
            | (frames.ACCEPT_V2 if rules.accepts_v2 else 0)
        )
        self._open: dict[int, int] = {}
        self._files: dict[int, Path] = {}
        self._inodes: dict[int, tuple[int, int]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the files again: new ones come, old ones expire."""
        found: dict[int, Path] = {}
        inodes: dict[int, tuple[int, int]] = {}
        for directory in self.directories:
            for base, (path, inode) in self._files_in(directory).items():
                found[base] = path
                inodes[base] = inode
        if not found:
            where = ", ".join(str(d) for d in self.directories)
            raise StoreError(
                where,
                "no commitlog file is here",
                "Point --store at a broker's storePathRootDir, the directory that holds commitlog/",
            )
        bases = sorted(found)
        for before, after in pairwise(bases):
            if after != before + self.file_size:
                raise StoreError(
                    found[before],
                    f"the next file is {names.offset_file(after)}, "
                    f"expected {names.offset_file(before + self.file_size)}",
                    "A file in between is missing; restore it, or set mappedFileSizeCommitLog "
                    "in --broker-conf if the files have another size",
                )
        # A file that was removed and made anew has the old one's name only.
        for base in [b for b in self._open if inodes.get(b) != self._inodes.get(b)]:
            os.close(self._open.pop(base))
        self._files = {base: found[base] for base in bases}
        self._inodes = inodes

    def _files_in(self, directory: Path) -> dict[int, tuple[Path, tuple[int, int]]]:
        files: dict[int, tuple[Path, tuple[int, int]]] = {}
        try:
            entries = sorted(directory.iterdir())
        except FileNotFoundError:
            return files
        for path in entries:
            base = names.parse_offset_file(path.name)
            if path.is_dir():
                continue
            # Its end has to be a Java long as well.
            if base is None or base + self.file_size >= 1 << 63:
                raise StoreError(
                    path, "not the name of a commitlog file", "Move it away; no broker wrote it"
                )
            try:
                stat = path.stat()
            except FileNotFoundError:
                # It went between the two looks.
                continue
            size = stat.st_size
            if size == 0:
                continue
            if size != self.file_size or base % self.file_size:
                raise FormatError(
                    path,
                    size,
                    f"the file ends here, expected {self.file_size} bytes",
                    "Restore it from the broker, or give the broker's mappedFileSizeCommitLog "
                    "in --broker-conf.",
                )
            files[base] = path, (stat.st_dev, stat.st_ino)
        return files

    @property
    def bases(self) -> list[int]:
        """Return the physical offsets where files begin, in order."""
        return list(self._files)

    @property
    def min_offset(self) -> int:
        """Return the first physical offset that is still there."""
        return self.bases[0]

    @property
    def end_of_files(self) -> int:
        """Return the physical offset behind the last file, written or not."""
        return self.bases[-1] + self.file_size

    def file_of(self, position: int) -> tuple[Path, int]:
        """Return the file that holds a physical offset, and the byte in it: for messages.

        A position behind all files is said to be at the last one's end.
        """
        base = self.base_of(position)
        if base not in self._files:
            last = self.bases[-1]
            return self._files[last], position - last
        return self._files[base], position - base

    def base_of(self, position: int) -> int:
        """Return where the file of a physical offset begins."""
        return position - position % self.file_size

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Read bytes of one file; return how many it had.

        Raises:
            LogChangedError: the file is not there any more.
            OSError: the device failed.
        """
        base = self.base_of(position)
        wanted = min(len(buffer), base + self.file_size - position)
        got = 0
        while got < wanted:
            part = buffer[got:wanted]
            descriptor = self._descriptor(base)
            try:
                count = os.preadv(descriptor, [part], position - base + got)
            except OSError as error:
                path, _ = self.file_of(base)
                raise OSError(error.errno, error.strerror, str(path)) from error
            if count == 0:
                break
            got += count
        return got

    def _descriptor(self, base: int) -> int:
        known = self._open.get(base)
        if known is not None:
            return known
        path = self._files.get(base)
        if path is None:
            raise self._gone(base)
        while len(self._open) >= _OPEN_FILES:
            os.close(self._open.pop(next(iter(self._open))))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise self._gone(base) from error
        # Two parsers may get here at once; the second one's descriptor is one too many.
        first = self._open.setdefault(base, descriptor)
        if first != descriptor:
            os.close(descriptor)
        return first

    @staticmethod
    def _gone(base: int) -> LogChangedError:
        return LogChangedError(
            f"commitlog file {names.offset_file(base)} is not there: it has expired or was removed"
        )

    def read(self, position: int, length: int) -> Bytes:
        """Return bytes of one file from `position` on, with padding for kernels around them.

        Returns:
            An array whose byte `PAD` is the one at `position`, and that ends `PAD` bytes behind
            the last one read.
        """
        data = np.zeros(PAD + length + PAD, np.uint8)
        got = self.read_into(data.data[PAD : PAD + length], position)
        return data[: PAD + got + PAD]

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of [start, end), all in one file, a few at a time."""
        while start < end:
            piece = self.read(start, min(end - start, _STEP))[PAD:-PAD].tobytes()
            if not piece:
                return
            yield piece
            start += len(piece)

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open = {}

    def first_record(self, position: int) -> int:
        """Return where the first record (or BLANK, or the unwritten end) at or behind stands.

        A file's first byte is one. Elsewhere every place before `position` that looks like a
        record is considered: the true record that reaches to `position` or over it is one of
        them, so if only one reaches that far it is the true one. Where a message's body holds a
        forged record there are two; then the way is walked from the file's beginning.

        Raises:
            FormatError: on the walk, something that is no record.
        """
        base = self.base_of(position)
        if position <= self.min_offset:
            return self.min_offset
        if position == base:
            return position
        reaching = [end for _, end in self._seeming(position) if end >= position]
        if len(reaching) == 1:
            return reaching[0]
        return self.walk(base, position)

    def record_before(self, position: int) -> int | None:
        """Return where the record begins that ends at `position`, None if none does.

        Where a message's body holds a forged record with the same end, the outer one is meant.
        """
        return min(
            (start for start, end in self._seeming(position) if end == position), default=None
        )

    def timestamp_before(self, position: int) -> int:
        """Return the store timestamp of the record that ends at `position`, 0 for none, ms."""
        start = self.record_before(position)
        if start is None:
            return 0
        raw = self.read(start, position - start)
        rules = self.rules & frames.ACCEPT_V2
        file_end = self.base_of(start) + self.file_size
        verdict, _, at, *_ = frames.check(raw, PAD, len(raw) - PAD, start, file_end, rules)
        if verdict != Verdict.RECORD:
            return 0
        return int.from_bytes(raw[at : at + 8].tobytes(), "big")

    def _seeming(self, position: int) -> list[tuple[int, int]]:
        """Return begin and end of all that looks like a record (or BLANK) before `position`."""
        base = self.base_of(position)
        begin = max(base, position - self.settings.max_record_size)
        file_end = base + self.file_size
        # A record that begins just before is told from its first bytes, the shortest one's size.
        data = self.read(begin, position - begin + MIN_SIZE)
        limit = len(data) - PAD
        seeming = []
        at = PAD
        stop = PAD + position - begin
        rules = self.rules & frames.ACCEPT_V2
        while at < stop:
            at = int(frames.find_record(data, at, limit, begin + at - PAD, file_end, rules, stop))
            if at == frames.NO_POSITION:
                break
            start = begin + at - PAD
            seeming.append((start, start + int.from_bytes(data[at : at + 4].tobytes(), "big")))
            at += 1
        return seeming

    def walk(self, start: int, stop: int) -> int:
        """Go from the record at `start` to the first one at or behind `stop`; return its place.

        A BLANK's end and the unwritten end are places too. Both in one file.

        Raises:
            FormatError: something that is no record stands in the way.
        """
        verdict, position = self.hop(start, stop, self.rules & frames.ACCEPT_V2)
        if verdict == Verdict.ROLL:
            return self.base_of(position) + self.file_size
        if verdict not in {Verdict.RECORD, Verdict.END}:
            path, byte = self.file_of(position)
            raise FormatError(path, byte, verdict.explanation)
        return position

    def hop(self, start: int, stop: int, rules: int) -> tuple[Verdict, int]:
        """Go from record to record inside one file.

        Args:
            start: physical offset of a record.
            stop: physical offset.
            rules: see `frames.check`.

        Returns:
            RECORD and the first record at or behind `stop`, or what else stands where.
        """
        file_end = self.base_of(start) + self.file_size
        position = start
        step = _FIRST_STEP
        while position < stop:
            data = self.read(position, min(step, file_end - position))
            verdict, reached, _ = frames.hop(
                data, PAD, len(data) - PAD, position, file_end, rules, stop, 1 << 62
            )
            verdict = Verdict(verdict)
            # A record that is cut off by the end of the piece: read on from its beginning.
            if verdict != Verdict.SHORT or len(data) - 2 * PAD < min(step, file_end - position):
                return verdict, int(reached)
            # At a live tail nearly all that is read are zeros, behind a backlog nothing is.
            step = min(step * 4, _STEP) if reached > position else step * 4
            position = int(reached)
            if position + step >= file_end and step > self.file_size:
                return verdict, position
        return Verdict.RECORD, position


def commitlog_directories(store: Path, settings: BrokerSettings) -> list[Path]:
    """Return where the commitlog of a store stands.

    Raises:
        StoreError: no such store, or one whose log cannot be read.
    """
    if not store.is_dir():
        raise StoreError(store, "no such directory", "Give a broker's storePathRootDir")
    if settings.commitlog_paths:
        return [Path(path) for path in settings.commitlog_paths]
    directory = store / names.COMMITLOG
    if not directory.is_dir():
        if any(entry.name.startswith(_DLEDGER_PREFIX) for entry in store.iterdir()):
            raise StoreError(
                store,
                "a DLedger store (dledger-…): its log has entry headers between the records",
                "Only plain commitlogs can be dispatched",
            )
        raise StoreError(
            store,
            "no commitlog directory is here",
            "Point --store at a broker's storePathRootDir, the directory that holds commitlog/",
        )
    return [directory]
