"""What a broker has flushed of its log since the log was cut, and the last flush that it noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats import names, storecheckpoint
from stores.lazy import lazy_module

if TYPE_CHECKING:
    from pathlib import Path

    from stores import flushed
    from stores.commitlog import CommitLog
else:
    # It brings the compiler, which is not needed before a log is cut.
    flushed = lazy_module("stores.flushed")


def last_flush(store: Path) -> int:
    """Return the store timestamp that a broker's checkpoint names as flushed, 0 for none, ms."""
    try:
        data = (store / names.CHECKPOINT).read_bytes()
        return storecheckpoint.unpack(data).physic_timestamp
    except (FileNotFoundError, ValueError):
        # A broker that has just started has flushed nothing.
        return 0


class FlushedSinceCut:
    """Tells, for a reader that follows its log itself, what is flushed after the log was cut.

    The checkpoint names a record that may be gone then. It may even seem to be there: a cut erases
    nothing, and old records may line up with new ones. So nothing counts until the broker flushes
    again.
    """

    def __init__(self, store: Path, seen: int) -> None:
        """Know of no cut.

        Args:
            store: the broker's storePathRootDir.
            seen: `last_flush` when the log was last known to be the one that was read, ms.
        """
        self._store = store
        self._seen = seen
        self._void: int | None = None

    def note(self, flush: int, *, is_cut: bool) -> None:
        """Take a look at the log into account.

        Args:
            flush: `last_flush` right before that look, ms.
            is_cut: the log was found cut.
        """
        if is_cut:
            self._void = self._seen
        self._seen = flush

    @property
    def is_open(self) -> bool:
        """Tell whether the log was cut and not asked for since, see `before`."""
        return self._void is not None

    @property
    def waits(self) -> bool:
        """Tell whether the log was cut and the broker, which still runs, has not flushed since."""
        return (
            self._void is not None
            and self._void == last_flush(self._store)
            and (self._store / names.ABORT).exists()
        )

    def before(self, log: CommitLog, end: int, start: int) -> int:
        """Return how far the log is flushed for certain.

        Args:
            log: the store's.
            end: physical offset after a whole record.
            start: physical offset up to which it is known to be flushed.
        """
        if self.waits:
            return start
        self._void = None
        return flushed.FlushedEnd(self._store).before(log, end, start)
