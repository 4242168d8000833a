"""What stands in one file of a store, as rows: the engine of `reput inspect`.

Files are taken as they are, whole or damaged, live or not; nothing is compared with anything
else (see `stores.verify.queues` for that). Rows are plain dicts, made as they are asked for; text
in them comes from records and has to go through `printable` on its way to a terminal.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from reput.formats.errors import FormatError
from reput.formats.kernels import frames
from reput.formats.rocketmq import checkpoint, commitlog, indexfile
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.commitlog import ACCEPT_V2, BLANK_SIZE, Record, Verdict
from reput.formats.rocketmq.indexfile import FIRST_ITEM, HEADER_SIZE, ITEM, SLOT_SIZE, Header
from reput.stores.inspect.printable import printable
from reput.stores.inspect.queues import (
    Inspection,
    base_of,
    inspect_batch,
    inspect_consumequeue,
    inspect_ext,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.stores.inspect.queues import Row

__all__ = [
    "Inspection",
    "inspect_batch",
    "inspect_checkpoint",
    "inspect_commitlog",
    "inspect_consumequeue",
    "inspect_ext",
    "inspect_index",
    "printable",
]

_STEP = 16 << 20
_PIECE = 1 << 14
# What can be passed over by its size: everything but the frame itself adds up.
_HAS_SIZE = {Verdict.BAD_BODY_CRC, Verdict.BAD_PROPERTY_CRC, Verdict.BAD_TIMESTAMP}


def _nothing_more(_record: Record) -> Row:
    return {}


def inspect_commitlog(
    path: Path,
    settings: BrokerSettings,
    first: int = 0,
    limit: int | None = None,
    more: Callable[[Record], Row] = _nothing_more,
) -> Inspection:
    """Return the records of one commitlog file, and what stands where they end.

    Args:
        path: the file; its name says where it begins in the log.
        settings: how records are read.
        first: physical offset; rows begin with the record that starts there or next.
        limit: rows at most.
        more: returns what is shown of a record besides its fields.

    Raises:
        FormatError: the name is not an offset that a log's file can have.
        OSError: it cannot be read.
    """
    size = _size_of(path)
    base = base_of(path)
    if base + size >= 1 << 63:
        raise FormatError(path, 0, f"the file would end at {base + size}, beyond a Java long")
    facts = {"file": str(path), "size": size, "begins_at": base, "ends_at": base + size}
    return Inspection(facts, islice(_records(path, base, size, settings, first, more), limit))


def _records(
    path: Path,
    base: int,
    size: int,
    settings: BrokerSettings,
    first: int,
    more: Callable[[Record], Row],
) -> Iterator[Row]:
    position, end = _hop(path, base, size, first), base + size
    with path.open("rb") as file:
        while position < end:
            head = os.pread(file.fileno(), BLANK_SIZE, position - base)
            length = min(max(int.from_bytes(head[:4], "big"), BLANK_SIZE), end - position)
            # Do not read a whole file for a size that cannot be.
            length = min(length, settings.max_record_size)
            data = os.pread(file.fileno(), length, position - base)
            verdict, found = commitlog.read(data, 0, position, end, settings.read_rules)
            if isinstance(found, Record):
                yield _record_row(found) | more(found)
                position += found.size
                continue
            yield {"physical_offset": position, "size": found, "found": verdict.explanation}
            if verdict not in _HAS_SIZE:
                return
            position += found


def _hop(path: Path, base: int, size: int, first: int) -> int:
    """Return where the first record at or after `first` starts, or where the records end."""
    position = base
    stop = min(first, base + size)
    while position < stop:
        data = np.fromfile(
            path, np.uint8, min(_STEP, base + size - position), offset=position - base
        )
        hopped = frames.hop(data, 0, len(data), position, base + size, ACCEPT_V2, stop, 1 << 62)
        verdict, reached = hopped[:2]
        if verdict != Verdict.SHORT or reached == position:
            return int(reached)
        position = int(reached)
    return position


def _record_row(record: Record) -> Row:
    row: Row = record._asdict()
    row["body_size"] = len(row.pop("body"))
    row["found"] = Verdict.RECORD.explanation
    return row


def inspect_index(
    path: Path,
    settings: BrokerSettings,
    first: int = FIRST_ITEM,
    limit: int | None = None,
    *,
    shows_slots: bool = False,
) -> Inspection:
    """Return the items of an index file that its header counts, or its slots that are used.

    Args:
        path: the file.
        settings: how many slots and items it has, if it is not of RocketMQ's standard size.
        first: number of an item, or of a slot.
        limit: rows at most.
        shows_slots: rows are slots.

    Raises:
        FormatError: its size does not fit the slots and items.
        OSError: it cannot be read.
    """
    size = _size_of(path)
    slots, items = _slots_and_items(path, size, settings)
    with path.open("rb") as file:
        header = Header.unpack(file.read(HEADER_SIZE))
    facts = {"file": str(path), "size": size, "slots": slots, "items": items, **header._asdict()}
    end = min(header.next_item, items)
    if shows_slots:
        return Inspection(facts, islice(_slot_rows(path, slots, first), limit))
    return Inspection(facts, islice(_item_rows(path, header, slots, first, end), limit))


def _size_of(path: Path) -> int:
    """Return the bytes of a file.

    Raises:
        IsADirectoryError: it is a directory.
        OSError: it cannot be looked at.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return found.st_size


