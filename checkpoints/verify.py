"""Compares what an output says of itself, checkpoint file and progress, with its log and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reput.checkpoints import marks
from reput.formats.rocketmq import broker, checkpoint, names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.stores.findings import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from reput.checkpoints.progress import Progress
    from reput.stores.findings import Report, Scope

_LONG = 8
_LOGICS_TIMESTAMP = 1
_INDEX_TIMESTAMP = 2
_LOGICS_OFFSET = 5


@dataclass
class LogFacts:
    """What the records in the scope give a checkpoint.

    Attributes:
        messages: records.
        last_timestamp: store timestamp of the last one, ms.
        entry_timestamp: of the last one that has an entry in a consume queue.
        entry_offset: where that one starts.
        is_end_known: no later record of the scope stands in a place that cannot be read.
        index_ends: end timestamps of the full index files, oldest first.
        index_files: how many there are, full or not.
        index_begin: begin timestamp of the oldest one, ms; 0 for no file.
    """

    messages: int = 0
    last_timestamp: int = 0
    entry_timestamp: int = 0
    entry_offset: int = 0
    is_end_known: bool = True
    index_ends: list[int] = field(default_factory=list)
    index_files: int = 0
    index_begin: int = 0

    @property
    def rolled_end(self) -> int:
        """Return the end timestamp of the last index file that another one follows, 0 for none."""
        rolled = self.index_ends[: max(self.index_files - 1, 0)]
        return rolled[-1] if rolled else 0

    def may_be_of_expired(self, timestamp: int) -> bool:
        """Tell whether an index file that ended then may have stood before the oldest one."""
        return 0 < timestamp <= self.index_begin


class CheckpointCheck:
    """The checkpoint file of one output root."""

    def __init__(self, root: Path, fields: int, scope: Scope, report: Report) -> None:
        """Read nothing yet.

        Args:
            root: the output root.
            fields: longs that the broker's version knows.
            scope: which records count.
            report: gets what is found.
        """
        self._path = root / names.CHECKPOINT
        self._fields = fields
        self._scope = scope
        self._report = report

    def check(self, facts: LogFacts, progress: Progress | None) -> None:
        """Compare the file with the log; for our own output, every long exactly."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            # Nothing was flushed yet where our own progress knows of none.
            if facts.messages and (progress is None or any(progress.checkpoint)):
                self._report.add(Kind.MISSING, self._path, 0, "no such file")
            return
        self._report.files += 1
        if len(data) != checkpoint.FILE_SIZE:
            expected = checkpoint.FILE_SIZE
            detail = f"the file has {len(data)} bytes, expected {expected}"
            self._report.add(Kind.SIZE, self._path, len(data), detail)
        unused = data[self._fields * _LONG :]
        if any(unused):
            at = self._fields * _LONG + next(i for i, byte in enumerate(unused) if byte)
            families = [
                each.family
                for each in broker.VERSIONS.values()
                if at < each.checkpoint_fields * _LONG
            ]
            detail = "unused bytes are not zero"
            if families:
                detail += (
                    f"; brokers of {' and '.join(families)} have a field there: if this store is "
                    f"of such a version, verify it with --broker-version {families[-1]}"
                )
            self._report.add(Kind.SURPLUS, self._path, at, detail)
        try:
            values = checkpoint.unpack(data)
        except ValueError:
            return
        if self._scope.is_ours and progress is not None:
            self._compare(values, facts, progress)
        else:
            self._compare_plausible(values, facts, None)

    def _compare(self, values: StoreCheckpoint, facts: LogFacts, progress: Progress) -> None:
        """Compare the longs of our own output."""
        recorded = progress.checkpoint
        if not progress.clean and tuple(values) != recorded:
            # Killed between the checkpoint file and the record of it, which comes next.
            is_newer = all(a >= b for a, b in zip(values, recorded, strict=True))
            is_ahead = self._compare_plausible(values, facts, progress)
            if is_newer and not is_ahead:
                self._report.note(Kind.CHECKPOINT, self._path, 0, "newer than the progress record")
                return
        for i, (value, wanted) in enumerate(zip(values, recorded, strict=True)):
            if value != wanted and i < self._fields:
                self._report_value(Kind.CHECKPOINT, i, value, f"the progress record has {wanted}")
        if progress.clean and self._scope.end == progress.end:
            self._compare_exactly(values, facts, progress)

    def _compare_exactly(
        self, values: StoreCheckpoint, facts: LogFacts, progress: Progress
    ) -> None:
        index_end = facts.rolled_end
        if self._is_of_expired_index(values, facts, progress):
            index_end = values.index_timestamp
        expected = {_INDEX_TIMESTAMP: index_end}
        # All records with an entry may have expired since.
        if facts.is_end_known and (facts.entry_timestamp or self._scope.floor == 0):
            expected[_LOGICS_TIMESTAMP] = facts.entry_timestamp
            if self._fields > _LOGICS_OFFSET:
                expected[_LOGICS_OFFSET] = facts.entry_offset
        for i, wanted in expected.items():
            if values[i] != wanted:
                kind = Kind.CHECKPOINT_AHEAD if values[i] > wanted else Kind.CHECKPOINT
                self._report_value(kind, i, values[i], f"the log and the files give {wanted}")

    def _is_of_expired_index(
        self, values: StoreCheckpoint, facts: LogFacts, progress: Progress | None
    ) -> bool:
        """Tell whether the file that the newest index file follows was removed as expired.

        A clock that went back may have begun the newest one before that one ended: of our own
        output, the progress record says when.
        """
        is_alone = self._scope.floor > 0 and facts.index_files == 1
        recorded = StoreCheckpoint(*progress.checkpoint).index_timestamp if progress else 0
        found = values.index_timestamp
        return is_alone and (facts.may_be_of_expired(found) or 0 < found == recorded)

    def _compare_plausible(
        self, values: StoreCheckpoint, facts: LogFacts, progress: Progress | None
    ) -> bool:
        """Compare what a broker's own checkpoint may never be; tell whether anything was found."""
        before = self._report.found
        if facts.messages and facts.is_end_known:
            limits = (facts.last_timestamp, facts.entry_timestamp or facts.last_timestamp)
            for i, limit in enumerate(limits):
                if values[i] > limit:
                    detail = f"the last record in the log has {limit}"
                    self._report_value(Kind.CHECKPOINT_AHEAD, i, values[i], detail)
            if self._fields > _LOGICS_OFFSET and values[_LOGICS_OFFSET] > facts.entry_offset:
                detail = f"the last record with an entry starts at {facts.entry_offset}"
                value = values[_LOGICS_OFFSET]
                self._report_value(Kind.CHECKPOINT_AHEAD, _LOGICS_OFFSET, value, detail)
        if facts.messages:
            is_of_expired = self._is_of_expired_index(values, facts, progress)
            if values.index_timestamp not in {0, *facts.index_ends} and not is_of_expired:
                detail = "no full index file ends then"
                value = values[_INDEX_TIMESTAMP]
                self._report_value(Kind.CHECKPOINT, _INDEX_TIMESTAMP, value, detail)
        for i, value in enumerate(values[: self._fields]):
            # RocketMQ's confirm offset is -1 where replication never set it.
            if value < -1:
                self._report_value(Kind.CHECKPOINT, i, value, "no time and no offset is negative")
        return self._report.found > before

    def _report_value(self, kind: Kind, number: int, value: int, detail: str) -> None:
        name = StoreCheckpoint._fields[number]
        self._report.add(kind, self._path, number * _LONG, f"{name} is {value}, {detail}")


def verify_progress(path: Path, progress: Progress, facts: LogFacts, report: Report) -> None:
    """Compare our own progress record with the log that it is about.

    Args:
        path: its file, for messages.
        progress: what it says.
        facts: of the records up to its end.
        report: gets what is found.
    """
    if not progress.clean or not facts.is_end_known:
        return
    pairs = {
        "logics_timestamp": (progress.logics_timestamp, facts.entry_timestamp),
        "logics_offset": (progress.logics_offset, facts.entry_offset),
    }
    for name, (value, wanted) in pairs.items():
        if facts.entry_timestamp and value != wanted:
            report.add(Kind.PROGRESS, path, 0, f"{name} is {value}, the log gives {wanted}")


def verify_abort(root: Path, report: Report) -> None:
    """Note the mark of a writer that did not stop in order, or still runs."""
    if marks.has_abort(root):
        path = root / names.ABORT
        report.note(Kind.PROGRESS, path, 0, "a writer runs, or did not stop in order")
