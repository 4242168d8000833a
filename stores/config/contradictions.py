"""Tells what a store's own files say against the settings that a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.rocketmq import indexfile, names

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.rocketmq.broker import BrokerSettings


def file_sizes(settings: BrokerSettings) -> tuple[tuple[str, int, str], ...]:
    """Return directory, bytes of a file and their setting for each kind of file beside the log."""
    index_size = indexfile.file_size(settings.index_slots, settings.index_items)
    return (
        (names.CONSUMEQUEUE, settings.consumequeue_file_size, "mappedFileSizeConsumeQueue"),
        (names.CONSUMEQUEUE_EXT, settings.ext_file_size, "mappedFileSizeConsumeQueueExt"),
        (names.BATCH_CONSUMEQUEUE, settings.batch_file_size, "mapperFileSizeBatchConsumeQueue"),
        (names.INDEX, index_size, "maxHashSlotNum and maxIndexNum"),
    )


def contradictions(store: Path, settings: BrokerSettings) -> list[str]:
    """Return what the store's own files say against the settings, for the user to look at.

    The commitlog's file size is not part of it: reading stops on a wrong one.
    """
    found = []
    for kind, expected, setting in file_sizes(settings):
        example = _first_file(store / kind)
        if example is not None and example.stat().st_size != expected:
            found.append(
                f"the broker's {example} has {example.stat().st_size} bytes, by {setting} it "
                f"would have {expected}: give the broker's own settings with --broker-conf"
            )
    if not settings.writes_ext and _first_file(store / names.CONSUMEQUEUE_EXT) is not None:
        found.append(
            f"the broker has {store / names.CONSUMEQUEUE_EXT}, but enableConsumeQueueExt is not "
            "set in --broker-conf: entries will hold plain tag codes"
        )
    config = store / names.CONFIG
    if _has_rocksdb(config) and not (config / "topics.json").is_file():
        found.append(
            f"{config} keeps topics and filters in RocksDB, which is not read: topics of type "
            "BatchCQ are taken for ordinary ones, and bit maps are not made"
        )
    if settings.calculates_bitmaps and not settings.writes_ext:
        found.append("enableCalcFilterBitMap does nothing without enableConsumeQueueExt")
    return found


def _has_rocksdb(config: Path) -> bool:
    """Tell whether a broker keeps its configuration in RocksDB (`configManagerVersion`)."""
    return config.is_dir() and any(config.glob("*/CURRENT"))


def _first_file(directory: Path) -> Path | None:
    """Return some file below a directory, None if there is none."""
    if not directory.is_dir():
        return None
    return next((path for path in sorted(directory.rglob("*")) if path.is_file()), None)
