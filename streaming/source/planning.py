"""How a batch is shared out: where it begins, caps over several stores, ranges over tasks."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from reput.formats.errors import ReputError, about
from reput.streaming.source.options import RANGES, SourceOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.source.offsets import StoreOffsets
    from reput.streaming.source.pushdown.choosing import Choice

LOG = logging.getLogger("reput")
# The offset of a store that has no log file yet: its beginning, wherever that will be.
NOTHING = -1
# A task of about a second, so that many of them share the work evenly.
PARTITION_BYTES = 128 << 20


@dataclass
class LogRange(InputPartition):
    """What one task reads: the records of a store that start in [`start`, `end`).

    Attributes:
        store: its name.
        start: physical offset.
        end: physical offset.
        is_record: a record is known to begin at `start`, it need not be looked for.
    """

    store: str
    start: int
    end: int
    is_record: bool = False


@dataclass
class LogRanges(InputPartition):
    """What one task reads where filters leave parts of the log.

    Attributes:
        store: its name.
        ranges: start and end of each, physical offsets; in the log's order.
        is_record: a record is known to begin at the first start, as at all others.
    """

    store: str
    ranges: tuple[tuple[int, int], ...]
    is_record: bool


def cap_bytes(
    stores: Mapping[str, StoreOffsets],
    start: Mapping[str, int],
    ends: Mapping[str, int],
    budget: int,
) -> dict[str, int]:
    """Return ends of a batch of about `budget` bytes, and of a record of some store at least.

    Stores with little to read leave what they do not need to the others.
    """
    capped = dict(ends)
    waiting = _by_lag(start, ends)
    for number, name in enumerate(waiting):
        share = budget // (len(waiting) - number)
        if share < ends[name] - start[name]:
            capped[name] = stores[name].after_bytes(start[name], share, ends[name])
        budget = max(0, budget - (capped[name] - start[name]))
    return capped


def cap_store_bytes(
    stores: Mapping[str, StoreOffsets],
    start: Mapping[str, int],
    ends: Mapping[str, int],
    budget: int,
) -> dict[str, int]:
    """Return ends of a batch of about `budget` bytes of each store, a record of each at least."""
    return {
        name: stores[name].after_bytes(start[name], budget, end) if start[name] < end else end
        for name, end in ends.items()
    }


def cap_records(
    stores: Mapping[str, StoreOffsets],
    start: Mapping[str, int],
    ends: Mapping[str, int],
    budget: int,
) -> dict[str, int]:
    """Return ends of a batch of at most `budget` records, shared out likewise.

    Raises:
        FormatError: a store's next record is corrupt.
    """
    capped = dict(ends)
    waiting = _by_lag(start, ends)
    for number, name in enumerate(waiting):
        share = budget // (len(waiting) - number)
        capped[name], records = stores[name].after_records(start[name], share, ends[name])
        budget -= records
    return capped


def _by_lag(start: Mapping[str, int], ends: Mapping[str, int]) -> list[str]:
    """Return the stores that have something to read, the one with least first."""
    waiting = [name for name in ends if ends[name] > start[name]]
    return sorted(waiting, key=lambda name: (ends[name] - start[name], name))


def partitions_of(
    stores: Mapping[str, StoreOffsets],
    options: SourceOptions,
    start: Mapping[str, int],
    end: Mapping[str, int],
) -> list[InputPartition]:
    """Cut the ranges of a batch: at files' beginnings, and into pieces that are not too large.

    Raises:
        ReputError: what is to be read has expired, and that must not be.
    """
    ranges = []
    for name, offsets in stores.items():
        if start[name] < end[name]:
            begin = _begin(offsets, start[name], options)
            if begin < end[name]:
                ranges.append(LogRange(name, begin, end[name], offsets.is_record(begin)))
        elif start[name] > end[name] and options.rows == RANGES:
            ranges.append(LogRange(name, start[name], end[name]))
    if options.rows == RANGES:
        return list(ranges)
    total = sum(r.end - r.start for r in ranges)
    piece = min(PARTITION_BYTES, max(1, total // (options.min_partitions or 1)))
    sizes = {store.name: store.settings.commitlog_file_size for store in options.stores}
    return [part for r in ranges for part in _cut(r, sizes[r.store], piece)]


def _begin(offsets: StoreOffsets, start: int, options: SourceOptions) -> int:
    """Return where a batch begins in what there is of the log.

    Raises:
        ReputError: what is to be read has expired, and that must not be.
    """
    if options.rows != RANGES:
        return offsets.existing(start, fail_on_data_loss=options.fail_on_data_loss)
    # The dispatcher, which takes ranges, says what it has lost: it knows how far it is itself.
    log = offsets.log()
    return start if log is None else max(start, log.min_offset)


def _cut(whole: LogRange, file_size: int, piece: int) -> Iterator[LogRange]:
    position = whole.start
    while position < whole.end:
        stop = min(position - position % file_size + file_size, whole.end)
        parts = math.ceil((stop - position) / piece)
        length = stop - position
        for number in range(parts):
            first = position + length * number // parts
            last = position + length * (number + 1) // parts
            is_record = first == whole.start and whole.is_record
            yield LogRange(whole.store, first, last, is_record)
        position = stop


def share_out(
    name: str, choice: Choice, file_size: int, min_partitions: int | None
) -> list[InputPartition]:
    """Return the tasks that read what was chosen, each of about as much.

    Args:
        name: the store's.
        choice: what to read.
        file_size: of the log's files.
        min_partitions: at least this many tasks, if there is enough to read.
    """
    piece = min(PARTITION_BYTES, max(1, choice.bytes // (min_partitions or 1)))
    tasks: list[InputPartition] = []
    ranges: list[tuple[int, int]] = []
    is_record, filled = choice.first_is_record, 0
    for number, (start, end) in enumerate(choice.ranges):
        known = number > 0 or choice.first_is_record
        for part in _cut(LogRange(name, start, end, known), file_size, piece):
            # Only within a range that is longer than a task does one begin anywhere.
            if ranges and (filled + part.end - part.start > piece or not part.is_record):
                tasks.append(LogRanges(name, tuple(ranges), is_record))
                ranges, filled = [], 0
            if not ranges:
                is_record = part.is_record
            ranges.append((part.start, part.end))
            filled += part.end - part.start
    if ranges:
        tasks.append(LogRanges(name, tuple(ranges), is_record))
    return tasks


def skip_expired(log: CommitLog, name: str, start: int, *, fail_on_data_loss: bool) -> int:
    """Return `start`, or the log's first offset where `start` has expired.

    Raises:
        ReputError: it has expired, and `fail_on_data_loss` is set.
    """
    if start >= log.min_offset:
        return start
    if start == NOTHING:
        return log.min_offset
    lost = f"store {name}: physical offsets {start} to {log.min_offset} have expired"
    if fail_on_data_loss:
        with about(name):
            raise ReputError(
                f"{lost} before they were read. Restore the files, or resume after the gap with "
                "the option failOnDataLoss=false"
            )
    LOG.warning("%s and are skipped (failOnDataLoss=false)", lost)
    return log.min_offset
