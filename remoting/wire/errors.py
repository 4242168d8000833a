"""What is wrong with what a peer sent, or is to get: each error has a consequence of its own."""

from __future__ import annotations


class WireError(ValueError):
    """A peer sent what the protocol does not have."""


class FrameError(WireError):
    """A frame or its header cannot be read: a broker closes the connection, and answers nothing."""


class FieldError(WireError):
    """A field of a request is missing or wrong: a broker answers 1 (SYSTEM_ERROR).

    Attributes:
        remark: what the broker's answer says, up to the place in its code.
    """

    def __init__(self, java: str, reason: str) -> None:
        super().__init__(reason)
        self.remark = f"{java}: {reason}"


class JsonError(WireError):
    """A body is not JSON, not even as fastjson writes it."""


class FrameSizeError(ValueError):
    """What is to be sent is larger than a peer reads."""
