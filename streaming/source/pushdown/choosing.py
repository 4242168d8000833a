"""Where the records are read from that a query's filters leave: the log, the queues or the index.

Each way gives ranges of the log which hold every record that may be wanted; the least bytes win.
How they are known to hold every one: `stores.query.coverage`.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.stores.query import coverage
from reput.stores.query.coverage import Queue, Range, TooManyEntriesError
from reput.streaming.source.no_such import no_such
from reput.streaming.source.pushdown.trust import trust_in
from reput.streaming.source.pushdown.wanted import ANY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.source.options import Store
    from reput.streaming.source.pushdown.wanted import Wanted

LOG = "commitlog"
QUEUES = "consume queues"
INDEX = "index"
# Reading on costs no more than beginning elsewhere, where a new batch of rows begins.
_NEAR = 1 << 20
# What that costs, in bytes that are read in that time.
_BEGINNING = 1 << 20
# The queues have to save half of the reading to be worth the planning.
_WORTH = 0.5
_QUEUE_OFFSET_AT = 20
_logger = logging.getLogger("reput.source")
_warnings = logging.getLogger("reput")


@dataclass(frozen=True)
class Choice:
    """What is read of a store, and why.

    Attributes:
        way: `LOG`, `QUEUES` or `INDEX`.
        ranges: of the log.
        first_is_record: a record begins where the first range does.
        bytes: of all ranges.
        whole: bytes of the log between the offsets of the query.
        reason: why it is not another way, empty for nothing to say.
    """

    way: str
    ranges: tuple[Range, ...]
    first_is_record: bool
    bytes: int
    whole: int
    reason: str = ""

    def describe(self, store: str, wanted: Wanted) -> str:
        """Return it as a line of a log."""
        what = " and ".join(wanted.filters) or "everything"
        line = (
            f"store {store}: {what}: by the {self.way}, {self.bytes:,} of {self.whole:,} bytes in "
            f"{len(self.ranges):,} ranges"
        )
        return f"{line} ({self.reason})" if self.reason else line


class _Candidate(NamedTuple):
    way: str
    ranges: list[Range]
    reading: int


def choose(
    store: Store,
    log: CommitLog,
    start: int,
    end: int,
    wanted: Wanted,
    *,
    is_record: bool,
    never_cut: bool = False,
) -> Choice:
    """Return what to read for the records that start in [`start`, `end`) and are wanted.

    Args:
        store: which.
        log: its log.
        start: physical offset.
        end: physical offset.
        wanted: by the filters.
        is_record: a record begins at `start`.
        never_cut: the user says that the log's broker never cut it.
    """
    whole = end - start
    span = wanted.possible_offsets
    # A record need not begin at an offset of the user's choice.
    begin, stop = max(start, span.low), min(end, span.high + 1)
    if begin >= stop or (wanted.stores is not None and store.shown_name not in wanted.stores):
        return Choice(LOG, (), first_is_record=True, bytes=0, whole=whole, reason="nothing is left")
    is_record = is_record and begin == start
    all_of_it = _Candidate(LOG, [Range(begin, stop)], stop - begin)
    found, reason = _other_ways(store, log, Range(begin, stop), wanted, never_cut=never_cut)
    best = min((all_of_it, *found), key=lambda candidate: candidate.reading)
    ranges = tuple(best.ranges)
    if best.way != LOG:
        # These ranges begin with records, except one that begins where the query does.
        is_record = is_record or not ranges or ranges[0].start != begin
    total = sum(end - start for start, end in ranges)
    return Choice(best.way, ranges, is_record, total, whole, reason)


def _other_ways(
    store: Store, log: CommitLog, part: Range, wanted: Wanted, *, never_cut: bool
) -> tuple[list[_Candidate], str]:
    """Return the ways other than by the log, and why one of them is missing."""
    if wanted.topics is None:
        return [], "no topic is named"
    if store.settings.multi_dispatch:
        return [], "with enableMultiDispatch queues hold records of other topics"
    if part.end - part.start <= _NEAR:
        return [], ""
    return _by_files(store, log, part, wanted, never_cut=never_cut)


def _by_files(
    store: Store, log: CommitLog, part: Range, wanted: Wanted, *, never_cut: bool
) -> tuple[list[_Candidate], str]:
    """Return the ways by the queues and by the index, and why one of them is missing."""
    root = store.output or store.path
    trust = trust_in(root, log, part.end, never_cut=never_cut)
    try:
        # The index first: what is dispatched meanwhile is found in the queues.
        hits = _hits(root, store, wanted) if trust.indexed > part.start else None
        queues = coverage.read_queues(root, part.start, part.end)
        if not queues:
            return [], "there is no consume queue"
        stop = trust.queues
        if stop is None:
            queues, stop = coverage.settled(queues, log, is_closed=trust.is_closed)
        stop = min(stop, part.end)
        if stop <= part.start:
            return [], trust.reason or "what is read may not be dispatched yet"
        queues = coverage.before(queues, stop)
        gaps = coverage.gaps_of(queues, log, part.start, stop)
    except TooManyEntriesError:
        return [], "the queues have too many entries"
    if gaps is None:
        return [], "the consume queues do not fit the log"
    # From there on, the log itself is read.
    gaps += [Range(stop, part.end)] if stop < part.end else []
    entries = sum(len(queue.offset) for queue in queues) * ENTRY_SIZE
    offset, size = _entries(queues, log, wanted, part)
    found = [_candidate(QUEUES, offset, size, gaps, entries)]
    if hits is not None:
        known = _known_by(hits, offset, trust.indexed)
        found.append(_candidate(INDEX, offset[known], size[known], gaps, entries))
    worth = [c for c in found if c.reading < _WORTH * (part.end - part.start)]
    reason = trust.reason if wanted.indexed() is not None else ""
    if not gaps and not len(offset):
        # Perhaps a typing error, which gives no rows and no error.
        reason = "; ".join(filter(None, [_no_such_topic(store.shown_name, root, wanted), reason]))
    told = "" if worth else "most of it is wanted, or is in no queue"
    return worth, "; ".join(filter(None, [told, reason]))


def _known_by(
    hits: coverage.IndexHits, offset: NDArray[np.int64], indexed: int
) -> NDArray[np.bool_]:
    """Tell which records to read by the index: its hits, and all where it says nothing."""
    known: NDArray[np.bool_] = np.isin(offset, np.array(hits.offsets, np.int64))
    reached = min(hits.reach.end, indexed)
    return known | (offset < hits.reach.start) | (offset >= reached)


def _no_such_topic(name: str, root: Path, wanted: Wanted) -> str:
    """Return that no named topic has queues, and which topics have; "" if one has."""
    kinds = (root / names.CONSUMEQUEUE, root / names.BATCH_CONSUMEQUEUE)
    known = {path.name for kind in kinds if kind.is_dir() for path in kind.iterdir()}
    topics = sorted(wanted.topics or ())
    if not topics or not known.isdisjoint(topics):
        return ""
    text = no_such("topic", topics[0], known, "there is no queue")
    _warnings.warning("store %s: %s", name, text)
    return text


def _hits(root: Path, store: Store, wanted: Wanted) -> coverage.IndexHits | None:
    indexed = wanted.indexed()
    if indexed is None or wanted.topics is None:
        return None
    words, offsets = indexed
    hits = coverage.find_hits(root, store.settings, wanted.topics, words)
    return hits and hits._replace(offsets=sorted({*hits.offsets, *offsets}))


def _entries(
    queues: list[Queue], log: CommitLog, wanted: Wanted, part: Range
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return physical offset and size of a part's entries that are wanted, in the log's order."""
    topics = wanted.topics or frozenset()
    mine = [
        _cut(queue, log, wanted)
        for queue in queues
        if queue.topic in topics and queue.queue_id in wanted.queue_ids
    ]
    offset = np.concatenate([queue.offset for queue in mine] or [np.zeros(0, np.int64)])
    size = np.concatenate([queue.size for queue in mine] or [np.zeros(0, np.int64)])
    order = np.argsort(offset, kind="stable")
    order = order[(offset[order] >= part.start) & (offset[order] < part.end)]
    return offset[order], size[order]


