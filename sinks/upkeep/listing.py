"""Which queues stand in an output's directories, and where their files begin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reput.checkpoints.disk import changes
from reput.formats.rocketmq import (
    batchconsumequeue,
    consumequeue,
    names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.formats.rocketmq.broker import BrokerSettings


def kinds(settings: BrokerSettings) -> dict[str, tuple[int, int]]:
    """Return file size and unit size by kind of queue; 0 for units of any size."""
    return {
        names.CONSUMEQUEUE: (settings.consumequeue_file_size, consumequeue.ENTRY_SIZE),
        names.CONSUMEQUEUE_EXT: (settings.ext_file_size, 0),
        names.BATCH_CONSUMEQUEUE: (settings.batch_file_size, batchconsumequeue.UNIT_SIZE),
    }


def queue_directories(base: Path) -> Iterator[Path]:
    """Yield the directory of every queue below `base`: those that have files in them."""
    for directory, _, files in os.walk(base):
        if files:
            yield Path(directory)


def remove_empty(base: Path) -> None:
    """Remove the directories that are empty, also those of an earlier, unfinished try."""
    for directory, _, _ in os.walk(base, topdown=False):
        if not os.listdir(directory):  # noqa: PTH208 - thousands of them: no Path for each name
            changes.remove_directory(Path(directory))


def bases_of(path: Path) -> list[int]:
    """Return where the files of a queue begin."""
    try:
        listed = os.listdir(path)  # noqa: PTH208 - thousands of them: no Path for each name
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (names.parse_offset_file(name) for name in listed)
    return sorted(base for base in found if base is not None)


def size_of(path: Path, base: int) -> int:
    """Return the size of a queue's file, -1 if it is not there."""
    try:
        return (path / names.offset_file(base)).stat().st_size
    except FileNotFoundError:
        return -1
