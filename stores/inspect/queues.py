"""What stands in the files of a queue, as rows: entries, units of extensions, units of batches."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import FormatError
from reput.formats.rocketmq import batchconsumequeue, consumequeue, consumequeue_ext, names
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, PRE_BLANK
from reput.stores.inspect.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    Row = dict[str, Any]

_PIECE = 1 << 14


class Inspection(NamedTuple):
    """What a file says: facts about it, and its rows, which are read as they are taken."""

    facts: Row
    rows: Iterable[Row]


def inspect_consumequeue(path: Path, first: int = 0, limit: int | None = None) -> Inspection:
    """Return the entries of a consume queue that are not empty.

    Args:
        path: one file, or a queue's directory.
        first: number of an entry (the queue offset).
        limit: rows at most.

    Raises:
        FormatError: a name is not an offset, or a size not a multiple of the entries'.
        OSError: it cannot be read.
    """
    files = _files_of(path, ENTRY_SIZE)
    rows = (_entry_row(number, raw) for number, raw in _units(files, ENTRY_SIZE, first))
    return Inspection(_facts_of(path, files, ENTRY_SIZE), islice(rows, limit))


def _entry_row(number: int, raw: bytes) -> Row:
    entry = consumequeue.Entry.of(raw)
    row: Row = {"queue_offset": number, **entry._asdict()}
    if raw == PRE_BLANK:
        row["found"] = "fill before the queue's first record"
    elif consumequeue_ext.is_address(entry.tags_code):
        row["found"] = "an entry with an extension"
        row["ext_position"] = consumequeue_ext.position(entry.tags_code)
    else:
        row["found"] = "an entry"
    return row


def inspect_batch(path: Path, first: int = 0, limit: int | None = None) -> Inspection:
    """Return the units of a batch consume queue that are not empty.

    Args:
        path: one file, or a queue's directory.
        first: number of a unit, counted from position 0 of the queue.
        limit: rows at most.

    Raises:
        FormatError: a name is not an offset, or a size not a multiple of the units'.
        OSError: it cannot be read.
    """
    size = batchconsumequeue.UNIT_SIZE
    files = _files_of(path, size)
    layout = batchconsumequeue.UNIT_STRUCT
    rows = (
        {"number": number, **batchconsumequeue.Unit(*layout.unpack(raw))._asdict()}
        for number, raw in _units(files, size, first)
    )
    return Inspection(_facts_of(path, files, size), islice(rows, limit))


def inspect_ext(path: Path, first: int = 0, limit: int | None = None) -> Inspection:
    """Return the units of a consume queue extension.

    Args:
        path: one file, or a queue's directory.
        first: byte position in the queue's extension, as entries point to it.
        limit: rows at most.

    Raises:
        FormatError: a name is not an offset; on the way, a unit whose sizes do not add up.
        OSError: it cannot be read.
    """
    files = _files_of(path, 1)
    rows = (row for row in _ext_units(files) if row["position"] >= first)
    return Inspection(_facts_of(path, files, 1), islice(rows, limit))


def _ext_units(files: list[Path]) -> Iterator[Row]:
    for path in files:
        base = base_of(path)
        data = path.read_bytes()
        at = 0
        while True:
            try:
                unit = consumequeue_ext.unpack(data, at)
            except ValueError as error:
                raise FormatError(path, at, str(error)) from error
            if unit is None:
                break
            row = {"position": base + at, "address": consumequeue_ext.address(base + at)}
            yield {**row, "size": unit.size, **unit._asdict(), "bitmap": unit.bitmap.hex()}
            at += unit.size


def base_of(path: Path) -> int:
    """Return where a file begins, by its name.

    Raises:
        FormatError: the name is not an offset.
    """
    base = names.parse_offset_file(path.name)
    if base is None:
        raise FormatError(
            path,
            0,
            f"the name {printable(path.name)!r} is not an offset of {names.DIGITS} digits",
            "These files are named by where they begin; give the file its own name back.",
        )
    return base


def _files_of(path: Path, unit: int) -> list[Path]:
    """Return the files to inspect: one, or a directory's in order."""
    files = (
        sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else [path]
    )
    for file in files:
        base_of(file)
        size = file.stat().st_size
        if size % unit:
            raise FormatError(file, size - size % unit, f"{size} bytes is not a multiple of {unit}")
    return files


def _facts_of(path: Path, files: list[Path], unit: int) -> Row:
    bases = [base_of(file) for file in files]
    size = sum(file.stat().st_size for file in files)
    facts: Row = {"file": str(path), "files": len(files), "size": size}
    if bases:
        facts["begins_at"] = bases[0]
        facts["ends_at"] = bases[-1] + files[-1].stat().st_size
    if unit > 1:
        facts["room_for"] = size // unit
    return facts


def _units(files: list[Path], unit: int, first: int) -> Iterator[tuple[int, bytes]]:
    """Yield the units that are not all zero, with their numbers, from number `first` on."""
    for path in files:
        base = base_of(path)
        size = path.stat().st_size
        start = max(first * unit - base, 0)
        with path.open("rb") as file:
            for at in range(start, size, _PIECE * unit):
                data = os.pread(file.fileno(), min(_PIECE * unit, size - at), at)
                for i in range(0, len(data) - unit + 1, unit):
                    raw = data[i : i + unit]
                    if any(raw):
                        yield (base + at + i) // unit, raw
