"""Which of several processes sends a store: the one that began last, not the last to connect.

Kafka lets in the process that connects last. Where one slept, or waited for Kafka, that is not the
process that began last. So each process writes into the position when it began. A process that
finds an earlier time there connects again; one that finds a later time ends.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.sinks.kafka.client.errors import FENCED, EndedError, FencedError
from reput.sinks.kafka.position import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.sinks.kafka.link import Link
    from reput.sinks.kafka.position.position import Found, Position

# Longer than a job needs from its beginning to its claim.
_DOUBT_SECONDS = 5.0
_MILLISECONDS = 1000


class Ownership:
    """The claim of this process to a store.

    Attributes:
        writer: this process's name in positions.
        began: when it first wanted to connect, ms, see `Position.began`; 0 before that.
        first_tried: the same by the clock that never goes back.
    """

    def __init__(self, link: Link) -> None:
        """Begin without a claim."""
        self._link = link
        self.writer = uuid.uuid4().hex
        self.began, self.first_tried = 0, 0.0
        # The position in Kafka as this process last found or wrote it, packed; None where there
        # was none. A position that differs is another process's, and came later.
        self._stored: bytes | None = None
        self._has_read = self._is_in_doubt = False

    def begin(self) -> None:
        """Note when this process first wants to connect."""
        if not self.began:
            self.began, self.first_tried = int(time.time() * _MILLISECONDS), time.monotonic()

    @property
    def is_late(self) -> bool:
        """Tell whether a process that began after this one may have claimed by now."""
        return time.monotonic() - self.first_tried >= _DOUBT_SECONDS

    def doubt(self) -> None:
        """Note that Kafka has ended a transaction: another process may be there."""
        self._is_in_doubt = True

    def note(self, position: Position | None) -> None:
        """Note the position that Kafka has, None if it has none."""
        self._stored, self._has_read = _packed(position), True

    def is_as_noted(self, position: Position | None) -> bool:
        """Tell whether a position is the one that this process knows."""
        return _packed(position) == self._stored

    def look_for_heir(self) -> None:
        """Look whether a later process has taken over since this one began.

        At the first look, a position that does not change is taken for the predecessor's, whatever
        its time says. It may be a later process's that has nothing to send just now. Then this
        process continues, and its claim keeps its own, earlier time: when the later process has a
        message to send, it finds that time, and claims the position again.

        Raises:
            FencedError: one has; opening would end its transaction.
            KafkaError: the position cannot be read.
        """
        is_first = not self._has_read
        if is_first and not self.is_late:
            return
        if self._is_in_doubt:
            # A process that has just begun may not have written its claim.
            time.sleep(_DOUBT_SECONDS)
        found = self._read_if_there()
        self._is_in_doubt = False
        if is_first:
            is_open = self._is_heir(found)
            self.note(found.position if found is not None else None)
            if not is_open:
                return
            time.sleep(_DOUBT_SECONDS)
            found = self._read_if_there()
        self._require_no_heir(found)

    def check_connected(self, found: Found | None) -> None:
        """Look whether a later process took over between the look and the connection.

        Raises:
            FencedError: one did.
        """
        if self._has_read:
            self._require_no_heir(found)

    def sign(self, position: Position) -> Position:
        """Return a position as one that this process writes."""
        return replace(position, writer=self.writer, began=self.began, origin=str(self._link.path))

    def claim(self, position: Position, commit: Callable[[Position], None]) -> Position:
        """Write the position again as this process's, and return it.

        A process whose transaction Kafka has ended sees by it whether another one has taken over,
        and does not mistake that for its own timeout.

        Args:
            position: as it was found.
            commit: writes a position in a transaction of its own.

        Raises:
            KafkaError: it could not be written, or another process has begun since.
        """
        began = self.began
        if not self.is_late and position.writer != self.writer:
            # A process whose clock is ahead of ours is still before us: it was there first.
            began = max(began, position.began + 1)
        claimed = replace(self.sign(position), began=began)
        try:
            commit(claimed)
        except EndedError:
            # Another process may have written the position after this one connected.
            self._is_in_doubt, self._stored = True, None
            raise
        except BaseException:
            # Kafka may have the claim all the same.
            self.began = began
            raise
        self.began = began
        self.note(claimed)
        return claimed

    def _read_if_there(self) -> Found | None:
        link = self._link
        return progress.read_if_there(link.settings, link.access, link.transactional_id)

    def _require_no_heir(self, found: Found | None) -> None:
        if self._is_heir(found):
            raise FencedError(f"Kafka at {self._link.settings.bootstrap}: {FENCED}")

    def _is_heir(self, found: Found | None) -> bool:
        """Tell whether a later process wrote a position after it was last read."""
        if found is None or found.position.writer in {"", self.writer}:
            return False
        last = found.position
        is_later = (last.began, last.writer) > (self.began, self.writer)
        return is_later and last.pack() != self._stored


def _packed(position: Position | None) -> bytes | None:
    return position.pack() if position is not None else None
