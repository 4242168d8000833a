"""Ends a job that was asked to end and does not, whatever keeps it: a JVM or a disk that hangs."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from reput.formats.errors import ReputError
from reput.streaming.endings.exit_codes import FAILED
from reput.streaming.events import STOPPED

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger("reput")
# A query ends within a second or two. A pod is killed after its grace period, 120 s in the chart;
# the least that the chart takes is 30 s.
PATIENCE_SECONDS = 15.0


class LastResort:
    """A thread that waits for the query to end, and ends the process if it does not."""

    def __init__(self, close: Callable[[], object]) -> None:
        """Wait for nothing yet.

        Args:
            close: closes what is open in this process.
        """
        self._close = close
        self._over = threading.Event()
        self._begun = threading.Lock()

    def begin(self) -> None:
        """Begin to wait; a second call does nothing."""
        if self._begun.acquire(blocking=False):
            threading.Thread(target=self._run, name="last-resort", daemon=True).start()

    def end(self) -> None:
        """Take note that the query has ended."""
        self._over.set()

    def _run(self) -> None:
        if self._over.wait(PATIENCE_SECONDS):
            return
        LOG.error(
            "the job was asked to end %.0f s ago and has not ended: Spark's JVM, a disk or a "
            "writer may hang. What this process has open is closed without Spark, and it ends",
            PATIENCE_SECONDS,
            extra={"event": STOPPED},
        )
        try:
            self._close()
        except (ReputError, OSError) as error:
            LOG.error("%s", error, extra={"event": STOPPED})  # noqa: TRY400 - the operator's, in a line
        finally:
            os._exit(FAILED)
