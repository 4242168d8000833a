"""How far the queues and the index beside a log can be believed to be of that log.

A broker that cuts its log truncates its queues, and leaves its index: records that it then writes
below the index's end are never indexed (`IndexService#buildIndex`), and nothing in its files tells.
Stale entries stay past a queue's end until others are written over them. So while records wait
for dispatch, a stale entry can name the bytes of one of them. What reput wrote is rolled back after
a cut, and its progress has the hashes of what was read, which tell how far it fits the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints import marks, progress
from reput.formats.errors import FormatError
from reput.formats.rocketmq import names
from reput.stores.following.identity import compare

if TYPE_CHECKING:
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.stores.log.commitlog import CommitLog

_OF_A_BROKER = (
    "the index is a broker's: it lacks what was written over a cut; "
    "if this log was never cut, say trustIndex=true"
)


class Trust(NamedTuple):
    """What can be believed.

    Attributes:
        queues: physical offset: the records before it that have an entry have a right one, and no
            stale entry names their bytes; None where the queues have to be looked at
            (`stores.query.coverage.settled`).
        indexed: likewise: the records before it that have keys are indexed, if the index reaches
            that far.
        reason: why the index is not believed at all, empty if it is.
        is_closed: a broker's own, and closed in order: all of the log was dispatched.
    """

    queues: int | None
    indexed: int
    reason: str = ""
    is_closed: bool = False


def trust_in(root: Path, log: CommitLog, end: int, *, never_cut: bool) -> Trust:
    """Return what can be believed of the queues and the index of a log.

    Args:
        root: where they are.
        log: the log.
        end: physical offset of its end.
        never_cut: the user says that its broker never cut it.
    """
    try:
        found = progress.load(root)
    except FormatError as error:
        return Trust(0, 0, f"the output's progress cannot be read: {error}")
    if found is None:
        if never_cut:
            return Trust(end, end)
        return Trust(None, 0, _OF_A_BROKER, is_closed=not marks.has_abort(root))
    return _trust_in_record(found, root, log, end)


def _trust_in_record(found: Progress, root: Path, log: CommitLog, end: int) -> Trust:
    """Return what can be believed of an output of ours: what its record says fits the log."""
    log.refresh()
    seen = compare(log, progress.known_log(found))
    if seen.damaged is not None:
        return Trust(0, 0, "a file of the log is damaged: it is not as it was when dispatched")
    fitting = found.end if seen.is_same else seen.common.end if seen.common is not None else 0
    fitting = min(max(fitting, 0), end)
    if found.index_name and not (root / names.INDEX / found.index_name).exists():
        return Trust(fitting, 0, f"index file {found.index_name} is missing")
    if fitting == 0:
        return Trust(
            0, 0, "the output belongs to another log, or to a part that was cut from this one"
        )
    return Trust(fitting, fitting)
