"""Says which stores' writers have not been seen to work for a while, once each time."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reput.formats.errors import StuckError
from reput.streaming.events import RESUMED, SILENT
from reput.streaming.observe.stores import SILENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reput.streaming.writers.base import Writers

LOG = logging.getLogger("reput")


class Silences:
    """The stores whose writers are silent.

    Attributes:
        stores: their names.
    """

    def __init__(self, writers: Writers, outputs: Mapping[str, Path]) -> None:
        """Begin with all writers at work.

        Args:
            writers: say when they were last seen.
            outputs: what they write, by store.
        """
        self._writers = writers
        self._outputs = outputs
        self.stores: set[str] = set()

    def look(self, store: str) -> None:
        """Say that a store's writer is silent, unless the store has failed, or works again."""
        seconds = time.monotonic() - self._writers.seen_at(store)
        if seconds <= SILENT_SECONDS:
            if store in self.stores:
                self.stores.discard(store)
                LOG.warning(
                    "%s: its writer works again", store, extra={"store": store, "event": RESUMED}
                )
        elif store not in self.stores and self._writers.failure(store) is None:
            self.stores.add(store)
            LOG.error(
                "%s: %s", store, StuckError(self._outputs[store], seconds),
                extra={"store": store, "event": SILENT},
            )  # fmt: skip
