"""The records of a log by physical offset, and the keys that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reput.formats.errors import FormatError
from reput.formats.rocketmq import indexfile
from reput.formats.rocketmq.commitlog import PHYSICAL_OFFSET_AT, SYS_FLAG_AT
from reput.stores.log.commitlog import PAD

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.commitlog import Record
    from reput.stores.findings import Scope
    from reput.stores.following.lost_places import LostPlaces
    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.dispatch.blocks.pipeline import Pipeline


@dataclass
class LogRecords:
    """The log as the index check needs it; see `stores.verify.index.parting.Records`.

    Attributes:
        log: the files.
        pipeline: parses them.
        tag_entries: tags are keys as well.
        scope: see `Scope`.
        log_blocks: the pipeline's blocks, past what cannot be read.
        lost: what cannot be read.
        other_tags_before: see `stores.verify.index.parting.Records`.
    """

    log: CommitLog
    pipeline: Pipeline
    tag_entries: bool
    scope: Scope
    log_blocks: Callable[[int, int], Iterator[Block]]
    lost: LostPlaces
    other_tags_before: int = 0

    def columns(self, start: int, end: int) -> Generator[tuple[Columns, int]]:
        """Yield the records that start in [`start`, `end`), a block at a time."""
        self.pipeline.parser.other_tags_before = self.other_tags_before
        for block in self.log_blocks(start, end):
            if block.count:
                yield block.columns, block.count

    def is_record(self, position: int, size: int) -> bool:
        """Tell whether a record of `size` bytes starts at a physical offset in the scope."""
        return size > 0 and self.size_at(position) == size

    def size_at(self, position: int) -> int | None:
        """Return the size of the record at a physical offset, None if none is there."""
        if not self.scope.floor <= position < self.scope.end:
            return None
        if self.lost.end_of(position) is not None:
            return None
        head = self.log.read(position, SYS_FLAG_AT)[PAD:-PAD].tobytes()
        is_record = int.from_bytes(head[PHYSICAL_OFFSET_AT:], "big") == position
        return int.from_bytes(head[:4], "big") if is_record and len(head) == SYS_FLAG_AT else None

    def keys_at(self, position: int) -> list[int] | None:
        """Return the key hashes of the record at a physical offset, None if none is there."""
        record = self.record_at(position)
        if record is None:
            return None
        tag_entries = self.tag_entries != (position < self.other_tags_before)
        keys = indexfile.index_keys(record.topic, record.properties, tag_entries=tag_entries)
        return [indexfile.key_hash(key) for key in keys]

    def record_at(self, position: int) -> Record | None:
        """Return the record at a physical offset, None if none is there."""
        size = self.size_at(position)
        if size is None or not 0 < size <= self.log.settings.max_record_size:
            return None
        try:
            return self.pipeline.record_at(position, size)
        except FormatError:
            return None
