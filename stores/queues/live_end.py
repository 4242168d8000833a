"""Where a queue ends for the broker that runs, if its log was cut before that one started.

What the cut left in the queue stands there until others are written over it. A broker that starts
drops entries whose places are past its log's end (`ConsumeQueue#truncateDirtyLogicFiles`), and
continues before them. Later the log grows past these places: nothing but what stands there tells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, HEAD, head_of
from reput.formats.rocketmq.properties import MULTI_DISPATCH
from reput.stores.following.head_chain import HEAD_SIZE, MAGICS, seeming_records, stored_in
from reput.stores.following.passed_over import has_left_out
from reput.stores.log.records import read_record, record_of

if TYPE_CHECKING:
    from reput.stores.following.log_end import EndedLog
    from reput.stores.queues.unit_files import UnitFiles

_NEAR = 64 << 10


def live_end(files: UnitFiles, log: EndedLog, end: int) -> int:
    """Return the position after the last unit that the broker counts which holds the store.

    Args:
        files: of the queue.
        log: what the units point into.
        end: the position after the last unit, as a broker that starts now finds it.

    Returns:
        The end, if no broker of this host holds the store: one that starts counts them all.
    """
    began = log.held_since()
    if not end or math.isinf(began):
        return end
    base = end - 1 - (end - 1) % files.file_size
    position = end
    while position > base:
        at = position - files.unit
        raw = files.read(at, HEAD.size)
        if len(raw) < HEAD.size or is_own(files, log, at, *head_of(raw)):
            return position
        if not _is_written_over(log, *head_of(raw), began // 1_000_000):
            return position
        position = at
    # A file that had nothing else would have been removed.
    return end


def is_own(files: UnitFiles, log: EndedLog, position: int, offset: int, size: int) -> bool:
    """Tell whether a unit names a record that is the queue's, as far as it can be told.

    Args:
        files: of the queue.
        log: what the unit points into.
        position: of the unit.
        offset: physical offset that it names.
        size: bytes of the record, as it says.
    """
    record = record_of(log, files.directory, offset, size)
    if record is None:
        return False
    if files.unit != ENTRY_SIZE or MULTI_DISPATCH in record.properties:
        return True
    later = record.queue_offset - position // ENTRY_SIZE
    return not later or (later > 0 and has_left_out(log.output))


def _is_written_over(log: EndedLog, offset: int, size: int, began_ms: float) -> bool:
    """Tell whether what stands at the place of a record was written since a broker began."""
    if not log.min_offset <= offset < log.known_end or size > log.settings.max_record_size:
        return False
    begin = _record_over(log, offset)
    if begin is None or (begin == offset and read_record(log, offset) is None):
        # It may be the unit's own record, which is damaged.
        return False
    return stored_in(log.bytes_at(begin, HEAD_SIZE), 0) >= began_ms


def _record_over(log: EndedLog, offset: int) -> int | None:
    """Return where the record begins in which a physical offset is, None if none is found."""
    base = log.base_of(offset)
    for length in (_NEAR, log.settings.max_record_size):
        start = max(offset - length, base)
        # The first byte of what is searched is passed over.
        data = bytes(1) + log.bytes_at(start, offset - start + HEAD_SIZE)
        found = seeming_records(data, start - 1, MAGICS[log.settings.read_rules.accepts_v2])
        found = [at for at in found if start - 1 + at <= offset]
        if found:
            return start - 1 + found[-1]
    return None
