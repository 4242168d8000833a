"""Where a log ends for its readers: what lies past a cut is in the files, but not in the log.

A broker that recovers, or a replica, cuts its log and erases nothing: it writes on from the cut,
and whole stale records stay past what it has written since. A file that another one with records
follows is whole. So only the last file with anything in it, the *active* one, has such records,
past the place where the records that follow one another from its first byte break off. That is the
end; the rules are those of `stores.log.tail.find_tail`, but what is damaged with good records of
the log past it is passed over, and reported.

Only heads are read here, in plain Python. A record is checked as a whole if it is the
last one, or if an older one follows, which may be stale. With kernels every record is checked.
"""

from __future__ import annotations

import struct
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    BORN_HOST,
    BORN_HOST_V6,
    HOST_V4,
    HOST_V6,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    Record,
    Verdict,
)
from reput.stores.findings import Kind
from reput.stores.following.passed_over import passed_over
from reput.stores.log.files import LogChangedError, LogFiles
from reput.stores.log.left_over import earlier_record, has_number, is_cut_through
from reput.stores.log.records import read_at

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.log.listing import Stamp

# Read at once; fits the processor's cache.
_PIECE = 1 << 20
# At a known end there is usually little that is new.
_FIRST_PIECE = 64 << 10
# Bytes compared on either side of the end, to tell whether it has changed.
_COMPARED_BEFORE, _COMPARED_AFTER = 64 << 10, 128
# A record is copied in microseconds; its writer may be interrupted in between.
_SETTLE_SECONDS = 0.002
_TRIES = 3
# Of the time, and at least between two: looks from the last file's beginning while the end stays.
_WHOLE_LOOK_SHARE = 0.01
_WHOLE_LOOK_SECONDS = 5.0
_MAGICS = {False: (MAGIC_V1,), True: (MAGIC_V1, MAGIC_V2)}
_STORED_AT, _STORED_AT_V6 = BORN_HOST + HOST_V4, BORN_HOST + HOST_V6
# Size, magic, physical offset, sysFlag, store timestamp where the born host is not wide.
_HEAD = struct.Struct(f">ii{PHYSICAL_OFFSET_AT - 8}xqi{_STORED_AT - SYS_FLAG_AT - 4}xq")
_HEAD_SIZE = _STORED_AT_V6 + 8
_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_BLANK_MAGIC = _INT.pack(MAGIC_BLANK)
# From the store host's end to the body's length: reconsume times, prepared transaction.
_BEFORE_BODY = 12


