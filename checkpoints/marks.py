"""The broker's own marks in an output root: the checkpoint file and the abort marker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats import names, storecheckpoint
from formats.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from formats.storecheckpoint import StoreCheckpoint


def read_checkpoint(root: Path) -> StoreCheckpoint | None:
    """Return the longs of a store's checkpoint file, None when it has none.

    Raises:
        FormatError: it is too short.
    """
    path = root / names.CHECKPOINT
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return storecheckpoint.unpack(data)
    except ValueError as error:
        raise FormatError(path, len(data), str(error), "Remove the file.") from error


def write_checkpoint(root: Path, staging: Path, values: StoreCheckpoint, fields: int) -> None:
    """Replace a store's checkpoint file and have it on disk.

    Args:
        root: the store.
        staging: a directory of ours on the same file system.
        values: only of what is on disk already.
        fields: longs that the broker's version knows.
    """
    made = staging / f"{names.CHECKPOINT}.new"
    with made.open("wb") as file:
        file.write(values.pack(fields))
        file.flush()
        os.fsync(file.fileno())
    made.replace(root / names.CHECKPOINT)


def set_abort(root: Path) -> None:
    """Mark a store as being written: who finds the mark must not trust its tails."""
    (root / names.ABORT).write_text(str(os.getpid()), "ascii")


def clear_abort(root: Path) -> None:
    """Take the mark away: everything is flushed."""
    (root / names.ABORT).unlink(missing_ok=True)


def has_abort(root: Path) -> bool:
    """Tell whether the mark is there."""
    return (root / names.ABORT).exists()
