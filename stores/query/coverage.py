"""Tells which parts of a log may hold records of some queues or keys: the rest need not be read.

A consume queue names its records, but not every record is in a queue: those of a transaction that
is not committed, those that were put out of turn, those of a queue whose files are gone, those that
are not dispatched yet. So the reader takes all queues of the store. Their entries and the blanks at
files' ends fill the log, and what they leave is a *gap*, which it reads as well. Then nothing is
missed: a record has an entry in its own queue, or its bytes are in a gap. The queues of light
messages (`%LMQ%…`) do not count here, because they hold records of other topics.

The same holds for keys: a record that has an entry was indexed when it was dispatched, so it is a
hit, or in a gap, or past what the index reaches. This assumes that the index was never switched off
in between.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq import batchconsumequeue, consumequeue, indexfile, names
from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
)
from reput.stores.findings import Report
from reput.stores.log.commitlog import PAD
from reput.stores.log.records import read_record
from reput.stores.query.index_search import ALWAYS, IndexSearch
from reput.stores.reads import at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.log.commitlog import CommitLog

# About 1 GB while they are sorted; with more the log is read.
MAX_ENTRIES = 20_000_000
_MAX_GAPS = 10_000
# Entries that are read at once.
_PIECE = 4096
_ALL_HITS = 1_000_000
_LIGHT = "%LMQ%"


class Range(NamedTuple):
    """Records that start in [`start`, `end`), physical offsets; one begins at `start`."""

    start: int
    end: int


class Queue(NamedTuple):
    """The entries of one queue in a range of the log.

    Attributes:
        topic: its directory's.
        queue_id: likewise.
        number: of the entry in the queue.
        offset: physical offset.
        size: bytes.
        is_batch: entries are of several messages, so their number is not a queue offset.
    """

    topic: str
    queue_id: int
    number: NDArray[np.int64]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    is_batch: bool


class TooManyEntriesError(Exception):
    """More than `MAX_ENTRIES`."""


def read_queues(root: Path, start: int, end: int) -> list[Queue]:
    """Return the entries of all queues for records that end after `start` and start before `end`.

    Args:
        root: where `consumequeue/` is.
        start: physical offset.
        end: physical offset.

    Raises:
        TooManyEntriesError: the log is better read.
    """
    queues = []
    total = 0
    for kind, dtype in (
        (names.CONSUMEQUEUE, consumequeue.ENTRY),
        (names.BATCH_CONSUMEQUEUE, batchconsumequeue.UNIT),
    ):
        for directory, files in _queue_directories(root / kind):
            parts = [_read_file(path, base, dtype, start, end) for base, path in files]
            if not parts:
                continue
            number, offset, size = (np.concatenate(column) for column in zip(*parts, strict=True))
            total += len(number)
            if total > MAX_ENTRIES:
                raise TooManyEntriesError
            topic = str(directory.parent.relative_to(root / kind))
            is_batch = kind == names.BATCH_CONSUMEQUEUE
            queues.append(Queue(topic, int(directory.name), number, offset, size, is_batch))
    return queues


def _queue_directories(base: Path) -> Iterator[tuple[Path, list[tuple[int, Path]]]]:
    if not base.is_dir():
        return
    for directory in sorted(path for path in base.rglob("*") if path.name.isdecimal()):
        if not directory.is_dir():
            continue
        files = [
            (first, path)
            for path in directory.iterdir()
            if (first := names.parse_offset_file(path.name)) is not None
        ]
        if files:
            yield directory, sorted(files)


def _read_file(
    path: Path, base: int, dtype: np.dtype[np.void], start: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return number, physical offset and size of the entries in the range."""
    pieces = [np.zeros(0, dtype)]
    # It may have expired: its records are gaps, or are gone too.
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        # Most of a queue's last file is not written. What might stand after zeros is a gap.
        while not len(pieces[-1]) or pieces[-1]["size"][-1] != 0:
            piece = np.fromfile(file, dtype, _PIECE)
            if not len(piece):
                break
            pieces.append(piece)
    entries = np.concatenate(pieces)
    offset = entries["physical_offset"].astype(np.int64)
    size = entries["size"].astype(np.int64)
    is_entry = (size > 0) & (size < consumequeue.PRE_BLANK_RECORD_SIZE)
    is_entry &= (offset < end) & (offset + size > start)
    (found,) = np.nonzero(is_entry)
    return base // dtype.itemsize + found, offset[found], size[found]


