"""What was read of a log, kept to tell whether it is still the same log."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.listing import Stamp
    from reput.stores.log.trail import Point
_MASK = (1 << 64) - 1
# Brokers flush everything every 10 s; a page that is written to after that changes the file's
# times.
_OLD_NS = 15_000_000_000


class FileHeads(NamedTuple):
    """What was read of one log file.

    Attributes:
        base: physical offset where the file begins.
        first: hash of its first record that was read.
        heads: sum of the hashes of the records that start in it and were read.
        stamp: the file as it was when that was certain; None while it is not.
    """

    base: int
    first: int
    heads: int
    stamp: Stamp | None = None


class Known(NamedTuple):
    """What was read of a log, up to some record's end.

    Attributes:
        files: in the order of the log; a file of which nothing was read is not in it.
        points: records to go back to, in the order of the log.
        end: physical offset up to which it was read.
        gaps: physical offsets where no record stands, and where records resume.
        passed: of these, places where a record stood that could not be dispatched: its hash.
    """

    files: Sequence[FileHeads]
    points: Sequence[Point]
    end: int
    gaps: Mapping[int, int]
    passed: Mapping[int, int] = MappingProxyType({})


def is_old(stamp: Stamp) -> bool:
    """Tell whether a file's last write is old enough that any later one would change its times."""
    return time.time_ns() - stamp.modified > _OLD_NS


def is_certain(log: CommitLog, file: FileHeads) -> bool:
    """Tell whether a file is untouched since it was known to be as it was read."""
    return file.stamp is not None and log.stamps.get(file.base) == file.stamp


def with_records(
    files: tuple[FileHeads, ...], base: int, first: int, heads_sum: int
) -> tuple[FileHeads, ...]:
    """Return what was read of a log, with more records of its last file or of one after it.

    Args:
        files: so far.
        base: physical offset where the records' file begins.
        first: hash of the first of them.
        heads_sum: sum of their hashes.
    """
    if files and files[-1].base == base:
        last = files[-1]
        return (*files[:-1], FileHeads(base, last.first, (last.heads + heads_sum) & _MASK))
    return (*files, FileHeads(base, first, heads_sum & _MASK))


def gone_back(files: tuple[FileHeads, ...], common: Point, file_size: int) -> tuple[FileHeads, ...]:
    """Return what was read of a log up to a point.

    Args:
        files: what was read.
        common: where it goes back to.
        file_size: of the log's files.
    """
    base = common.record.physical_offset // file_size * file_size
    kept = [file for file in files if file.base <= base]
    return (*kept[:-1], kept[-1]._replace(heads=common.heads, stamp=None)) if kept else ()


def settled(
    files: tuple[FileHeads, ...], certain: Mapping[int, Stamp], min_offset: int
) -> tuple[FileHeads, ...]:
    """Return what was read of a log, with the stamps of files that are certain; none expired.

    A stamp that is young is left out: it does not tell of a write that came right after it.

    Args:
        files: what was read.
        certain: stamps by where the file begins.
        min_offset: the log's first physical offset.
    """
    old = {base: stamp for base, stamp in certain.items() if is_old(stamp)}
    return tuple(
        file._replace(stamp=old.get(file.base, file.stamp))
        for file in files
        if file.base >= min_offset
    )


def end_of(point: Point) -> int:
    """Return where dispatch continued after a point, physical offset: to search by."""
    return point.end
