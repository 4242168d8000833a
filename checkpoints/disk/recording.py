"""How the progress record is replaced: written beside it, synced, and renamed over it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from reput.checkpoints import checked_line
from reput.checkpoints.disk import changes
from reput.formats.rocketmq import names

if TYPE_CHECKING:
    from pathlib import Path

    from reput.checkpoints.progress import Progress


def save(root: Path, progress: Progress) -> None:
    """Replace the progress of an output root, and sync it to disk.

    Raises:
        OSError: no space, no permission, the device failed.
    """
    directory = root / names.STATE
    # Not asdict of it all: that copies each queue's name and number, thousands of them.
    text = json.dumps(vars(progress), default=asdict)
    temporary = directory / f"{names.PROGRESS}.new"
    changes.write_file(temporary, checked_line.checked(text))
    changes.rename(temporary, directory / names.PROGRESS)
    changes.sync_directory(directory)
