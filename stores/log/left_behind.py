"""Finds files that a broker has cut from its log and could not remove.

A broker that cuts its log removes the files after the cut, but not one that is still read. Brokers
of 5.x keep such a file open for good: `DefaultMessageStore#isOffsetAligned`, the look before a
replica's cut, releases nothing. The broker has dropped the file from its list (`MappedFileQueue#
truncateDirtyFiles`), so its records are not in the log. If the log grows up to such a file, it is
written over from its beginning. If the broker starts again first, its recovery loads all files.
Mostly it ends before this one and removes it. But where entries of queues still lead there, the
recovery of a broker that was closed in order begins in it, and then it is the log's again, with a
hole before it. So a file is left behind only for the run of the broker that has cut it off: the
broker holds the store, and the file before was written since it has started.

The file before tells. In a log its records lead to a BLANK. After a cut that was written over they
end before one, and the last of them is younger than the first record of the file left behind, or
has taken a queue offset of it. Records that were cut and not written over lead there as before:
then the broker's next start takes them for the log's as well.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    Record,
    head_of,
)
from reput.stores.log.left_over import earlier_record, has_number
from reput.stores.log.records import read_at

if TYPE_CHECKING:
    from reput.stores.log.files import LogFiles
    from reput.stores.log.listing import Stamp

__all__ = ["LeftBehind"]

_HEAD = head_of("size", "magic", "physical_offset")
_MAGICS = {MAGIC_V1, MAGIC_V2}
_PIECE = 1 << 20
_REMEMBERED = 16


class _Chain(NamedTuple):
    """How far the records of a file follow one another.

    Attributes:
        reached: physical offset where the next one would begin.
        starts: physical offsets of the last ones, at most two.
        leads_on: a BLANK stands there.
    """

    reached: int
    starts: tuple[int, ...]
    leads_on: bool


class _Judged(NamedTuple):
    """What was found of two files, and how they looked then."""

    before: Stamp
    stamp: Stamp
    is_left: bool
    chain: _Chain
    head: bytes


class LeftBehind:
    """Finds files that are left behind; remembers what it found of files that nobody touches."""

    def __init__(self) -> None:
        """Know of none."""
        self._known: dict[int, _Judged] = {}

    def first(self, log: LogFiles) -> int | None:
        """Return where the first file begins that is left behind, None if none is.

        Only a file that was written after all later ones is read: a cut that was written over
        leaves such a one, and a log that continues does not.

        Args:
            log: the files, with those that are left behind.

        Raises:
            LogChangedError: a file went meanwhile.
            OSError: the device failed.
        """
        found = None
        newest = -1
        stamps = log.stamps
        bases = log.bases
        if all(stamps[a].modified < stamps[b].modified for a, b in pairwise(bases)):
            return None
        since = log.held_since()
        if all(stamp.modified <= since for stamp in stamps.values()):
            return None
        for number in range(len(bases) - 1, 0, -1):
            base, before = bases[number], bases[number - 1]
            if newest < 0 and not any(log.bytes_at(base, BLANK_SIZE)):
                # Made ahead.
                continue
            newest = max(newest, stamps[base].modified)
            if (
                stamps[before].modified >= newest
                and before + log.file_size == base
                and stamps[before].modified > since
                and self._is_left(log, before, base)
            ):
                found = base
        return found

    def _is_left(self, log: LogFiles, before: int, base: int) -> bool:
        stamps = log.stamps[before], log.stamps[base]
        known = self._known.pop(base, None)
        if known is None or (known.before, known.stamp) != stamps:
            known = _judged(log, before, base, known)
        self._known[base] = known
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return known.is_left


def _judged(log: LogFiles, before: int, base: int, known: _Judged | None) -> _Judged:
    """Return what is found of the file at `base` by that before it."""
    stamps = log.stamps[before], log.stamps[base]
    if known is not None and known.is_left and known.stamp == stamps[1]:
        # The log grows before it: read on from the last record that is still there.
        at = known.chain.starts[0]
        if log.bytes_at(at, len(known.head)) == known.head:
            chain = _chain(log, at)
            if not chain.leads_on:
                return known._replace(before=stamps[0])
    chain = _chain(log, before)
    head = log.bytes_at(chain.starts[0], MIN_SIZE) if chain.starts else b""
    return _Judged(*stamps, _was_cut(log, base, chain), chain, head)


def _was_cut(log: LogFiles, base: int, chain: _Chain) -> bool:
    """Tell whether a file's first record was cut away by records that end before it."""
    if chain.leads_on:
        return False
    _, first = read_at(log, base)
    if not isinstance(first, Record):
        return False
    for start in reversed(chain.starts):
        _, last = read_at(log, start)
        if isinstance(last, Record):
            if last.store_timestamp > first.store_timestamp:
                return True
            end = start + last.size
            return has_number(first.sys_flag) and earlier_record(log, end, first) is not None
        # It is being written.
    return False


def _chain(log: LogFiles, start: int) -> _Chain:
    """Go from record to record, by their heads, as far as they follow one another in a file."""
    file_end = log.base_of(start) + log.file_size
    unpack = _HEAD.unpack_from
    position = start
    starts: tuple[int, ...] = ()
    buffer = bytearray(min(_PIECE, file_end - start))
    while position < file_end:
        view = memoryview(buffer)[: min(len(buffer), file_end - position)]
        count = log.read_into(view, position)
        at, last, earlier = 0, -1, -1
        while at + BLANK_SIZE <= count:
            if at + _HEAD.size > count:
                break
            size, magic, physical = unpack(buffer, at)
            if magic not in _MAGICS or physical != position + at or size < MIN_SIZE:
                break
            earlier, last = last, at
            at += size
        if last >= 0:
            known = (position + each for each in (earlier, last) if each >= 0)
            starts = (*starts, *known)[-2:]
        position += at
        if at + _HEAD.size <= count or at == 0:
            break
    return _Chain(position, starts, _has_blank(log, position, file_end))


def _has_blank(log: LogFiles, position: int, file_end: int) -> bool:
    head = log.bytes_at(position, BLANK_SIZE) if position < file_end else b""
    return len(head) == BLANK_SIZE and BLANK_HEAD.unpack(head)[1] == MAGIC_BLANK
