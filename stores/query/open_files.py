"""Keeps files open that were opened last: a store may have more of them than descriptors."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_OPEN = 64


class OpenFiles:
    """Descriptors of files by path.

    Attributes:
        most_open: how many are kept.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self.most_open = _MOST_OPEN
        self._open: dict[str, int] = {}
        # As with a Python file, none stays open when nobody has this any longer.
        weakref.finalize(self, _close_all, self._open)

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def descriptor(self, path: str) -> int:
        """Return a descriptor of a file; its keys are read, and not the megabytes around each.

        Raises:
            OSError: it cannot be read.
        """
        known = self._open.get(path)
        if known is not None:
            return known
        while len(self._open) >= self.most_open:
            os.close(self._open.pop(next(iter(self._open))))
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        # Two threads may get here at once; the second one's descriptor is one too many.
        first = self._open.setdefault(path, descriptor)
        if first != descriptor:
            os.close(descriptor)
        return first

    def close(self, path: str) -> None:
        """Close a file, if it is open; it is opened again when it is asked for."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


def _close_all(opened: Mapping[str, int]) -> None:
    for descriptor in opened.values():
        os.close(descriptor)
