"""Where a live commitlog ends: the last record that is whole, and what follows it.

A broker is writing while we read. Its mapped writes have no order that another process could
rely on, so a record counts only when everything in it adds up, its body's CRC included. What does
not is a torn tail, which is no error: it is looked at again next time. Only where good records
follow, of this log and not older than the last good one, something is corrupt.
Source: docs/formats/commitlog.md, "End of the log".
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.errors import FormatError, UnreadableError
from reput.formats.rocketmq.commitlog import BLANK_SIZE, MIN_SIZE, Verdict
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, LogChangedError
from reput.stores.log.holes import (
    REMEDY,
    HoleWatch,
    after_left_over,
    damage_error,
    find_hole,
    newer_within,
)
from reput.stores.log.trail import Fingerprint, fingerprint, is_there

if TYPE_CHECKING:
    from reput.formats.kernels import frames
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.files import Stamp
else:
    frames = lazy_module("reput.formats.kernels.frames")

# A record is copied in microseconds; its writer may be interrupted in between.
_SETTLE_SECONDS = 0.002
# Bytes of the length before a record's properties.
_LENGTH = 2
_HEX_BYTES = 32
_SEARCHED = 16 << 20
_TRIES = 3
# A whole record with a property that Java cannot parse as a number; replicas have it too.
_NUMBERS = {Verdict.BAD_DELAY, Verdict.BAD_BATCH}
UNREADABLE_NOTE = (
    "A broker of this version cannot read it either, and cuts its log there when it recovers."
)
UNREADABLE_REMEDY = f"{UNREADABLE_NOTE} Go on after it with --on-corrupt skip."
# Seconds between looks at the whole directory while nothing is new at the log's end.
_LOOK_SECONDS = 1.0
# Of the time, and at least between two: looks from the last file's beginning while the end stays.
_WHOLE_LOOK_SHARE = 0.001
_WHOLE_LOOK_SECONDS = 5.0


class Tail(NamedTuple):
    """The end of the log: `end` is exclusive; `reason` tells what stands there."""

    end: int
    reason: Verdict


class KnownEnd(NamedTuple):
    """Where a log ended with nothing after it, and its last record, to recognise it by."""

    end: int
    last: Fingerprint


def known_end(
    log: CommitLog, known: int | None = None, *, skips_corrupt: bool = False
) -> KnownEnd | None:
    """Return where the log ends; None if that cannot be told again without reading records.

    The arguments and errors are those of `find_tail`.
    """
    tail, last = _look(log, known, skips_corrupt=skips_corrupt)
    if tail.reason not in {Verdict.END, Verdict.ROLL}:
        return None
    if last is None and tail.end < log.end_of_files:
        last = _last_before(log, tail.end)
    record = fingerprint(log, *last) if last is not None else None
    return KnownEnd(tail.end, record) if record is not None else None


def find_tail(
    log: CommitLog,
    known: int | None = None,
    *,
    skips_corrupt: bool = False,
    holes: HoleWatch | None = None,
) -> Tail:
    """Return the end of the whole records.

    Args:
        log: the files; looked at again.
        known: the beginning of a record, or the end that was found last.
        skips_corrupt: look past what is corrupt.
        holes: look past holes too, see `stores.log.holes`.

    Raises:
        FormatError: a corrupt record, with good ones close after it.
    """
    return _look(log, known, skips_corrupt=skips_corrupt, holes=holes)[0]


def _look(
    log: CommitLog, known: int | None, *, skips_corrupt: bool, holes: HoleWatch | None = None
) -> tuple[Tail, tuple[int, int] | None]:
    """Return the end, and begin and size of the last record before it if that had to be found."""
    log.refresh()
    active = active_file(log)
    position = active if known is None else max(known, active)
    if position >= log.end_of_files:
        # The file that it begins was made ahead, and has gone; or it is still to come.
        return Tail(position, Verdict.END), None
    while True:
        if position >= log.end_of_files:
            # The next file is not there yet, or has no byte yet.
            return Tail(position, Verdict.END), None
        verdict, reached = log.hop(position, log.base_of(position) + log.file_size, log.rules)
        if verdict == Verdict.ROLL:
            position = log.base_of(reached) + log.file_size
            if position >= log.end_of_files:
                # A broker that recovers takes this for the end, and may write over the BLANK.
                return Tail(reached, Verdict.ROLL), _last_before(log, reached)
            continue
        if verdict not in {Verdict.END, Verdict.RECORD} and goes_on(log, reached):
            file_end = log.base_of(reached) + log.file_size
            if log.hop(reached, file_end, log.rules) != (verdict, reached):
                # It was being written; what follows came while we looked.
                position = reached
                continue
            if not skips_corrupt:
                raise corruption(log, reached, verdict)
            position = next_record(log, reached)
            if position >= log.end_of_files:
                return Tail(position, Verdict.END), None
            continue
        if holes is not None and verdict != Verdict.RECORD:
            hole = holes.find(reached)
            if hole is not None:
                position = hole.end
                continue
        last = _last_before(log, reached) if reached > position else None
        if last is not None and _is_torn(log, last[0], reached):
            return Tail(last[0], Verdict.SHORT), None
        return Tail(reached, Verdict.END if verdict == Verdict.RECORD else verdict), last


def _last_before(log: CommitLog, position: int) -> tuple[int, int] | None:
    """Return begin and size of the record that ends at `position`, None if none does."""
    start = log.record_before(position)
    return (start, position - start) if start is not None else None


def chain_end(log: CommitLog, position: int) -> int:
    """Return where the records end that follow one another from `position` on."""
    while position < log.end_of_files:
        verdict, reached = log.hop(position, log.base_of(position) + log.file_size, log.rules)
        if verdict != Verdict.ROLL:
            return reached
        position = log.base_of(reached) + log.file_size
    return position


def next_record(log: CommitLog, position: int) -> int:
    """Return where records resume after bytes that are not a record.

    Right after it if it says where it ends and a record stands there. Else at the first record
    that another one, or the end of the file's records, follows: a single one may have been forged
    by a message's sender. If there is none, at the next file. Records of a log that was cut, which
    a page may hold that was lost, are passed over where that is certain.
    """
    base = log.base_of(position)
    file_end = base + log.file_size
    damage = log.damage_at(position)
    if damage is not None:
        return damage.end
    data = log.read(position, min(log.settings.max_record_size, file_end - position))
    _, size, *_ = frames.check(data, PAD, len(data) - PAD, position, file_end, 0)
    if size >= MIN_SIZE and position + size < file_end and _is_followed(log, position + size):
        return int(position + size)
    if base >= active_file(log) and (hole := find_hole(log, position)) is not None:
        # Skips records that a broker has cut off, which only the last file can hold.
        return hole.end
    start = position + 1
    while start < file_end:
        damage = log.damage_at(start)
        if damage is not None:
            return damage.end
        data = log.read(start, min(_SEARCHED, file_end - start))
        limit = len(data) - PAD
        at = int(frames.find_record(data, PAD, limit, start, file_end, log.rules, limit))
        if at == frames.NO_POSITION:
            # What begins in the last bytes of the piece is found with the next one.
            start += max(limit - PAD - MIN_SIZE, 1)
            continue
        if _is_followed(log, start + at - PAD):
            return after_left_over(log, position, start + at - PAD)
        start += at - PAD + 1
    return file_end


def first_readable(log: CommitLog, position: int, *, skips_corrupt: bool) -> int:
    """Return where the first record stands at or after `position`, see `CommitLog.first_record`.

    Args:
        log: the files.
        position: physical offset.
        skips_corrupt: find it past what is no record, too; it may be in a later file then.

    Raises:
        FormatError: something that is not a record stands in the way, and `skips_corrupt` is off.
    """
    try:
        return log.first_record(position)
    except FormatError:
        if not skips_corrupt:
            raise
    reached = log.base_of(position)
    while reached < position:
        verdict, at = log.hop(reached, position, log.rules)
        if verdict == Verdict.ROLL:
            reached = log.base_of(at) + log.file_size
        elif verdict == Verdict.RECORD:
            reached = at
        else:
            reached = next_record(log, at)
    return reached


def _is_followed(log: CommitLog, position: int) -> bool:
    """Tell whether a record stands here that another one, or the end of the records, follows."""
    file_end = log.base_of(position) + log.file_size
    verdict, reached = log.hop(position, file_end, log.rules)
    if verdict in {Verdict.ROLL, Verdict.END, Verdict.RECORD}:
        return True
    data = log.read(position, MIN_SIZE)
    return reached > position + int.from_bytes(data[PAD : PAD + 4].tobytes(), "big")


class TailWatch:
    """Follows the end of a live log, whatever the broker does to it.

    A look costs what is new since the last one; where nothing is, eight bytes. A broker writes at
    its log's end only. So where the last record is another one now, or where the file was touched
    and nothing new stands at the end, the log may have been cut: then the end is looked for from
    the beginning of the last file on, for what is past the new end still looks like records. While
    the end stays, that is also done for a thousandth of the time: a page that stays dirty takes
    other bytes without a new time of its file.
    """

    def __init__(
        self,
        log: CommitLog,
        *,
        skips_corrupt: bool = False,
        holes: HoleWatch | None = None,
        known: KnownEnd | None = None,
    ) -> None:
        """Look at nothing yet but whether the known end can still be one.

        Args:
            log: the files.
            skips_corrupt: look past what is corrupt.
            holes: look past holes too, see `stores.log.holes`.
            known: the end as another process has seen it a moment ago.
        """
        self._log = log
        self._skips_corrupt = skips_corrupt
        self._holes = holes
        self._last: Tail | None = None
        self._record: Fingerprint | None = None
        self._stamps: dict[int, Stamp] = {}
        self._looked_at = 0.0
        # When the end is looked for from the last file's beginning again though it stays.
        self._whole_look_at = time.monotonic() + _WHOLE_LOOK_SECONDS
        if known is not None and is_there(log, known.last):
            is_blank = known.end < log.end_of_files and log.is_blank(known.end)
            self._last = Tail(known.end, Verdict.ROLL if is_blank else Verdict.END)
            self._record = known.last
            self._stamps = log.stamps
            self._looked_at = time.monotonic()

    def look(self) -> Tail:
        """Return the end of the whole records.

        Raises:
            FormatError: a corrupt record, with good ones after it.
        """
        now = time.monotonic()
        last = self._last
        if last is not None and now - self._looked_at < _LOOK_SECONDS and self._rests_at(last):
            return last
        # One that fails has seen nothing: the next one is not to answer for it.
        self._looked_at = -math.inf
        tail = self._look_again()
        self._looked_at = now
        return tail

    def _look_again(self) -> Tail:
        for _ in range(_TRIES):
            # A file may go while it is looked at: then the next look is at what is there.
            with contextlib.suppress(LogChangedError):
                return self._look()
        return self._look()

    def _look(self) -> Tail:
        log, last = self._log, self._last
        log.refresh()
        stamps = log.stamps
        # A cut may have taken the file that the end was in, and left the last whole record.
        if last is None or last.end > log.end_of_files or not self._is_record_there():
            if self._holes is not None:
                self._holes.forget()
            return self._look_from(None, stamps)
        try:
            tail = self._look_from(last.end, stamps)
        except FormatError:
            if stamps == self._stamps:
                raise
            # Stale bytes if the log was cut; otherwise the second look raises the same error.
            tail = self._look_from(None, stamps)
        if tail.end == last.end and (
            stamps != self._stamps or time.monotonic() >= self._whole_look_at
        ):
            # Touched, but not at the end: the chain may break off before it now.
            tail = self._look_from(None, stamps)
        self._stamps = stamps
        return tail

    def _look_from(self, known: int | None, stamps: dict[int, Stamp]) -> Tail:
        """Look for the end from there on, and keep what is found."""
        log = self._log
        began = time.monotonic()
        tail, found = _look(log, known, skips_corrupt=self._skips_corrupt, holes=self._holes)
        if known is None:
            self._stamps, self._record = stamps, None
            now = time.monotonic()
            pause = max((now - began) / _WHOLE_LOOK_SHARE, _WHOLE_LOOK_SECONDS)
            self._whole_look_at = now + pause
        is_known = self._record is not None and self._record.end == tail.end
        # At the start of a file the last record is before a BLANK, and unchanged.
        if found is None and not is_known and tail.end != log.base_of(tail.end):
            found = _last_before(log, tail.end)
        if found is not None:
            self._record = fingerprint(log, *found)
        self._last = tail
        return tail

    def _is_record_there(self) -> bool:
        """Tell whether the last record is as it was, or has expired."""
        record = self._record
        return (
            record is None
            or record.physical_offset < self._log.min_offset
            or is_there(self._log, record)
        )

    def _rests_at(self, last: Tail) -> bool:
        """Tell whether nothing is written; not so where the file of the end is gone, with a cut."""
        try:
            return self._is_idle(last)
        except LogChangedError:
            return False

    def _is_idle(self, last: Tail) -> bool:
        """Tell whether still nothing is written where nothing was."""
        log = self._log
        if last.end < log.min_offset:
            return False
        if last.reason == Verdict.ROLL:
            log.refresh()
            next_file = log.base_of(last.end) + log.file_size
            return next_file >= log.end_of_files and log.is_blank(last.end)
        if last.reason != Verdict.END:
            return False
        if last.end >= log.end_of_files:
            log.refresh()
            return last.end == log.end_of_files
        try:
            return not log.read(last.end, BLANK_SIZE)[PAD : PAD + BLANK_SIZE].any()
        except LogChangedError:
            return False


def _is_torn(log: CommitLog, start: int, end: int) -> bool:
    """Tell whether the last record may not be whole yet.

    A body has a CRC; topic and properties have none, and are what a broker copies last. So a
    record that changes while we look has to wait. One that ends with a zero waits as long as
    somebody may be writing it; brokers before 5.0 store such records, so once the log is at rest
    it is whole.
    """
    before = log.read(start, end - start)
    time.sleep(_SETTLE_SECONDS)
    after = log.read(start, end - start)
    if not np.array_equal(before, after):
        return True
    limit = len(before) - PAD
    file_end = log.base_of(start) + log.file_size
    *_, properties_at = frames.check(before, PAD, limit, start, file_end, log.rules)
    # Without properties their length is the end, two zeros; then the topic comes last.
    last = before[limit - 1 if properties_at < limit else properties_at - _LENGTH - 1]
    return bool(last == 0) and not log.is_at_rest()


def active_file(log: CommitLog) -> int:
    """Return the beginning of the last file with anything in it: brokers make files ahead."""
    for base in reversed(log.bases):
        # A broker that starts removes what was made ahead, and one that cuts its log what was cut.
        with contextlib.suppress(LogChangedError):
            if log.read(base, BLANK_SIZE)[PAD : PAD + BLANK_SIZE].any():
                return base
    return log.min_offset


def goes_on(log: CommitLog, position: int) -> bool:
    """Tell whether a whole record of the log stands close after what cannot be read.

    A broker that has recovered leaves what was past its cut and writes over it: such records are
    whole, but left over, see `stores.log.holes`.
    """
    file_end = log.base_of(position) + log.file_size
    stop = min(position + 2 * log.settings.max_record_size, file_end)
    return newer_within(log, position, stop) is not None


def corruption(log: CommitLog, position: int, verdict: Verdict) -> FormatError:
    """Return the error for what stands at a physical offset, with the bytes around it."""
    damage = log.damage_at(position)
    if damage is not None:
        return damage_error(damage)
    path, byte = log.file_of(position)
    data = log.read(position, _HEX_BYTES)[PAD:-PAD]
    found = f"{verdict.explanation} (physical offset {position}, bytes {bytes_of(data)})"
    cut = log.damage_at(log.base_of(position) + log.file_size - 1)
    if cut is not None:
        found += f"; at byte {cut.byte} {cut.found}"
    if verdict in _NUMBERS:
        return UnreadableError(path, byte, found, UNREADABLE_REMEDY)
    return FormatError(path, byte, found, REMEDY)


def unfit(log: CommitLog, position: int, error: Exception) -> FormatError:
    """Return the error for a whole record at a physical offset that no queue can take."""
    path, byte = log.file_of(position)
    why = str(error).rstrip(".")
    found = f"a record that cannot be dispatched (physical offset {position}): {why}"
    return FormatError(path, byte, found, REMEDY)


def bytes_of(data: np.ndarray) -> str:
    """Return bytes as hex, four at a time."""
    return data.tobytes().hex(" ", 4) or "none"
