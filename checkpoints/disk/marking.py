"""How the marks in an output root are set and removed; `checkpoints.marks` reads them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from reput.checkpoints import marks
from reput.checkpoints.disk import changes
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.checkpoint import StoreCheckpoint

_FAILURE_BYTES = 2000


def write_checkpoint(root: Path, staging: Path, values: StoreCheckpoint, fields: int) -> None:
    """Replace a store's checkpoint file and have it on disk.

    Args:
        root: the store.
        staging: a directory of ours on the same file system.
        values: only of what is on disk already.
        fields: longs that the broker's version knows.
    """
    made = staging / f"{names.CHECKPOINT}.new"
    changes.write_file(made, values.pack(fields))
    changes.rename(made, root / names.CHECKPOINT)
    changes.sync_directory(root)


def set_abort(root: Path, staging: Path) -> None:
    """Mark a store as being written: with the mark there, its tails cannot be trusted.

    Args:
        root: the store.
        staging: see `write_checkpoint`. A mark that was half written would be taken for a broker's.
    """
    made = staging / f"{names.ABORT}.new"
    changes.write_file(made, f"{names.OUR_ABORT}{os.getpid()}".encode())
    changes.rename(made, root / names.ABORT)
    changes.sync_directory(root)


def clear_abort(root: Path) -> None:
    """Take the mark away: everything is flushed."""
    if marks.has_abort(root):
        changes.remove_file(root / names.ABORT)
        changes.sync_directory(root)


def note_failure(root: Path, text: str) -> None:
    """Write into our mark why the writer ends, for the next one to say.

    A file system that is full takes it all the same: the file has its block already. It is a remark
    only, and need not outlive the machine.
    """
    path = root / names.ABORT
    # Where even that fails, the next writer says less.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, f"\n{text}".encode("ascii", "backslashreplace")[:_FAILURE_BYTES])
        finally:
            os.close(descriptor)


def set_repairing(staging: Path) -> None:
    """Mark an output as one whose files are being exchanged: no writer may resume from it.

    Args:
        staging: our own directory in it.
    """
    changes.write_file(staging / marks.REPAIRING, b"")
    changes.sync_directory(staging)


def clear_repairing(staging: Path) -> None:
    """Take that mark away."""
    if marks.is_repairing(staging):
        changes.remove_file(staging / marks.REPAIRING)
        changes.sync_directory(staging)
