"""What becomes of an offset whose records expired before they were read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError

if TYPE_CHECKING:
    from reput.stores.log.commitlog import CommitLog

LOG = logging.getLogger("reput")
# The offset of a store that has no log file yet: its beginning, wherever that will be.
NOTHING = -1


def skip_expired(log: CommitLog, name: str, start: int, *, fail_on_data_loss: bool) -> int:
    """Return `start`, or the log's first offset where `start` has expired.

    Raises:
        ReputError: it has expired, and `fail_on_data_loss` is set.
    """
    if start >= log.min_offset:
        return start
    if start == NOTHING:
        return log.min_offset
    lost = f"store {name}: physical offsets {start} to {log.min_offset} have expired"
    if fail_on_data_loss:
        raise ReputError(
            f"{lost} before they were read. Restore the files, or go on after the gap with the "
            "option failOnDataLoss=false"
        )
    LOG.warning("%s and are skipped (failOnDataLoss=false)", lost)
    return log.min_offset
