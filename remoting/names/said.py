"""What a name server says, before it is an answer to somebody."""

from __future__ import annotations

from typing import Any, NamedTuple

from reput.remoting.wire import bodies
from reput.remoting.wire.codes import ResponseCode


class Said(NamedTuple):
    """An answer before it has its request's opaque and codec."""

    code: int
    remark: str | None = None
    fields: dict[str, str] | None = None
    body: bytes = b""


def said_body(value: Any) -> Said:
    """Return an answer whose body is JSON."""
    return Said(ResponseCode.SUCCESS, body=bodies.dumps(value))
