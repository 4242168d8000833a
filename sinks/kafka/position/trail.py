"""Which records were sent, one by one: to resume exactly where a log that was cut parts from them.

A position says up to where a store was sent. Where the log has changed since, that is not enough to
send the new records and none of the old ones again. So each transaction also has a digest of each
record that it went over, four bytes, in chunks: records of the progress topic with keys of their
own. Keys repeat in a ring, so compaction leaves the newest `SLOTS` chunks; only the points of the
position tell of what is older. The last chunk is written again, longer, until it is full.

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.rows.columns import RowColumns

_VERSION = 1
_HEAD = struct.Struct(">Bqqq")
_DIGEST = np.dtype(">u4")
_RECORDS = 1024
SLOTS = 4096
# Bytes of a record of the topic besides its digests: an upper bound, with a long key.
_AROUND = 600
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
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
    """The chunks of one store as they grow, from an opening on.

    What is added counts once `commit` is called; `forget` drops it.
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
        """Begin with a chunk that is not full, and has a new number."""
        self._last = last
        self._pending = []
        self.forget()

    def add(self, columns: RowColumns) -> None:
        """Add the records of a block."""
        self._added.append(digests_of(columns))

    def forget(self) -> None:
        """Drop what was added since the last commit."""
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
        """Make what was added part of the trail; what is not written yet comes again."""
        if self._made:
            self._pending = [] if is_written else [*self._pending, *self._made[:-1]]
            self._last = self._made[-1]
            if len(self._last.values) >= self._most and is_written:
                last = self._last
                self._last = Chunk(last.number + 1, last.end, last.end, last.values[:0])
        self.forget()
