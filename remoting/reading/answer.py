"""An answer before it has its request's opaque and codec: code, remark, header and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reput.remoting.wire.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.remoting.wire.fields import Header


class Answer(NamedTuple):
    """What a broker says.

    Attributes:
        code: a `ResponseCode`.
        remark: None for none.
        header: its fields; None where the broker sends none at all.
        pieces: the body, in order: one piece for records that lie side by side in the log.
        messages: how many messages the body has, those of inner batches counted.
    """

    code: int
    remark: str | None = None
    header: Header | None = None
    pieces: Sequence[memoryview] = ()
    messages: int = 0

    @property
    def size(self) -> int:
        """Return the bytes of the body."""
        return sum(map(len, self.pieces))


class RefusedError(Exception):
    """A check that failed; its answer is what the client gets."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.remark)
        self.answer = answer


def success(header: Header, remark: str | None = None) -> Answer:
    """Return an answer that has only fields."""
    return Answer(ResponseCode.SUCCESS, remark, header)
