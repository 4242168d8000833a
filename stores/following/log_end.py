"""Where a log ends for its readers: what lies past a cut is in the files, but not in the log.

A broker that recovers, or a replica, cuts its log and erases nothing. It writes on from the cut,
and whole stale records stay past what it has written since. A file is whole if another one with
records follows it. So only the last file with anything in it, the *active* one, has such records.
The log ends where the records break off that follow one another from that file's first byte. The
rules are those of `stores.log.tail.find_tail`, but damage that good records of the log follow is
passed over, and reported.

This module reads only heads, in plain Python. It checks a record as a whole if that is the last
one, or if an older one follows, which may be stale. With kernels every record is checked.
"""

from __future__ import annotations

import contextlib
import struct
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import BLANK_SIZE, MAGIC_BLANK
from reput.stores.findings import Kind
from reput.stores.following import head_chain
from reput.stores.following.past_end import bytes_after, is_torn, newer_record, resumes_at
from reput.stores.log.files import LogChangedError, gone
from reput.stores.log.listing import stamp_of
from reput.stores.remaining.log_files import FollowedFiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.findings import Report
    from reput.stores.following.head_chain import Chain
    from reput.stores.log.listing import Stamp

# Bytes compared before the end, to tell whether it has changed.
_COMPARED_BEFORE = 64 << 10
_TRIES = 3
# Of the time, and at least between two: looks from the last file's beginning while the end stays.
_WHOLE_LOOK_SHARE = 0.01
_WHOLE_LOOK_SECONDS = 5.0
_INT = struct.Struct(">i")
_BLANK_MAGIC = _INT.pack(MAGIC_BLANK)


class _Seen(NamedTuple):
    """How the active file looked when the end was found."""

    base: int
    inode: tuple[int, int]
    changed_ns: int


class EndedLog(FollowedFiles):
    """The files of a commitlog up to its end; it looks for the end when an answer depends on it."""

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
        self.output = output
        self._active: int | None = None
        self._end: int | None = None
        self._last: tuple[int, int] | None = None
        self._seen: _Seen | None = None
        # A broker touches its lock when it starts.
        self._broker_started = store and stamp_of(store / names.LOCK)
        # When the end is looked for again though nothing shows that it is another one.
        self._whole_look_at = 0.0
        self._before = 0
        self._after: bytes | None = None
        # A record stands after the end that may not be whole as long as its broker lives.
        self._is_doubted = False
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

        It takes eight bytes. The rest of the file may hold whole records that were cut away.
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

    def grown_to(self, offset: int) -> int:
        """Return the end, after a look at what may have been appended up to a physical offset."""
        if offset >= self.end_of_files:
            super().refresh()
            self._active = None
        return self._grown()

    def reached(self, start: int, size: int) -> None:
        """Take it that all up to the end of a record is in the log: an entry has come for it.

        Records are dispatched in the order of the log, each once it is whole.
        """
        end = start + size
        if self._end is None or end <= self._end:
            return
        if self.base_of(end - 1) != self.base_of(self._end - 1):
            self.look_on()
            self._active = None
        if end <= self.end_of_files:
            self._end, self._last, self._seen = end, (start, size), self._looks()
            self._is_doubted = False
            # What stands after it may be whole records already: the next look goes over them.
            self._before, self._after = self._crc_before(end), None

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

    def is_uncut_now(self) -> bool:
        """Look at the files again where files came or went; False if the log was cut.

        Unlike `refresh` it does not look for the end, which may take seconds: `reached` says it. A
        broker that starts may cut its log, and counts as a cut.

        Raises:
            StoreError: the log is not there any longer.
            FileSizeError: what is in its place is not whole.
        """
        if self.look_on_if_due():
            self._active = None
        end, started = self._end, self._broker_started
        self._broker_started = self._store and stamp_of(self._store / names.LOCK)
        if end is None:
            return True
        if started == self._broker_started and self.min_offset <= end <= self.end_of_files:
            with contextlib.suppress(LogChangedError):
                if self._crc_before(end) == self._before:
                    return True
        self._forget()
        return False

    def look_again(self) -> None:
        """Look for the end again when it is asked for: the log was cut."""
        self.look_on()
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
        if self._crc_before(end) != self._before:
            self._forget()
            return self.end()
        if self._bytes_after(end) != self._after or (self._is_doubted and self.is_at_rest()):
            return self._walk(end, self._last)
        return end

    def _bytes_after(self, end: int) -> bytes:
        has_next = self.base_of(end) + self.file_size in self._inodes
        return bytes_after(self, end, has_next=has_next)

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
            raise gone(base) from error
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
        position, last, is_new, after = self._go_on(start, last)
        self._is_doubted = False
        if last is not None and is_new and sum(last) == position:
            # Before the look that judges: what comes after it is seen as a change.
            judged = self._bytes_after(last[0])
            if is_torn(self, *last):
                position, after, self._is_doubted = last[0], judged, True
        self._end, self._last, self._seen = position, last, seen
        if start == self.active_base():
            now = time.monotonic()
            pause = max((now - began) / _WHOLE_LOOK_SHARE, _WHOLE_LOOK_SECONDS)
            self._whole_look_at = now + pause
        self._before = self._crc_before(position)
        self._after = self._bytes_after(position) if after is None else after
        return position

    def _go_on(
        self, position: int, last: tuple[int, int] | None
    ) -> tuple[int, tuple[int, int] | None, bool, bytes | None]:
        """Return where records end, the last one, whether it is new, and the bytes after."""
        is_new = False
        looked = after = None
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
            resumed = self._resumed(position, last)
            if resumed is None:
                # A record that came since is in these bytes, and changes them no more: look again.
                after = self._bytes_after(position)
                if looked == (position, after) or not after.strip(b"\0"):
                    break
                looked = position, after
                # From the last record on, which tells whether one after it is older.
                resumed = position if last is None else last[0]
            position = resumed
        return position, last, is_new, after

    def _resumed(self, position: int, last: tuple[int, int] | None) -> int | None:
        """Return where the log resumes after what is not a record, and report it; None if not."""
        found = newer_record(self, position, last) or resumes_at(self, self.output, position, last)
        if found is not None:
            path, byte = self.file_of(position)
            detail = f"no whole record, but one follows at physical offset {found}"
            self._report.add(Kind.WRONG_BYTES, path, byte, detail)
        return found

    def chain(self, start: int) -> Chain:
        """Go from record to record inside one file; see `stores.following.head_chain`."""
        return head_chain.chain(self, start)
