"""Since when attempts to send fail, when the next one is, and how often that is logged."""

from __future__ import annotations

import logging
import time

from reput.sinks.kafka.client.errors import AwayError

LOG = logging.getLogger("reput")
_BACK_OFF = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# For what somebody has to change first: a topic, an ACL, a password.
_SLOW_BACK_OFF = (1.0, 5.0, 10.0, 30.0, 60.0)
# An outage is logged again after this long, and after twice that each time: one of days does not
# fill the log.
_SAY_SECONDS = 30.0


class Outage:
    """The attempts that have failed since the last one that went well.

    Attributes:
        error: of the last attempt, None if that went well.
    """

    def __init__(self, store: str) -> None:
        """Begin without a failure."""
        self.error: Exception | None = None
        self._store = store
        self._tries = 0
        self._began = self._said = 0.0
        self._pause = _SAY_SECONDS

    @property
    def seconds(self) -> float:
        """Return how long it has lasted, from the beginning of the first attempt that failed."""
        return time.monotonic() - self._began

    def attempt(self) -> None:
        """Take note that an attempt begins."""
        if not self._tries:
            self._began = time.monotonic()

    def failed(self, error: Exception) -> float:
        """Take note that the attempt has failed; return the seconds until the next one."""
        now = time.monotonic()
        if not self._tries or now - self._said >= self._pause:
            LOG.warning("%s: %s; trying again", self._store, error)
            self._said = now
            self._pause *= 2 if self._tries else 1
        self.error = error
        steps = _BACK_OFF if isinstance(error, AwayError) else _SLOW_BACK_OFF
        self._tries += 1
        return steps[min(self._tries, len(steps)) - 1]

    def end(self) -> None:
        """Take note that an attempt went well."""
        if self._tries:
            LOG.info("%s: sending to Kafka resumes after %.1f s", self._store, self.seconds)
        self.error = None
        self._tries, self._pause = 0, _SAY_SECONDS
