"""The errors that say what is wrong with a store: always a file, a byte and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class ReputError(Exception):
    """Something a user can act on; the command prints it without a traceback and exits with 3."""


class UsageError(ReputError):
    """A setting or an argument is wrong; the command exits with 2."""


class StoreError(ReputError):
    """A directory is not a store that can be dispatched: missing, foreign, of another kind."""

    def __init__(self, path: Path | str, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}. {remedy}")
        self.path = str(path)
        self.problem = found
        self._parts = (path, found, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        """Have it go from one process to another as what it is."""
        return type(self), self._parts


class ExpiredError(ReputError):
    """Records were deleted before they were dispatched, and that must not be."""


class KafkaError(ReputError):
    """What Kafka would not do, and what an operator can do about it."""


class FormatError(ReputError):
    """A file breaks its format. Names the file and the byte, so `xxd -s` is one paste away."""

    def __init__(self, path: Path | str, position: int, found: str, remedy: str = "") -> None:
        super().__init__(f"{path} at byte {position}: {found}." + (f" {remedy}" if remedy else ""))
        self.path = str(path)
        self.position = position
        self.problem = found
        self.remedy = remedy
        self._parts = (path, position, found, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        """Have it go from one process to another as what it is."""
        return type(self), self._parts


class FileSizeError(FormatError):
    """A file is not as long as the settings say: more often a wrong setting than damage."""


class BodyError(FormatError):
    """A body is not compressed as its record says. The record is whole, and so is the log."""


class UnreadableError(FormatError):
    """A whole record that its own broker cannot parse: when it restarts, it cuts the log there."""


class ExpressionError(ValueError):
    """A broker refuses the text, or a strict reader does.

    Attributes:
        reason: what is wrong.
        position: the character where it goes wrong, 0 the first.
        java: the class of the broker's exception, below its MQFilterException; empty where a broker
            takes the text and only a strict reader refuses it.
    """

    def __init__(self, reason: str, position: int, java: str) -> None:
        super().__init__(f"{reason}, at character {position}")
        self.reason = reason
        self.position = position
        self.java = java
