"""What a connection is to the rooms that answer its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.remoting.wire.command import Command


class Channel(Protocol):
    """A connection to a client; two are equal only if they are the same connection."""

    @property
    def peer(self) -> str:
        """Return the client's address, "127.0.0.1:4711". Java's remarks write "/127.0.0.1:4711"."""

    @property
    def is_open(self) -> bool:
        """Tell whether neither side has closed it; nothing is sent afterwards."""

    def send(self, command: Command, pieces: Sequence[memoryview] = ()) -> None:
        """Send a request of ours, or an answer that is late. It neither waits nor raises.

        Args:
            command: its opaque is that of the request it answers, or of ours; see `next_opaque`.
            pieces: the body, in order, where it is not in the command.
        """

    def next_opaque(self) -> int:
        """Return the number of the next request that we send down this connection."""

    def ask(self, command: Command, then: Callable[[Command | None], None]) -> None:
        """Send a request of ours that the client answers.

        Args:
            command: its opaque is set here.
            then: gets the answer; None if the connection closes, or none comes in time.
        """

    def close(self) -> None:
        """Close it once what was sent is out."""
