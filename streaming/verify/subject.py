"""What a verification compares: a log, an output with its record, and how far both reach."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reput.checkpoints import marks, progress
from reput.checkpoints.disk import locks
from reput.formats.errors import FormatError, StoreError
from reput.formats.rocketmq import names
from reput.formats.rocketmq.commitlog import Verdict
from reput.sinks.files.queues import QueueDirectory
from reput.stores.findings import Kind, Report, Scope
from reput.stores.log.commitlog import CommitLog, commitlog_directories
from reput.stores.verify.left_out import LeftOut
from reput.stores.verify.queue_entries import has_entries_from
from reput.streaming.dispatch.blocks.pipeline import Pipeline
from reput.streaming.dispatch.live_settings import LiveSettings
from reput.streaming.dispatch.log import passed
from reput.streaming.dispatch.log.readable import Readable, find_ends

if TYPE_CHECKING:
    from reput.checkpoints.progress import Progress
    from reput.streaming.settings.config import StoreConfig

# Size and magic: zeros where nothing was written.
_MAGIC_END = 8

_NOT_BEGUN = (
    "nothing was dispatched here: `reput rebuild` does it. If something was, its disk may not be "
    "mounted"
)
_NO_RECORD = (
    "reput did not write this output, or its record is gone; `reput rebuild --repair` makes one of "
    "an output of reput's"
)


class Subject:
    """A log and an output, opened to be compared; `report` gets what is found."""

    def __init__(self, config: StoreConfig) -> None:
        """Open the log, and read the output's record.

        Raises:
            ReputError: one of them cannot be read, or the output has other settings.
        """
        self.config = config
        self.report = Report()
        self.settings = config.settings
        self.log = CommitLog(
            commitlog_directories(config.path, config.settings), config.settings, config.path
        )
        # Read before its progress: a writer that ends in between records more than is read here.
        self.report.writer = locks.holder_of(config.output / progress.STATE_DIRECTORY)
        found = self._load_progress()
        self.live = LiveSettings(config.path, config.output, self.settings)
        self.live.begin(found.store_timestamp if found is not None and found.messages else None)
        self.queues = QueueDirectory(self.live.needs_slow_path)
        self.pipeline = Pipeline(self.log, self.queues, self.settings)
        self.obstacles = passed.Obstacles(self.log, self.live, self.settings)
        # The output was told to pass over these corrupt places.
        self.passed = dict(found.skipped) if found is not None else {}
        self.left_out = LeftOut()
        if found is not None:
            self.left_out = LeftOut(found.skipped, found.lost, found.vouched_from)
        self.readable = Readable(self.log, self.pipeline, self.passed)
        self.ends = find_ends(self.log)
        self.tail = self._after_last(found)
        self.progress = self._if_ours(found)
        if found is None and self.is_store_itself:
            self.tail = self._own_tail()
        self.scope = self._scope()
        end = self.scope.end
        # The damage at which dispatch stopped.
        self.stop = self.obstacle(end) if end < self.tail else None

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
            if not self.is_begun:
                self.report.lack(config.output, 0, _NOT_BEGUN)
            elif not self.is_store_itself:
                self.report.add(Kind.MISSING, path, 0, _NO_RECORD)
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
        """Return the progress record, None if a broker has continued after it."""
        path = self.config.output / progress.STATE_DIRECTORY / progress.FILE_NAME
        if (
            found is not None
            and self.is_store_itself
            and found.end < self.tail
            and has_entries_from(
                self.config.output, self.settings.consumequeue_file_size, max(found.end, 0)
            )
            and self.obstacle(max(found.end, self.log.min_offset)) is None
        ):
            detail = f"the broker has continued after {found.end}: verified as a broker's own"
            self.report.note(Kind.PROGRESS, path, 0, detail)
            return None
        return found

    @property
    def is_store_itself(self) -> bool:
        """Tell whether the output is the store: a broker's own files, or one written in place."""
        return self.config.output.resolve() == self.config.path.resolve()

    @property
    def is_begun(self) -> bool:
        """Tell whether the output has anything: files that a broker reads, or a record of ours."""
        if self.is_store_itself:
            return True
        output, staging = self.config.output, self.config.output / progress.STATE_DIRECTORY
        ours = (staging / progress.FILE_NAME, staging / marks.REPAIRING)
        kinds = (output / kind for kind in (*names.DISPATCHED, names.CHECKPOINT))
        return any(os.path.lexists(each) for each in (*ours, *kinds))

    def _scope(self) -> Scope:
        floor = self.log.min_offset
        if not self.is_begun:
            return Scope(floor, floor, is_ours=True, is_clean=True)
        found = self.progress
        is_ours = found is not None or not self.is_store_itself
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

    def obstacle(self, position: int) -> FormatError | None:
        """Return why dispatch cannot continue at a physical offset before the log's end."""
        return self.obstacles.at(position)

    def close(self) -> None:
        """Close the log."""
        self.obstacles.close()
        self.pipeline.close()
        self.log.close()
