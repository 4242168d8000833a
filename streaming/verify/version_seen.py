"""Which versions a broker's own files look like, by what is only in those of some.

A wrong version makes every item of an index a finding, though nothing is wrong with it. The index
tells by itself: 5.4 and later have an item for a record's tag too. An upgraded store has both: what
was written last counts, and the comparison finds where the change is.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from reput.checkpoints import progress
from reput.formats.errors import ReputError, UsageError
from reput.formats.rocketmq import broker, checkpoint, indexfile, names
from reput.formats.rocketmq.commitlog import Record
from reput.formats.rocketmq.indexfile import FIRST_ITEM, ITEM_SIZE, ITEM_STRUCT, Header
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.log.records import read_at
from reput.stores.verify.index.tag_votes import tag_votes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.streaming.settings.config import StoreConfig

# Items looked at, at either end of an index.
_LOOKED_AT = 1000
# Records with a tag that have to say the same to outweigh what older ones say: no damage does.
_MANY = 10
# After the version that fits: what else can be done.
_GO_ON = (
    "(broker_version in a reput.toml). If the broker was upgraded since, continue with "
    "--any-version (any_version = true)"
)
# Newest files that are asked: one that was just begun may say nothing.
_NEWEST = 16


def refuse_other_version(config: StoreConfig) -> None:
    """Refuse a broker version that a store's own index speaks against, unless the user is sure.

    Raises:
        UsageError: names the version to give.
    """
    if config.any_version:
        return
    files = _index_files(config, config.output)
    said = _disagreement(config, files[:1], files[-_NEWEST:], config.output)
    if said is not None:
        raise UsageError(f"{said} {_GO_ON}")


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
    said = _disagreement(config, [], files[-1:], config.path)
    if said is None:
        return None
    return f"{said} {_GO_ON}"


def _index_files(config: StoreConfig, root: Path) -> list[Path]:
    directory = root / names.INDEX
    if not config.settings.writes_index or not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if names.is_index_file(path.name))


def _disagreement(
    config: StoreConfig, oldest: list[Path], newest: list[Path], root: Path
) -> str | None:
    """Return that an index is of another version than the one given, None if not so.

    Args:
        config: the store.
        oldest: files of which both ends are looked at.
        newest: of these, the last file that says anything counts, by what was written last;
            it outweighs the others if it says much.
        root: what they and their checkpoint are in.
    """
    if not newest:
        return None
    given = config.settings.version
    # With the newest one's rules all records can be read.
    settings = replace(config.settings, version=broker.VERSIONS[broker.NEWEST])
    log = CommitLog(commitlog_directories(config.path, settings), settings, config.path)
    try:
        seen = {has for path in oldest for has in _votes(path, log)}
        ends = (list(_votes(path, log, is_whole=False)) for path in reversed(newest))
        last: list[bool] = next((votes for votes in ends if votes), [])
    finally:
        log.close()
    seen = set(last) if len(last) >= _MANY else seen | set(last)
    if len(seen) != 1 or given.indexes_tags in seen:
        return None
    [has_tags] = seen
    fitting = _fitting(root, has_tags=has_tags)
    if oldest and not fitting:
        # A newer version has written the checkpoint, and no item since.
        return None
    same = [each.family for each in broker.VERSIONS.values() if each.indexes_tags == has_tags]
    likely = " or ".join(fitting or same)
    what = "items for tags" if has_tags else "items for keys, and none for tags"
    return (
        f"{newest[-1]}: this looks like a store of {likely} ({what}), not of "
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
            items = list(ITEM_STRUCT.iter_unpack(data[: len(data) // ITEM_SIZE * ITEM_SIZE]))
            votes = tag_votes(items, partial(_record, log), is_end=first == last)
            yield from (vote.has_tag for vote in votes)


def _record(log: CommitLog, position: int) -> Record | None:
    if not log.min_offset <= position < log.end_of_files:
        return None
    try:
        _, record = read_at(log, position)
    except (ReputError, ValueError):
        return None
    return record if isinstance(record, Record) else None


def _fitting(root: Path, *, has_tags: bool) -> list[str]:
    """Return the families that both index and checkpoint allow, oldest first."""
    try:
        longs = checkpoint.unpack((root / names.CHECKPOINT).read_bytes())
    except (OSError, ValueError):
        longs = checkpoint.StoreCheckpoint()
    used = max((number for number, long in enumerate(longs, 1) if long), default=0)
    same = [v for v in broker.VERSIONS.values() if v.indexes_tags == has_tags]
    # A version that knows fewer fields leaves the others 0.
    return [v.family for v in same if v.checkpoint_fields >= used]
