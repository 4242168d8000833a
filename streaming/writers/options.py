"""How an output is written: what a job hands to its writer, wherever that is."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from reput.streaming.settings.dispatching import Dispatching
from reput.streaming.settings.model.choices import FlushMode
from reput.streaming.settings.model.jobs import Writing

if TYPE_CHECKING:
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.settings.config import FlushPolicy, StoreConfig


@dataclass(frozen=True)
class WriterOptions(Dispatching):
    """How each store of a job is written.

    Attributes:
        flush_seconds: flush everything and record progress this often; None: as the broker's
            settings say.
        sync_flush: flush and record after each batch instead.
    """

    flush_seconds: float | None = Writing.flush_seconds
    sync_flush: bool = Writing.flush == FlushMode.SYNC

    @property
    def for_writers(self) -> WriterOptions:
        """Return these options alone, without those that a subclass adds."""
        return WriterOptions(**{each.name: getattr(self, each.name) for each in _FIELDS})

    def flush_policy(self, config: StoreConfig) -> FlushPolicy:
        """Return when a store's files have to be on disk.

        Raises:
            UsageError: a value of its broker.conf is not a number.
        """
        from reput.streaming.settings.config import FlushPolicy  # noqa: PLC0415 - slow to import

        policy = FlushPolicy.of(config.properties)
        seconds = self.flush_seconds
        return replace(
            policy,
            thorough_seconds=policy.thorough_seconds if seconds is None else seconds,
            is_sync=self.sync_flush,
        )

    def open(self, config: StoreConfig) -> StoreDispatcher:
        """Open a store's output for writing.

        Raises:
            ReputError: what is wrong with the store or the output.
            OSError: no permission, no space.
        """
        from reput.streaming.dispatch.dispatcher import StoreDispatcher  # noqa: PLC0415 - slow to import

        return StoreDispatcher(
            config,
            threads=self.threads,
            flush=self.flush_policy(config),
            fail_on_data_loss=self.fail_on_data_loss,
            skips_corrupt=self.skips_corrupt,
            removes_expired=self.removes_expired,
            only_flushed=self.only_flushed,
        )


_FIELDS = fields(WriterOptions)
