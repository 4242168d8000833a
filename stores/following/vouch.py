"""Decides when to look whether a live log is still the one that was read, and at how much of it.

Comparing a file takes as long as reading it, so it is done where something shows that the log was
touched in another way than by growing at its end:

* a broker has started, or ended: its lock or its abort marker was touched;
* a file was touched, and nothing new follows the place where the log ended;
* a file went, or one that was not the last was touched;
* the last record that was read is another one, or one stands in the place that was passed over
  after it;
* the log has continued in a later file, and what stands after the last record was not read;
* this process stood still for a while, see `stores.following.heartbeat`. Time that it spends at
  work, in a flush or with other stores, is not a pause.

A broker writes only at its log's end. So if the last record that was read is the same, and the log
continues right after it, the broker had all that was read. A cut stays unseen between two looks
that see both growth and an end. It shows with the next record that the broker writes. Until then,
files that are not certain are compared again while the log is at rest, in small steps and for at
most a hundredth of the time. Once the last file is certain, it gets a thousandth: if a broker
flushes seldom, or the file system notes no times of mapped writes, nothing else shows a cut.
Source: docs/adr/0011-following-the-log.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import BLANK_HEAD, BLANK_SIZE, MAGIC_V1, MAGIC_V2
from reput.stores.following.file_walk import FileWalk
from reput.stores.following.identity import Comparison, compare, filled_place
from reput.stores.following.known import is_certain, is_old
from reput.stores.log import trail
from reput.stores.log.commitlog import active_file
from reput.stores.log.files import LogChangedError
from reput.stores.log.listing import Stamp

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.following.heartbeat import Heartbeat
    from reput.stores.following.known import Known
    from reput.stores.log.commitlog import CommitLog

# A file's time changes just before the bytes that are written can be read.
_SETTLE_SECONDS = 0.002
_REST_SECONDS = 1.0
_STEP_BYTES = 16 << 20
# Share of the time at most that goes into comparing files that nothing has happened to.
_SHARE = 0.01
# The same for the last file if its times say that it is untouched; and seconds between two looks.
_CERTAIN_SHARE = 0.001
_CERTAIN_SECONDS = 5.0


class Vouch:
    """Watches one log for a reader that keeps what it has read."""

    def __init__(self, log: CommitLog, store: Path, heartbeat: Heartbeat | None = None) -> None:
        """Take the log as it is now: the caller has just compared it.

        Args:
            log: the files, looked at just now.
            store: the broker's storePathRootDir.
            heartbeat: of this process; None takes no notice of pauses.
        """
        self._log = log
        self._heartbeat = heartbeat
        self._pauses = self._count_pauses()
        self._signs = (store / names.LOCK, store / names.ABORT)
        self._sign = self._look_at_signs()
        self._stamps = log.stamps
        self._end = -1
        # Where reading stood when the log had continued in a later file: that file and its inode.
        self._rolled: tuple[int, int, int] | None = None
        self._moved_at = time.monotonic()
        self._walk: FileWalk | None = None
        self._next_walk = self._next_certain = 0.0
        # Files that were compared while their times were young, as they were then.
        self._compared: dict[int, Stamp] = {}
        self._damaged: dict[int, Stamp | None] = {}

    def look(self, known: Known, *, is_at_rest: bool = False) -> Comparison | None:
        """Return what has become of the log; None while nothing shows that it is another one.

        Args:
            known: what was read of it; the files have been looked at just now.
            is_at_rest: nothing is being read, so there is time to compare.

        Raises:
            OSError: the device failed.
        """
        stamps, sign = self._log.stamps, self._look_at_signs()
        now = time.monotonic()
        # Before anything is compared: a pause amid that counts at the next look.
        pauses = self._count_pauses()
        was_away, self._pauses = pauses != self._pauses, pauses
        # The caller has compared all that there was at the first look.
        has_moved = self._end >= 0 and known.end != self._end
        is_touched = self._is_touched(known, stamps, has_moved=has_moved)
        has_restarted = sign != self._sign
        if has_moved or stamps != self._stamps:
            self._moved_at = now
            self._walk = None
        self._stamps, self._sign, self._end = stamps, sign, known.end
        if was_away or has_restarted or is_touched:
            return self._compare(known)
        return self._compare_on(known, now) if is_at_rest else None

    def _count_pauses(self) -> int:
        return 0 if self._heartbeat is None else self._heartbeat.pauses

    def _look_at_signs(self) -> tuple[Stamp | None, ...]:
        return tuple(map(_stamp_of, self._signs))

    def _is_touched(self, known: Known, stamps: dict[int, Stamp], *, has_moved: bool) -> bool:
        """Tell whether files have changed in another way than by growing at the end."""
        if known.end < 0:
            return False
        if filled_place(self._log, known) is not None:
            return True
        if stamps == self._stamps:
            return not self._is_last_same(known)
        changed = self._changed(known, stamps)
        if not changed:
            # A page that was dirty takes a BLANK without a new time.
            return not has_moved and self._has_rolled(known)
        is_last_only = changed == [known.files[-1].base] and changed[0] in stamps
        if not is_last_only or not self._is_last_same(known):
            return True
        return not has_moved and not self._has_grown(known)

    def _changed(self, known: Known, stamps: dict[int, Stamp]) -> list[int]:
        """Return where the files that were read begin that were touched since the last look."""
        before, floor = self._stamps, self._log.min_offset
        return [
            file.base
            for file in known.files
            if file.base >= floor and stamps.get(file.base) != before.get(file.base)
        ]

    def _has_grown(self, known: Known) -> bool:
        """Tell whether the log continues after what was read, and in the same file."""
        if self._goes_on(known.end):
            return not self._has_rolled(known)
        time.sleep(_SETTLE_SECONDS)
        return self._goes_on(known.end)

    def _has_rolled(self, known: Known) -> bool:
        """Tell, once, whether the log continues in a later file before all of this one was read.

        What follows in this file may be older than a cut. A stale record that is held back stays as
        it is if the broker writes a BLANK before it.
        """
        base, active = self._log.base_of(known.end), active_file(self._log)
        if not known.files or active <= base:
            self._rolled = None
            return False
        stamp = self._log.stamps.get(active)
        rolled = known.end, active, stamp.inode if stamp is not None else 0
        if rolled == self._rolled or not self._goes_on(known.end):
            return False
        self._rolled = rolled
        return True

    def _is_last_same(self, known: Known) -> bool:
        if not known.points:
            return True
        record = known.points[-1].record
        return record.physical_offset < self._log.min_offset or trail.is_there(self._log, record)

    def _goes_on(self, position: int) -> bool:
        """Tell whether a record begins at a physical offset, or is about to.

        A BLANK proves nothing: its filler is what stood there before, so it leaves old records past
        it as they were, an old BLANK among them. Nor does what cannot become a record's head: no
        broker writes it, and what it has cut is left as it was.
        """
        log = self._log
        if position >= log.end_of_files or position == log.base_of(position):
            # In a file of its own it says nothing of the one before, which was touched.
            return False
        try:
            head = log.bytes_at(position, BLANK_SIZE)
        except LogChangedError:
            return False
        if len(head) < BLANK_SIZE:
            return False
        # While a head is being written, either field may still be zero.
        size, magic = BLANK_HEAD.unpack(head)
        return any(head) and size >= 0 and magic in {0, MAGIC_V1, MAGIC_V2}

    def _compare_on(self, known: Known, now: float) -> Comparison | None:
        """Compare more of a file that is not certain; None as long as none is found changed."""
        walk = self._step(known, now)
        if walk is None:
            return None
        now = time.monotonic()
        self._next_walk = now + walk.seconds / _SHARE
        self._next_certain = now + max(walk.seconds / _CERTAIN_SHARE, _CERTAIN_SECONDS)
        if not walk.is_same:
            return self._compare(known)
        if walk.stamp is None or walk.stamp == walk.file.stamp:
            return None
        self._compared[walk.file.base] = walk.stamp
        if not is_old(walk.stamp):
            return None
        return Comparison(True, None, True, {walk.file.base: walk.stamp})

    def _step(self, known: Known, now: float) -> FileWalk | None:
        """Read more of a file that is not certain; return the walk that this step ended, if any."""
        if now < self._next_walk:
            return None
        walk = self._walk
        if walk is None:
            number = self._next_open(known, now)
            if number is None:
                return None
            walk = self._walk = FileWalk(self._log, known, number)
        walk.step(_STEP_BYTES)
        if not walk.is_over:
            # The pause after the walk makes up for all of its steps.
            return None
        self._walk = None
        return walk

    def _next_open(self, known: Known, now: float) -> int | None:
        """Return the number of a file to compare, None if there is none or it is too early."""
        last = len(known.files) - 1
        for number in range(last, -1, -1):
            file = known.files[number]
            stamp = self._stamps.get(file.base)
            if stamp is None:
                continue
            if is_certain(self._log, file) and (number < last or now < self._next_certain):
                continue
            if self._compared.get(file.base) == stamp and not is_old(stamp):
                # Already compared in this state; compare it once more when its stamp is old.
                continue
            if file.base in self._damaged and self._damaged[file.base] == stamp:
                continue
            if number == last and now - self._moved_at < _REST_SECONDS:
                continue
            return number
        return None

    def _compare(self, known: Known) -> Comparison:
        """Compare all that is not certain; report each damaged file once."""
        found = compare(self._log, known)
        if not found.is_same:
            self._rolled = None
        self._compared.update(found.certain)
        if found.damaged is not None:
            stamp = self._stamps.get(found.damaged)
            if found.damaged in self._damaged and self._damaged[found.damaged] == stamp:
                return found._replace(damaged=None)
            self._damaged[found.damaged] = stamp
        return found


def _stamp_of(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return Stamp(stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
