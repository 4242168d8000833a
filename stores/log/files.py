"""Reads the files of a commitlog as they are now; `stores.log.commitlog` knows records.

All reading is `pread` into memory of our own. A file that is cut or replaced under us then gives
fewer bytes, which is an answer. A mapping would raise SIGBUS.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.formats.rocketmq import names
from reput.stores.log import broker_lock, listing
from reput.stores.log.left_behind import LeftBehind
from reput.stores.log.left_over import LeftOvers
from reput.stores.log.listing import stamp_of
from reput.stores.reads import preadv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.log.listing import Damage, LogFile, Stamp

_OPEN_FILES = 64
# Before a broker removes a file it waits for its readers, usually a second at most.
GAP_SECONDS = 2.0
_REST_NS = 3_000_000_000
_GAP_POLL_SECONDS = 0.02


class LogChangedError(ReputError):
    """A file went while it was to be read: it has expired, or its broker has cut the log."""


class LogFiles:
    """The files of one store's commitlog, as they are now; `refresh` looks again.

    Attributes:
        directories: where they stand.
        settings: see `__init__`.
        file_size: bytes of each.
        min_offset: the first physical offset that is still there.
        end_of_files: the physical offset after the last file, written or not.
        most_open: how many files are kept open.
        stamps: by where a file begins; replaced as a whole by each `refresh`.
        damages: bytes that are missing between files, in order: they read as the end of a file.
        unfinished: what the last file lacks, None if nothing: a copy of it may be in progress.
        left_overs: records past the log's end that are known to be cut away.
        taken: how often other files were taken for the log's.
    """

    damages: tuple[Damage, ...]
    unfinished: Damage | None

    def __init__(
        self, directories: Sequence[Path], settings: BrokerSettings, store: Path | None = None
    ) -> None:
        """Look at the files.

        Args:
            directories: where they stand; several when the broker has several paths.
            settings: file size, how records are read.
            store: the broker's storePathRootDir, whose lock tells whether a broker writes.

        Raises:
            StoreError: no file is there, or one that does not belong to a commitlog.
            FormatError: no file has the size that the settings say.
        """
        self.directories = list(directories)
        self.settings = settings
        self.file_size = settings.commitlog_file_size
        self._store = store
        self.most_open, self._open = _OPEN_FILES, dict[int, int]()
        # As with a Python file, a log that is never closed leaves no descriptor open.
        weakref.finalize(self, _close_all, self._open)
        self._files: dict[int, Path] = {}
        self._inodes: dict[int, tuple[int, int]] = {}
        self.stamps: dict[int, Stamp] = {}
        self._listed: listing.Listed | None = None
        self.left_overs = LeftOvers()
        self.taken = 0
        self._left_behind = LeftBehind()
        self.refresh()

    def refresh(self) -> None:
        """Look at the files again: new ones come, old ones expire.

        A directory is not read in one moment, and a broker with several paths makes the next file
        in another one: files are missing in between only if a second look misses them too.
        """
        self._listed = listing.Listed.now(self.directories)
        found = self._found()
        found = self._found() if listing.is_damaged(found, self.file_size) else found
        deadline = time.monotonic() + GAP_SECONDS
        while self._has_new_gap(found) and time.monotonic() < deadline:
            # A broker that cuts its log removes files one by one, the first of them first.
            time.sleep(_GAP_POLL_SECONDS)
            found = self._found()
        listing.require_files(found, self.directories, self.file_size)
        self._take(found)
        # Where a file goes meanwhile, the next look is at what is there then.
        with contextlib.suppress(LogChangedError):
            left = self._left_behind.first(self)
            if left is not None:
                self._take({base: file for base, file in found.items() if base < left})

    def refresh_last(self) -> None:
        """Look at the last files again; at all where files came or went, or a second has passed.

        That costs the same however many files there are.
        """
        listed = None if self.damages or self.unfinished else self._listed
        stamps = listed and listed.grown(self._files, self.stamps, self.directories)
        if stamps is None:
            self.refresh()
        else:
            self.stamps = stamps

    def _take(self, found: dict[int, LogFile]) -> None:
        """Take these files for the log's."""
        self.taken += 1
        # An empty file in between counts as missing; one at the end is still being made.
        there = [base for base in sorted(found) if found[base].size]
        # A file that was removed and made again has only its name in common with the old one.
        inodes = {base: found[base].inode for base in there}
        for base in [b for b in self._open if inodes.get(b) != self._inodes.get(b)]:
            os.close(self._open.pop(base))
        self._files = {base: found[base].path for base in there}
        self.min_offset, self.end_of_files = there[0], there[-1] + self.file_size
        self._inodes = inodes
        self.stamps = {base: found[base].stamp for base in there}
        self.damages, self.unfinished = listing.damages_of(found, there, self.file_size)

    def _found(self) -> dict[int, LogFile]:
        return listing.list_files(self.directories, self.file_size)

    def _has_new_gap(self, found: dict[int, LogFile]) -> bool:
        """Tell whether files are missing in between that were not when we looked last."""
        return bool(self._files) and not self.damages and listing.has_gap(found, self.file_size)

    def damage_at(self, position: int) -> Damage | None:
        """Return the damage that has a physical offset, None if its byte is in a file."""
        for damage in (*self.damages, *([self.unfinished] if self.unfinished else [])):
            if damage.start <= position < damage.end:
                return damage
        return None

    @property
    def bases(self) -> list[int]:
        """Return the physical offsets where files begin, in order."""
        return list(self._files)

    def file_of(self, position: int) -> tuple[Path, int]:
        """Return the file and byte of a physical offset, for messages; past all files the last."""
        base = self.base_of(position)
        damage = self.damage_at(position)
        if damage is not None and base not in self._files:
            return damage.path.with_name(names.offset_file(base)), position - base
        if base not in self._files:
            last = self.bases[-1]
            return self._files[last], position - last
        return self._files[base], position - base

    def holds(self, offset: int) -> bool:
        """Tell whether a physical offset is in the files; for the log see `following.log_end`."""
        return self.min_offset <= offset < self.end_of_files

    @property
    def known_end(self) -> int:
        """Return a physical offset up to which all is in the log, without looking for the end."""
        return self.end_of_files

    def end(self) -> int:
        """Return the physical offset after the last file; `following.log_end` has the log's end."""
        return self.end_of_files

    def sure_of(self, base: int) -> int:
        """Return the physical offset before which `holds` needs no look at a file's bytes.

        Past that, a record may stand in the space of the file's BLANK; `stores.following.log_end`
        looks.
        """
        return base + self.file_size

    def stop_of(self, base: int) -> int:
        """Return the physical offset where the file that begins at `base` ends."""
        return base + self.file_size

    def base_of(self, position: int) -> int:
        """Return where the file of a physical offset begins."""
        return position - position % self.file_size

    def is_at_rest(self) -> bool:
        """Tell whether the log is at rest: no process writes to it.

        No broker holds the store's lock; and where its abort marker stands, or the store is not
        known, no file was touched in the last 3 s: the lock of another host may not be seen. A
        store that its broker has closed is at rest at once.
        """
        return not self.is_held() and self._rest_ns() <= 0

    def wait_for_rest(self) -> bool:
        """Wait until the log is at rest, a few seconds at most; False if a broker holds the store.

        A killed broker may have left the log a moment ago. Without the wait, what its files may
        still get would count as missing.
        """
        while not self.is_held():
            left = self._rest_ns()
            if left <= 0:
                return True
            time.sleep(left / 1e9)
            self.refresh()
        return False

    def is_held(self) -> bool:
        """Tell whether a broker holds the store."""
        return self._store is not None and broker_lock.is_held(self._store / names.LOCK)

    def held_since(self) -> float:
        """Return when the broker started that holds the store, ns; infinity if none does."""
        stamp = stamp_of(self._store / names.LOCK) if self._store and self.is_held() else None
        return math.inf if stamp is None else stamp.modified

    def is_quiet(self) -> bool:
        """Tell whether no broker holds the store's lock, and no file was touched in the last 3 s.

        Unlike `is_at_rest` it looks at the files' times also where no abort marker stands: a copy
        in progress has none.
        """
        return not self.is_held() and self._quiet_ns() <= 0

    def _rest_ns(self) -> int:
        """Return how long the files have to stay as they are until the log is at rest, ns."""
        is_closed = self._store is not None and not (self._store / names.ABORT).exists()
        return 0 if is_closed else self._quiet_ns()

    def _quiet_ns(self) -> int:
        newest = max((stamp.modified for stamp in self.stamps.values()), default=0)
        # A time in the future comes from a clock that went back. It counts like one long ago.
        return _REST_NS - abs(time.time_ns() - newest)

    def has(self, path: str) -> bool:
        """Tell whether a path is that of a file in the log's directories."""
        return Path(path).parent in self.directories

    def stamp_of(self, base: int) -> Stamp | None:
        """Return the stamp of the file that begins at a physical offset now; None if it went."""
        return stamp_of(self._files[base]) if base in self._files else None

    def signs(self, position: int) -> tuple[Stamp | None, ...]:
        """Return what changes with any cut or growth: a few stamps, however many files there are.

        Args:
            position: physical offset up to which the caller has read.

        Returns:
            Stamps of the directories, and of the files at and just before the position.
        """
        bases = {self.base_of(max(position, 0)), self.base_of(max(position - 1, 0))}
        return (*listing.signs_of(self.directories), *map(self.stamp_of, sorted(bases)))

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Read bytes of one file; return how many it had.

        Raises:
            LogChangedError: the file is no longer there.
            OSError: the device failed.
        """
        base = self.base_of(position)
        wanted = min(len(buffer), base + self.file_size - position)
        got = 0
        while got < wanted and (more := self.read_once([buffer[got:wanted]], position + got)):
            got += more
        return got

    def read_once(self, buffers: list[memoryview], position: int) -> int:
        """Read bytes of one file with one call; return how many came, maybe not all.

        Raises:
            LogChangedError: the file is no longer there.
            OSError: the device failed.
        """
        base = position - position % self.file_size
        descriptor = self._open.get(base)
        if descriptor is None:
            descriptor = self._descriptor(base)
        try:
            return preadv(descriptor, buffers, position - base)
        except OSError as error:
            path, _ = self.file_of(base)
            raise OSError(error.errno, error.strerror, str(path)) from error

    def _descriptor(self, base: int) -> int:
        known = self._open.get(base)
        if known is not None:
            return known
        while len(self._open) >= self.most_open:
            os.close(self._open.pop(next(iter(self._open))))
        descriptor = self.open_file(base)
        # Two parsers may get here at once; the second one's descriptor is one too many.
        first = self._open.setdefault(base, descriptor)
        if first != descriptor:
            os.close(descriptor)
        return first

    def open_file(self, base: int) -> int:
        """Open the file that begins at a physical offset; the caller closes it.

        Raises:
            LogChangedError: the file is no longer there.
        """
        path = self._files.get(base)
        if path is None:
            if self.damage_at(base) is None:
                raise gone(base)
            # Missing in between: it reads as empty, and the reader reports it.
            path = Path(os.devnull)
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise gone(base) from error

    def bytes_at(self, position: int, length: int) -> bytes:
        """Return bytes of one file from `position` on: fewer where the file ends."""
        data = bytearray(length)
        return bytes(data[: self.read_into(memoryview(data), position)])

    def close(self) -> None:
        """Close the files; what is read afterwards opens them again."""
        _close_all(self._open)


def gone(base: int) -> LogChangedError:
    """Return the error of a file that is no longer there, by where it begins."""
    name = names.offset_file(base)
    return LogChangedError(f"commitlog file {name} is not there: it has expired or was removed")


def _close_all(descriptors: dict[int, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])
