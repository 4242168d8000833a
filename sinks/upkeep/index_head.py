"""The index items that an output still has of expired records, for a rebuild to continue.

A rebuild begins where the log does. The place of an index item follows from the items before it,
so a rebuild gets a copy of the file that they stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.checkpoints.disk import changes
from reput.formats.rocketmq import (
    indexfile,
    names,
)
from reput.formats.rocketmq.indexfile import HEADER_SIZE, SLOT_SIZE, Header
from reput.sinks.files.mapped_file import MappedFile
from reput.stores.findings import Report, Scope
from reput.stores.verify.index.compare import IndexCheck
from reput.stores.verify.index.reader import IndexReader

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    import numpy as np

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.broker import BrokerSettings
    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.verify.index.replay import IndexReplay


class IndexHead(NamedTuple):
    """The index files that begin with an item of an expired record.

    Attributes:
        kept: names of those that hold nothing else, and are sound.
        broken: names of those that are damaged: what they hold cannot be made again.
        copied: name of the one that continues with items of the log, "" for none.
        flushed_timestamp: end timestamp of the last kept one; 0 for none.
    """

    kept: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    copied: str = ""
    flushed_timestamp: int = 0


class _NoLog:
    """A log without records, see `stores.verify.index.parting.Records`."""

    other_tags_before = 0

    def columns(self, _start: int, _end: int) -> Generator[tuple[Columns, int]]:
        yield from ()

    def keys_at(self, _position: int) -> list[int] | None:
        return None

    def record_at(self, _position: int) -> Record | None:
        return None


def copy_index_head(
    root: Path,
    copy: Path,
    staging: Path,
    settings: BrokerSettings,
    floor: int,
    known: Mapping[str, Header],
) -> IndexHead:
    """Copy the index file that the log's first key belongs into, up to that key.

    Args:
        root: the output root.
        copy: the root that gets the file.
        staging: see `MappedFile.create`; of the copy.
        settings: slots and items of a file.
        floor: physical offset where the log begins.
        known: headers by file, as far as they were recorded.

    Raises:
        OSError: the device failed.
    """
    report, scope = Report(), Scope(floor, floor, True, True)
    replay = IndexCheck(root, settings, scope, report, _NoLog()).head()
    try:
        opened = replay.files[: replay.opened]
        if not opened:
            return IndexHead()
        bad = _damaged(report, opened)
        broken = [path.name for path in opened if path in bad]
        kept = [path.name for path in opened[:-1] if path not in bad]
        last = opened[-1]
        if last.name in broken or replay.reader is None:
            return _after_broken(root, copy, staging, settings, kept, broken)
        witness = known.get(last.name, replay.reader.header())
        header = _with_times(Header(*replay.state.tolist()), witness)
        _write_index(last, copy / names.INDEX, staging, settings, header, replay.slots)
        before = _end_of_last(root, kept, settings)
        return IndexHead(tuple(kept), tuple(broken), last.name, before)
    finally:
        _close(replay)


def _close(replay: IndexReplay) -> None:
    if replay.reader is not None:
        replay.reader.close()
        replay.reader = None


def _with_times(header: Header, witness: Header) -> Header:
    """Return a header with another one's timestamps: those of expired records are not known."""
    begin, end = witness.begin_timestamp, witness.end_timestamp
    return header._replace(begin_timestamp=begin, end_timestamp=end)


def _damaged(report: Report, opened: list[Path]) -> set[Path]:
    """Return the files with findings; all of them if the report does not list every finding."""
    if report.found > len(report.findings):
        return set(opened)
    bad = {finding.path for finding in report.findings}
    return {path for path in opened if str(path) in bad}


def _after_broken(
    root: Path,
    copy: Path,
    staging: Path,
    settings: BrokerSettings,
    kept: list[str],
    broken: list[str],
) -> IndexHead:
    """Copy the last sound file: the next one's header continues from its end."""
    if not kept:
        return IndexHead((), tuple(broken))
    source, directory = root / names.INDEX / kept[-1], copy / names.INDEX
    changes.make_directories(directory)
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    file = MappedFile.create(directory / source.name, size, staging)
    try:
        file.prepare(size)
        file.copy_from(source, 0, size)
        file.flush()
    finally:
        file.close()
    flushed = _end_of_last(root, kept[:-1], settings)
    return IndexHead(tuple(kept[:-1]), tuple(broken), source.name, flushed)


def _end_of_last(root: Path, kept: list[str], settings: BrokerSettings) -> int:
    """Return the end timestamp of the last of some index files, ms; 0 for none."""
    if not kept:
        return 0
    reader = IndexReader(root / names.INDEX / kept[-1], settings)
    try:
        return reader.header().end_timestamp
    finally:
        reader.close()


def _write_index(
    source: Path,
    directory: Path,
    staging: Path,
    settings: BrokerSettings,
    header: Header,
    slots: np.ndarray,
) -> None:
    changes.make_directories(directory)
    size = indexfile.file_size(settings.index_slots, settings.index_items)
    items_at = indexfile.item_position(0, settings.index_slots)
    end = indexfile.item_position(header.next_item, settings.index_slots)
    file = MappedFile.create(directory / source.name, size, staging)
    try:
        file.prepare(end)
        file.write(0, header.pack())
        file.write(HEADER_SIZE, slots.astype(">i4").tobytes()[: settings.index_slots * SLOT_SIZE])
        file.copy_from(source, items_at, end)
        file.flush()
    finally:
        file.close()
