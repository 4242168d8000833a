"""The connections of one server: what bounds them, and which of them are closed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.remoting.counting.counters import Counters
    from reput.remoting.server.connection import Connection
    from reput.remoting.wire.errors import FrameError

LOG = logging.getLogger("reput")

# A connection on which nothing moves is closed, as brokers do (`serverChannelMaxIdleTimeSeconds`).
IDLE_SECONDS = 120.0
# One whose client has not taken what was sent for this long is closed.
STUCK_SECONDS = 60.0
# Bytes of frames that are not whole, of all connections of a server.
MOST_PENDING = 256 << 20


class Traffic:
    """The connections of a server.

    Attributes:
        pending: bytes of frames that are not whole yet.
    """

    def __init__(self, counters: Counters) -> None:
        """Know no connection.

        Args:
            counters: what is told of them.
        """
        self._counters = counters
        self._open: set[Connection] = set()
        self.pending = 0

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Tell whether a frame that is not whole has to go."""
        return self.pending > MOST_PENDING

    def opened(self, connection: Connection) -> None:
        """Add a connection."""
        self._open.add(connection)
        self._counters.connected(1)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._counters.connected(-1)

    def broken(self, connection: Connection, error: FrameError) -> None:
        """Take that a connection sent what is not a frame; it is closed."""
        self._counters.dropped()
        LOG.info("%s is closed: it does not speak the protocol: %s", connection.peer, error)

    def tick(self, now: float) -> None:
        """Close connections on which nothing moves; call it each second.

        Args:
            now: by the loop's clock.
        """
        slow = 0
        for each in tuple(self._open):
            each.tick(now)
            if each.stuck_since is not None:
                slow += 1
                if now - each.stuck_since >= STUCK_SECONDS:
                    self._counters.dropped()
                    LOG.warning("%s is closed: it has not read for %g s", each.peer, STUCK_SECONDS)
                    each.abort()
            elif now - each.active_at >= IDLE_SECONDS:
                each.close()
        self._counters.slow(slow)

    def close(self) -> None:
        """Close all connections once what was sent is out."""
        for each in tuple(self._open):
            each.close()

    def abort(self) -> None:
        """Close all connections at once, also those whose clients do not read."""
        for each in tuple(self._open):
            each.abort()
