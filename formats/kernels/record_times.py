"""The kernel that looks for a record by its store time, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.frames import check
from reput.formats.kernels.memory import load_i64
from reput.formats.rocketmq.commitlog import Verdict

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

_RECORD = int(Verdict.RECORD)


@kernel
def pass_older(
    data: Bytes,
    at: int,
    limit: int,
    position: int,
    file_end: int,
    rules: int,
    stop: int,
    timestamp: int,
) -> tuple[int, int]:
    """Skip records stored before a time, up to the first one that was not.

    `stores.query.by_time.first_since` does the same without a kernel.

    Args:
        data: see `frames.check`.
        at: index of a record.
        limit: index after the readable bytes.
        position: physical offset of `data[at]`.
        file_end: physical offset of the file's end.
        rules: see `frames.check`; 0 checks lengths and offsets only.
        stop: physical offset; where a record begins there or later, it is not looked at.
        timestamp: ms.

    Returns:
        The verdict of what stands where it ended, and its physical offset: `RECORD` for one
        that was stored then or later, or that begins at `stop` or later.
    """
    while position < stop:
        verdict, size, stored_at, _, _, _, _, _ = check(data, at, limit, position, file_end, rules)
        if verdict != _RECORD:
            return verdict, position
        if load_i64(data, stored_at) >= timestamp:
            return _RECORD, position
        at += size
        position += size
    return _RECORD, position