def _cut(queue: Queue, log: CommitLog, wanted: Wanted) -> Queue:
    """Return the entries with the queue offsets that are wanted.

    An entry's number is its record's queue offset, or below it if offsets are missing in the log:
    so the end can be cut, except for an offset of 0, which is put at any number. The beginning can
    be cut only if number and offset are equal at both ends: offsets rise along a queue.
    """
    span = wanted.queue_offsets
    if span == ANY or queue.is_batch or not len(queue.number):
        return queue
    first, last = np.searchsorted(queue.number, [span.low, span.high + 1])
    rises = bool((np.diff(queue.offset) > 0).all() and (np.diff(queue.number) > 0).all())
    if not rises or not _is_numbered(queue, log, (0, int(first) - 1, len(queue.number) - 1)):
        first = 0
    if not rises or 0 in span:
        last = len(queue.number)
    kept = slice(int(first), int(last))
    return queue._replace(
        number=queue.number[kept], offset=queue.offset[kept], size=queue.size[kept]
    )


def _is_numbered(queue: Queue, log: CommitLog, entries: Iterable[int]) -> bool:
    """Tell whether the records of these entries have the entries' numbers."""
    for entry in entries:
        if entry < 0:
            continue
        offset = int(queue.offset[entry])
        if offset < log.min_offset:
            return False
        head = log.bytes_at(offset + _QUEUE_OFFSET_AT, 8)
        if int.from_bytes(head, "big", signed=True) != int(queue.number[entry]):
            return False
    return True


def _candidate(
    way: str,
    offset: NDArray[np.int64],
    size: NDArray[np.int64],
    gaps: list[Range],
    entries: int,
) -> _Candidate:
    ends = offset + size
    starts = np.concatenate([offset, np.array([gap.start for gap in gaps], np.int64)])
    ends = np.concatenate([ends, np.array([gap.end for gap in gaps], np.int64)])
    order = np.argsort(starts, kind="stable")
    ranges = list(_merged(starts[order], ends[order]))
    reading = sum(end - start for start, end in ranges)
    return _Candidate(way, ranges, entries + reading + _BEGINNING * len(ranges))


def _merged(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[Range]:
    """Yield ranges with what lies between near ones."""
    if not len(starts):
        return
    reached = np.maximum.accumulate(ends)
    (cuts,) = np.nonzero(starts[1:] - reached[:-1] > _NEAR)
    firsts = np.concatenate([[0], cuts + 1])
    lasts = np.concatenate([cuts, [len(starts) - 1]])
    for first, last in zip(firsts, lasts, strict=True):
        yield Range(int(starts[first]), int(reached[last]))


def announce(store: str, choice: Choice, wanted: Wanted, *, aloud: bool) -> None:
    """Log what was chosen.

    Args:
        store: its name.
        choice: what is read.
        wanted: by the filters.
        aloud: on standard error too: Spark plans in a process without log handlers.
    """
    line = choice.describe(store, wanted)
    _logger.info("%s", line)
    if aloud:
        print(f"reput: {line}", file=sys.stderr, flush=True)  # noqa: T201 - in a program of the user's, where nobody has set up a log
