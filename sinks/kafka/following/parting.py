"""Where a log parts from what was sent of it, by the digests of what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import FormatError
from reput.sinks.kafka.messages.blocks import RowReader
from reput.sinks.kafka.position.trail import Chunk, digests_of
from reput.stores.log.commitlog import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from reput.sinks.kafka.messages.blocks import RowBlock
    from reput.stores.log.commitlog import CommitLog

_BLOCK_BYTES = 4 << 20


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
                not known, or not looked for.
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
        # The next chunk's border is looked for then.
        return None
    return None


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
        last: the chunk to continue with, of records before that.
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
    common = _Common(sent)
    reader = RowReader(log, decompresses=False, block_bytes=_BLOCK_BYTES)
    is_whole = True
    try:
        for block in reader.blocks(sent.start, min(limit, end), gaps):
            common.compare(block)
            if common.differs:
                break
    except (FormatError, LogChangedError):
        # Whole records end here, whatever stands there now.
        is_whole = False
    count, place = common.count, common.place
    if is_whole and not common.differs and count == len(sent.values):
        place = end
    start, first = max(((at, n) for at, n in sent.borders if n <= count), default=(place, count))
    last = Chunk(number + 1, start, place, sent.values[first:count])
    return Parting(sent.start, count, place, common.differs, last, common.kept, common.newest)


class _Common:
    """What a log and the records that were sent have in common, block by block; see `Parting`."""

    def __init__(self, sent: SentRecords) -> None:
        self._sent = sent
        self.count, self.newest = 0, 0
        self.place = self.kept = sent.start
        self.differs = False

    def compare(self, block: RowBlock) -> None:
        """Compare the next block of the log."""
        now, columns = digests_of(block.columns), block.columns
        then = self._sent.values[self.count : self.count + len(now.values)]
        differing = np.flatnonzero(now.values[: len(then)] != then)
        same = int(differing[0]) if len(differing) else len(then)
        self.count += same
        if same:
            rows = np.flatnonzero(columns.physical_offset <= now.offsets[same - 1])
            self.kept = int(now.offsets[same - 1] + columns.size[rows[-1]])
            self.newest = max(self.newest, int(columns.store_timestamp[rows].max()))
        self.differs = same < len(now.values)
        self.place = int(now.offsets[same]) if self.differs else block.reached
