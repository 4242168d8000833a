"""Whether the files of an output are those that its progress record was written for.

Each start of an output looks at this, so it is cheap: where queues begin and end, the last entry of
each file, the CRC of each queue's last bytes if one was recorded, and the headers of the index
files. `reput verify` looks at the rest.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.checkpoints.disk import changes
from reput.checkpoints.index_headers import check_index
from reput.checkpoints.last_units import REMEDY, LastUnits, check_size, file_path
from reput.formats.errors import StoreError
from reput.formats.rocketmq import (
    batchconsumequeue,
    consumequeue,
    consumequeue_ext,
    names,
)
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE
from reput.formats.rocketmq.consumequeue_ext import END_MARK

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.formats.rocketmq.broker import BrokerSettings

# At least the largest unit of an extension: a file that was left has its end mark within this many
# bytes of its end.
_EXT_TAIL = 1 << 16
_FIRST_FILE = names.offset_file(0)
_BATCH_SIZE = batchconsumequeue.UNIT_SIZE


class _Kind(NamedTuple):
    """A kind of queue: bytes of its files and of its units, 0 for units of any size."""

    file_size: int
    unit_size: int


def check(root: Path, found: Progress, settings: BrokerSettings, floor: int) -> dict[str, int]:
    """Refuse files that are missing, set back or written to since; see `REMEDY`.

    Args:
        root: the output root.
        found: its progress record. After a writer that was killed, more may be there than it says.
        settings: file sizes.
        floor: physical offset where the log begins: what points below it may be gone.

    Returns:
        Where queues begin now, see `Progress.firsts`.

    Raises:
        StoreError: the file, what was expected and what was found.
        OSError: no permission, the device failed.
    """
    checks = _Queues(root, found, settings, floor)
    for name, end in found.queues.items():
        if end > 0:
            checks.check(name, end)
    if found.clean:
        checks.check_others()
    if settings.writes_index:
        check_index(root / names.INDEX, found, settings, floor)
    return checks.firsts


class _Queues:
    """The queues of one output root; paths are text, because there may be ten thousand."""

    def __init__(self, root: Path, found: Progress, settings: BrokerSettings, floor: int) -> None:
        self._root = str(root)
        self._found = found
        self._floor = floor
        self._kinds = {
            names.CONSUMEQUEUE: _Kind(settings.consumequeue_file_size, ENTRY_SIZE),
            names.CONSUMEQUEUE_EXT: _Kind(settings.ext_file_size, 0),
            names.BATCH_CONSUMEQUEUE: _Kind(settings.batch_file_size, _BATCH_SIZE),
        }
        self._units = LastUnits(self._root, found, settings.consumequeue_file_size)
        self._ahead = frozenset(found.ahead)
        self.firsts = dict(found.firsts)

    def check(self, name: str, end: int) -> None:
        """Check one queue, which ends at byte `end`."""
        path = f"{self._root}/{name}"
        kind = self._kinds[name.partition("/")[0]]
        size = kind.file_size
        if end <= size and self._is_single(path, name, end, kind):
            return
        try:
            listed = os.listdir(path)  # noqa: PTH208 - thousands of them: no Path for each name
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(
                path, f"no such directory, expected a queue of {end} bytes", REMEDY
            ) from None
        bases = sorted(b for text in listed if (b := names.parse_offset_file(text)) is not None)
        last = (end - 1) // size * size
        self._check_bases(name, bases, last, end)
        for base in bases[:-1] if len(bases) > 1 else ():
            if base < last:
                self._check_full(file_path(path, base), kind)
        if last < self.firsts.get(name, 0):
            self._check_made_ahead(file_path(path, end), name, end, kind)
            return
        descriptor = os.open(file_path(path, last), os.O_RDONLY | os.O_CLOEXEC)
        self._check_last(file_path(path, last), descriptor, name, end, kind)

    @staticmethod
    def _check_full(path: str, kind: _Kind) -> None:
        """Check a file that has another one after it: an older state of it lacks its end."""
        size, unit = kind
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with changes.naming(Path(path)):
                check_size(path, size, descriptor)
                if unit:
                    at = size // unit * unit - unit
                    raw = os.pread(descriptor, unit, at)
                    is_full = consumequeue.head_of(raw)[1] > 0
                else:
                    at = max(size - _EXT_TAIL, 0)
                    raw = os.pread(descriptor, size - at, at).rstrip(b"\0")
                    is_full = raw.endswith(END_MARK) or at + len(raw) + len(END_MARK) > size
        finally:
            os.close(descriptor)
        if not is_full:
            raise StoreError(path, "it is not full, but its queue continues in a later one", REMEDY)

    def _is_single(self, path: str, name: str, end: int, kind: _Kind) -> bool:
        """Check a queue of one file, as most are, without listing it; tell if it is one."""
        if name in self._ahead or name in self._found.firsts:
            return False
        if self._found.clean and os.access(file_path(path, kind.file_size), os.F_OK):
            return False
        file = f"{path}/{_FIRST_FILE}"
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._check_last(file, descriptor, name, end, kind)
        return True

    def _check_last(self, path: str, descriptor: int, name: str, end: int, kind: _Kind) -> None:
        """Check a queue's last file, and close it."""
        try:
            self._check_end(path, descriptor, name, end, kind)
        finally:
            os.close(descriptor)

    def _check_end(self, path: str, descriptor: int, name: str, end: int, kind: _Kind) -> None:
        with changes.naming(Path(path)):
            check_size(path, kind.file_size, descriptor)
            base = (end - 1) // kind.file_size * kind.file_size
            if kind.unit_size:
                self._units.check_units(path, descriptor, name, end - base, kind.unit_size)
            else:
                self._units.check_ext(path, descriptor, name, base, end)
            self._units.check_tail(path, descriptor, name, end - base)

    def _check_made_ahead(self, path: str, name: str, end: int, kind: _Kind) -> None:
        """Check the only file of a queue whose entries have all expired: it begins at their end."""
        if name not in self._ahead:
            found = (
                f"the queue has {end} bytes, and the files that had them were removed as expired"
            )
            raise StoreError(path, found, REMEDY)
        if not self._found.clean:
            # It may have lost its size with its writer, or have got entries.
            return
        with open(path, "rb", 0) as file, changes.naming(Path(path)):  # noqa: PTH123 - as above
            check_size(path, kind.file_size, file.fileno())
            if any(file.read(kind.unit_size)):
                raise StoreError(
                    path, f"an entry stands at byte {end}, where the queue ends", REMEDY
                )

    def _check_bases(self, name: str, bases: list[int], last: int, end: int) -> None:
        """Check which files there are."""
        path = f"{self._root}/{name}"
        size = self._kinds[name.partition("/")[0]].file_size
        began = self._found.firsts.get(name, 0)
        first = min(bases, default=began)
        if first > began:
            if first > last or not self._has_expired(name, first):
                found = f"no such file, the queue has {end} bytes and began with it"
                raise StoreError(file_path(path, began), found, REMEDY)
            self.firsts[name] = first
        following = last + size if name in self._ahead else last
        known = set(bases)
        # One from before the beginning has expired and is still there, or there again.
        for base in range(max(first, began), following + 1, size):
            if base not in known:
                found = f"no such file, the queue has {end} bytes"
                raise StoreError(file_path(path, base), found, REMEDY)
        if self._found.clean and bases[-1] > following:
            found = f"this file is there, and the queue ends before it, at byte {end}"
            raise StoreError(file_path(path, bases[-1]), found, REMEDY)

    def _has_expired(self, name: str, first: int) -> bool:
        """Tell whether all that stood before byte `first` of a queue was of expired records."""
        if self._floor == 0:
            return False
        kind, _, rest = name.partition("/")
        if kind == names.CONSUMEQUEUE_EXT:
            return self._has_expired_units(rest, first)
        path = file_path(f"{self._root}/{name}", first)
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            offset, _ = consumequeue.head_of(file.read(consumequeue.HEAD.size))
        return offset <= self._floor

    def _has_expired_units(self, rest: str, first: int) -> bool:
        """Tell whether the first entry whose record the log has names a unit from `first` on."""
        directory = f"{self._root}/{names.CONSUMEQUEUE}/{rest}"
        try:
            listed = sorted(os.listdir(directory))  # noqa: PTH208 - as above
        except (FileNotFoundError, NotADirectoryError):
            return False
        for text in listed:
            if names.parse_offset_file(text) is None:
                continue
            entries = np.fromfile(f"{directory}/{text}", consumequeue.ENTRY)
            is_live = (entries["size"] > 0) & (entries["physical_offset"] >= self._floor)
            if is_live.any():
                code = int(entries["tags_code"][int(np.argmax(is_live))])
                is_address = consumequeue_ext.is_address(code)
                return is_address and consumequeue_ext.position(code) >= first
        return False

    def check_others(self) -> None:
        """Refuse queues that the progress record does not name: new entries would follow theirs."""
        known = self._found.queues
        for kind in self._kinds:
            for topic in _directories(f"{self._root}/{kind}"):
                # Another output's own directory first: it says most.
                queues = sorted(_directories(topic.path), key=lambda each: each.name != names.STATE)
                for queue in queues:
                    name = f"{kind}/{topic.name}/{queue.name}"
                    if name not in known:
                        self._check_other(name)

    def _check_other(self, name: str) -> None:
        known = self._found.queues
        for directory, there, files in os.walk(f"{self._root}/{name}"):
            if names.STATE in {*there, directory.rpartition("/")[2]}:
                found = "another output of reput is inside this one"
                raise StoreError(directory, found, "Move it away")
            if files and directory[len(self._root) + 1 :] not in known:
                found = "a queue that is not in the progress record"
                raise StoreError(f"{directory}/{min(files)}", found, REMEDY)


def _directories(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return [entry for entry in found if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
