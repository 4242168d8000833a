"""Whose offsets are in a file? Some records of the log that they are of tell another log.

A file of offsets is found by its broker's name, and brokers of several stores may have one name:
a store whose settings have none is called as its directory is, and that is `store` nearly always.
Offsets of another store's queues would lead groups past messages that they never got.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names
from reput.stores.log import trail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.stores.log.files import LogFiles

KEY = "reputLog"
"""What a file of offsets calls them. A broker passes over what it does not know."""
# Files of the log whose first record is asked; each may be on a disk, and not in memory.
_MOST_FILES = 16
# A broker makes the next file before it needs it.
_LAST = 2
_NOTHING: Mapping[str, str] = MappingProxyType({})


def of_log(log: LogFiles, known: Mapping[str, str] = _NOTHING) -> dict[str, str]:
    """Return the hashes of some records of a log, those that are known and the last files'.

    A log that lives on loses the records that were known at first: call it again now and then.

    Args:
        log: the files.
        known: what was returned before. It stays where the log is another one by now, or where
            nothing can be read.

    Returns:
        Physical offsets and hashes, as JSON has them; nothing where no record can be read.
    """
    if is_other(log, known):
        return dict(known)
    older, last = log.bases[:-_LAST], log.bases[-_LAST:]
    kept = [base for base in older if str(base) in known]
    kept = kept[-_MOST_FILES:] or older[:: max(-(-len(older) // _MOST_FILES), 1)]
    standing = {} if _was_cut(log, known) else known
    said = {str(base): standing.get(str(base)) or _hash(log, base) for base in kept}
    said |= {str(base): _hash(log, base) for base in last}
    return {base: found for base, found in said.items() if found is not None} or dict(known)


def _was_cut(log: LogFiles, known: Mapping[str, str]) -> bool:
    """Tell whether the newest record that is known has gone; else those before it stand, too."""
    noted = [base for base in log.bases if str(base) in known]
    return bool(noted) and _hash(log, noted[-1]) != known[str(noted[-1])]


def is_current(log: LogFiles, known: Mapping[str, str]) -> bool:
    """Tell whether the newest record of the last files is known as it is now.

    Then those before it stand, too: a broker that cuts its log replaces all that follows.
    """
    for base in reversed(log.bases[-_LAST:]):
        there = _hash(log, base)
        if there is not None:
            return there == known.get(str(base))
    return True


def known_in(said: Mapping[str, Any]) -> dict[str, str]:
    """Return what a file of offsets says of its log; nothing where it says nothing."""
    known = said.get(KEY)
    return known if isinstance(known, dict) else {}


def is_other(log: LogFiles, known: Mapping[str, str]) -> bool:
    """Tell whether offsets are of another log for certain.

    Where one of their records still stands, they are of this one, cut or not. Where none can be
    compared, as all have expired or cannot be read, or none is known, nothing speaks against it.

    Args:
        log: the files.
        known: what their file says of its log.
    """
    has_other = False
    for base, was in known.items():
        is_offset = base.isdecimal() and len(base) <= names.DIGITS
        there = _hash(log, int(base)) if is_offset else None
        if there is not None and there == was:
            return False
        has_other |= there is not None
    return has_other


def _hash(log: LogFiles, base: int) -> str | None:
    try:
        # What is damaged may say that it is as long as the file.
        found = trail.hash_at(log, base, log.settings.max_record_size)
    except OSError:
        # The store is served all the same, and a client that asks for this record is told why not.
        return None
    return None if found is None else f"{found:x}"
