"""Do a reader's settings fit what it reads? With a wrong file size it would answer wrongly.

An output has its settings on record. A broker's own files say by their lengths what its settings
were: where every one that is looked at has one other length, that is the setting, and no damage.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

from reput.formats.errors import StoreError
from reput.formats.rocketmq import names
from reput.stores.config.contradictions import file_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings

# Whose files are looked at where no settings are on record.
_LOOKED_AT = (names.CONSUMEQUEUE, names.BATCH_CONSUMEQUEUE, names.INDEX)
# Files that are looked at: all that differ have to be of one length.
_FILES = 32
_SETTINGS = {
    "commitlog_file_size": "mappedFileSizeCommitLog",
    "consumequeue_file_size": "mappedFileSizeConsumeQueue",
    "ext_file_size": "mappedFileSizeConsumeQueueExt",
    "batch_file_size": "mapperFileSizeBatchConsumeQueue",
    "index_slots": "maxHashSlotNum",
    "index_items": "maxIndexNum",
}


def refuse_other_sizes(root: Path, settings: BrokerSettings, record: Mapping[str, Any]) -> None:
    """Refuse settings with other sizes than those that queues and index were written with.

    Args:
        root: where they are: an output, or the store itself.
        settings: what they would be read with.
        record: what is on record there, see `output_record.read`.

    Raises:
        StoreError: names the setting and both sizes.
    """
    # A damaged record says nothing of sizes; the files do.
    written = record.get("settings")
    if isinstance(written, dict):
        _compare(root, written, settings)
        return
    for kind, size, setting in file_sizes(settings):
        if kind in _LOOKED_AT:
            _refuse_lengths(root / kind, size, setting)


def _compare(root: Path, written: Mapping[str, object], settings: BrokerSettings) -> None:
    for key, setting in _SETTINGS.items():
        there, given = written.get(key), getattr(settings, key)
        if there is not None and there != given:
            raise StoreError(
                root,
                f"it was written with {setting} = {there}, now it is {given}",
                "Give the broker.conf that it was written with",
            )


def _refuse_lengths(directory: Path, size: int, setting: str) -> None:
    """Refuse a size that no file has, where all that are looked at have one other length."""
    seen: dict[int, Path] = {}
    for path in itertools.islice(_files(directory), _FILES):
        with contextlib.suppress(FileNotFoundError):
            length = path.stat().st_size
            if length == size:
                return
            seen.setdefault(length, path)
    # Empty: a file that is being made.
    seen.pop(0, None)
    if len(seen) == 1:
        [(length, path)] = seen.items()
        raise StoreError(
            path,
            f"this and all files beside it have {length} bytes, and by {setting} it is {size}",
            f"Give the {setting} of the broker that wrote it in --broker-conf",
        )


def _files(directory: Path) -> Iterator[Path]:
    """Yield an index's files, or the first files of queues of any depth."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in directory.iterdir():
            if path.is_dir():
                yield from itertools.islice(_files(path), 4)
            elif names.is_index_file(path.name) or names.parse_offset_file(path.name) is not None:
                yield path
