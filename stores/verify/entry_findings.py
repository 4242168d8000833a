"""Findings on the entries of consume queues, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, Entry
from reput.stores.findings import Kind, left_out
from reput.stores.verify.ends import NOT_THERE

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.stores.findings import Report
    from reput.stores.verify.stored_files import StoredFiles

_STALE = (
    "entries that the log gives are not there: others have their numbers, of records that have "
    "expired. `reput rebuild --repair` puts them right"
)


class Repeated(NamedTuple):
    """Entries that are left out, because their numbers were given before.

    Attributes:
        entries: how many.
        queue_offset: of the first.
        position: physical offset of its record.
    """

    entries: int
    queue_offset: int
    position: int


def report_stale(report: Report, files: StoredFiles, queue_offset: int) -> None:
    """Report an entry whose place has one of a record that has expired."""
    path, byte = files.place(queue_offset * ENTRY_SIZE)
    report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, _STALE)


def report_shift(
    report: Report,
    files: StoredFiles,
    number: int,
    queue_offset: int,
    entry: Entry,
    place: tuple[int, int],
) -> None:
    """Report entries of a queue that stand too low, from one on.

    Args:
        report: gets the finding.
        files: the queue's.
        number: of the first entry that can be verified.
        queue_offset: what its record says.
        entry: what it is.
        place: physical offsets [start, end) that the output has nothing of.
    """
    path, byte = files.place(number * ENTRY_SIZE)
    lacks = f"the output has nothing of physical offsets {place[0]} to {place[1]}"
    if place[0] == place[1]:
        lacks = f"the log may have been cut before physical offset {place[1]}"
    detail = (
        f"entry {number} is of the record at physical offset {entry.physical_offset}, which says "
        f"{queue_offset}: {lacks}, so later entries of this queue stand too low. "
        "`reput rebuild --repair` puts them right"
    )
    report.add(Kind.SHIFTED, path, byte, detail)


def report_difference(
    report: Report,
    files: StoredFiles,
    number: int,
    entry: Entry,
    raw: bytes,
    *,
    is_record: Callable[[int, int], bool],
) -> None:
    """Report an entry that is missing, or another one than the log gives.

    Args:
        report: gets the finding.
        files: the queue's.
        number: of the entry.
        entry: what it should be.
        raw: what stands there.
        is_record: tells whether a record of a size stands at a physical offset.
    """
    path, byte = files.place(number * ENTRY_SIZE)
    if len(raw) < ENTRY_SIZE or not any(raw):
        report.add_to_run(Kind.MISSING, path, byte, ENTRY_SIZE, NOT_THERE)
        return
    found = Entry.of(raw)
    is_other = found.physical_offset != entry.physical_offset
    if is_other and is_record(found.physical_offset, found.size):
        kind = Kind.MISPLACED
    else:
        kind = Kind.WRONG_BYTES
    report.add(kind, path, byte, f"entry {number} is {tuple(found)}, expected {tuple(entry)}")


def note_repeated(report: Report, files: StoredFiles, repeated: Repeated) -> None:
    """Note the entries that a queue does not have, as in a broker's own rebuild."""
    count, queue_offset, position = repeated
    report.repeated += count
    path, byte = files.place(queue_offset * ENTRY_SIZE)
    detail = (
        f"{left_out(count)}: {'it' if count == 1 else 'the first'} is {queue_offset}, of the "
        f"record at physical offset {position}. A broker's own rebuild does the same"
    )
    report.note(Kind.REPEATED, path, byte, detail)
