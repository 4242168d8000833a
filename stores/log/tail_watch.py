"""Watches the end of a live log: what each look costs, and when it looks from further back."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError
from reput.formats.rocketmq.commitlog import BLANK_SIZE, Verdict
from reput.stores.log.commitlog import PAD, LogChangedError
from reput.stores.log.tail import KnownEnd, Tail, last_before, tail_and_last
from reput.stores.log.trail import Fingerprint, fingerprint, is_there

if TYPE_CHECKING:
    from reput.stores.log.commitlog import CommitLog
    from reput.stores.log.holes import HoleWatch
    from reput.stores.log.listing import Stamp

# Seconds between looks at the whole directory while nothing is new at the log's end.
_LOOK_SECONDS = 1.0
# Looks at a log whose files go while it is looked at.
_TRIES = 3
# Of the time, and at least between two: looks from the last file's beginning while the end stays.
_WHOLE_LOOK_SHARE = 0.001
_WHOLE_LOOK_SECONDS = 5.0


class TailWatch:
    """Follows the end of a live log, whatever the broker does to it.

    A look reads what is new since the last one; where nothing is new, eight bytes. A broker writes
    only at its log's end. So the log may have been cut if its last record is another one now, or
    if the file was touched and nothing new stands at the end. Then the look begins at the last
    file's first byte, because what is past the new end still looks like records. While the end
    stays, a thousandth of the time goes into such looks too: a page that stays dirty takes other
    bytes without a new time of its file.
    """

    def __init__(
        self,
        log: CommitLog,
        *,
        skips_corrupt: bool = False,
        holes: HoleWatch | None = None,
        known: KnownEnd | None = None,
    ) -> None:
        """Check only whether the known end can still be one.

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
        # A look that fails has seen nothing: the next call has to look again.
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
        """Look for the end from a physical offset on, None for the last file's start; keep it."""
        log = self._log
        began = time.monotonic()
        tail, found = tail_and_last(
            log, known, skips_corrupt=self._skips_corrupt, holes=self._holes
        )
        if known is None:
            self._stamps, self._record = stamps, None
            now = time.monotonic()
            pause = max((now - began) / _WHOLE_LOOK_SHARE, _WHOLE_LOOK_SECONDS)
            self._whole_look_at = now + pause
        is_known = self._record is not None and self._record.end == tail.end
        # At the start of a file the last record is before a BLANK, and unchanged.
        if found is None and not is_known and tail.end != log.base_of(tail.end):
            found = last_before(log, tail.end)
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
        """Tell whether nothing was written since; False if a cut has removed the end's file."""
        try:
            return self._is_idle(last)
        except LogChangedError:
            return False

    def _is_idle(self, last: Tail) -> bool:
        """Tell whether still nothing stands where nothing stood."""
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
