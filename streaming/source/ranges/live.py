"""Plans what a live job is to dispatch: each store by itself, so that none keeps another waiting.

A live job's stores are followed without a plan. What is planned lets Spark see how far the logs
are, and commit it.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from reput.formats.errors import mark
from reput.streaming.source.opening import open_store
from reput.streaming.source.planning import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput.streaming.source.offsets import StoreOffsets
    from reput.streaming.source.options import SourceOptions, Store

# For all looks of a plan: one takes milliseconds.
_PATIENCE_SECONDS = 1.0


class _Look:
    """Looks at one store's log: on a thread of its own, if there are others.

    Attributes:
        end: where the log ended last, None before a look has gone well.
        error: of the last look, None if it went well.
    """

    def __init__(self, store: Store, options: SourceOptions) -> None:
        self._is_alone = len(options.stores) == 1
        self.end: int | None = None
        self.error: Exception | None = None
        self._store = store
        self._options = options
        self._offsets: StoreOffsets | None = None
        self._thread: threading.Thread | None = None

    def begin(self, look: Callable[[StoreOffsets], int]) -> None:
        """Begin to look, unless the look before is not over."""
        if self._is_alone:
            self._run(look)
        elif self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, args=(look,), daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the look to be over."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, look: Callable[[StoreOffsets], int]) -> None:
        try:
            if self._offsets is None:
                self._offsets = open_store(self._store, self._options)
            self.end = look(self._offsets)
            # What stands there can neither be read nor waited for.
            self.error = self._offsets.error
        except Exception as error:  # noqa: BLE001 - raised where no store can be looked at
            mark(error, self._store.name)
            self.error = error


class LiveRanges:
    """Where the logs of a live job end."""

    def __init__(self, options: SourceOptions) -> None:
        """Open nothing yet."""
        self._options = options
        self._looks = {store.name: _Look(store, options) for store in options.stores}

    def begin(self) -> dict[str, int]:
        """Return where the query begins: `NOTHING` for a store that cannot be looked at.

        Raises:
            ReputError, OSError: no store can be looked at.
        """
        loss = self._options.fail_on_data_loss
        return self._found(
            dict.fromkeys(self._looks, NOTHING),
            {
                store.name: partial(_begin_of, store=store, fail_on_data_loss=loss)
                for store in self._options.stores
            },
        )

    def ends(self, start: Mapping[str, int]) -> dict[str, int]:
        """Return where the logs end now, and the start of a log that cannot be looked at.

        Args:
            start: where the batch begins.

        Raises:
            ReputError, OSError: no store can be looked at, or read any further.
        """
        return self._found(start, dict.fromkeys(self._looks, _end_of))

    def _found(
        self, otherwise: Mapping[str, int], looks: Mapping[str, Callable[[StoreOffsets], int]]
    ) -> dict[str, int]:
        for name, look in looks.items():
            self._looks[name].begin(look)
        until = time.monotonic() + _PATIENCE_SECONDS
        for each in self._looks.values():
            each.wait(max(until - time.monotonic(), 0.0))
        found = {
            name: otherwise[name] if each.end is None else each.end
            for name, each in self._looks.items()
        }
        errors = [
            each.error
            for name, each in self._looks.items()
            if each.error is not None and found[name] <= otherwise[name]
        ]
        if len(errors) == len(self._looks):
            raise errors[0]
        return found


def _begin_of(offsets: StoreOffsets, *, store: Store, fail_on_data_loss: bool) -> int:
    return offsets.resolve(store.starting, fail_on_data_loss=fail_on_data_loss, is_known=True)


def _end_of(offsets: StoreOffsets) -> int:
    return offsets.end()
