"""How a store is dispatched, by the driver or beside an executor alike; light to import."""

from __future__ import annotations

from dataclasses import dataclass

from reput.streaming.settings.model.choices import CorruptMode, TailMode
from reput.streaming.settings.model.jobs import Writing


@dataclass(frozen=True)
class Dispatching:
    """How one store is dispatched; by default as the options of a job are by default.

    Attributes:
        threads: that parse, per store.
        fail_on_data_loss: stop if records expired before they were dispatched; else resume past
            them.
        skips_corrupt: pass over what is not a record and keep a copy; else stop there.
        only_flushed: dispatch only records that the broker has on disk.
        removes_expired: remove files of the output whose records have all expired.
    """

    threads: int = Writing.threads
    fail_on_data_loss: bool = Writing.fail_on_data_loss
    skips_corrupt: bool = Writing.on_corrupt == CorruptMode.SKIP
    only_flushed: bool = Writing.tail == TailMode.FLUSHED
    removes_expired: bool = Writing.delete_expired
