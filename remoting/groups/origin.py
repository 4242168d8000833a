"""Whose offsets are in a file? Some records of the log that they are of tell another log.

A file of offsets is found by its broker's name, and brokers of several stores may have one name:
a store whose settings have none is called as its directory is, and that is `store` nearly always.
Offsets of another store's queues would lead groups past messages that they never got.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.stores.log import trail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.stores.log.files import LogFiles

KEY = "reputLog"
"""What a file of offsets calls them. A broker passes over what it does not know."""
# Files of the log whose first record is asked; each may be on a disk, and not in memory.
_MOST_FILES = 16


def of_log(log: LogFiles) -> dict[str, str]:
    """Return the hashes of some records of a log, the oldest and the newest file's among them.

    Returns:
        Physical offsets and hashes, as JSON has them; nothing where no record can be read.
    """
    bases = log.bases
    step = max(-(-len(bases) // _MOST_FILES), 1)
    asked = {*bases[::step], *bases[-1:]}
    hashes = {base: _hash(log, base) for base in sorted(asked)}
    return {str(base): f"{found:x}" for base, found in hashes.items() if found is not None}


def is_other(log: LogFiles, said: Mapping[str, Any]) -> bool:
    """Tell whether offsets are of another log for certain.

    Where one of their records still stands, they are of this one, cut or not. Where none can be
    compared, as all have expired or cannot be read, or none is known, nothing speaks against it.

    Args:
        log: the files.
        said: what their file says.
    """
    known = said.get(KEY)
    has_other = False
    for base, was in known.items() if isinstance(known, dict) else ():
        there = _hash(log, int(base)) if base.isdecimal() else None
        if there is not None and f"{there:x}" == was:
            return False
        has_other |= there is not None
    return has_other


def _hash(log: LogFiles, base: int) -> int | None:
    try:
        return trail.hash_at(log, base)
    except OSError:
        # The store is served all the same, and a client that asks for this record is told why not.
        return None
