"""Which records were sent, one by one: to go on exactly where a log that was cut parts from that.

A position says up to where a store was sent; where the log is another one since, that is not enough
to send the new records and none of the old ones again. So each transaction also has a digest of
each record that it went over, four bytes, in chunks: records of the progress topic with keys of
their own. Keys are used again in a ring, so compaction leaves the newest `SLOTS` chunks; what is
older is known only by the points of the position. The last chunk is written again, longer, until
it is full.

====== ======= ===========================================================
offset size    field of a chunk, big-endian
====== ======= ===========================================================
     0 1       version, 1
     1 8       number, from 1 on
     9 8       physical offset where its first record begins, or before it
    17 8       physical offset where the next chunk begins
    25 4 * n   digests of its records
====== ======= ===========================================================
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import FormatError
from reput.sinks.kafka.messages.blocks import RowReader
from reput.stores.log.commitlog import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from reput.formats.rows.columns import RowColumns
    from reput.stores.log.commitlog import CommitLog

_VERSION = 1
_HEAD = struct.Struct(">Bqqq")
_DIGEST = np.dtype(">u4")
_RECORDS = 1024
SLOTS = 4096
# Bytes of a record of the topic besides its digests: an upper bound, with a long key.
_AROUND = 600
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_BLOCK_BYTES = 4 << 20
_COLUMNS = ("size", "queue_id", "queue_offset", "sys_flag", "body_crc", "born_timestamp",
            "store_timestamp", "reconsume_times")  # fmt: skip


class Digests(NamedTuple):
    """Records of a log.

    Attributes:
        offsets: physical offsets where they begin, of shape (n,).
        values: their digests, of shape (n,).
    """

    offsets: NDArray[np.int64]
    values: NDArray[np.uint32]


def digests_of(columns: RowColumns) -> Digests:
    """Return the digests of a block's records; rows of one record, as of a batch, are one.

    A digest covers place, size, queue, times and body of a record, by its checksum.
    """
    offsets = columns.physical_offset
    rows = np.flatnonzero(np.diff(offsets, prepend=-1))
    state = offsets[rows].astype(np.uint64)
    for name in _COLUMNS:
        state ^= getattr(columns, name)[rows].astype(np.uint64)
        state *= _FACTOR
        state ^= state >> _HALF
    return Digests(offsets[rows].copy(), state.astype(np.uint32))


class Chunk(NamedTuple):
    """Digests of records that follow one another.

    Attributes:
        number: of the chunk.
        start: physical offset of its first record, or before it.
        end: physical offset where the next one begins.
        values: the digests.
    """

    number: int
    start: int
    end: int
    values: NDArray[np.uint32]

    def pack(self) -> bytes:
        """Return the record's value."""
        head = _HEAD.pack(_VERSION, self.number, self.start, self.end)
        return head + self.values.astype(_DIGEST).tobytes()

    @classmethod
    def unpack(cls, raw: bytes) -> Chunk | None:
        """Return what a record says, None if it is not a chunk of this version."""
        if len(raw) < _HEAD.size or raw[0] != _VERSION or (len(raw) - _HEAD.size) % 4:
            return None
        _, number, start, end = _HEAD.unpack_from(raw)
        values = np.frombuffer(raw, _DIGEST, offset=_HEAD.size).astype(np.uint32)
        return cls(number, start, end, values)


def key_of(transactional_id: str, number: int) -> bytes:
    """Return the key of a chunk; no transactional id has a line break."""
    return prefix_of(transactional_id) + str(number % SLOTS).encode()


def prefix_of(transactional_id: str) -> bytes:
    """Return what the keys of a store's chunks begin with."""
    return f"{transactional_id}\n".encode()


