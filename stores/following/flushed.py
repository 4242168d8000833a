"""How far a broker has flushed its commitlog, by its checkpoint file.

The checkpoint has no offset but the store timestamp of a flushed record, the last one that the
flush was sure of. Others of the same millisecond may not be on disk, so only what is before counts.

After a cut of the log the checkpoint may name a record that is gone. It may even seem to be there:
a cut erases nothing, and old records may line up with new ones. So the time that stands there

* does not count if it was read before a look at which the log was still the same;
* counts if it was written after the look that found the cut;
* may be of before or after the cut in between. Then it counts if no store time goes back from the
  last record in common to the record that it names: what was cut away is older than what a broker
  has written over it, unless its clock went back with the cut.

Source: RocketMQ `FlushRealTimeService`, `MappedFileQueue#flush`; docs/formats/checkpoint.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.errors import FormatError
from reput.formats.rocketmq import checkpoint, names
from reput.formats.rocketmq.commitlog import ACCEPT_V2, Verdict
from reput.stores.following.head_cursor import HeadCursor
from reput.stores.following.known import Known
from reput.stores.following.vouch import Vouch
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, active_file
from reput.stores.log.files import LogChangedError
from reput.stores.log.holes import find_hole
from reput.stores.log.unreadable import next_record

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from reput.formats.kernels import frames
    from reput.stores.log.commitlog import CommitLog
else:
    # It brings the compiler, which is not needed while nothing is looked for.
    frames = lazy_module("reput.formats.kernels.frames")

_STEP = 4 << 20
# Files that a cut may go back into, and places that are kept in them.
_FILES = 3
_POINTS = 96


class FlushSign(NamedTuple):
    """What a broker has noted of its flushes: another one tells that more may be flushed.

    Attributes:
        timestamp: see `last_flush`, ms.
        is_open: the store is in use, or was not closed in order.
    """

    timestamp: int
    is_open: bool


def last_flush(store: Path) -> int:
    """Return the store timestamp that a broker's checkpoint names as flushed, 0 for none, ms."""
    try:
        data = (store / names.CHECKPOINT).read_bytes()
        return checkpoint.unpack(data).physic_timestamp
    except (FileNotFoundError, ValueError):
        # A broker that has just started has flushed nothing.
        return 0


class FlushedEnd:
    """Where the flushed part of one store's log ends, followed from look to look.

    A broker's clock may go back, so neither an order of store times is taken for granted nor that a
    later record has a later one: flushed is what stands before the first record of exactly the time
    that the checkpoint names, if that counts, see above. To find it the first look reads the log
    from where the reader begins. Where the log is cut below that place, what is left of the flushed
    part counts.

    Attributes:
        is_found: at the last look; there is nothing more to find until the broker flushes again.
    """

    def __init__(self, store: Path) -> None:
        """Look at nothing yet.

        Args:
            store: the broker's storePathRootDir.
        """
        self._store = store
        self._flushed = -1
        # The time that was looked for last, and up to where it was not found.
        self._wanted = 0
        self._searched = -1
        # The newest store time from the last record in common on; `WENT_BACK` if one went back.
        self._newest = 0
        # Where the flushed part has ended so far, with what tells that the log is the same.
        self._known = Known((), (), -1, {})
        self._cursor: HeadCursor | None = None
        self._vouch: Vouch | None = None
        # The time that stood there before the last look at which the log was the same.
        self._settled: int | None = None
        # A time of before a cut; and one of before or after it: it stood there when that was seen.
        self._void: int | None = None
        self._doubted: int | None = None
        # Nothing more is found before the broker flushes again.
        self.is_found = False

    @property
    def sign(self) -> FlushSign:
        """Return what the broker has noted by now."""
        return FlushSign(last_flush(self._store), (self._store / names.ABORT).exists())

    def still(self, log: CommitLog, end: int, sign: FlushSign) -> int:
        """Return how much of a plan is flushed for certain by what is known, `end` at most.

        Args:
            log: the store's.
            end: physical offset up to which the plan goes, which may be older than a cut.
            sign: what the broker had noted a moment ago.
        """
        if not sign.is_open:
            return end
        self._follow(log, sign.timestamp)
        return min(self._flushed, end)

    def before(self, log: CommitLog, end: int, floor: int | None = None) -> int:
        """Return how far the log up to `end` is flushed for certain.

        A store that was closed in order is flushed as a whole.

        Args:
            log: the store's.
            end: physical offset after a whole record.
            floor: where the reader begins; what is before does not matter.
        """
        sign = self.sign
        if not sign.is_open:
            return end
        timestamp = sign.timestamp
        begin = max(floor or 0, log.min_offset)
        if begin > end:
            begin = log.min_offset
        is_same = self._follow(log, timestamp)
        if self._flushed > end:
            # The log was cut, and nothing tells where.
            self.go_back(_first_at(log, begin))
            is_same = False
        if not is_same:
            # The broker may have written it since; what was read before may be older.
            timestamp = self._wanted
        self.is_found = timestamp == self._void
        if self.is_found:
            return min(self._flushed, end)
        self._want(timestamp, log, begin)
        self.is_found, self._searched, self._newest = _search(
            log, self._searched, end, timestamp, self._newest
        )
        if self.is_found and (self._doubted is None or self._newest <= timestamp):
            self._flushed = self._searched
            self._remember(log)
        return min(self._flushed, end)

    def _want(self, timestamp: int, log: CommitLog, begin: int) -> None:
        """Set out to look for the record of a time, from what is known of the log or from `begin`.

        Args:
            timestamp: ms.
            log: the store's.
            begin: physical offset.
        """
        if timestamp != self._doubted:
            # The broker has written it since the cut was seen.
            self._void = self._doubted = None
        if self._flushed < log.min_offset:
            # The first look; or what was found has expired.
            self._flushed = self._searched = _first_at(log, begin)
        if timestamp != self._wanted:
            self._wanted, self._searched = timestamp, self._flushed

    def go_back(self, position: int, newest: int = 0) -> None:
        """Resume at a place before a cut that was found, or that may have been made.

        Args:
            position: physical offset up to which the log is the same; -1 for its beginning.
            newest: store timestamp of the record before it, ms.
        """
        self._flushed = self._searched = position
        self._newest = newest
        self._void = self._settled
        # Read once the cut was found: any later one was written after it.
        self._doubted = self._wanted = last_flush(self._store)
        self.is_found = False
        self._forget()

    def _follow(self, log: CommitLog, timestamp: int) -> bool:
        """Go back if the flushed part of the log is no longer the same.

        Args:
            log: the store's.
            timestamp: `last_flush` a moment ago, ms.

        Returns:
            Whether it is the same, as far as this look shows; if not, `timestamp` no longer counts.
        """
        if self._vouch is None or not self._known.files:
            return True
        log.refresh()
        seen = self._vouch.look(self._known, is_at_rest=True)
        if seen is None:
            return True
        if not seen.is_same:
            self.go_back(seen.common.end if seen.common is not None else log.min_offset)
            return False
        if self._known.files[-1].base in seen.certain:
            # A cut changes the last file, or takes it away.
            self._settled = timestamp
        return True

    def _forget(self) -> None:
        self._known = Known((), (), -1, {})
        self._cursor = self._vouch = None

    def _remember(self, log: CommitLog) -> None:
        """Add up the records up to the end of the flushed part, so that a cut is noticed."""
        if self._cursor is None:
            self._cursor = HeadCursor(log, skips_corrupt=True)
        if self._vouch is None:
            self._vouch = Vouch(log, self._store)
        cursor, known, files = self._cursor, self._known, self._known.files
        try:
            if files and log.base_of(self._flushed - 1) != files[-1].base:
                # What follows the last place in that file is part of it by now.
                cursor.sum_to(files[-1].base + log.file_size)
                known = _with(known, cursor.known())
            if cursor.sum_to(self._flushed) is None:
                return
        except LogChangedError:
            # It expired, or was cut, meanwhile.
            self._forget()
            return
        self._known = _with(known, cursor.known())


