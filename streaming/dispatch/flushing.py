"""Syncs what was written, when it is due, in this order: files, checkpoint, progress, removals."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reput.checkpoints import marks, progress, tails
from reput.checkpoints.disk import changes, marking, recording
from reput.formats.rocketmq.checkpoint import StoreCheckpoint
from reput.sinks.upkeep import retention

if TYPE_CHECKING:
    from pathlib import Path

    from reput.stores.log.commitlog import CommitLog
    from reput.streaming.dispatch.books import Books
    from reput.streaming.dispatch.output import Output
    from reput.streaming.settings.config import FlushPolicy, StoreConfig


class Flushing:
    """Makes one output durable, as often as its policy says."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        books: Books,
        output: Output,
        policy: FlushPolicy,
        *,
        removes_expired: bool,
    ) -> None:
        """Begin with an output of which everything is on disk.

        Args:
            config: the store.
            log: its log.
            books: what is recorded.
            output: what is flushed.
            policy: when.
            removes_expired: remove files of the output whose records have all expired.
        """
        self.policy = policy
        self._config = config
        self._log = log
        self._books = books
        self._output = output
        self._removes_expired = removes_expired
        # Files that had expired up to this offset are removed already.
        self._expired_to = 0
        self.flushed_at = self._flushed_partly_at = time.monotonic()

    def if_due(self) -> bool:
        """Flush what the policy says by now.

        Returns:
            Whether everything was flushed.

        Raises:
            OSError: the device failed.
        """
        now, policy = time.monotonic(), self.policy
        if policy.is_sync or now - self.flushed_at >= policy.thorough_seconds:
            is_new = self._books.progress.end != self._books.saved_end
            if is_new:
                self.flush()
            self.flushed_at = now
            return is_new
        if now - self._flushed_partly_at >= policy.seconds:
            # What a sync that fails leaves is not synced by trying it again.
            with self._output.changing(), self._output.timed("flush"):
                self._output.entries.flush(policy.least_pages)
            self._flushed_partly_at = now
        return False

    def flush(self, *, clean: bool = False) -> None:
        """Sync all that was dispatched to disk, then record that it is there.

        Args:
            clean: the writer stops in order.

        Raises:
            OSError: the device failed.
        """
        output = self._output
        with output.changing():
            with output.timed("flush"):
                output.flush()
            # After the flush: no file that is removed waits for one. At the end once more: what was
            # a queue's last file, and stayed, may since have got another one after it.
            is_due = clean or self._log.min_offset > self._expired_to
            expired = self._expired() if self._removes_expired and is_due else []
            # Only now: a checkpoint ahead of the files would lose messages for good.
            with output.timed("record"):
                self.write_checkpoint()
                self.save(clean=clean)
        self.flushed_at = self._flushed_partly_at = time.monotonic()
        for path in expired:
            changes.remove_file(path)

    def _expired(self) -> list[Path]:
        """Return the files that have expired, and let the books say so before they go."""
        root, settings = self._config.output, self._config.settings
        found = retention.expired_files(root, settings, self._log.min_offset)
        self._expired_to = self._log.min_offset
        if found:
            where = self._output.where()
            firsts = where["firsts"] | retention.firsts_without(root, settings, found)
            self._books.change(**{**where, "firsts": firsts})
        return found

    def write_checkpoint(self) -> None:
        """Write the broker's checkpoint, of flushed data only (docs/adr/0004-checkpoint.md)."""
        config, known = self._config, self._books.progress
        source = marks.read_checkpoint(config.path) or StoreCheckpoint()
        values = StoreCheckpoint(
            # How far the commitlog is on disk is the broker's to know.
            physic_timestamp=source.physic_timestamp,
            logics_timestamp=known.logics_timestamp,
            index_timestamp=self._output.index.flushed_timestamp,
            master_flushed_offset=source.master_flushed_offset,
            confirm_offset=source.confirm_offset,
            logics_offset=known.logics_offset,
        )
        fields = config.settings.version.checkpoint_fields
        staging = config.output / progress.STATE_DIRECTORY
        marking.write_checkpoint(config.output, staging, values, fields)
        missing = len(values) - fields
        self._books.change(checkpoint=tuple(values[:fields]) + (0,) * missing)

    def save(self, *, clean: bool) -> None:
        """Record where the files end.

        Args:
            clean: nothing is written after this.
        """
        books, where = self._books, self._output.where()
        if clean:
            where["tails"] = self._tails(where)
        generation = books.progress.generation + 1
        books.change(**where, clean=clean, generation=generation)
        # While files are written no CRC is recorded: that of each flush would be another one.
        saved = books.progress if clean else replace(books.progress, tails={})
        recording.save(self._config.output, saved)
        books.saved_end = books.progress.end

    def _tails(self, where: dict[str, Any]) -> dict[str, int]:
        """Return the CRCs of the queues' last bytes, see `Progress.tails`."""
        known: dict[str, int] = where["tails"]
        if self._config.in_place:
            # A broker may continue with these files.
            return {}
        ends = {name: end for name, end in where["queues"].items() if name not in known}
        return known | tails.read(self._config.output, ends, self._config.settings)
