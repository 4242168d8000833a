"""How a rig ends that keeps its files if something was wrong."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def conclude(work: Path, faults: Sequence[object]) -> int:
    """Tell of what was wrong and keep the files, or remove them; return the exit code."""
    for fault in faults:
        print(f"  {fault}", flush=True)
    if faults:
        print(f"  kept: {work}", flush=True)
        return 1
    shutil.rmtree(work)
    return 0
