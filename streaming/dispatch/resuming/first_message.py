"""Has a broker got its first message? It makes its commitlog with that, not when it starts."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.formats.errors import ReputError
from reput.stores.log.places import commitlog_directories

if TYPE_CHECKING:
    from pathlib import Path

    from reput.streaming.settings.config import StoreConfig


def is_awaited(config: StoreConfig) -> bool:
    """Tell whether a store has no commitlog file with anything in it yet.

    A directory is not one: a volume that is mounted there has `lost+found`. A file of another name
    is one, so that the job names it instead of waiting. Where messages were dispatched before, the
    log is away: that is an error, and nothing to wait for.

    Raises:
        StoreError: it is not a store.
        FormatError: the output's record of its progress is damaged.
    """
    directories = commitlog_directories(config.path, config.settings)
    if any(_has_content(path) for each in directories for path in _entries(each)):
        return False
    known = progress.load(config.output)
    return known is None or known.end <= 0


def has_no_first_message(config: StoreConfig) -> bool:
    """Tell whether that is what is wrong with a store that cannot be looked at."""
    try:
        return is_awaited(config)
    except (ReputError, OSError):
        return False


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _has_content(path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        # It went between the two looks.
        return False
    return not stat.S_ISDIR(found.st_mode) and found.st_size > 0