def gaps_of(queues: list[Queue], log: CommitLog, start: int, end: int) -> list[Range] | None:
    """Return the parts of [`start`, `end`) that no entry names; None if that cannot be told.

    The blank at a file's end is in none of them.

    Args:
        queues: all of the store.
        log: the log.
        start: physical offset of a record.
        end: physical offset.
    """
    counted = [queue for queue in queues if not queue.topic.startswith(_LIGHT)]
    if not counted:
        return None
    offset = np.concatenate([queue.offset for queue in counted])
    size = np.concatenate([queue.size for queue in counted])
    order = np.argsort(offset, kind="stable")
    offset, size = offset[order], size[order]
    # A record in several queues is named by each.
    fresh = np.ones(len(offset), np.bool_)
    fresh[1:] = (offset[1:] != offset[:-1]) | (size[1:] != size[:-1])
    offset, size = offset[fresh], size[fresh]
    ends = np.concatenate([[start], offset + size])
    begins = np.concatenate([offset, [end]])
    if (begins[1:-1] < ends[1:-1]).any():
        return None
    gaps: list[Range] = []
    for at in np.nonzero(begins > ends)[0]:
        if len(gaps) > _MAX_GAPS:
            return None
        gap = _without_blank(log, int(ends[at]), int(begins[at]))
        if gap is None:
            return None
        gaps += [gap] if gap.start < gap.end else []
    return gaps


def _without_blank(log: CommitLog, start: int, end: int) -> Range | None:
    """Return a gap, empty where it is a blank alone; None where no record begins with it."""
    file_end = log.base_of(start) + log.file_size
    if file_end - start < BLANK_SIZE:
        return None
    head = log.read(start, BLANK_SIZE)[PAD : PAD + BLANK_SIZE].tobytes()
    size, magic = BLANK_HEAD.unpack(head)
    if magic == MAGIC_BLANK:
        if file_end >= end:
            return Range(end, end)
        return _without_blank(log, file_end, end)
    if magic not in {MAGIC_V1, MAGIC_V2} or size < MIN_SIZE:
        return None
    return Range(start, end)


def before(queues: list[Queue], stop: int) -> list[Queue]:
    """Return queues without the entries of records from a physical offset on."""
    kept = [(queue, queue.offset < stop) for queue in queues]
    return [
        queue._replace(
            number=queue.number[is_in], offset=queue.offset[is_in], size=queue.size[is_in]
        )
        for queue, is_in in kept
    ]


def settled(queues: list[Queue], log: CommitLog, *, is_closed: bool) -> tuple[list[Queue], int]:
    """Return a broker's queues without stale entries, and up to where its log was dispatched.

    A cut leaves stale entries past a queue's end. They stay there, all together, until others are
    written over them. The last entry of a queue tells. Where the log was dispatched, a record that
    matches a stale entry would have been dispatched over it.

    Args:
        queues: all of the store.
        log: its log.
        is_closed: the broker was closed in order.

    Returns:
        The queues; and the physical offset before which all is dispatched. For a broker that runs,
        or was killed, that is the beginning of the file before that of the last dispatched record,
        which may be stale too: dispatch lags the log by less than a file.
    """
    found = [
        queue if queue.topic.startswith(_LIGHT) else _without_stale(queue, log) for queue in queues
    ]
    if is_closed:
        return found, log.end_of_files
    counted = [queue.offset.max() for queue in found if len(queue.offset)]
    last = int(max(counted, default=0)) - log.file_size
    return found, max(log.base_of(last), log.min_offset)


def _without_stale(queue: Queue, log: CommitLog) -> Queue:
    """Return a queue up to its last entry whose record says the same."""
    low, high = 0, len(queue.offset)
    at = high - 1
    while low < high:
        if _is_own(queue, log, at):
            low = at + 1
        else:
            high = at
        at = (low + high) // 2
    return queue._replace(
        number=queue.number[:low], offset=queue.offset[:low], size=queue.size[:low]
    )


def _is_own(queue: Queue, log: CommitLog, at: int) -> bool:
    record = read_record(log, int(queue.offset[at]))
    return (
        record is not None
        and record.size == queue.size[at]
        and (record.topic, record.queue_id) == (queue.topic, queue.queue_id)
        and (queue.is_batch or record.queue_offset == queue.number[at])
    )


class IndexHits(NamedTuple):
    """What the index says of some keys.

    Attributes:
        offsets: physical offsets of records that may have one.
        reach: the part of the log that it says something of.
    """

    offsets: list[int]
    reach: Range


def find_hits(
    root: Path, settings: BrokerSettings, topics: Iterable[str], words: Iterable[str]
) -> IndexHits | None:
    """Return where the records of some topics with one of some keys are.

    Returns:
        None without an index, or with one that is damaged.
    """
    report = Report()
    search = IndexSearch(root / names.INDEX, settings, report)
    try:
        files = search.files()
        headers = [file.header() for file in files]
        used = [header for header in headers if header.index_count > 1]
        if not used or not report.ok:
            return None
        reach = Range(min(h.begin_offset for h in used), max(h.end_offset for h in used) + 1)
        found: list[int] = []
        for topic in topics:
            for word in words:
                hashed = indexfile.key_hash(f"{topic}#{word}")
                for file in files:
                    at_once(file.select(hashed, ALWAYS, _ALL_HITS, found, report))
        if not report.ok or len(found) >= _ALL_HITS:
            return None
        return IndexHits(sorted(set(found)), reach)
    finally:
        search.close()
