"""How far the units of an extension or a batch queue are compared with the log.

Units stand one after another, so a unit's place follows from those before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.stores.verify.stored_files import StoredFiles

_WINDOW = 1 << 14
NEVER = -1


@dataclass
class UnitPlace:
    """How far a queue's units are compared: the position of the next one, and a window on them.

    Attributes:
        files: the queue's.
        position: of the next unit, bytes.
        last_offset: physical offset of the last record that gave a unit, `NEVER` before the first.
        window_at: position of the window.
        window: bytes that were read ahead.
    """

    files: StoredFiles
    position: int = 0
    last_offset: int = NEVER
    window_at: int = 0
    window: bytes = b""

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of one file, fewer where it ends."""
        at = position - self.window_at
        if at < 0 or at + length > len(self.window):
            self.window = self.files.read(position, max(_WINDOW, length))
            self.window_at = position
            at = 0
        return self.window[at : at + length]
