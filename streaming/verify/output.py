"""Compares an output with the commitlog that it was made from, without Spark and without writing.

Two passes over the log: one for consume queues, extensions and batch queues, one in lockstep with
the index. A broker's own store can be verified as well: its output is the store itself.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from reput.checkpoints import marks, progress, tails, untouched
from reput.checkpoints.disk import locks
from reput.checkpoints.verify import CheckpointCheck, LogFacts, verify_abort, verify_progress
from reput.formats.errors import FormatError, ReputError, StoreError, UnreadableError
from reput.formats.rocketmq import consumequeue, names
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.formats.rocketmq.commitlog import Record, Verdict
from reput.formats.rocketmq.consumequeue import Entry
from reput.formats.rocketmq.further_entries import BatchPut, Own, puts_of
from reput.sinks.files.queues import QueueDirectory
from reput.stores.config.deleted_topics import deleted_topics
from reput.stores.findings import Finding, Kind, Report, Scope
from reput.stores.log.commitlog import CommitLog, active_file, commitlog_directories
from reput.stores.log.holes import damage_error, flaw_after
from reput.stores.log.places import unmounted
from reput.stores.log.records import read_at
from reput.stores.log.unreadable import next_record
from reput.stores.verify.batches import BatchCheck
from reput.stores.verify.extensions import ExtCheck
from reput.stores.verify.index.compare import IndexCheck
from reput.stores.verify.index.reader import index_files
from reput.stores.verify.left_out import LeftOut
from reput.stores.verify.queue_entries import has_entries_from
from reput.stores.verify.queues import QueueCheck
from reput.streaming.dispatch import output_record, passed
from reput.streaming.dispatch.live_settings import LiveSettings
from reput.streaming.dispatch.other_store import refuse_other_store
from reput.streaming.dispatch.pipeline import Pipeline
from reput.streaming.source.readable import Readable, find_ends, place_of
from reput.streaming.verify.log_records import LogRecords
from reput.streaming.verify.version_seen import refuse_other_version

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.formats.kernels.scan import Columns
    from reput.formats.rocketmq.consumequeue_ext import Unit as ExtUnit
    from reput.streaming.dispatch.pipeline import Block
    from reput.streaming.settings.config import StoreConfig

__all__ = ["Finding", "Kind", "Report", "verify"]

# Size and magic: what is zero where nothing was written.
_MAGIC_END = 8


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
    verification = _Verification(config)
    try:
        record = output_record.read(config.output)
        refuse_other_store(verification.log, config.path, config.output, record)
        verification.run()
    finally:
        verification.close()
    verification.report.seconds = time.monotonic() - began
    return verification.report


def obstacle(config: StoreConfig, position: int) -> FormatError | None:
    """Return why dispatch cannot go on at a physical offset before the log's end, None if it can.

    Raises:
        ReputError, OSError: as of `verify`.
    """
    verification = _Verification(config)
    try:
        return verification.obstacle(position)
    finally:
        verification.close()


class _Verification:
    """One run: opens the log, asks each check, closes."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self.report = Report()
        self.settings = config.settings
        self.log = CommitLog(
            commitlog_directories(config.path, config.settings), config.settings, config.path
        )
        # Before its progress: a writer that ends in between has recorded more than was read here.
        self.report.writer = locks.holder_of(config.output / progress.STATE_DIRECTORY)
        found = self._load_progress()
        self.live = LiveSettings(config.path, config.output, self.settings)
        self.live.begin(found.store_timestamp if found is not None and found.messages else None)
        self.queues = QueueDirectory(self.live.needs_slow_path)
        self.pipeline = Pipeline(self.log, self.queues, self.settings)
        self.obstacles = passed.Obstacles(self.log, self.live, self.settings)
        # A corrupt place that the output has passed over, as it was told to, is no news.
        self.passed = dict(found.skipped) if found is not None else {}
        self.left_out = LeftOut()
        if found is not None:
            self.left_out = LeftOut(found.skipped, found.lost, found.vouched_from)
        self.readable = Readable(self.log, self.pipeline, self.passed)
        self.ends = find_ends(self.log)
        self.tail = self._after_last(found)
        self.progress = self._if_ours(found)
        if found is None and self._is_store_itself:
            self.tail = self._own_tail()
        self.scope = self._scope()
        end = self.scope.end
        # What the output has stopped at.
        self.stop = self.obstacle(end) if end < self.tail else None
        self.facts = LogFacts()

    def _after_last(self, found: Progress | None) -> int:
        """Return where the log ends; after a last record that is whole and was dispatched.

        While a broker runs, a record that ends with a zero byte may be torn, see `stores.log.tail`.
        One that was dispatched at rest is not.
        """
        last = self.ends.last
        if found is None or not last < found.end <= self.log.end_of_files:
            return last
        there = self.log.hop(last, last + 1, self.log.rules)
        return found.end if there == (Verdict.RECORD, found.end) else last

    def _own_tail(self) -> int:
        """Return where the log of a broker's own store ends.

        A broker that recovers cuts its log at damage in the last file. If it has dispatched what
        follows, it has not recovered since.
        """
        first, last, _ = self.ends
        size = self.settings.consumequeue_file_size
        if first < last and not has_entries_from(self.config.output, size, first):
            return first
        return last

    def _read_on(self) -> None:
        """Look for damage after what was dispatched: in the last file, and bytes that are missing.

        The other files are for dispatch to read.
        """
        end = self.scope.end
        for _ in self.readable.blocks(max(end, active_file(self.log)), self.tail):
            pass
        for damage in self.log.damages:
            if damage.end > end:
                self.readable.lack(damage_error(damage), damage.start, damage.end)

    def _report_lacks(self) -> None:
        """Say which places of the log give the output nothing.

        What was passed over; what expired before it was dispatched, where what the output has may
        have been cut as well; what was met; what stands where dispatch has stopped; what follows
        the log's end.
        """
        log, readable = self.log, self.readable
        again = passed.readable(log, self.passed.items(), self.obstacles)
        for start, end in self.passed.items():
            if end > log.min_offset:
                path, byte = log.file_of(max(start, log.min_offset))
                detail = f"physical offsets {start} to {end} were passed over"
                kind = Kind.SKIPPED
                if (start, end) in again:
                    detail += f"; {passed.READABLE}"
                    kind = Kind.INCOMPLETE
                self.report.lack(path, byte, detail, kind)
        floor = log.min_offset
        if self.progress is not None and 0 <= self.progress.end < floor:
            path, byte = log.file_of(floor)
            detail = f"physical offsets {self.progress.end} to {floor} expired before dispatch"
            self.report.lack(path, byte, detail)
        self._report_rest()
        for directory, detail in unmounted(self.config.path, self.settings, floor):
            self.report.note(Kind.MISSING, directory, 0, detail)
        if self.stop is not None:
            end = self.scope.end
            readable.lack(self.stop, end, next_record(log, end))
        self._read_on()
        flaw = self.ends.flaw
        if self.tail > self.ends.first:
            flaw = flaw_after(log, self.tail)
        if flaw is not None:
            place = place_of(log, flaw)
            readable.lack(flaw, self.tail if place is None else place)
        for _, error in sorted(readable.lacks.items()):
            self.report.lack(error.path, error.position, error.problem)

    def _report_rest(self) -> None:
        """Say how much of the log is not dispatched: lacking, unless a writer is about it."""
        if self.progress is None or self.log.after_blank(self.progress.end) >= self.tail:
            return
        at = self.scope.end
        rest = (
            f"{self.tail - at} of {self.tail - self.log.min_offset} bytes of the log, from "
            f"physical offset {at} on, are not dispatched"
        )
        if self.report.writer or self.stop is not None:
            # What it has stopped at is lacking, and says more.
            path = self.config.output / progress.STATE_DIRECTORY / progress.FILE_NAME
            who = f"; {self.report.writer} is writing" if self.report.writer else ""
            self.report.note(Kind.PROGRESS, path, 0, f"{rest} yet{who}")
            return
        path, byte = self.log.file_of(at)
        remedy = "`reput rebuild` with the same store and output goes on there"
        if self._waits_for_broker(at, self.progress.store_timestamp):
            remedy = (
                "what stands there is older than the record before, and may have been cut off: it "
                "counts once the broker has written after it, or has stopped"
            )
        self.report.lack(path, byte, f"{rest}, and nothing is writing: {remedy}")

    def _waits_for_broker(self, position: int, newest: int) -> bool:
        """Tell whether a record is out of turn, which dispatch holds back while a broker runs."""
        if not self.log.is_held():
            return False
        _, record = read_at(self.log, position)
        return isinstance(record, Record) and record.store_timestamp < newest

    def obstacle(self, position: int) -> FormatError | None:
        """Return why dispatch cannot go on at a physical offset before the log's end."""
        return self.obstacles.at(position)

    def close(self) -> None:
        self.obstacles.close()
        self.pipeline.close()
        self.log.close()

    def _load_progress(self) -> Progress | None:
        """Return the output's own progress record; a damaged one is a finding."""
        config = self.config
        path = config.output / progress.STATE_DIRECTORY / progress.FILE_NAME
        try:
            found = progress.load(config.output)
        except (FormatError, UnicodeDecodeError, TypeError) as error:
            self.report.add(Kind.PROGRESS, path, 0, str(error))
            return None
        if found is None:
            if not config.output.is_dir():
                raise StoreError(
                    config.output, "no such directory", "Point --output at what reput wrote"
                )
            if not self._is_store_itself:
                self.report.add(Kind.MISSING, path, 0, "reput has not written this output")
            return None
        for name, value in self.settings.fingerprint().items():
            if found.settings.get(name) != value:
                raise StoreError(
                    config.output,
                    f"it was written with {name} = {found.settings.get(name)}, now it is {value}",
                    "Give the broker version and broker.conf that it was written with",
                )
        return found

    def _if_ours(self, found: Progress | None) -> Progress | None:
        """Return the progress record, None if a broker has gone on after it."""
        path = self.config.output / progress.STATE_DIRECTORY / progress.FILE_NAME
        if (
            found is not None
            and self._is_store_itself
            and found.end < self.tail
            and has_entries_from(
                self.config.output, self.settings.consumequeue_file_size, max(found.end, 0)
            )
            and self.obstacle(max(found.end, self.log.min_offset)) is None
        ):
            detail = f"the broker has gone on after {found.end}: verified as a broker's own"
            self.report.note(Kind.PROGRESS, path, 0, detail)
            return None
        return found

    @property
    def _is_store_itself(self) -> bool:
        return self.config.output.resolve() == self.config.path.resolve()

    def _scope(self) -> Scope:
        floor = self.log.min_offset
        found = self.progress
        is_ours = found is not None or not self._is_store_itself
        if found is None:
            is_clean = not marks.has_abort(self.config.output)
            return Scope(floor, self._end_with_lost(None), is_ours, is_clean)
        path = self.config.output / progress.STATE_DIRECTORY / progress.FILE_NAME
        tail = self._end_with_lost(found.end)
        if found.end > tail:
            detail = f"dispatched up to {found.end}, the log ends at {self.tail}"
            self.report.add(Kind.PROGRESS, path, 0, detail)
        return Scope(floor, max(min(found.end, tail), floor), is_ours, found.clean)

    def _end_with_lost(self, end: int | None) -> int:
        """Return the log's end; after a last record that its file is too short for, if dispatched.

        Args:
            end: physical offset where the output ends, None if that is not known.
        """
        cut = self.log.unfinished
        if cut is None or self.tail > cut.start:
            return self.tail
        left = min(cut.start - self.tail, _MAGIC_END)
        if left and not any(self.log.bytes_at(self.tail, left)):
            # Nothing was written before it, so nothing was after it.
            return self.tail
        return cut.end if end is None else min(max(end, self.tail), cut.end)

    def run(self) -> None:
        """Ask each check."""
        output, report, scope = self.config.output, self.report, self.scope
        lost = self.readable.lost
        tag_entries = self.settings.version.indexes_tags
        blocks = self.readable.blocks
        records = LogRecords(self.log, self.pipeline, tag_entries, scope, blocks, lost)
        _QueuePass(self, records).run()
        self.facts.is_end_known = not lost.between(self.facts.entry_offset + 1, scope.end)
        if self.settings.writes_index:
            before = self._index_end_before()
            check = IndexCheck(output, self.settings, scope, report, records, lost, before)
            self.facts.index_ends = check.run()
            self.facts.index_begin = check.oldest_begin
            self.facts.index_files = check.file_count
        else:
            self._check_no_index(output)
        if self.progress is not None:
            path = output / progress.STATE_DIRECTORY / progress.FILE_NAME
            verify_progress(path, self.progress, self.facts, report)
            self._check_expired_queues(self.progress)
            self._check_untouched(self.progress)
        fields = self.settings.version.checkpoint_fields
        CheckpointCheck(output, fields, scope, report).check(self.facts, self.progress)
        self._check_next_record()
        self._report_lacks()
        verify_abort(output, report)
        report.bytes = scope.end - scope.floor

    def _index_end_before(self) -> int | None:
        """Return where the index file ended that the oldest one follows, ms, None if not known.

        The checkpoint has the end of the file before the newest.
        """
        found = self.progress
        if found is None:
            return None
        count = len(index_files(self.config.output / names.INDEX, self.settings, Report()))
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
        output, floor = self.config.output, self.log.min_offset
        queues = {
            name: end
            for name, end in found.queues.items()
            if end > 0 and found.lasts.get(name, floor + 1) <= floor
        }
        seen = tails.read(output, queues, self.settings)
        for name, end in queues.items():
            base = tails.last_base(name, end, self.settings)
            if base < found.firsts.get(name, 0):
                # The file of its last entry has expired, and the next one has nothing in it yet.
                continue
            path = output / name / names.offset_file(base)
            if name not in seen:
                detail = "the file of the queue's last entry, whose record has expired, is not here"
                self.report.add(Kind.MISSING, path, 0, detail)
            elif seen[name] != found.tails.get(name, seen[name]):
                detail = "the last entries, whose records have expired, are not those dispatched"
                self.report.add(
                    Kind.WRONG_BYTES, path, max(end - base - tails.TAIL_SIZE, 0), detail
                )

    def _check_untouched(self, found: Progress) -> None:
        """Report what the next start refuses, where nothing else is wrong.

        It knows the ends of files of which the log says nothing, as all their records have expired.
        """
        if not self.report.ok:
            return
        output = self.config.output
        try:
            untouched.check(output, found, self.settings, self.log.min_offset)
        except StoreError as error:
            # A job that runs may have gone on, or back, since the record was read.
            if progress.load(output) == found:
                self.report.add(Kind.PROGRESS, Path(error.path), 0, error.problem)

    def _check_next_record(self) -> None:
        """Report a record that stopped the output and that its broker cannot read either."""
        end = self.progress.end if self.progress is not None else self.tail
        if not self.scope.floor <= end < self.tail:
            return
        if isinstance(self.stop, UnreadableError):
            path, byte = self.log.file_of(end)
            detail = f"{self.tail - end} bytes of the log are not dispatched: {self.stop.problem}"
            self.report.add(Kind.UNREADABLE, path, byte, detail)

    def _check_no_index(self, output: Path) -> None:
        for path in index_files(output / names.INDEX, self.settings, self.report):
            detail = "an index file, and the broker's settings say that it writes none"
            if self.scope.is_ours:
                self.report.add(Kind.SURPLUS, path, 0, detail)
            else:
                self.report.note(Kind.SURPLUS, path, 0, detail)

    def observe(self, block: Block) -> None:
        """Take from a block what checkpoint and progress are compared with."""
        columns, facts = block.columns, self.facts
        self.report.messages += block.count
        facts.messages += block.count
        facts.last_timestamp = int(columns.store_timestamp[block.count - 1])
        for i in range(block.count - 1, -1, -1):
            has_entry = consumequeue.has_entry(int(columns.sys_flag[i]))
            if has_entry and i not in block.without_entry:
                facts.entry_timestamp = int(columns.store_timestamp[i])
                facts.entry_offset = int(columns.physical_offset[i])
                return


