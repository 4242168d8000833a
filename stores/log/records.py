"""Reads one record at a physical offset, and believes nothing of it before all of it is checked."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from reput.formats.errors import FormatError
from reput.formats.rocketmq import commitlog
from reput.formats.rocketmq.commitlog import (
    BLANK_HEAD,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    PLACES,
    SYS_FLAG_AT,
    WIDE_HOSTS,
    Record,
    Verdict,
)
from reput.formats.rocketmq.properties import MULTI_DISPATCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.formats.rocketmq.commitlog import ReadRules
    from reput.stores.log.files import LogFiles

# Most records are shorter: one read then has all of it.
_GUESS = 2048
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")


class Messages(Sequence[Record]):
    """Records that were read and found whole; each is taken apart when it is looked at.

    The maker sets its attributes: an `__init__` would take as long as everything else of it.

    Attributes:
        found: physical offset and bytes of each.
        rules: by which they were read.
    """

    __slots__ = ("found", "rules")

    found: list[tuple[int, bytes]]
    rules: ReadRules

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> list[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | list[Record]:
        if isinstance(at, slice):
            return [self._record(*found) for found in self.found[at]]
        return self._record(*self.found[at])

    def __iter__(self) -> Iterator[Record]:
        return (self._record(*found) for found in self.found)

    def _record(self, offset: int, raw: bytes) -> Record:
        verdict, record = commitlog.read(raw, 0, offset, offset + len(raw), self.rules)
        if not isinstance(record, Record):
            raise TypeError(f"physical offset {offset}: {verdict.explanation}, found whole before")
        return record


# Sentinel for "no messages": callers test identity, which is quicker than a length.
NO_MESSAGES: Sequence[Record] = ()


class NoRecordError(FormatError):
    """No record begins at the physical offset that was asked for."""


def read_record(log: LogFiles, offset: int) -> Record | None:
    """Return the record at a physical offset, None if none is there."""
    _, record = look_at(log, offset)
    return record if isinstance(record, Record) else None


def record_at(log: LogFiles, offset: int) -> Record:
    """Return the record at a physical offset.

    Raises:
        NoRecordError: none begins there; says what does.
    """
    if not log.holds(offset):
        end = log.end()
        path, byte = log.file_of(min(max(offset, log.min_offset), end))
        raise NoRecordError(
            path,
            byte,
            f"no record at physical offset {offset}: the commitlog holds {log.min_offset} to {end}",
            "Files before that have expired; past the end nothing was written, or it was cut away. "
            "Or the id is of another broker.",
        )
    verdict, record = look_at(log, offset)
    if isinstance(record, Record):
        return record
    path, byte = log.file_of(offset)
    damage = log.damage_at(offset)
    if damage is not None:
        raise NoRecordError(
            damage.path,
            damage.byte,
            f"no record at physical offset {offset}: {damage.found} (physical offsets "
            f"{damage.start} to {damage.end} are in no file)",
            "Restore the file from a replica.",
        )
    raise NoRecordError(
        path,
        byte,
        f"no record begins at physical offset {offset}: {verdict.explanation}",
        "The offset is not one of this log's records.",
    )


def is_in_queue(record: Record, topic: str, queue_id: int) -> bool:
    """Tell whether a record belongs into a queue: its own, or a further one that it names."""
    if (record.topic, record.queue_id) == (topic, queue_id):
        return True
    return topic in record.properties.get(MULTI_DISPATCH, "").split(",")


def record_of(log: LogFiles, queue: Path, offset: int, size: int) -> Record | None:
    """Return the record that an entry of a queue names, None if it is not one of this queue.

    Args:
        log: the commitlog.
        queue: the queue's directory, which is named by its topic and its id.
        offset: physical offset.
        size: bytes of the record.
    """
    record = read_record(log, offset)
    if record is None or record.size != size:
        return None
    if (record.topic, str(record.queue_id)) == (queue.parent.name, queue.name):
        return record
    further = record.properties.get(MULTI_DISPATCH, "")
    # A name may lead through several directories. One that is not of ASCII may be called otherwise.
    is_own = queue.parent.name in (each.rpartition("/")[2] for each in further.split(","))
    return record if is_own or not further.isascii() else None


def look_at(log: LogFiles, offset: int) -> tuple[Verdict, Record | int]:
    """Return what `rocketmq.commitlog.read` finds at a physical offset; END outside of the log.

    At most one record's bytes are read, whatever size stands there.
    """
    return read_at(log, offset) if log.holds(offset) else (Verdict.END, 0)


def read_at(log: LogFiles, offset: int) -> tuple[Verdict, Record | int]:
    """Return what stands at a physical offset of the files, in the log or past its end."""
    file_end = log.base_of(offset) + log.file_size
    data = log.bytes_at(offset, min(_GUESS, file_end - offset))
    if len(data) < BLANK_SIZE:
        return Verdict.SHORT, 0
    size, magic = BLANK_HEAD.unpack_from(data)
    if size > len(data) and magic in {MAGIC_V1, MAGIC_V2}:
        # Bytes may claim to be a record of a gigabyte: do not read that much.
        if size > min(log.settings.max_record_size, file_end - offset):
            return Verdict.BAD_LENGTH, size
        data += log.bytes_at(offset + len(data), size - len(data))
    return commitlog.read(data, 0, offset, file_end, log.settings.read_rules)


def stored_at(log: LogFiles, offset: int, size: int) -> int:
    """Return the store timestamp of a record, -1 where none can be read, ms.

    A broker asks no more of an entry's record (`CommitLog#pickupStoreTimestamp`), but here a record
    has to begin there.

    Args:
        log: the commitlog.
        offset: physical offset.
        size: the record's bytes, by its entry.
    """
    if not log.holds(offset):
        return -1
    # An entry that fills a gap says 0 and 2147483647: no record goes beyond its file.
    if not MIN_SIZE <= size <= log.base_of(offset) + log.file_size - offset:
        return -1
    head = log.bytes_at(offset, MIN_SIZE)
    if len(head) < MIN_SIZE:
        return -1
    _, magic = BLANK_HEAD.unpack_from(head)
    (physical,) = _LONG.unpack_from(head, PHYSICAL_OFFSET_AT)
    if magic not in {MAGIC_V1, MAGIC_V2} or physical != offset:
        return -1
    (sys_flag,) = _INT.unpack_from(head, SYS_FLAG_AT)
    (timestamp,) = _LONG.unpack_from(head, PLACES[sys_flag & WIDE_HOSTS].store_timestamp)
    return int(timestamp)


def texts_of(raw: bytes) -> tuple[bytes, bytes]:
    """Return the topic and the properties of a whole record, as they stand there."""
    (sys_flag,) = _INT.unpack_from(raw, SYS_FLAG_AT)
    body_at = PLACES[sys_flag & WIDE_HOSTS].body
    (body,) = _INT.unpack_from(raw, body_at - _INT.size)
    at = body_at + body
    _, magic = BLANK_HEAD.unpack_from(raw)
    topic_at = at + (1 if magic == MAGIC_V1 else 2)
    topic_end = topic_at + int.from_bytes(raw[at:topic_at], "big")
    # The length of the properties stands in between.
    return raw[topic_at:topic_end], raw[topic_end + 2 :]