def _with(known: Known, more: Known) -> Known:
    """Return what is known of a log, with more of its last file or of one after it."""
    kept = [file for file in known.files if file.base != more.files[0].base]
    return Known(
        (*kept[1 - _FILES :], *more.files),
        (*known.points, *more.points)[-_POINTS:],
        more.end,
        {**known.gaps, **more.gaps},
    )


def _first_at(log: CommitLog, begin: int) -> int:
    """Return where the first record stands at or after `begin`; skip what is not a record.

    A reader that passes over what is corrupt may begin just after such a place. If the log was cut
    before `begin`, return the place of the cut.
    """
    try:
        return log.first_record(begin)
    except FormatError:
        position = log.base_of(begin)
    while position < begin:
        verdict, reached = log.hop(position, begin, log.rules & ACCEPT_V2)
        if verdict == Verdict.RECORD:
            return reached
        if verdict == Verdict.ROLL:
            return log.base_of(reached) + log.file_size
        following = _after_hole(log, reached)
        if following is None:
            return reached
        position = following
    return position


def _search(
    log: CommitLog, start: int, end: int, timestamp: int, newest: int
) -> tuple[bool, int, int]:
    """Go from record to record to the first one of a store time, ms.

    Args:
        log: the files.
        start: physical offset of a record, or of something to be passed over.
        end: physical offset.
        timestamp: ms.
        newest: of the records before, see `frames.hop_to_time`.

    Returns:
        Whether there is one before `end`; where it begins, or where to resume next time; and the
        newest store timestamp up to there, `frames.WENT_BACK` if one went back.
    """
    position, step = start, _STEP
    while position < end:
        if position >= log.end_of_files:
            # It was cut a moment ago.
            return False, position, newest
        file_end = log.base_of(position) + log.file_size
        data = log.read(position, min(step, file_end - position))
        verdict, reached, newest = _hop_to_time(log, data, position, end, timestamp, newest)
        if verdict == Verdict.RECORD:
            return reached < end, reached, newest
        if verdict == Verdict.ROLL:
            position = file_end
        elif verdict == Verdict.SHORT and len(data) - 2 * PAD == step:
            step = step if reached > position else step * 4
            position = reached
        else:
            following = _after_hole(log, reached)
            if following is None:
                return False, reached, newest
            position = following
    return False, position, newest


def _hop_to_time(
    log: CommitLog, data: NDArray[np.uint8], position: int, end: int, timestamp: int, newest: int
) -> tuple[Verdict, int, int]:
    """Call the kernel of that name for the bytes of one file from a physical offset on."""
    file_end = log.base_of(position) + log.file_size
    rules = log.rules & ACCEPT_V2
    code, reached, newest = frames.hop_to_time(
        data, PAD, len(data) - PAD, position, file_end, rules, end, timestamp, newest
    )
    return Verdict(code), int(reached), int(newest)


def _after_hole(log: CommitLog, position: int) -> int | None:
    """Return where the log resumes after what is not a record; None if it was cut there."""
    if log.damage_at(position) is not None or log.base_of(position) < active_file(log):
        return next_record(log, position)
    try:
        hole = find_hole(log, position)
    except LogChangedError:
        # The next look is at what is there then.
        return None
    # Not `next_record`: after a cut that leads to records that are no longer the log's.
    return hole.end if hole is not None else None
