"""Where in a commitlog a record begins: going from record to record with kernels."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import FormatError
from reput.formats.rocketmq.commitlog import (
    ACCEPT_V2,
    BLANK_HEAD,
    BLANK_SIZE,
    MAGIC_BLANK,
    MIN_SIZE,
    Verdict,
)
from reput.stores.lazy import lazy_module
from reput.stores.log.files import LogChangedError, LogFiles
from reput.stores.log.places import commitlog_directories

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reput.formats.kernels import frames
    from reput.formats.kernels.memory import Bytes
    from reput.formats.rocketmq.broker import BrokerSettings
else:
    # It brings the compiler, which is not needed to see whether something is new.
    frames = lazy_module("reput.formats.kernels.frames")

__all__ = ["PAD", "CommitLog", "LogChangedError", "commitlog_directories"]

# Kernels load whole vectors: this many bytes must be readable on either side of what is read.
PAD = 128
_FIRST_STEP = 256 << 10
_SIZE_BYTES = 4
_STEP = 16 << 20


class Chain(NamedTuple):
    """Records that follow one another in a file.

    Attributes:
        verdict: of what stands after them.
        reached: its physical offset.
        last: where the last of them begins, physical offset; None if there is none.
        proven: physical offset up to which each is followed by one that is not older: a broker
            writes a record only once the one before is whole.
    """

    verdict: Verdict
    reached: int
    last: int | None
    proven: int


class CommitLog(LogFiles):
    """The commitlog of one store as it is now; `refresh` looks again."""

    def __init__(
        self, directories: Sequence[Path], settings: BrokerSettings, store: Path | None = None
    ) -> None:
        """Look at the files; see `LogFiles`.

        Args:
            directories: where they stand.
            settings: file size, how records are read.
            store: the broker's storePathRootDir, whose lock tells whether a broker writes.
        """
        super().__init__(directories, settings, store)
        self.rules = settings.read_rules.bits

    def read(self, position: int, length: int) -> Bytes:
        """Return bytes of one file from `position` on, with padding for kernels around them.

        Returns:
            An array whose byte `PAD` is the one at `position`, and that ends `PAD` bytes after
            the last one read.
        """
        data = np.zeros(PAD + length + PAD, np.uint8)
        got = self.read_into(data.data[PAD : PAD + length], position)
        return data[: PAD + got + PAD]

    def is_blank(self, position: int) -> bool:
        """Tell whether a BLANK stands at a physical offset, which ends its file.

        Raises:
            LogChangedError: the file is gone.
        """
        left = self.base_of(position) + self.file_size - position
        return self.bytes_at(position, BLANK_SIZE) == BLANK_HEAD.pack(left, MAGIC_BLANK)

    def after_blank(self, position: int) -> int:
        """Return the next file's beginning where a BLANK stands: no record starts before it.

        As long as that file is not there a broker may still write over the BLANK: its recovery
        takes the log's end to be there. A position that has expired, or is in a file that is not
        there, is returned as it is.

        Raises:
            LogChangedError: the file is gone.
        """
        if position < self.min_offset or self.damage_at(position) is not None:
            return position
        file_end = self.base_of(position) + self.file_size
        is_over = file_end < self.end_of_files and self.is_blank(position)
        return file_end if is_over else position

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of [start, end), all in one file, a few at a time."""
        while start < end:
            piece = self.read(start, min(end - start, _STEP))[PAD:-PAD].tobytes()
            if not piece:
                return
            yield piece
            start += len(piece)

    def first_record(self, position: int) -> int:
        """Return where the first record (or BLANK, or unwritten end) stands at or after a place.

        A file's first byte is one. Elsewhere every place before `position` that looks like a
        record is considered: the true record that reaches to `position` or over it is one of
        them, so if only one reaches that far it is the true one. Where a message's body holds a
        forged record there are two; then the way is walked from the file's beginning.

        Raises:
            FormatError: on the walk, something that is not a record.
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
        return self._timestamp(start, position - start) if start is not None else 0

    def timestamp_at(self, position: int) -> int:
        """Return the store timestamp of the record that begins at `position`, 0 for none, ms.

        A BLANK there is skipped: then the record that begins the next file counts.
        """
        if self.is_blank(position):
            position = self.base_of(position) + self.file_size
        size = int.from_bytes(self.bytes_at(position, _SIZE_BYTES), "big")
        return self._timestamp(position, min(size, self.settings.max_record_size))

    def _timestamp(self, start: int, length: int) -> int:
        raw = self.read(start, length)
        rules = self.rules & ACCEPT_V2
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
        rules = self.rules & ACCEPT_V2
        while at < stop:
            at = int(frames.find_record(data, at, limit, begin + at - PAD, file_end, rules, stop))
            if at == frames.NO_POSITION:
                break
            start = begin + at - PAD
            seeming.append((start, start + int.from_bytes(data[at : at + 4].tobytes(), "big")))
            at += 1
        return seeming

    def walk(self, start: int, stop: int) -> int:
        """Go from the record at `start` to the first one at or after `stop`; return its place.

        A BLANK's end and the unwritten end are places too. Both in one file.

        Raises:
            FormatError: something that is not a record stands in the way.
        """
        verdict, position = self.hop(start, stop, self.rules & ACCEPT_V2)
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
            RECORD and the first record at or after `stop`, or what else stands where.
        """
        chain = self.chain(start, stop, rules)
        return chain.verdict, chain.reached

    def chain(self, start: int, stop: int, rules: int, step: int = _FIRST_STEP) -> Chain:
        """Go from record to record inside one file as `hop`, and note what was met.

        Args:
            start: physical offset of a record.
            stop: physical offset.
            rules: see `frames.check`.
            step: bytes to read at first.
        """
        file_end = self.base_of(start) + self.file_size
        met = np.array([frames.NO_POSITION, start, 0], np.int64)
        verdict, position = Verdict.RECORD, start
        while position < stop:
            wanted = min(step, file_end - position)
            data = self.read(position, wanted)
            code, reached = frames.chain(
                data, PAD, len(data) - PAD, position, file_end, rules, stop, met
            )
            verdict = Verdict(code)
            # At a live tail nearly all bytes are zeros; after a backlog none are.
            step = min(step * 4, _STEP) if reached > position else step * 4
            position = int(reached)
            # A record that is cut away by the end of the piece: read on from its beginning.
            if verdict != Verdict.SHORT or len(data) - 2 * PAD < wanted:
                break
            if position + step >= file_end and step > self.file_size:
                break
        last, proven, _ = met.tolist()
        return Chain(verdict, position, None if last == frames.NO_POSITION else last, proven)


def active_file(log: CommitLog) -> int:
    """Return the beginning of the last file with anything in it: brokers make files ahead."""
    for base in reversed(log.bases):
        # A broker that starts removes what was made ahead, and one that cuts its log what was cut.
        with contextlib.suppress(LogChangedError):
            if log.read(base, BLANK_SIZE)[PAD : PAD + BLANK_SIZE].any():
                return base
    return log.min_offset
