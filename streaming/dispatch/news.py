"""What an operator should know of, until a batch has said it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class News:
    """Collects events: those of the batch at hand, and those noticed between two batches.

    Attributes:
        unsaid: told with the batch that is being written, or by themselves if that fails.
        noticed: told with the next batch.
    """

    def __init__(self) -> None:
        self.unsaid: list[str] = []
        self.noticed: list[str] = []

    def say(self, events: Iterable[str]) -> None:
        """Tell events with the batch at hand."""
        self.unsaid += events

    def notice(self, events: Iterable[str]) -> None:
        """Tell events with the next batch."""
        self.noticed += events

    def begin(self) -> list[str]:
        """Return the events of a batch that begins; what is said later is added to them."""
        self.unsaid += self.noticed
        self.noticed = []
        return self.unsaid

    def take_unsaid(self) -> list[str]:
        """Return what was said, and begin another list."""
        unsaid, self.unsaid = self.unsaid, []
        return unsaid
