"""What an output's record says to those that only read: its settings, and what it read of its log.

Imports little, because every query begins with it; `checkpoints.progress` brings numpy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read(root: Path) -> Mapping[str, Any]:
    """Return the record, unchecked; nothing where there is none or it cannot be read.

    Opening the output to write, or verifying it, says what is wrong with a record.

    Args:
        root: the output root, or a store.
    """
    try:
        found = json.loads((root / names.STATE / names.PROGRESS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