class Trail:
    """The chunks of one store as they grow, from an opening of its way to Kafka on.

    What is added counts once `commit` is called; `forget` takes it back.
    """

    def __init__(self, transactional_id: str, most_bytes: int) -> None:
        """Begin.

        Args:
            transactional_id: the store's.
            most_bytes: of a record of the topic.
        """
        self._id = transactional_id
        self._most = max(min(_RECORDS, (most_bytes - _AROUND) // _DIGEST.itemsize), 1)
        self._last = Chunk(0, 0, 0, np.zeros(0, np.uint32))
        # Complete and not in the topic yet, as their transaction was not worth a commit.
        self._pending: list[Chunk] = []
        self._made: list[Chunk] = []
        self._added: list[Digests] = []

    @property
    def held(self) -> list[Chunk]:
        """Return the chunks that may not be in the topic yet."""
        return [*self._pending, self._last]

    @property
    def number(self) -> int:
        """Return the number of the last chunk that was made."""
        return self._made[-1].number if self._made else self._last.number

    def begin(self, last: Chunk) -> None:
        """Begin with a chunk that is not full, and has a number that none has yet."""
        self._last = last
        self._pending = []
        self.forget()

    def add(self, columns: RowColumns) -> None:
        """Add the records of a block."""
        self._added.append(digests_of(columns))

    def forget(self) -> None:
        """Take back what was added since the last commit."""
        self._made, self._added = [], []

    def chunks(self, start: int, end: int) -> list[tuple[bytes, bytes]]:
        """Return key and value of the chunks to write with a position.

        Args:
            start: physical offset where the records that were added begin.
            end: physical offset where the next ones follow.
        """
        last = self._last
        if last.end != start:
            # Something in between has expired.
            last = Chunk(last.number + 1, start, start, last.values[:0])
        values = np.concatenate([last.values, *(each.values for each in self._added)])
        offsets = np.concatenate(
            [np.zeros(len(last.values), np.int64), *(each.offsets for each in self._added)]
        )
        made, first = [], last.start
        for number, at in enumerate(range(0, max(len(values), 1), self._most)):
            until = at + self._most
            stop = int(offsets[until]) if until < len(values) else end
            made.append(Chunk(last.number + number, first, stop, values[at:until]))
            first = stop
        self._made = made
        chunks = [*self._pending, *made]
        return [(key_of(self._id, each.number), each.pack()) for each in chunks]

    def commit(self, *, is_written: bool) -> None:
        """Take what was made as part of the trail; what is not written yet comes again."""
        if self._made:
            self._pending = [] if is_written else [*self._pending, *self._made[:-1]]
            self._last = self._made[-1]
            if len(self._last.values) >= self._most and is_written:
                last = self._last
                self._last = Chunk(last.number + 1, last.end, last.end, last.values[:0])
        self.forget()


class SentRecords(NamedTuple):
    """What is known of the records that were sent, up to the last one.

    Attributes:
        start: physical offset from which on all are known.
        values: their digests.
        borders: where chunks begin: physical offset, and number of the record.
    """

    start: int
    values: NDArray[np.uint32]
    borders: tuple[tuple[int, int], ...]

    def after(self, begin: int, digest: int | None = None) -> SentRecords:
        """Return what is left of it where the log begins only at `begin`.

        Args:
            begin: physical offset.
            digest: of the log's first record, by which it is found within a chunk; None if that is
                not known, or is not to be looked for.
        """
        left = [(at, number) for at, number in self.borders if at >= begin]
        expired = [number for at, number in self.borders if at < begin]
        if expired and digest is not None and not (left and left[0][0] == begin):
            stop = left[0][1] if left else len(self.values)
            found = np.flatnonzero(self.values[expired[-1] : stop] == digest)
            if len(found) == 1:
                left.insert(0, (begin, expired[-1] + int(found[0])))
        if not left:
            return SentRecords(begin, self.values[:0], ())
        start, first = left[0]
        borders = tuple((at, number - first) for at, number in left)
        return SentRecords(start, self.values[first:], borders)


def first_digest(log: CommitLog) -> int | None:
    """Return the digest of a log's first record, None if there is none to read."""
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    begin = log.min_offset
    try:
        for block in reader.blocks(begin, begin + 1, {}):
            values = digests_of(block.columns).values
            return int(values[0]) if len(values) else None
    except (FormatError, LogChangedError):
        # Then it is looked for from the next chunk on.
        return None
    return None


def first_newer(
    log: CommitLog, start: int, end: int, newest: int, gaps: Mapping[int, int]
) -> int | None:
    """Return the first record of a part of the log that is newer than all left-over ones after it.

    A broker that cuts its log erases nothing. Where its new records are as long as the old ones,
    records of before the cut follow them. The new ones were stored after all of these; and if the
    broker's clock has gone back, as at a change of master, they were born after that, by the clocks
    of the producers. To compare two born times says nothing: a delayed or repeated message keeps
    its own. Records out of order say nothing either: any clock is set back at times.

    Args:
        log: as it is now.
        start: physical offset of a record, or of a file's beginning.
        end: physical offset where the part ends.
        newest: see `Parting`.
        gaps: see `sinks.kafka.messages.blocks.RowReader`.

    Returns:
        Its physical offset; None if there is none, or something is in the way that is not a record.
    """
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    try:
        for block in reader.blocks(start, end, gaps):
            columns = block.columns
            last = np.maximum(columns.store_timestamp, columns.born_timestamp)
            found = np.flatnonzero(last > newest)
            if len(found):
                return int(columns.physical_offset[found[0]])
    except (FormatError, LogChangedError):
        return None
    return None


def last_newer(log: CommitLog, start: int, end: int, gaps: Mapping[int, int]) -> int | None:
    """Return the last record of a part of the log that was stored after all that follow it there.

    As `first_newer`, where nothing says which records are left over.

    Args:
        log: as it is now.
        start: physical offset of a record, or of a file's beginning.
        end: physical offset where the part ends.
        gaps: see `sinks.kafka.messages.blocks.RowReader`.

    Returns:
        Its physical offset; None if there is none, or something is in the way that is not a record.
    """
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    stored, offsets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    try:
        for block in reader.blocks(start, end, gaps):
            stored.append(block.columns.store_timestamp.copy())
            offsets.append(block.columns.physical_offset.copy())
    except (FormatError, LogChangedError):
        return None
    times = np.concatenate(stored)
    latest_after = np.maximum.accumulate(times[::-1])[::-1]
    found = np.flatnonzero(times[:-1] > latest_after[1:])
    return int(np.concatenate(offsets)[found[-1]]) if len(found) else None


def sent_until(chunks: Iterable[Chunk], end: int) -> SentRecords:
    """Return the records that were sent without a gap up to `end`.

    Args:
        chunks: what is in the topic, in any order; some may be of records that were cut since.
        end: physical offset of the position.
    """
    by_end: Mapping[int, Chunk] = {
        each.end: each
        for each in sorted(chunks, key=lambda chunk: chunk.number)
        if each.start < each.end
    }
    found: list[Chunk] = []
    start, below = end, 1 << 62
    while (chunk := by_end.get(start)) is not None and chunk.number < below:
        found.append(chunk)
        start, below = chunk.start, chunk.number
    found.reverse()
    counts = np.cumsum([0, *(len(each.values) for each in found)]).tolist()
    return SentRecords(
        start,
        np.concatenate([np.zeros(0, np.uint32), *(each.values for each in found)]),
        tuple((each.start, count) for each, count in zip(found, counts, strict=False)),
    )


class Parting(NamedTuple):
    """Where a log and what was sent of it part.

    Attributes:
        start: physical offset from which on they were compared.
        same: records that are the same from there on.
        end: physical offset after the last one of them.
        differs: a record stands there that was not sent; else the log only ends there.
        last: a chunk to go on with, of records before that.
        kept: physical offset where the last record ends that is the same; `end` may be after a
            BLANK that follows it.
        newest: the greatest store timestamp of the records that are the same, ms.
    """

    start: int
    same: int
    end: int
    differs: bool
    last: Chunk
    kept: int
    newest: int


def parting(
    log: CommitLog, sent: SentRecords, end: int, limit: int, gaps: Mapping[int, int], number: int
) -> Parting:
    """Return where a log parts from what was sent of it.

    Args:
        log: as it is now.
        sent: what was sent.
        end: physical offset up to which it was.
        limit: physical offset where the log's records end now.
        gaps: see `sinks.kafka.messages.blocks.RowReader`.
        number: of the last chunk that there is.
    """
    count, place, kept = 0, sent.start, sent.start
    newest = 0
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    is_same, differs = True, False
    try:
        for block in reader.blocks(sent.start, min(limit, end), gaps):
            now = digests_of(block.columns)
            then = sent.values[count : count + len(now.values)]
            differing = np.flatnonzero(now.values[: len(then)] != then)
            same = int(differing[0]) if len(differing) else len(then)
            count += same
            if same:
                columns = block.columns
                rows = np.flatnonzero(columns.physical_offset <= now.offsets[same - 1])
                kept = int(now.offsets[same - 1] + columns.size[rows[-1]])
                newest = max(newest, int(columns.store_timestamp[rows].max()))
            if same < len(now.values):
                is_same, differs, place = False, True, int(now.offsets[same])
                break
            place = block.reached
    except (FormatError, LogChangedError):
        # Whole records end here, whatever stands there now.
        is_same = False
    if is_same and count == len(sent.values):
        place = end
    start, first = max(((at, n) for at, n in sent.borders if n <= count), default=(place, count))
    last = Chunk(number + 1, start, place, sent.values[first:count])
    return Parting(sent.start, count, place, differs, last, kept, newest)
