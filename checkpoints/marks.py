"""What the marks in an output root say: the broker's checkpoint file and abort marker, and ours.

They are written by `checkpoints.disk.marking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.errors import FormatError
from reput.formats.rocketmq import checkpoint, names
from reput.stores.inspect.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.checkpoint import StoreCheckpoint


# The file in our own directory that is there while `reput rebuild --repair` exchanges files.
REPAIRING = "repairing"


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
        return checkpoint.unpack(data)
    except ValueError as error:
        raise FormatError(path, len(data), str(error), "Remove the file.") from error


def failure(root: Path) -> str:
    """Return what the last writer failed with; "" where it was killed, or is not ours."""
    try:
        text = (root / names.ABORT).read_text("ascii", "replace")
    except FileNotFoundError:
        return ""
    ours, _, said = text.partition("\n")
    return printable(said.strip()) if ours.startswith(names.OUR_ABORT) else ""


def is_repairing(staging: Path) -> bool:
    """Tell whether that mark is there."""
    return (staging / REPAIRING).exists()


def has_abort(root: Path) -> bool:
    """Tell whether the mark is there."""
    return (root / names.ABORT).exists()
