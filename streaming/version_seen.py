"""Which versions a broker's own files look like, by what is only in those of some.

A wrong version makes every item of an index a finding, though nothing is wrong with it. The index
tells by itself: 5.4 and later have an item for a record's tag too. An upgraded store has both, and
is left to the comparison.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from checkpoints import progress
from formats import broker, indexfile, names, storecheckpoint
from formats.commitlog import Record
from formats.errors import ReputError, UsageError
from formats.indexfile import FIRST_ITEM, ITEM_SIZE, ITEM_STRUCT, Header
from stores.commitlog import CommitLog, commitlog_directories
from stores.records import read_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streaming.config import StoreConfig

# Items looked at, at either end of an index.
_LOOKED_AT = 1000


def refuse_other_version(config: StoreConfig) -> None:
    """Refuse a broker version that a store's own index speaks against.

    Raises:
        UsageError: names the version to give.
    """
    files = _index_files(config, config.output)
    said = _disagreement(config, files[:1] + files[-1:], config.output, is_whole=True)
    if said is not None:
        raise UsageError(said)


def refuse_version_of_store(config: StoreConfig) -> None:
    """Refuse to begin an output with the rules of a version that the store's own index is not of.

    An output that has a record of its progress is held to the version in it.

    Raises:
        UsageError: names the version to give.
    """
    if (config.output / names.STATE / progress.FILE_NAME).exists():
        return
    said = of_another_version(config)
    if said is not None:
        raise UsageError(said)


def of_another_version(config: StoreConfig) -> str | None:
    """Return that the broker's newest index file is of another version than the one given.

    A broker that was upgraded leaves older files as they are, so that only what it wrote last
    counts, and only if all of it says the same.

    Returns:
        What speaks for which version, and what to give; None if nothing does, or if the user is
        sure of the version.

    Raises:
        ReputError: the store cannot be read.
    """
    if config.any_version:
        return None
    files = _index_files(config, config.path)
    said = _disagreement(config, files[-1:], config.path, is_whole=False)
    if said is None:
        return None
    return (
        f"{said} (broker_version in a reput.toml). If the broker was upgraded since, go on with "
        "--any-version (any_version = true)"
    )


def _index_files(config: StoreConfig, root: Path) -> list[Path]:
    directory = root / names.INDEX
    if not config.settings.writes_index or not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if names.is_index_file(path.name))


def _disagreement(
    config: StoreConfig, files: list[Path], root: Path, *, is_whole: bool
) -> str | None:
    """Return that index files are all of another version than the one given, None if not so.

    Args:
        config: the store.
        files: of its index.
        root: what they and their checkpoint are in.
        is_whole: look at both ends of each; else at what was written last.
    """
    if not files:
        return None
    given = config.settings.version
    # With the newest one's rules all records can be read.
    settings = replace(config.settings, version=broker.VERSIONS[broker.NEWEST])
    log = CommitLog(commitlog_directories(config.path, settings), settings, config.path)
    try:
        seen = {has for path in files for has in _votes(path, log, is_whole=is_whole)}
    finally:
        log.close()
    if len(seen) != 1 or given.indexes_tags in seen:
        return None
    [has_tags] = seen
    likely = " or ".join(_likely(root, has_tags=has_tags))
    what = "items for tags" if has_tags else "items for keys, and none for tags"
    return (
        f"{files[-1]}: this looks like a store of {likely} ({what}), not of "
        f"{given.family}: give --broker-version {likely}"
    )


def _votes(path: Path, log: CommitLog, *, is_whole: bool = True) -> Iterator[bool]:
    """Yield, for records with a tag, whether an index file has an item for it.

    Records whose items are neither of the two say nothing.
    """
    settings = log.settings
    with path.open("rb") as file:
        try:
            header = Header.unpack(file.read(indexfile.HEADER_SIZE))
        except struct.error:
            return
        count = min(max(header.next_item, FIRST_ITEM), settings.index_items)
        last = max(count - _LOOKED_AT, FIRST_ITEM)
        for first in {FIRST_ITEM, last} if is_whole else {last}:
            file.seek(indexfile.item_position(first, settings.index_slots))
            data = file.read(min(_LOOKED_AT, count - first) * ITEM_SIZE)
            items = ITEM_STRUCT.iter_unpack(data[: len(data) // ITEM_SIZE * ITEM_SIZE])
            groups = itertools.groupby(items, key=lambda item: item[1])
            found = [(position, [item[0] for item in group]) for position, group in groups]
            # The items of the last record may go on in the next file, those of the first one may
            # have begun in the one before.
            for position, hashes in found[1:-1]:
                record = _record(log, position)
                if record is not None and record.properties.get("TAGS"):
                    yield from (has for has in (True, False) if hashes == _hashes(record, tags=has))


def _record(log: CommitLog, position: int) -> Record | None:
    if not log.min_offset <= position < log.end_of_files:
        return None
    try:
        _, record = read_at(log, position)
    except (ReputError, ValueError):
        return None
    return record if isinstance(record, Record) else None


def _hashes(record: Record, *, tags: bool) -> list[int]:
    keys = indexfile.index_keys(record.topic, record.properties, tag_entries=tags)
    return [indexfile.key_hash(key) for key in keys]


def _likely(root: Path, *, has_tags: bool) -> list[str]:
    """Return the families that index and checkpoint allow, oldest first."""
    try:
        longs = storecheckpoint.unpack((root / names.CHECKPOINT).read_bytes())
    except (OSError, ValueError):
        longs = storecheckpoint.StoreCheckpoint()
    used = max((number for number, long in enumerate(longs, 1) if long), default=0)
    same = [v for v in broker.VERSIONS.values() if v.indexes_tags == has_tags]
    # A version that knows fewer fields leaves the others 0.
    fitting = [v.family for v in same if v.checkpoint_fields >= used]
    return fitting or [v.family for v in same]
