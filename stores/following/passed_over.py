"""Places of a log that an output was dispatched past, as the output's own record names them.

`checkpoints.progress` writes and reads that record as a whole; a reader of the store needs this one
part of it, from a record that may have a line for each of a million queues.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from pathlib import Path

RECORD = f"{names.STATE}/{names.PROGRESS}"
_KEY = '"skipped": '


def passed_over(output: Path) -> dict[int, int]:
    """Return begin and end of each place, physical offsets; none where there is no record.

    The answer proves nothing: the record may be damaged. A reader has to look at what stands there.

    Args:
        output: root of what `reput` has written.
    """
    try:
        text = (output / RECORD).read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    at = text.rfind(_KEY)
    try:
        places, _ = json.JSONDecoder().raw_decode(text, at + len(_KEY)) if at >= 0 else ([], 0)
        return {start: end for start, end in places if type(start) is type(end) is int}
    except (ValueError, TypeError, RecursionError):
        return {}
