"""What one transaction has done."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Sent:
    """A transaction, as it grows and once it is committed.

    Attributes:
        start: physical offset.
        end: physical offset.
        messages: sent.
        notices: sent.
        dead_letters: messages and notices that went to the dead-letter topic instead.
        bytes: of records.
        seconds: from its beginning to the end of its commit.
        store_timestamp: of the last record, ms; 0 for none.
        events: what an operator should know of.
    """

    start: int
    end: int
    messages: int = 0
    notices: int = 0
    dead_letters: int = 0
    bytes: int = 0
    seconds: float = 0.0
    store_timestamp: int = 0
    events: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Tell whether no record of it goes to Kafka."""
        return not (self.messages or self.notices or self.dead_letters)

    def begin_again(self) -> None:
        """Forget what was sent: Kafka has aborted it."""
        self.end = self.start
        self.messages = self.notices = self.dead_letters = self.bytes = 0
