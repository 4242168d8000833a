"""Places of a log that an output was dispatched past, as the output's own record names them.

`checkpoints.progress` writes and reads that record as a whole; a reader of the store needs this one
part of it, from a record that may have a line for each of a million queues.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names
from reput.stores.log.listing import stamp_of

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.log.listing import Stamp

RECORD = f"{names.STATE}/{names.PROGRESS}"
_PASSED, _EXPIRED = '"skipped": ', '"lost": '
# Outputs that one process reads.
_KEPT = 64


def passed_over(output: Path) -> dict[int, int]:
    """Return begin and end of each place, physical offsets; none where there is no record.

    The answer proves nothing: the record may be damaged. A reader has to look at what stands there.

    Args:
        output: root of what `reput` has written.
    """
    return _places(_record(output), _PASSED)


def has_left_out(output: Path | None) -> bool:
    """Tell whether an output has no entries of some messages, which were damaged or had expired.

    Those that follow in their queues have lower numbers than their records then.

    Args:
        output: root of what `reput` has written, None for none.
    """
    return output is not None and _has_left_out(output, stamp_of(output / RECORD))


@functools.lru_cache(_KEPT)
def _has_left_out(output: Path, stamp: Stamp | None) -> bool:
    if stamp is None:
        return False
    text = _record(output)
    return any(_places(text, key) for key in (_PASSED, _EXPIRED))


def _record(output: Path) -> str:
    try:
        return (output / RECORD).read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _places(text: str, key: str) -> dict[int, int]:
    at = text.rfind(key)
    try:
        places, _ = json.JSONDecoder().raw_decode(text, at + len(key)) if at >= 0 else ([], 0)
        return {start: end for start, end in places if type(start) is type(end) is int}
    except (ValueError, TypeError, RecursionError):
        return {}