class Chain(NamedTuple):
    """Where the records of one file lead that follow one another.

    Attributes:
        position: physical offset of what is no record.
        last: begin and size of the last record, None if there was none.
        is_rolled: a BLANK stands there, so that the next file is meant.
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


class _Seen(NamedTuple):
    """How the active file looked when the end was found."""

    base: int
    inode: tuple[int, int]
    changed_ns: int


class EndedLog(LogFiles):
    """The files of a commitlog up to its end, which is looked for when an answer depends on it."""

    def __init__(
        self,
        directories: Sequence[Path],
        settings: BrokerSettings,
        report: Report,
        store: Path | None = None,
        output: Path | None = None,
    ) -> None:
        """Look at the files.

        Args:
            directories: see `LogFiles`.
            settings: likewise.
            report: gets the places where records are damaged and others follow.
            store: see `LogFiles`.
            output: root of what was dispatched; places that were passed over end nothing.
        """
        self._report = report
        self._output = output
        self._active: int | None = None
        self._end: int | None = None
        self._last: tuple[int, int] | None = None
        self._seen: _Seen | None = None
        # When the end is looked for again though nothing shows that it is another one.
        self._whole_look_at = 0.0
        self._before, self._behind = 0, b""
        # By file: how it looked, and where its records end before its BLANK.
        self._stops: dict[int, tuple[Stamp, int]] = {}
        super().__init__(directories, settings, store)

    @property
    def known_end(self) -> int:
        """Return a physical offset up to which all is in the log, without looking for the end."""
        return self._end if self._end is not None else self.active_base()

    def active_base(self) -> int:
        """Return the beginning of the last file with anything in it: brokers make files ahead."""
        if self._active is None:
            self._active = next(
                (base for base in reversed(self.bases) if any(self.bytes_at(base, BLANK_SIZE))),
                self.min_offset,
            )
        return self._active

    def holds(self, offset: int) -> bool:
        """Tell whether a physical offset is in the log: not expired, and before its end."""
        if not self.min_offset <= offset < self.end_of_files:
            return False
        if self._end is not None:
            is_before = offset < self._end or offset < self._grown()
        else:
            is_before = offset < self.active_base() or offset < self.end()
        if not is_before:
            return False
        base = self.base_of(offset)
        return offset < self.sure_of(base) or offset <= self._blank_of(base)

    def sure_of(self, base: int) -> int:
        """Return the physical offset before which no BLANK of a file can stand; see `LogFiles`."""
        known = self._stops.get(base)
        if known is not None and known[0] == self.stamps.get(base):
            return known[1]
        file_end = base + self.file_size
        if file_end > self.known_end:
            return file_end
        # A BLANK takes less than the record that did not fit.
        return max(file_end - self.settings.max_record_size - BLANK_SIZE, base)

    def _blank_of(self, base: int) -> int:
        """Return the physical offset of a file's BLANK, that of the file's end if there is none.

        It is written as eight bytes. In the space that it stands for may be records that were cut
        off, whole.
        """
        file_end = base + self.file_size
        stamp = self.stamps.get(base)
        if stamp is None or file_end > self.known_end:
            return file_end
        start = self.sure_of(base)
        data = self.bytes_at(start, file_end - start)
        found = []
        at = data.find(_BLANK_MAGIC)
        while at >= 0:
            place = start + at - _INT.size
            if data[max(at - _INT.size, 0) : at] == _INT.pack(file_end - place):
                found.append(place)
            at = data.find(_BLANK_MAGIC, at + 1)
        if len(found) > 1:
            # Bytes of a message, or an older BLANK in the space of this one.
            chain = self.chain(base)
            found = [chain.position] if chain.is_rolled else []
        self._stops[base] = stamp, found[0] if found else file_end
        return self._stops[base][1]

    def stop_of(self, base: int) -> int:
        """Return the physical offset where the log's records in a file end at the latest."""
        file_end = base + self.file_size
        return file_end if file_end <= self.known_end else max(min(file_end, self.end()), base)

    def end(self) -> int:
        """Return the physical offset where the log ends: after the last record that is whole."""
        return self._end if self._end is not None else self._walk(self.active_base(), None)

    def refresh(self) -> None:
        """Look at the files again; an end that did not move on by appending is looked for again."""
        super().refresh()
        for _ in range(_TRIES):
            try:
                self._check_again()
            except LogChangedError:
                # A file went while it was looked at.
                self._forget()
                super().refresh()
            else:
                return

    def look_again(self) -> None:
        """Look for the end again when it is asked for: the log was cut."""
        super().refresh()
        self._forget()

    def _forget(self) -> None:
        self._active = self._end = self._last = self._seen = None
        self._stops.clear()

    def _check_again(self) -> None:
        before, end = self._seen, self._end
        self._active = None
        if before is None or end is None:
            return
        if self.active_base() < before.base or not self.min_offset <= end <= self.end_of_files:
            self._forget()
        elif self._grown() == end and (
            self._looks() != before or time.monotonic() >= self._whole_look_at
        ):
            # Nothing was appended, but the file is not as it was: something may have been written
            # over what stands before the end. A page that stays dirty takes other bytes without a
            # new time of the file, so the times are not believed for ever.
            self._forget()

    def _grown(self) -> int:
        """Return the end, after a look at what may have been appended to the one that is known."""
        end = self._end
        if end is None:
            return self.end()
        if self._bytes_behind(end) == self._behind and self._crc_before(end) == self._before:
            return end
        if self._crc_before(end) != self._before:
            self._forget()
            return self.end()
        return self._walk(end, self._last)

    def _bytes_behind(self, end: int) -> bytes:
        if end >= self.end_of_files:
            return b""
        if self.base_of(end) + self.file_size in self._inodes:
            # A BLANK is the end only as long as there is no next file.
            end_of_file = self.base_of(end) + self.file_size
            if self._is_blank(end, end_of_file):
                return self.bytes_at(end_of_file, _COMPARED_AFTER)
        here = self.bytes_at(end, _COMPARED_AFTER)
        size = _INT.unpack_from(here)[0] if len(here) >= _INT.size else 0
        # If no whole record stands here, its bytes stay the same when a record is written after it.
        is_inside = MIN_SIZE <= size < self.base_of(end) + self.file_size - end
        return here + (self.bytes_at(end + size, _COMPARED_AFTER) if is_inside else b"")

    def _crc_before(self, end: int) -> int:
        base = self.base_of(max(end - 1, self.min_offset))
        start = max(base, end - _COMPARED_BEFORE)
        return zlib.crc32(self.bytes_at(start, end - start))

    def _looks(self) -> _Seen:
        base = self.active_base()
        path, _ = self.file_of(base)
        try:
            stat = path.stat()
        except FileNotFoundError as error:
            raise self._gone(base) from error
        return _Seen(base, (stat.st_dev, stat.st_ino), stat.st_mtime_ns)

    def _walk(self, start: int, last: tuple[int, int] | None) -> int:
        """Find the end from the beginning of a record on, and keep it.

        Args:
            start: physical offset.
            last: begin and size of the record before it, None if that is not known.
        """
        # Before the walk: what is written meanwhile is seen as a change at the next look.
        seen = self._looks()
        began = time.monotonic()
        position = start
        is_new = False
        while position < self.end_of_files:
            chain = self.chain(position)
            if chain.last is not None:
                last, is_new = chain.last, True
            position = chain.position
            if chain.is_rolled:
                following = self.base_of(position) + self.file_size
                is_new = False
                if following not in self._inodes:
                    # A broker that recovers takes this for the end, and may write over the BLANK.
                    break
                position = following
                continue
            going_on = self._newer_record(position, last) or self._passed_over(position, last)
            if going_on is None:
                break
            path, byte = self.file_of(position)
            detail = f"no whole record, but one follows at physical offset {going_on}"
            self._report.add(Kind.WRONG_BYTES, path, byte, detail)
            position = going_on
        if last is not None and is_new and sum(last) == position and self._is_torn(*last):
            position, last = last[0], None
        self._end, self._last, self._seen = position, last, seen
        if start == self.active_base():
            now = time.monotonic()
            pause = max((now - began) / _WHOLE_LOOK_SHARE, _WHOLE_LOOK_SECONDS)
            self._whole_look_at = now + pause
        self._before, self._behind = self._crc_before(position), self._bytes_behind(position)
        return position

    def chain(self, start: int) -> Chain:
        """Go from record to record inside one file, by their heads.

        Args:
            start: physical offset of a record, or of where one would be.
        """
        file_end = self.base_of(start) + self.file_size
        magics = _MAGICS[self.settings.read_rules.accepts_v2]
        position, size, stored = start, 0, 0
        pieces = []
        length = min(_FIRST_PIECE, file_end - start)
        data = bytearray(length)
        while position < file_end:
            pieces.append(position)
            # The same memory each time: allocating it would double the time.
            count = self.read_into(memoryview(data)[:length], position)
            hop = _hop(data, count, 0, position, magics, stored)
            while hop.is_older:
                # From here on records may be stale, and the one before them torn.
                older = position + hop.at
                before = hop.size or size
                for each in (older - before, older) if before else (older,):
                    if not self._is_whole(each):
                        return self._without_broken(pieces, each, file_end)
                hop = _hop(data, count, hop.at, position, magics, 0)
            position += hop.at
            size, stored = hop.size or size, hop.stored
            if not hop.is_cut or (hop.at == 0 and count < _HEAD_SIZE):
                break
            length = min(_PIECE, file_end - position)
            if len(data) < length:
                data = bytearray(length)
        if position > file_end:
            # The last record's size goes beyond its file.
            return self._without_broken(pieces, position - size, file_end)
        if size and not self._is_whole(position - size):
            return self._without_broken(pieces, position - size, file_end)
        last = (position - size, size) if size else None
        if self._is_blank(position, file_end):
            return Chain(position, last, is_rolled=True)
        return Chain(position, last, is_rolled=False)

    def _without_broken(self, pieces: Sequence[int], broken: int, file_end: int) -> Chain:
        """Return the chain before a record that is not whole, nor those right before it.

        Args:
            pieces: physical offsets of records, in order.
            broken: physical offset of the record.
            file_end: physical offset of the file's end.
        """
        for piece in reversed(pieces):
            position, last, first = piece, None, broken
            is_broken = False
            while position < broken:
                size = min(_INT.unpack(self.bytes_at(position, 4))[0], file_end - position)
                if self._is_whole(position):
                    last, is_broken = (position, size), False
                elif not is_broken:
                    first, is_broken = position, True
                position += size
            broken = first if is_broken else broken
            if last is not None:
                return Chain(broken, last, is_rolled=False)
        return Chain(broken, None, is_rolled=False)

    def _is_blank(self, position: int, file_end: int) -> bool:
        head = self.bytes_at(position, BLANK_SIZE) if position < file_end else b""
        return head == BLANK_HEAD.pack(file_end - position, MAGIC_BLANK)

    def _is_whole(self, position: int) -> bool:
        return isinstance(read_at(self, position)[1], Record)

    def _newer_record(self, position: int, last: tuple[int, int] | None) -> int | None:
        """Return where a whole record of the log stands close past what is none, None if none does.

        Past a cut there are whole records, but they are left over; see `stores.log.left_over`.
        """
        if position >= self.end_of_files or read_at(self, position)[0] == Verdict.END:
            return None
        newest = _stored(self.bytes_at(last[0], _HEAD_SIZE), 0) if last is not None else 0
        window = min(
            2 * self.settings.max_record_size, self.base_of(position) + self.file_size - position
        )
        data = self.bytes_at(position, window)
        judged = position
        for at in _places(data, position, _MAGICS[self.settings.read_rules.accepts_v2]):
            place = position + at
            if place < judged:
                continue
            _, record = read_at(self, place)
            if not isinstance(record, Record):
                continue
            if not self._is_left_over(record, place, position, newest):
                return place
            # All that follows without a break was written before it was cut off, too.
            judged = self.chain(place).position
        return None

    def _passed_over(self, position: int, last: tuple[int, int] | None) -> int | None:
        """Return where the log goes on after a hole that dispatch has passed over, None if nowhere.

        While a broker holds the store its log's end is the broker's to say, as for dispatch.
        """
        if self._output is None or position >= self.end_of_files or self.is_held():
            return None
        end = passed_over(self._output).get(position, -1)
        if not position < end < self.end_of_files:
            return None
        _, record = read_at(self, end)
        newest = _stored(self.bytes_at(last[0], _HEAD_SIZE), 0) if last is not None else 0
        if not isinstance(record, Record) or self._is_left_over(record, end, position, newest):
            return None
        return end

    def _is_left_over(self, record: Record, place: int, end: int, newest: int) -> bool:
        """Tell whether a record past the end was cut off; see `stores.log.left_over`."""
        if record.store_timestamp < newest or is_cut_through(self, end, place):
            return True
        if self.left_overs.is_known(self, place, end):
            return True
        earlier = earlier_record(self, end, record) if has_number(record.sys_flag) else None
        if earlier is None:
            return False
        self.left_overs.remember(self, place, earlier)
        return True

    def _is_torn(self, start: int, size: int) -> bool:
        """Tell whether the last record may not be whole yet; see `stores.log.tail`."""
        before = self.bytes_at(start, size)
        time.sleep(_SETTLE_SECONDS)
        if self.bytes_at(start, size) != before:
            return True
        return _last_byte(before) == 0 and not self.is_at_rest()


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
    stop = count - _HEAD_SIZE
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
            stored = _stored(data, at)
            if stored < newest:
                return _Hop(at, size, newest, is_older=True, is_cut=False)
        newest = stored
        size = length
        at += length
    return _Hop(at, size, newest, is_older=False, is_cut=True)


def _places(data: bytes, position: int, magics: Collection[int]) -> list[int]:
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


def _stored(data: bytes | bytearray, at: int) -> int:
    """Return the store timestamp of the record at an index, ms."""
    is_wide = data[at + SYS_FLAG_AT + 3] & BORN_HOST_V6
    return int(_LONG.unpack_from(data, at + (_STORED_AT_V6 if is_wide else _STORED_AT))[0])


def _last_byte(raw: bytes) -> int:
    """Return the last byte of a whole record's properties, or of its topic if it has none."""
    flags = raw[SYS_FLAG_AT + 3]
    at = _STORED_AT_V6 if flags & BORN_HOST_V6 else _STORED_AT
    at += 8 + (HOST_V6 if flags & STORE_HOST_V6 else HOST_V4) + _BEFORE_BODY
    at += 4 + _INT.unpack_from(raw, at)[0]
    if raw[MAGIC_AT : MAGIC_AT + 4] == _INT.pack(MAGIC_V1):
        at += 1 + raw[at]
    else:
        at += 2 + _SHORT.unpack_from(raw, at)[0]
    has_properties = len(raw) > at + 2
    return raw[-1] if has_properties else raw[at - 1]
