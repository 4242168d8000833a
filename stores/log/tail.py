"""Where a live commitlog ends: the last record that is whole, and what follows it.

A broker is writing while we read. Its mapped writes have no order that another process could
rely on, so a record counts only when everything in it adds up, its body's CRC included. What does
not is a torn tail. That is not an error: the next look tries it again. Only where good records of
this log follow, not older than the last good one, is something corrupt.
Source: docs/formats/commitlog.md, "End of the log".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.rocketmq.commitlog import Verdict
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, active_file
from reput.stores.log.runs import newer_within
from reput.stores.log.trail import Fingerprint, fingerprint
from reput.stores.log.unreadable import corruption, next_record

if TYPE_CHECKING:
    from reput.formats.kernels import frames
    from reput.formats.kernels.memory import Bytes
    from reput.stores.log.commitlog import Chain, CommitLog
    from reput.stores.log.holes import HoleWatch
else:
    frames = lazy_module("reput.formats.kernels.frames")

# A record is copied in microseconds; its writer may be interrupted in between.
SETTLE_SECONDS = 0.002
# Bytes of the length before a record's properties.
_LENGTH = 2


class Tail(NamedTuple):
    """The end of the log: `end` is exclusive; `reason` tells what stands there."""

    end: int
    reason: Verdict


class KnownEnd(NamedTuple):
    """Where a log ended with nothing after it, and its last record, to recognise it by."""

    end: int
    last: Fingerprint


def known_end(
    log: CommitLog, known: int | None = None, *, skips_corrupt: bool = False
) -> KnownEnd | None:
    """Return where the log ends; None if that cannot be told again without reading records.

    The arguments and errors are those of `find_tail`.
    """
    tail, last = tail_and_last(log, known, skips_corrupt=skips_corrupt)
    if tail.reason not in {Verdict.END, Verdict.ROLL}:
        return None
    if last is None and tail.end < log.end_of_files:
        last = last_before(log, tail.end)
    record = fingerprint(log, *last) if last is not None else None
    return KnownEnd(tail.end, record) if record is not None else None


def find_tail(
    log: CommitLog,
    known: int | None = None,
    *,
    skips_corrupt: bool = False,
    holes: HoleWatch | None = None,
) -> Tail:
    """Return the end of the whole records.

    Args:
        log: the files; looked at again.
        known: the beginning of a record, or the end that was found last.
        skips_corrupt: look past what is corrupt.
        holes: look past holes too, see `stores.log.holes`.

    Raises:
        FormatError: a corrupt record, with good ones close after it.
    """
    return tail_and_last(log, known, skips_corrupt=skips_corrupt, holes=holes)[0]


def tail_and_last(
    log: CommitLog, known: int | None, *, skips_corrupt: bool, holes: HoleWatch | None = None
) -> tuple[Tail, tuple[int, int] | None]:
    """Return the end; and where the last record begins, and its size, if the search met it.

    The arguments and errors are those of `find_tail`.
    """
    log.refresh()
    active = active_file(log)
    position = active if known is None else max(known, active)
    while position < log.end_of_files:
        chain = log.chain(position, log.base_of(position) + log.file_size, log.rules)
        verdict, reached = chain.verdict, chain.reached
        if verdict == Verdict.ROLL:
            position = log.base_of(reached) + log.file_size
            if position >= log.end_of_files:
                # A broker that recovers takes this for the end, and may write over the BLANK.
                last = last_before(log, reached) if chain.last is None else last_of(chain)
                return Tail(reached, Verdict.ROLL), last
            continue
        if verdict not in {Verdict.END, Verdict.RECORD} and goes_on(log, reached):
            position = _pass_corrupt(log, reached, verdict, skips_corrupt=skips_corrupt)
            continue
        if holes is not None and verdict != Verdict.RECORD:
            hole = holes.find(reached)
            if hole is not None:
                position = hole.end
                continue
        last = last_of(chain)
        if last is not None and _is_torn(log, last[0], reached):
            return Tail(last[0], Verdict.SHORT), None
        return Tail(reached, Verdict.END if verdict == Verdict.RECORD else verdict), last
    # The next file is not there yet, has no byte yet, or was made ahead and has gone.
    return Tail(position, Verdict.END), None


def _pass_corrupt(log: CommitLog, position: int, verdict: Verdict, *, skips_corrupt: bool) -> int:
    """Return where to look on after what is corrupt; `position` if it was only being written.

    Raises:
        FormatError: it is corrupt, and `skips_corrupt` is off.
    """
    file_end = log.base_of(position) + log.file_size
    if log.hop(position, file_end, log.rules) != (verdict, position):
        # What follows it came while we looked.
        return position
    if not skips_corrupt:
        raise corruption(log, position, verdict)
    return next_record(log, position)


def last_of(chain: Chain) -> tuple[int, int] | None:
    """Return begin and size of the last record of a chain, None if there is none."""
    return (chain.last, chain.reached - chain.last) if chain.last is not None else None


def last_before(log: CommitLog, position: int) -> tuple[int, int] | None:
    """Return begin and size of the record that ends at `position`, None if none does."""
    start = log.record_before(position)
    return (start, position - start) if start is not None else None


def chain_end(log: CommitLog, position: int) -> int:
    """Return where the records end that follow one another from `position` on."""
    while position < log.end_of_files:
        verdict, reached = log.hop(position, log.base_of(position) + log.file_size, log.rules)
        if verdict != Verdict.ROLL:
            return reached
        position = log.base_of(reached) + log.file_size
    return position


def _is_torn(log: CommitLog, start: int, end: int) -> bool:
    """Tell whether the last record may not be whole yet.

    A body has a CRC; topic and properties have none, and a broker copies them last. So a record
    that changes while we look has to wait. One that ends with a zero waits as long as a broker may
    be writing it. Brokers before 5.0 store such records, so it is whole once the log is at rest.
    """
    before = log.read(start, end - start)
    time.sleep(SETTLE_SECONDS)
    after = log.read(start, end - start)
    return not np.array_equal(before, after) or may_grow(log, start, before)


def may_grow(log: CommitLog, start: int, data: Bytes) -> bool:
    """Tell whether a record's last byte may be still to come: it is zero, and a broker may write.

    Args:
        log: the files.
        start: physical offset of a record.
        data: its bytes between two pads, as `CommitLog.read` returns them.
    """
    limit = len(data) - PAD
    file_end = log.base_of(start) + log.file_size
    *_, properties_at = frames.check(data, PAD, limit, start, file_end, log.rules)
    # Without properties their length is the end, two zeros; then the topic comes last.
    last = data[limit - 1 if properties_at < limit else properties_at - _LENGTH - 1]
    return bool(last == 0) and not log.is_at_rest()


def goes_on(log: CommitLog, position: int) -> bool:
    """Tell whether a whole record of the log stands close after what cannot be read.

    A broker that has recovered leaves what was past its cut and writes over it: such records are
    whole, but left over, see `stores.log.holes`.
    """
    file_end = log.base_of(position) + log.file_size
    stop = min(position + 2 * log.settings.max_record_size, file_end)
    return newer_within(log, position, stop) is not None
