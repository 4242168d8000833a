"""The kinds of errors that are counted: each is another alert, and another page of the runbook."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.errors import (
    BodyError,
    ExpiredError,
    FileSizeError,
    FormatError,
    KafkaError,
    StoreError,
    StuckError,
)
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from reput.streaming.settings.config import StoreConfig
    from reput.streaming.writers.state import State

# What can stop a job, see `kind_of`.
ERROR_KINDS = ("corrupt", "expired", "consumequeue", "index", "store", "kafka", "io", "other")
# These say something of disk, rights or limits and nothing of the file that they name.
_OF_THE_MACHINE = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.EMFILE, errno.ENFILE, errno.ENOMEM,
}  # fmt: skip


def lasting_kinds(state: State) -> set[str]:
    """Return the kinds of trouble that a store's job lives with until an operator acts."""
    is_held_back = state.kafka is not None and state.kafka.stopped
    return {kind for kind, lasts in (("corrupt", state.flaw), ("kafka", is_held_back)) if lasts}


def kind_of(error: BaseException, config: StoreConfig) -> str:
    """Return the `kind` label of an error, by the file that it names.

    Returns:
        "corrupt": the log; "expired": records are gone; "consumequeue", "index": a file of the
        output is not what was recorded; "store": store and output do not go together, a file of
        the log has another size than the settings say, or what the broker keeps beside its log
        cannot be read; "kafka": also a body that cannot be sent as it was asked for;
        "io": no space, no permission, a device, whichever file; "other".
    """
    if isinstance(error, ExpiredError):
        return "expired"
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        return "io"
    path = error.filename if isinstance(error, OSError) else getattr(error, "path", None)
    place = _below(config.output, path)
    if place in names.DISPATCHED:
        return "index" if place == names.INDEX else "consumequeue"
    is_beside_log = _below(config.path, path) in {names.CHECKPOINT, names.CONFIG}
    return _kind_elsewhere(error, place, is_beside_log=is_beside_log)


def _kind_elsewhere(error: BaseException, place: str | None, *, is_beside_log: bool) -> str:
    """Return the kind of an error that names no file that was dispatched.

    Args:
        error: see `kind_of`.
        place: the first name of its path below the output, None if it is not there.
        is_beside_log: its path is what the broker keeps beside the log.
    """
    # A file of the log; the rest of what has a format is the output's own state.
    is_of_log = place in {None, names.COMMITLOG}
    kinds: tuple[tuple[type[BaseException], str], ...] = (
        # Only Kafka's messages need bodies read.
        (BodyError, "kafka"),
        (StuckError, "io"),
        (StoreError, "store"),
        (FileSizeError, "store"),
        (FormatError, "store" if is_beside_log else "corrupt" if is_of_log else "other"),
        (KafkaError, "kafka"),
        (OSError, "io"),
    )
    return next((name for kind, name in kinds if isinstance(error, kind)), "other")


def _below(root: Path, path: object) -> str | None:
    """Return the first name of a path below a directory, None if it is not there."""
    if not isinstance(path, str | bytes):
        # The number of an open file, or none.
        return None
    try:
        parts = Path(os.fsdecode(path)).absolute().relative_to(root.absolute()).parts
    except ValueError:
        return None
    return parts[0] if parts else None
