"""Goes from record to record inside one file of a log, by their heads, in plain Python.

`stores.following.log_end_compiled` has the same for programs with a compiler.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    BORN_HOST_V6,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    PLACES,
    SYS_FLAG_AT,
    Record,
    head_of,
)
from reput.stores.log.records import read_at, texts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from reput.stores.log.files import LogFiles

# Read at once; fits the processor's cache.
_PIECE = 1 << 20
# At a known end there is usually little that is new.
_FIRST_PIECE = 64 << 10
MAGICS = {False: (MAGIC_V1,), True: (MAGIC_V1, MAGIC_V2)}
_STORED_AT, _STORED_AT_V6 = PLACES[0].store_timestamp, PLACES[BORN_HOST_V6].store_timestamp
_HEAD = head_of("size", "magic", "physical_offset", "sys_flag", "stored_v4")
HEAD_SIZE = _STORED_AT_V6 + 8
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")


class Chain(NamedTuple):
    """Where the records of one file lead that follow one another.

    Attributes:
        position: physical offset of what is not a record.
        last: begin and size of the last record, None if there was none.
        is_rolled: a BLANK stands there, so the log continues in the next file.
    """

    position: int
    last: tuple[int, int] | None
    is_rolled: bool


class _Hop(NamedTuple):
    """Where a hop over heads ends.

    Attributes:
        at: index of what was not passed.
        size: of the record before it, 0 if none was passed.
        stored: store timestamp of that record, ms.
        is_older: what stands there is a record that was stored before that one.
        is_cut: it may be one, but the bytes at hand end inside its head.
    """

    at: int
    size: int
    stored: int
    is_older: bool
    is_cut: bool


def chain(log: LogFiles, start: int) -> Chain:
    """Go from record to record inside one file, by their heads.

    Args:
        log: the files.
        start: physical offset of a record, or of where one would be.
    """
    file_end = log.base_of(start) + log.file_size
    magics = MAGICS[log.settings.read_rules.accepts_v2]
    position, size, stored = start, 0, 0
    pieces = []
    length = min(_FIRST_PIECE, file_end - start)
    data = bytearray(length)
    while position < file_end:
        pieces.append(position)
        # The same memory each time: allocating it would double the time.
        count = log.read_into(memoryview(data)[:length], position)
        hop = _hop(data, count, 0, position, magics, stored)
        while hop.is_older:
            # From here on records may be stale, and the one before them torn.
            older = position + hop.at
            before = hop.size or size
            for each in (older - before, older) if before else (older,):
                if not _is_whole(log, each):
                    return _without_broken(log, pieces, each, file_end)
            hop = _hop(data, count, hop.at, position, magics, 0)
        position += hop.at
        size, stored = hop.size or size, hop.stored
        if not hop.is_cut or (hop.at == 0 and count < HEAD_SIZE):
            break
        length = min(_PIECE, file_end - position)
        if len(data) < length:
            data = bytearray(length)
    # The last record may not be whole, or its size may reach past its file.
    if size and (position > file_end or not _is_whole(log, position - size)):
        return _without_broken(log, pieces, position - size, file_end)
    last = (position - size, size) if size else None
    return Chain(position, last, is_rolled=is_blank(log, position, file_end))


def _without_broken(log: LogFiles, pieces: Sequence[int], broken: int, file_end: int) -> Chain:
    """Return the chain before a record that is not whole, nor those right before it.

    Args:
        log: the files.
        pieces: physical offsets of records, in order.
        broken: physical offset of the record.
        file_end: physical offset of the file's end.
    """
    for piece in reversed(pieces):
        position, last, first = piece, None, broken
        is_broken = False
        while position < broken:
            size = min(_INT.unpack(log.bytes_at(position, 4))[0], file_end - position)
            if _is_whole(log, position):
                last, is_broken = (position, size), False
            elif not is_broken:
                first, is_broken = position, True
            position += size
        broken = first if is_broken else broken
        if last is not None:
            return Chain(broken, last, is_rolled=False)
    return Chain(broken, None, is_rolled=False)


def is_blank(log: LogFiles, position: int, file_end: int) -> bool:
    """Tell whether a BLANK stands at a physical offset, which ends its file."""
    head = log.bytes_at(position, BLANK_SIZE) if position < file_end else b""
    return head == BLANK_HEAD.pack(file_end - position, MAGIC_BLANK)


def _is_whole(log: LogFiles, position: int) -> bool:
    return isinstance(read_at(log, position)[1], Record)


def _hop(
    data: bytearray, count: int, at: int, origin: int, magics: Collection[int], newest: int
) -> _Hop:
    """Go over the heads of records until something else stands, or an older record.

    Args:
        data: bytes of one file.
        count: how many there are.
        at: index to begin at.
        origin: physical offset of the first of them.
        magics: of records.
        newest: store timestamp of the record before, ms.
    """
    unpack, wide, least, usual = _HEAD.unpack_from, BORN_HOST_V6, MIN_SIZE, MAGIC_V1
    size = 0
    stop = count - HEAD_SIZE
    while at <= stop:
        length, magic, physical, flags, stored = unpack(data, at)
        if (
            stored < newest
            or magic != usual
            or physical != origin + at
            or length < least
            or flags & wide
        ):
            # An unusual head: look closer.
            if physical != origin + at or magic not in magics or length < least:
                return _Hop(at, size, newest, is_older=False, is_cut=False)
            stored = stored_in(data, at)
            if stored < newest:
                return _Hop(at, size, newest, is_older=True, is_cut=False)
        newest = stored
        size = length
        at += length
    return _Hop(at, size, newest, is_older=False, is_cut=True)


def seeming_records(data: bytes, position: int, magics: Collection[int]) -> list[int]:
    """Return the indexes after the first byte at which something claims to be a record."""
    found = []
    for magic in map(_INT.pack, magics):
        at = data.find(magic, MAGIC_AT + 1)
        while at >= 0:
            start = at - MAGIC_AT
            stated = data[start + PHYSICAL_OFFSET_AT : start + SYS_FLAG_AT]
            if stated == _LONG.pack(position + start):
                found.append(start)
            at = data.find(magic, at + 1)
    return sorted(found)


def stored_in(data: bytes | bytearray, at: int) -> int:
    """Return the store timestamp of the record at an index, ms."""
    is_wide = data[at + SYS_FLAG_AT + 3] & BORN_HOST_V6
    return int(_LONG.unpack_from(data, at + (_STORED_AT_V6 if is_wide else _STORED_AT))[0])


def last_byte(raw: bytes) -> int:
    """Return the last byte of a whole record's properties, or of its topic if it has none."""
    topic, properties = texts_of(raw)
    # Its topic's length may be what has not come yet.
    return (properties or topic or b"\0")[-1]
