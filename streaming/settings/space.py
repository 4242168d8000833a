"""The room that the file system of an output has."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Space(NamedTuple):
    """A file system's room, in bytes.

    Attributes:
        free: what a process without privileges may still write.
        size: all of it, what is kept for privileged processes left out.
    """

    free: int
    size: int


def space_of(path: Path) -> Space | None:
    """Return the room of the file system that a path is on, None where that cannot be asked."""
    with contextlib.suppress(OSError):
        found = os.statvfs(path)
        kept = found.f_bfree - found.f_bavail
        return Space(found.f_bavail * found.f_frsize, (found.f_blocks - kept) * found.f_frsize)
    return None
