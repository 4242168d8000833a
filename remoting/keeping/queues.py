"""The consume queues of what is kept: they are made again from the log, so a crash does not matter.

Only how far a queue is outlives its records: before a file of the log goes, its queues are synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.checkpoints.disk import appending, changes
from reput.formats.rocketmq import names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, ENTRY_STRUCT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Key = tuple[str, int]

_ENTRIES = 1000
FILE_SIZE = _ENTRIES * ENTRY_SIZE


class KeptQueues:
    """The files, by topic and queue id.

    Attributes:
        ends: the queue offset of each queue's next message.
    """

    def __init__(self, directory: Path) -> None:
        """Look how far the queues are.

        Args:
            directory: `consumequeue` of the store.

        Raises:
            OSError: it cannot be read or made.
        """
        self._directory = directory
        for above in changes.make_directories(directory):
            changes.sync_directory(above)
        self.ends: dict[Key, int] = {key: self._end(key) for key in self._keys()}
        self._unsynced: set[Path] = set()
        self._seen: dict[Path, bytes] = {}

    def _keys(self) -> Iterator[Key]:
        for topic in self._directory.iterdir():
            for queue in topic.iterdir():
                if queue.name.isdecimal():
                    yield topic.name, int(queue.name)

    def _files(self, key: Key) -> list[Path]:
        directory = self._directory / key[0] / str(key[1])
        return sorted(directory.iterdir()) if directory.is_dir() else []

    def _end(self, key: Key) -> int:
        """Return the queue offset after a queue's last entry that is there."""
        for path in reversed(self._files(key)):
            used = len(path.read_bytes().rstrip(b"\0"))
            if used:
                # An entry's last bytes may be zeros.
                return (int(path.name) + used + ENTRY_SIZE - 1) // ENTRY_SIZE
            if int(path.name):
                return int(path.name) // ENTRY_SIZE
        return 0

    def restore(self, key: Key, queue_offset: int, entry: bytes) -> None:
        """Write an entry where it does not stand already; for `recovered` once all are there.

        Raises:
            OSError: no space, no permission.
        """
        path, at = self._place(key, queue_offset)
        if path not in self._seen:
            self._seen[path] = path.read_bytes() if path.exists() else b""
        if self._seen[path][at : at + ENTRY_SIZE] != entry:
            self.put(key, queue_offset, entry)
        self.ends[key] = max(self.ends.get(key, 0), queue_offset + 1)

    def recovered(self, log_end: int) -> None:
        """Take that all entries are restored, and remove those past the log's end.

        Args:
            log_end: physical offset after the log's last record.

        Raises:
            OSError: the disk failed.
        """
        self._seen.clear()
        for key, end in list(self.ends.items()):
            held = end
            while held and self._named(key, held - 1) >= log_end:
                held -= 1
            self.take_back({key: held})

    def _named(self, key: Key, queue_offset: int) -> int:
        """Return the physical offset that an entry names, 0 if it is not there."""
        raw = _read(*self._place(key, queue_offset))
        return int(ENTRY_STRUCT.unpack(raw)[0]) if len(raw) == ENTRY_SIZE else 0

    def _place(self, key: Key, queue_offset: int) -> tuple[Path, int]:
        """Return the file of an entry, and its first byte there."""
        number, at = divmod(queue_offset, _ENTRIES)
        return self._path(key, number), at * ENTRY_SIZE

    def _path(self, key: Key, number: int) -> Path:
        directory = self._directory / key[0] / str(key[1])
        return directory / names.offset_file(number * FILE_SIZE)

    def put(self, key: Key, queue_offset: int, entry: bytes) -> None:
        """Write an entry.

        Raises:
            OSError: no space, no permission.
        """
        path, at = self._place(key, queue_offset)
        if not path.exists():
            for above in changes.make_directories(path.parent):
                changes.sync_directory(above)
            changes.make_file(path, FILE_SIZE)
            changes.sync_directory(path.parent)
        appending.write_into(path, at, entry, syncs=False)
        self._unsynced.add(path)
        self.ends[key] = queue_offset + 1

    def take_back(self, ends: Mapping[Key, int]) -> None:
        """Let queues end where they did before; entries after that become zeros again.

        Args:
            ends: the queue offset of each queue's next message.

        Raises:
            OSError: the disk failed.
        """
        written = {key: self.ends.get(key, end) for key, end in ends.items()}
        self.ends |= {key: end for key, end in ends.items() if key in self.ends}
        for key, end in ends.items():
            # The last one may stand there in part.
            for queue_offset in range(end, written[key] + 1):
                self._clear(key, queue_offset)

    def _clear(self, key: Key, queue_offset: int) -> None:
        """Make an entry zeros, as far as it was written: the rest may have no space on the disk."""
        path, at = self._place(key, queue_offset)
        used = len(_read(path, at).rstrip(b"\0"))
        if used:
            appending.write_into(path, at, bytes(used), syncs=False)

    def sync(self) -> None:
        """Flush all entries.

        Raises:
            OSError: the disk failed.
        """
        while self._unsynced:
            path = self._unsynced.pop()
            if path.exists():
                appending.sync_file(path)

    def drop_before(self, position: int) -> None:
        """Remove files whose entries are all of records before a place in the log, the last kept.

        Raises:
            OSError: one cannot be removed.
        """
        for key in self.ends:
            for path in self._files(key)[:-1]:
                last = path.read_bytes()[-ENTRY_SIZE:]
                if ENTRY_STRUCT.unpack(last)[0] >= position:
                    break
                changes.remove_file(path)


def _read(path: Path, at: int) -> bytes:
    """Return the bytes of an entry: fewer where its file ends, none where there is none."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(at)
        return file.read(ENTRY_SIZE)
