"""What stands where no record does: its error, and where records resume after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError, UnreadableError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import MIN_SIZE, Verdict
from reput.stores.lazy import lazy_module
from reput.stores.log.commitlog import PAD, active_file
from reput.stores.log.holes import REMEDY, damage_error, find_hole
from reput.stores.log.runs import after_left_over

if TYPE_CHECKING:
    import numpy as np

    from reput.formats.kernels import frames
    from reput.stores.log.commitlog import CommitLog
else:
    frames = lazy_module("reput.formats.kernels.frames")

_HEX_BYTES = 32
_SEARCHED = 16 << 20
# A whole record with a property that Java cannot parse as a number; replicas have it too.
_NUMBERS = {Verdict.BAD_DELAY, Verdict.BAD_BATCH}
UNREADABLE_NOTE = (
    "A broker of this version cannot read it either, and cuts its log there when it recovers."
)
UNREADABLE_REMEDY = f"{UNREADABLE_NOTE} Resume after it with --on-corrupt skip."


def place_of(log: CommitLog, error: FormatError) -> int | None:
    """Return the physical offset that an error names, None if it names a file or no log."""
    base = names.parse_offset_file(Path(error.path).name)
    is_place = base is not None and log.has(error.path) and error.position < log.file_size
    return base + error.position if base is not None and is_place else None


def next_record(log: CommitLog, position: int) -> int:
    """Return where records resume after bytes that are not a record.

    If the bytes say where they end, and a record stands there, it is the one. Otherwise it is the
    first record that another record, or the end of the file's records, follows: the sender of a
    message may have forged a single one in its body. Without such a record it is the next file. A
    page that was lost may hold records of a log that was cut; they are skipped where that is
    certain.
    """
    base = log.base_of(position)
    file_end = base + log.file_size
    damage = log.damage_at(position)
    if damage is not None:
        return damage.end
    data = log.read(position, min(log.settings.max_record_size, file_end - position))
    _, size, *_ = frames.check(data, PAD, len(data) - PAD, position, file_end, 0)
    if size >= MIN_SIZE and position + size < file_end and _is_followed(log, position + size):
        return int(position + size)
    if base >= active_file(log) and (hole := find_hole(log, position)) is not None:
        # Skips records that a broker has cut away, which only the last file can hold.
        return hole.end
    start = position + 1
    while start < file_end:
        damage = log.damage_at(start)
        if damage is not None:
            return damage.end
        data = log.read(start, min(_SEARCHED, file_end - start))
        limit = len(data) - PAD
        at = int(frames.find_record(data, PAD, limit, start, file_end, log.rules, limit))
        if at == frames.NO_POSITION:
            # What begins in the last bytes of the piece is found with the next one.
            start += max(limit - PAD - MIN_SIZE, 1)
            continue
        if _is_followed(log, start + at - PAD):
            return after_left_over(log, position, start + at - PAD)
        start += at - PAD + 1
    return file_end


def first_readable(log: CommitLog, position: int, *, skips_corrupt: bool) -> int:
    """Return where the first record stands at or after `position`; see `CommitLog.first_record`.

    Args:
        log: the files.
        position: physical offset.
        skips_corrupt: find it past what is not a record, too; it may then be in a later file.

    Raises:
        FormatError: something that is not a record stands in the way, and `skips_corrupt` is off.
    """
    try:
        return log.first_record(position)
    except FormatError:
        if not skips_corrupt:
            raise
    reached = log.base_of(position)
    while reached < position:
        verdict, at = log.hop(reached, position, log.rules)
        if verdict == Verdict.ROLL:
            reached = log.base_of(at) + log.file_size
        elif verdict == Verdict.RECORD:
            reached = at
        else:
            reached = next_record(log, at)
    return reached


def _is_followed(log: CommitLog, position: int) -> bool:
    """Tell whether a record stands here that another one, or the end of the records, follows."""
    file_end = log.base_of(position) + log.file_size
    verdict, reached = log.hop(position, file_end, log.rules)
    if verdict in {Verdict.ROLL, Verdict.END, Verdict.RECORD}:
        return True
    data = log.read(position, MIN_SIZE)
    return reached > position + int.from_bytes(data[PAD : PAD + 4].tobytes(), "big")


def corruption(log: CommitLog, position: int, verdict: Verdict) -> FormatError:
    """Return the error for what stands at a physical offset, with the bytes around it."""
    damage = log.damage_at(position)
    if damage is not None:
        return damage_error(damage)
    path, byte = log.file_of(position)
    data = log.read(position, _HEX_BYTES)[PAD:-PAD]
    found = f"{verdict.explanation} (physical offset {position}, bytes {bytes_of(data)})"
    cut = log.damage_at(log.base_of(position) + log.file_size - 1)
    if cut is not None:
        found += f"; at byte {cut.byte} {cut.found}"
    if verdict in _NUMBERS:
        return UnreadableError(path, byte, found, UNREADABLE_REMEDY, UNREADABLE_NOTE)
    return FormatError(path, byte, found, REMEDY, note="")


def unfit(log: CommitLog, position: int, error: Exception) -> FormatError:
    """Return the error for a whole record at a physical offset that no queue can take."""
    path, byte = log.file_of(position)
    why = str(error).rstrip(".")
    found = f"a record that cannot be dispatched (physical offset {position}): {why}"
    return FormatError(path, byte, found, REMEDY, note="")


def bytes_of(data: np.ndarray) -> str:
    """Return bytes as hex, four at a time."""
    return data.tobytes().hex(" ", 4) or "none"