def _slots_and_items(path: Path, size: int, settings: BrokerSettings) -> tuple[int, int]:
    for slots, items in (
        (indexfile.SLOTS, indexfile.ITEMS),
        (settings.index_slots, settings.index_items),
    ):
        if size == indexfile.file_size(slots, items):
            return slots, items
    wanted = indexfile.file_size(settings.index_slots, settings.index_items)
    raise FormatError(
        path,
        size,
        f"the file ends here; {settings.index_slots} slots and {settings.index_items} items "
        f"need {wanted} bytes",
        "Give the broker's maxHashSlotNum and maxIndexNum in --broker-conf.",
    )


def _item_rows(path: Path, header: Header, slots: int, first: int, end: int) -> Iterator[Row]:
    for start in range(max(first, FIRST_ITEM), end, _PIECE):
        count = min(_PIECE, end - start)
        items = np.fromfile(path, ITEM, count, offset=indexfile.item_position(start, slots))
        for number, item in enumerate(items.tolist(), start):
            key_hash, physical_offset, time_diff, previous = item
            yield {
                "item": number,
                "key_hash": key_hash,
                "slot": key_hash % slots,
                "physical_offset": physical_offset,
                "time_diff": time_diff,
                "timestamp": header.begin_timestamp + 1000 * time_diff,
                "previous": previous,
            }


def _slot_rows(path: Path, slots: int, first: int) -> Iterator[Row]:
    for start in range(max(first, 0), slots, _PIECE):
        count = min(_PIECE, slots - start)
        heads = np.fromfile(path, ">i4", count, offset=HEADER_SIZE + start * SLOT_SIZE)
        for i in np.flatnonzero(heads).tolist():
            yield {"slot": start + i, "newest_item": int(heads[i])}


def inspect_checkpoint(path: Path) -> Inspection:
    """Return the longs of a checkpoint file.

    Raises:
        FormatError: it is too short, or too long for one.
        OSError: it cannot be read.
    """
    size = _size_of(path)
    if size > checkpoint.FILE_SIZE:
        most = checkpoint.FILE_SIZE
        raise FormatError(path, most, f"the file has {size} bytes, a checkpoint has {most}")
    data = path.read_bytes()
    try:
        values = checkpoint.unpack(data)
    except ValueError as error:
        raise FormatError(path, len(data), str(error)) from error
    rows = [
        {"byte": 8 * i, "field": name, "value": value}
        for i, (name, value) in enumerate(zip(StoreCheckpoint._fields, values, strict=True))
    ]
    return Inspection({"file": str(path), "size": len(data)}, rows)
