"""Names the queues of records as they are appended to a log, before they are dispatched.

It goes from head to head after the log's end, as `ReputMessageService` does. What it says is a
hint where to look: an arrival is what stands in a queue.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from reput.formats.java import strings
from reput.formats.rocketmq.commitlog import (
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PLACES,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    WIDE_HOSTS,
)
from reput.formats.rocketmq.consumequeue import has_entry
from reput.formats.rocketmq.properties import MULTI_DISPATCH
from reput.stores.log.files import LogChangedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.stores.following.log_end import EndedLog

    Key = tuple[str, int]

_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_HEAD = struct.Struct(">ii")
_PIECE = 64 << 10
_FURTHER = MULTI_DISPATCH.encode()


class Appended:
    """Follows the records of a log from its end on.

    Attributes:
        is_lost: what follows is not a record; only `restart` helps.
    """

    def __init__(self, log: EndedLog) -> None:
        """Stand at the log's end."""
        self._log = log
        self._buffer = memoryview(bytearray(_PIECE))
        self.restart()

    @property
    def position(self) -> int:
        """Return the physical offset where the next record is expected."""
        return self._position

    def restart(self) -> None:
        """Stand at the log's end again: it was cut, or what follows is not a record."""
        self._position = self._log.end()
        self.is_lost = False

    def look(self, found: Callable[[Key, int], None]) -> bool:
        """Tell of each record that was appended since the last look, up to 64 KiB of them.

        Args:
            found: gets topic and queue id, and the queue offset after the record.

        Returns:
            False if records may go to queues that were not named.
        """
        if self.is_lost:
            return False
        try:
            if not self._read(_HEAD.size) or not any(self._buffer[: _HEAD.size]):
                return True
            return self._go(self._buffer[: self._read(_PIECE)], found)
        except LogChangedError:
            # The next file is known with the next look at the directory.
            return True

    def _read(self, length: int) -> int:
        return self._log.read_once([self._buffer[:length]], self._position)

    def _go(self, data: memoryview, found: Callable[[Key, int], None]) -> bool:
        at, size = 0, 0
        is_sure = _FURTHER not in bytes(data)
        while at + BLANK_SIZE <= len(data):
            size, magic = _HEAD.unpack_from(data, at)
            if magic == MAGIC_BLANK:
                base = self._log.base_of(self._position)
                self._position = base + self._log.file_size
                return is_sure
            if not size or not magic:
                return is_sure
            if magic not in {MAGIC_V1, MAGIC_V2} or size < MIN_SIZE:
                self.is_lost = True
                return False
            if at + size > len(data):
                break
            if not _tell(data[at : at + size], magic, found):
                return is_sure
            at += size
            self._position += size
        if not at and size > _PIECE:
            # Its topic may stand past what was read.
            self._position += size
            return False
        return is_sure


def _tell(record: memoryview, magic: int, found: Callable[[Key, int], None]) -> bool:
    """Tell of one record; False if it is not all there yet."""
    (sys_flag,) = _INT.unpack_from(record, SYS_FLAG_AT)
    body_at = PLACES[sys_flag & WIDE_HOSTS].body
    (body,) = _INT.unpack_from(record, body_at - _INT.size)
    at = body_at + body
    wide = 1 if magic == MAGIC_V1 else 2
    if body < 0 or at + wide > len(record):
        return False
    length = int.from_bytes(record[at : at + wide], "big")
    if not length:
        return False
    topic = strings.decode(bytes(record[at + wide : at + wide + length]))
    if has_entry(sys_flag):
        (queue_id,) = _INT.unpack_from(record, QUEUE_ID_AT)
        (queue_offset,) = _LONG.unpack_from(record, QUEUE_OFFSET_AT)
        found((topic, queue_id), queue_offset + 1)
    return True
