"""Writes index files: the keys of all records, strictly in commitlog order.

RocketMQ `IndexService#buildIndex`. An insert cannot be repeated harmlessly, so this sink never
decides what is new: the caller hands each record over once (`checkpoints.progress` says where to
begin), and `sinks.upkeep.rollback` rolls back what a killed process had inserted beyond that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.checkpoints.disk import changes
from reput.formats.errors import FormatError, StoreError
from reput.formats.kernels import indexfile as indexfile_kernels
from reput.formats.kernels.indexfile import State
from reput.formats.rocketmq import indexfile, names
from reput.formats.rocketmq.indexfile import FIRST_ITEM, HEADER_SIZE, ITEM_SIZE, SLOT_SIZE, Header
from reput.sinks.files.mapped_file import MappedFile

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.sinks.sink import Rows

# Items prepared at a time: 8 MiB of them, some milliseconds; and as many again meanwhile.
_STEP = 8 << 20
_NO_FILE = np.zeros(HEADER_SIZE, np.uint8)


class IndexPosition(NamedTuple):
    """Where an index ends: its newest file and the header that it had, or ("", …) for none."""

    name: str
    header: Header


NO_INDEX = IndexPosition("", Header())


class IndexSink:
    """The index files of one output root."""

    name = "index"

    def __init__(self, root: Path, staging: Path, settings: BrokerSettings) -> None:
        """Open the newest file, if there is one.

        Args:
            root: the output root.
            staging: see `MappedFile.create`.
            settings: slots and items of a file.

        Raises:
            StoreError: a foreign file stands in the directory.
        """
        self.directory = root / names.INDEX
        self.slots = settings.index_slots
        self.items = settings.index_items
        self._file_size = indexfile.file_size(self.slots, self.items)
        self._staging = staging
        self._state: NDArray[np.int64] = np.zeros(State.FIELDS, np.int64)
        self._file: MappedFile | None = None
        self._full: list[MappedFile] = []
        self._begun = 0
        self._items_before = 0
        self._flushed_count = FIRST_ITEM
        self._unsynced: set[Path] = set()
        # End timestamp of the newest full file that is on disk; the checkpoint wants it.
        self.flushed_timestamp = 0
        self.names = self._existing()
        # By name, of the files before the newest.
        self._headers: dict[str, Header] = {}
        if self.names:
            try:
                self._open_last()
            except BaseException:
                self.close()
                raise

    def _existing(self) -> list[str]:
        if not self.directory.is_dir():
            return []
        found = sorted(entry.name for entry in self.directory.iterdir())
        for name in found:
            path = self.directory / name
            if not names.is_index_file(name):
                raise StoreError(path, "not the name of an index file", "Move it away")
            if path.stat().st_size != self._file_size:
                raise FormatError(
                    path,
                    path.stat().st_size,
                    f"the file ends here, expected {self._file_size} bytes",
                    "Check maxHashSlotNum and maxIndexNum, or remove the output and rebuild it.",
                )
        return found

    def _open_last(self) -> None:
        self._file = MappedFile(self.directory / self.names[-1], self._file_size)
        header = Header.unpack(self._file.read(0, HEADER_SIZE))
        self._load(header)
        # Not inserted by us, see `inserted`.
        self._items_before = -self._items_in_file
        self._file.prepare(HEADER_SIZE + self.slots * SLOT_SIZE)
        self._flushed_count = header.next_item
        for name in self.names[:-1]:
            with (self.directory / name).open("rb") as file:
                self._headers[name] = Header.unpack(file.read(HEADER_SIZE))
        if len(self.names) > 1:
            self.flushed_timestamp = self._headers[self.names[-2]].end_timestamp

    def _load(self, header: Header) -> None:
        self._state[State.BEGIN_TIMESTAMP] = header.begin_timestamp
        self._state[State.END_TIMESTAMP] = header.end_timestamp
        self._state[State.BEGIN_OFFSET] = header.begin_offset
        self._state[State.END_OFFSET] = header.end_offset
        self._state[State.SLOTS_USED] = header.slots_used
        self._state[State.COUNT] = header.next_item

    def remember(self, flushed_timestamp: int) -> None:
        """Take what was recorded of a full file that has expired since: it cannot be asked.

        RocketMQ `IndexService#flush` sets the checkpoint's timestamp where a file is full, and the
        removal of that file does not change it. It may be newer than the beginning of the file that
        follows: a broker's clock goes back at times.

        Args:
            flushed_timestamp: end timestamp of the file that the newest one follows, as recorded
                with it, ms; 0 if nothing says it.
        """
        if len(self.names) == 1:
            self.flushed_timestamp = flushed_timestamp

    @property
    def header(self) -> Header:
        """Return the header of the newest file as it should be on disk."""
        values: list[int] = self._state.tolist()
        # No item yet: a broker's file has 0 there until the first one.
        if values[State.COUNT] <= FIRST_ITEM:
            values[State.COUNT] = 0
        return Header._make(values)

    @property
    def position(self) -> IndexPosition:
        """Return where the index ends."""
        return IndexPosition(self.names[-1], self.header) if self.names else NO_INDEX

    def before(self, floor: int) -> tuple[tuple[str, Header], ...]:
        """Return the files before the newest, oldest first, as far as records are left of them.

        Args:
            floor: physical offset where the log begins.
        """
        kept = self._headers.items()
        return tuple((name, header) for name, header in kept if header.end_offset >= floor)

    @property
    def inserted(self) -> tuple[int, int]:
        """Return items inserted and files begun since this was opened."""
        return self._items_before + self._items_in_file, self._begun

    @property
    def _items_in_file(self) -> int:
        return max(int(self._state[State.COUNT]), FIRST_ITEM) - FIRST_ITEM

    @property
    def fill(self) -> float:
        """Return how full the newest file is, 0 to 1."""
        return (self.header.next_item - FIRST_ITEM) / max(self.items - FIRST_ITEM, 1)

    def write(self, block: Rows) -> None:
        """Insert the keys of a block's records.

        Raises:
            OSError: no space, no permission.
        """
        columns, count = block.columns, block.count
        row, key = 0, 0
        while count:
            row, key = self._insert(row, key, count, columns)
            if row >= count:
                break
            self._make_room()
        self._publish()

    def _insert(self, row: int, key: int, count: int, columns: Columns) -> tuple[int, int]:
        result: tuple[int, int] = indexfile_kernels.insert(
            row,
            key,
            count,
            columns.key_end,
            columns.key_hash,
            columns.physical_offset,
            columns.store_timestamp,
            columns.sys_flag,
            _NO_FILE if self._file is None else self._file.data,
            self.slots,
            self._prepared_items(),
            self._state,
        )
        return int(result[0]), int(result[1])

    def _prepared_items(self) -> int:
        if self._file is None:
            return 0
        prepared = (self._file.prepared - indexfile.item_position(0, self.slots)) // ITEM_SIZE
        return min(max(prepared, 0), self.items)

    def _make_room(self) -> None:
        """Prepare more of the file, or begin the next one if it is full."""
        if self._file is None or self._state[State.COUNT] >= self.items:
            self._roll()
        elif self._file is not None:
            # Beyond the items that stand there: a file that is opened again may have more.
            at = indexfile.item_position(int(self._state[State.COUNT]), self.slots)
            self._file.prepared = max(self._file.prepared, at)
            self._file.prepare(min(at + _STEP, self._file_size))
            self._file.prepare_ahead(min(self._file.prepared + _STEP, self._file_size))

    def _roll(self) -> None:
        previous = None
        if self._file is not None:
            previous = self.header
            self._headers[self.names[-1]] = previous
            self._publish()
            self._file.begin_flush_meanwhile()
            self._full.append(self._file)
        name = self._new_name()
        self._unsynced.update(changes.make_directories(self.directory), [self.directory])
        self._file = MappedFile.create(self.directory / name, self._file_size, self._staging)
        self._file.prepare(HEADER_SIZE + self.slots * SLOT_SIZE)
        self.names.append(name)
        # Nothing, not even its size and its header.
        self._flushed_count = 0
        header = indexfile.seeded(previous)
        self._items_before += self._items_in_file if previous else 0
        self._begun += 1
        self._load(header)
        self._publish()
        self._make_room()

    def _new_name(self) -> str:
        """Return a name after all others: brokers sort them to find the newest."""
        name = names.index_file(time.time_ns() // 1_000_000)
        if self.names and name <= self.names[-1]:
            # A roll within a millisecond, or a clock that went back; only the order counts.
            name = f"{int(self.names[-1]) + 1:0{names.INDEX_DIGITS}d}"
        return name

    def _publish(self) -> None:
        """Let readers see what was inserted: they trust no item beyond the header's count."""
        if self._file is not None:
            self._file.write(0, self.header.pack())

    def flush(self) -> None:
        """Flush every item that was inserted.

        Raises:
            OSError: the device failed.
        """
        for full in self._full:
            full.flush()
            self.flushed_timestamp = Header.unpack(full.read(0, HEADER_SIZE)).end_timestamp
            full.close()
        self._full = []
        count = int(self._state[State.COUNT])
        if self._file is not None and count != self._flushed_count:
            slots_end = indexfile.item_position(0, self.slots)
            # Items before slots before the header, each on disk before the next refers to it.
            start = indexfile.item_position(self._flushed_count, self.slots)
            self._file.flush(start, indexfile.item_position(count, self.slots))
            self._file.flush(0, slots_end)
            self._flushed_count = count
            self._file.prepare_again(0, slots_end)
        for directory in sorted(self._unsynced):
            changes.sync_directory(directory)
        self._unsynced = set()

    def finish(self, *, writes_first_count: bool) -> None:
        """Leave the newest file as a broker does when it stops.

        Args:
            writes_first_count: a file without items gets a count of 1.
        """
        if self._file is not None and writes_first_count:
            header = self.header
            if header.index_count == 0:
                self._file.write(0, header._replace(index_count=FIRST_ITEM).pack())
                self._file.flush(0, HEADER_SIZE)

    def close(self) -> None:
        """Give all maps back."""
        for file in [*self._full, *([self._file] if self._file is not None else [])]:
            file.close()
        self._full = []
        self._file = None
