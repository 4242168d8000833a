"""What an operator should know of, kept until a transaction is committed."""

from __future__ import annotations


class Reports:
    """Events and losses of one store's way to Kafka.

    Attributes:
        events: sentences for the operator, handed out with the next transaction.
    """

    def __init__(self) -> None:
        """Begin with nothing to tell."""
        self.events: list[str] = []
        self._losses = 0

    def add(self, event: str) -> None:
        """Keep a sentence for the operator."""
        self.events.append(event)

    def add_loss(self) -> None:
        """Count that the log has lost what Kafka was to have."""
        self._losses += 1

    def forget(self) -> None:
        """Forget what was not handed out: a new opening notices it again."""
        self.events, self._losses = [], 0

    def take_events(self) -> list[str]:
        """Return the sentences since the last call."""
        events, self.events = self.events, []
        return events

    def take_losses(self) -> int:
        """Return how many losses were counted since the last call."""
        losses, self._losses = self._losses, 0
        return losses