class _QueuePass:
    """The pass over the log that compares queues; the twin of `sinks.files.special`."""

    def __init__(self, run: _Verification, records: LogRecords) -> None:
        parts = (run.config.output, run.settings, run.scope, run.report)
        self._verification = run
        self._queues = run.queues
        # In an output of ours a topic's queues stay when a broker deletes the topic.
        is_deleted = _never if run.scope.is_ours else deleted_topics(run.config.path)
        lost = run.readable.lost
        self._entries = QueueCheck(*parts, records.is_record, is_deleted, lost, run.left_out)
        self._ext = ExtCheck(*parts, lost)
        self._batches = BatchCheck(*parts, lost)

    def run(self) -> None:
        """Compare all queues with the records in the scope."""
        run = self._verification
        for block in run.readable.blocks(run.scope.floor, run.scope.end):
            columns = block.columns
            if block.count == 0:
                continue

            def expect_special(row: int, block: Block = block) -> None:
                columns = block.columns
                try:
                    if not self._expect_row(columns, row):
                        block.without_entry.add(row)
                except (ValueError, ReputError):
                    if not self._pass_over(columns, row):
                        raise
                    block.without_entry.add(row)

            self._entries.compare(columns, block.count, self._queues.names, expect_special)
            run.observe(block)
        self._entries.finish()
        self._ext.finish()
        self._batches.finish()

    def _pass_over(self, columns: Columns, row: int) -> bool:
        """Pass over a record that cannot be put into all of its queues; tell whether it is one."""
        run = self._verification
        start = int(columns.physical_offset[row])
        following = start + int(columns.size[row])
        try:
            run.obstacles.require_queues(columns, row)
        except FormatError as error:
            run.readable.pass_over(error, start, following, run.scope.end)
            return True
        return False

    def _expect_row(self, columns: Columns, row: int) -> bool:
        """Compare what a record gives beyond one plain entry; False if that is nothing at all."""
        run = self._verification
        position, size = int(columns.physical_offset[row]), int(columns.size[row])
        code, timestamp = int(columns.tags_code[row]), int(columns.store_timestamp[row])
        number, queue_offset = int(columns.queue[row]), int(columns.queue_offset[row])
        name = self._queues.names[number]
        record = None
        is_batch = run.live.is_batch(name.topic, timestamp)
        if is_batch or run.live.reads_properties or run.settings.multi_dispatch:
            record = run.pipeline.record_at(position, size)
        own = Own(name, queue_offset, Entry(position, size, code), timestamp)
        is_expected = False
        for put in puts_of(own, record, run.settings, run.live):
            is_expected = True
            if isinstance(put, BatchPut):
                self._batches.expect(put.queue, put.unit)
                continue
            entry = put.entry
            if put.is_further:
                nested = run.settings.version.nests_queues
                number = self._queues.number(*put.queue, nested=nested)
            if put.extension is not None:
                held = self._expect_ext(number, queue_offset, position, put.extension)
                entry = entry._replace(tags_code=held)
            self._entries.expect(number, put.queue, put.queue_offset, entry)
        return is_expected

    def _expect_ext(self, number: int, queue_offset: int, position: int, unit: ExtUnit) -> int:
        """Compare a unit and return what the entry should hold."""
        name = self._queues.names[number]
        has_head = self._entries.begin(number, name, queue_offset, position)
        if self._entries.is_gone(number):
            return unit.tags_code
        found = self._entries.found(number, name, queue_offset, position)
        held = unit.tags_code if found is None else found.tags_code
        is_own = found is not None and found.physical_offset == position
        address = self._ext.expect(
            name, unit, held, has_head=has_head, position=position, is_own=is_own
        )
        return unit.tags_code if address is None else address


def _never(_topic: str) -> bool:
    return False
