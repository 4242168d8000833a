"""What is done while Spark starts: looking for the logs' ends, and loading kernels."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.stores.log.tail import find_tail, known_end
from reput.streaming.dispatch.warm import try_kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.stores.log.tail import KnownEnd
    from reput.streaming.dispatch.dispatcher import StoreDispatcher


# For the last files of all logs, which are read once.
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
        self._has_looked, self._is_warm = threading.Event(), threading.Event()
        self._has_looked.set()
        self._is_warm.set()

    def begin(self) -> None:
        """Begin on a thread of its own."""
        self._has_looked.clear()
        self._is_warm.clear()
        threading.Thread(target=self._run, name="prepare", daemon=True).start()

    @property
    def ends(self) -> dict[str, KnownEnd]:
        """Return where logs ended, as far as they could be looked at; waits a while for that."""
        self._has_looked.wait(_LOOK_SECONDS if self._is_live else None)
        return dict(self._ends)

    def wait_for_kernels(self) -> None:
        """Wait until kernels are loaded."""
        self._is_warm.wait()

    def end_of_log(self, store: str) -> int:
        """Return where a store's log ends, or has ended when it was looked at.

        Raises:
            FormatError: a corrupt record, with good ones after it.
        """
        known = self.ends.get(store)
        return known.end if known is not None else find_tail(self._dispatchers[store].log).end

    def _run(self) -> None:
        try:
            for name, dispatcher in self._dispatchers.items():
                start = dispatcher.progress.end
                # The planner says what is wrong with a log, after all that is right before that.
                with contextlib.suppress(ReputError, OSError):
                    end = known_end(
                        dispatcher.log,
                        start if start >= 0 else None,
                        skips_corrupt=self._skips_corrupt,
                    )
                    if end is not None:
                        self._ends[name] = end
        finally:
            self._has_looked.set()
        try:
            if self._dispatchers:
                try_kernels()
        finally:
            self._is_warm.set()
