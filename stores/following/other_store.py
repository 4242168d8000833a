"""Whether an output belongs to the log that it is read with, or has no record in common with it.

A job compares all that it has read of a log (`stores.following.identity`). Here one record says it:
the first one of a log file is hashed when it is dispatched, and where any such record still stands,
or any of the points that an output may go back to, the output is of this log, cut or not. Where
none can be looked at, as all have expired, nothing is said, nor where the device fails. Imports
little, as `output_record`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from reput.formats.errors import StoreError
from reput.stores.log import trail
from reput.stores.log.trail import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.stores.log.files import LogFiles


def refuse_other_store(
    log: LogFiles, store: Path, output: Path | None, record: Mapping[str, Any]
) -> None:
    """Refuse an output that has nothing of a log, for certain.

    Args:
        log: its files.
        store: the store, for people; its own queues are its broker's, and not looked at.
        output: what reput has written; None for what is in the store.
        record: the output's, see `output_record.read`.

    Raises:
        StoreError: names both.
    """
    if output is None or output.resolve() == store.resolve():
        return
    # A damaged record says nothing of any log. Nor does a log that cannot be read at one of these
    # places: a query may not need it, and whatever does says what is wrong with it.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        if _is_of_other(log, record):
            raise nothing_in_common(output, store)


def nothing_in_common(output: Path, store: Path) -> StoreError:
    """Return the error of an output that no record of a store's log is of."""
    return StoreError(
        output,
        f"none of its records is in the commitlog of {store}",
        "The output belongs to another store, or all that it has of this log was cut or has "
        "expired: give the store and the output that belong together, or remove this one and "
        "rebuild it",
    )


def _is_of_other(log: LogFiles, known: Mapping[str, Any]) -> bool:
    gaps = dict(known["skipped"])
    has_other = False
    for base, first, *_ in known["files"]:
        position = base
        while position in gaps:
            position = gaps[position]
        there = None
        if base >= log.min_offset and position < base + log.file_size:
            there = trail.hash_at(log, position)
        if there == first:
            return False
        # One that cannot be read is damaged, or gone: it may have been any.
        has_other |= there is not None
    return has_other and not any(
        trail.is_there(log, Fingerprint(**point["record"])) for point in known["trail"]
    )
