"""What is done while Spark starts: looking for the logs' ends, and loading kernels.

Each has a thread of its own, so that a log whose device hangs keeps no store from its start.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.stores.log.commitlog import CommitLog
from reput.stores.log.places import commitlog_directories
from reput.stores.log.tail import find_tail, known_end
from reput.streaming.dispatch.warm import warm_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.stores.log.tail import KnownEnd
    from reput.streaming.dispatch.dispatcher import StoreDispatcher
    from reput.streaming.settings.config import StoreConfig

# For the last files of all logs, which are read once, from `begin` on.
_LOOK_SECONDS = 10.0


class Preparation:
    """What the first batch needs; both parts are over unless `begin` begins them."""

    def __init__(
        self, dispatchers: Mapping[str, StoreDispatcher], *, skips_corrupt: bool, is_live: bool
    ) -> None:
        """Take the stores that are written in this process.

        Args:
            dispatchers: by store.
            skips_corrupt: look past what is corrupt.
            is_live: a log that cannot be looked at keeps no other store waiting.
        """
        self._is_live = is_live
        self._dispatchers = dict(dispatchers)
        self._skips_corrupt = skips_corrupt
        self._ends: dict[str, KnownEnd] = {}
        self._looks: list[threading.Thread] = []
        self._kernels: threading.Thread | None = None
        # When a live job waits for no look any longer, by a steady clock.
        self._until = 0.0

    def begin(self) -> None:
        """Begin on threads of its own."""
        self._until = time.monotonic() + _LOOK_SECONDS
        for name, dispatcher in self._dispatchers.items():
            args = name, dispatcher.config, dispatcher.progress.end
            look = threading.Thread(target=self._look, args=args, name=f"look-{name}", daemon=True)
            look.start()
            self._looks.append(look)
        if self._dispatchers:
            self._kernels = warm_up()

    @property
    def ends(self) -> dict[str, KnownEnd]:
        """Return where logs ended, as far as they could be looked at; waits a while for that."""
        for look in self._looks:
            look.join(max(self._until - time.monotonic(), 0.0) if self._is_live else None)
        return dict(self._ends)

    def wait_for_kernels(self) -> None:
        """Wait until kernels are loaded."""
        if self._kernels is not None:
            self._kernels.join()

    def end_of_log(self, store: str) -> int:
        """Return where a store's log ends, or has ended when it was looked at.

        Raises:
            FormatError: a corrupt record, with good ones after it.
        """
        known = self.ends.get(store)
        return known.end if known is not None else find_tail(self._dispatchers[store].log).end

    def _look(self, name: str, config: StoreConfig, start: int) -> None:
        """Look for a log's end.

        Args:
            name: the store's.
            config: the store.
            start: physical offset up to which it is dispatched, -1 for not at all.
        """
        directories = commitlog_directories(config.path, config.settings)
        # The planner says what is wrong with a log, after all that is right before that.
        with contextlib.suppress(ReputError, OSError):
            # Not the log that the store is dispatched from: it may be followed meanwhile.
            log = CommitLog(directories, config.settings, config.path)
            with contextlib.closing(log):
                end = known_end(
                    log, start if start >= 0 else None, skips_corrupt=self._skips_corrupt
                )
            if end is not None:
                self._ends[name] = end
