"""Ends a job that was asked to end and does not: a JVM, a disk or who reads its log may hang."""

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
# For a line of the log.
_SAYING_SECONDS = 1.0


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
        _say(
            f"the job was asked to end {PATIENCE_SECONDS:.0f} s ago and has not ended: Spark's "
            "JVM, a disk, a writer or who reads this log may hang. What this process has open is "
            "closed without Spark, and it ends"
        )
        try:
            self._close()
        except (ReputError, OSError) as error:
            _say(str(error))
        finally:
            os._exit(FAILED)


def _say(text: str) -> None:
    """Log an error, as far as the log takes it: nobody may read it any longer."""
    saying = threading.Thread(
        target=LOG.error, args=("%s", text), kwargs={"extra": {"event": STOPPED}}, daemon=True
    )
    saying.start()
    saying.join(_SAYING_SECONDS)
