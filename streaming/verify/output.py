"""Compares an output with the commitlog that it was made from, without Spark and without writing.

Two passes over the log: one for consume queues, extensions and batch queues, one in lockstep with
the index. A broker's own store can be verified too: its output is the store itself.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from reput.checkpoints import output_record, progress, tails, untouched
from reput.checkpoints.verify import CheckpointCheck, LogFacts, verify_abort, verify_progress
from reput.formats.errors import FormatError, StoreError, UnreadableError
from reput.formats.rocketmq import consumequeue, names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.stores.findings import Finding, Kind, Report
from reput.stores.following.other_store import refuse_other_store
from reput.stores.verify.index.compare import IndexCheck
from reput.stores.verify.index.reader import index_files
from reput.streaming.verify.lacks import report_lacks
from reput.streaming.verify.log_records import LogRecords
from reput.streaming.verify.queue_pass import QueuePass
from reput.streaming.verify.subject import Subject
from reput.streaming.verify.version_seen import refuse_other_version

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.streaming.dispatch.blocks.block import Block
    from reput.streaming.settings.config import StoreConfig

__all__ = ["Finding", "Kind", "Report", "verify"]


def verify(config: StoreConfig) -> Report:
    """Compare an output with its store's commitlog.

    Args:
        config: the store and the output; both the same for a broker's own files.

    Returns:
        What was found; `ok` if nothing.

    Raises:
        UsageError: a broker's own index is one of another version.
        ReputError: the commitlog cannot be read, or the output was made with other settings, or of
            another log.
        OSError: no permission, the device failed.
    """
    began = time.monotonic()
    if not (config.output / progress.STATE_DIRECTORY / progress.FILE_NAME).exists():
        refuse_other_version(config)
    subject = Subject(config)
    try:
        record = output_record.read(config.output)
        refuse_other_store(subject.log, config.path, config.output, record)
        _Checks(subject).run()
    finally:
        subject.close()
    subject.report.seconds = time.monotonic() - began
    return subject.report


def obstacle(config: StoreConfig, position: int) -> FormatError | None:
    """Return why dispatch cannot continue at an offset before the log's end, None if it can.

    Raises:
        ReputError, OSError: as of `verify`.
    """
    subject = Subject(config)
    try:
        return subject.obstacle(position)
    finally:
        subject.close()


class _Checks:
    """One verification: asks each check in turn."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._facts = LogFacts()

    def run(self) -> None:
        """Ask each check."""
        subject = self._subject
        output, report, scope = subject.config.output, subject.report, subject.scope
        lost = subject.readable.lost
        tag_entries = subject.settings.version.indexes_tags
        blocks = subject.readable.blocks
        records = LogRecords(subject.log, subject.pipeline, tag_entries, scope, blocks, lost)
        QueuePass(subject, records, self._observe).run()
        self._facts.is_end_known = not lost.between(self._facts.entry_offset + 1, scope.end)
        if subject.settings.writes_index:
            before = self._index_end_before()
            check = IndexCheck(output, subject.settings, scope, report, records, lost, before)
            self._facts.index_ends = check.run()
            self._facts.index_begin = check.oldest_begin
            self._facts.index_files = check.file_count
        else:
            self._check_no_index(output)
        if subject.progress is not None:
            path = output / progress.STATE_DIRECTORY / progress.FILE_NAME
            verify_progress(path, subject.progress, self._facts, report)
            self._check_expired_queues(subject.progress)
            self._check_untouched(subject.progress)
        fields = subject.settings.version.checkpoint_fields
        CheckpointCheck(output, fields, scope, report).check(self._facts, subject.progress)
        self._check_next_record()
        report_lacks(subject)
        verify_abort(output, report)
        report.bytes = scope.end - scope.floor

    def _index_end_before(self) -> int | None:
        """Return where the index file ended that the oldest one follows, ms, None if not known.

        The checkpoint has the end of the file before the newest.
        """
        found = self._subject.progress
        if found is None:
            return None
        count = len(
            index_files(self._subject.config.output / names.INDEX, self._subject.settings, Report())
        )
        recorded = StoreCheckpoint(*found.checkpoint).index_timestamp
        # Going back to where a log was cut sets it to 0.
        is_known = count == 1 and (recorded > 0 or not found.cuts)
        return recorded if is_known else None

    def _check_expired_queues(self, found: Progress) -> None:
        """Compare the last bytes of queues whose records have all expired with what was recorded.

        Nothing in the log says what they should be.
        """
        if not found.clean:
            return
        output, floor = self._subject.config.output, self._subject.log.min_offset
        queues = {
            name: end
            for name, end in found.queues.items()
            if end > 0 and found.lasts.get(name, floor + 1) <= floor
        }
        seen = tails.read(output, queues, self._subject.settings)
        for name, end in queues.items():
            base = tails.last_base(name, end, self._subject.settings)
            if base < found.firsts.get(name, 0):
                # The file of its last entry has expired, and the next one has nothing in it yet.
                continue
            path = output / name / names.offset_file(base)
            if name not in seen:
                detail = "the file of the queue's last entry, whose record has expired, is not here"
                self._subject.report.add(Kind.MISSING, path, 0, detail)
            elif seen[name] != found.tails.get(name, seen[name]):
                detail = "the last entries, whose records have expired, are not those dispatched"
                self._subject.report.add(
                    Kind.WRONG_BYTES, path, max(end - base - tails.TAIL_SIZE, 0), detail
                )

    def _check_untouched(self, found: Progress) -> None:
        """Report what the next start refuses, if nothing else is wrong.

        It knows the ends of files whose records have all expired, so that the log says nothing.
        """
        if not self._subject.report.ok:
            return
        output = self._subject.config.output
        try:
            untouched.check(output, found, self._subject.settings, self._subject.log.min_offset)
        except StoreError as error:
            # A job that runs may have moved on, or back, since the record was read.
            if progress.load(output) == found:
                self._subject.report.add(Kind.PROGRESS, Path(error.path), 0, error.problem)

    def _check_next_record(self) -> None:
        """Report a record that stopped the output and that its broker cannot read either."""
        subject = self._subject
        end = subject.progress.end if subject.progress is not None else subject.tail
        if not subject.scope.floor <= end < subject.tail:
            return
        if isinstance(subject.stop, UnreadableError):
            path, byte = subject.log.file_of(end)
            rest = f"{subject.tail - end} bytes of the log are not dispatched"
            subject.report.add(Kind.UNREADABLE, path, byte, f"{rest}: {subject.stop.problem}")

    def _check_no_index(self, output: Path) -> None:
        for path in index_files(output / names.INDEX, self._subject.settings, self._subject.report):
            detail = "an index file, and the broker's settings say that it writes none"
            if self._subject.scope.is_ours:
                self._subject.report.add(Kind.SURPLUS, path, 0, detail)
            else:
                self._subject.report.note(Kind.SURPLUS, path, 0, detail)

    def _observe(self, block: Block) -> None:
        """Note what checkpoint and progress are compared with."""
        columns, facts = block.columns, self._facts
        self._subject.report.messages += block.count
        facts.messages += block.count
        facts.last_timestamp = int(columns.store_timestamp[block.count - 1])
        for i in range(block.count - 1, -1, -1):
            has_entry = consumequeue.has_entry(int(columns.sys_flag[i]))
            if has_entry and i not in block.without_entry:
                facts.entry_timestamp = int(columns.store_timestamp[i])
                facts.entry_offset = int(columns.physical_offset[i])
                return
