"""A connection without a socket, and a clock that stands still: what is sent is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.remoting.wire.command import Command


@dataclass
class Clock:
    """Seconds, as far as a test has moved them."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(eq=False)
class KeptChannel:
    """Keeps what is sent down a connection: commands with their bodies."""

    peer: str = "127.0.0.1:4711"
    is_open: bool = True
    sent: list[tuple[Command, bytes]] = field(default_factory=list)

    def send(self, command: Command, pieces: Sequence[memoryview] = ()) -> None:
        self.sent.append((command, b"".join(pieces) or bytes(command.body)))

    def next_opaque(self) -> int:
        return 1

    def ask(self, command: Command, then: Callable[[Command | None], None]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.is_open = False
