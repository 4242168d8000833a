"""Frames: what stands on a connection, one after the other.

====== ==== ============= ========================================================
offset size field         meaning (big-endian)
====== ==== ============= ========================================================
     0    4 length        bytes after this field; negative or too large: closed
     4    1 codec         of the header: a `SerializeType`; another one: closed
     5    3 header length at most length - 4; more: closed
     8      header        `json_header` or `rocketmq_header`
            body          what is left
====== ==== ============= ========================================================

A length is below 2^24, so a frame begins with a zero. A connection whose first byte is `TLS_HELLO`
wants TLS.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from reput.remoting.wire import json_header, rocketmq_header
from reput.remoting.wire.codes import SerializeType
from reput.remoting.wire.errors import FrameError, FrameSizeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.remoting.wire.command import Bytes, Command

MAX_FRAME_LENGTH = 16 * 1024 * 1024
"""Bytes of a whole frame that brokers and Java clients read (`frameMaxLength` of remoting)."""
TLS_HELLO = 0x16

_LENGTH = struct.Struct(">i")
_HEADER_LENGTH = struct.Struct(">I")
_PREFIX = struct.Struct(">iI")
_MOST_HEADER = (1 << 24) - 1


def encode(command: Command, size: int = 0) -> bytes:
    """Return a frame up to its body: send `command.body` after it.

    A body of many megabytes is not copied this way.

    Args:
        command: what the frame says.
        size: bytes of a body that is not in the command.

    Raises:
        FrameSizeError: the frame is larger than a peer reads.
        ValueError: a field does not fit its codec.
    """
    if command.codec is SerializeType.JSON:
        header = json_header.encode(command)
    else:
        header = rocketmq_header.encode(command)
    length = 4 + len(header) + len(command.body) + size
    if len(header) > _MOST_HEADER or 4 + length > MAX_FRAME_LENGTH:
        raise FrameSizeError(f"a frame of {4 + length} bytes: a peer reads {MAX_FRAME_LENGTH}")
    return _PREFIX.pack(length, command.codec << 24 | len(header)) + header


def decode(frame: memoryview) -> Command:
    """Return what a frame says.

    Args:
        frame: one whole frame, without its length. The command's body is a view of it.

    Raises:
        FrameError: as for `FrameDecoder`.
    """
    if len(frame) < _HEADER_LENGTH.size:
        raise FrameError(f"a frame of {len(frame)} bytes")
    (word,) = _HEADER_LENGTH.unpack_from(frame)
    codec, size = word >> 24, word & _MOST_HEADER
    if size > len(frame) - 4:
        raise FrameError(f"decode error, bad header length: {size}")
    if codec == SerializeType.JSON:
        return json_header.decode(frame[4 : 4 + size], frame[4 + size :])
    if codec == SerializeType.ROCKETMQ:
        return rocketmq_header.decode(frame[4:], size)
    raise FrameError(f"a header of type {codec}")


class FrameDecoder:
    """Finds the frames in what arrives on one connection, however it is divided."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._error: FrameError | None = None

    @property
    def pending(self) -> int:
        """Return how many bytes wait for the rest of their frame."""
        return len(self._pending)

    def take_back(self) -> bytes:
        """Return the bytes that wait for the rest of their frame; they are not known here now."""
        pending, self._pending = bytes(self._pending), bytearray()
        return pending

    def feed(self, data: Bytes) -> Iterator[Command]:
        """Yield the commands that end in `data`; take all of them before the next call.

        Bodies are views of `data`, except that of a frame that began before it. So `data` must not
        change while they are in use.

        Raises:
            FrameError: what follows the commands is not a frame. Close the connection.
        """
        if self._error:
            raise self._error
        try:
            yield from self._commands(memoryview(data))
        except FrameError as error:
            self._error = error
            self._pending = bytearray()
            raise

    def _commands(self, view: memoryview) -> Iterator[Command]:
        if self._pending:
            view = self._complete(view)
            length = _frame_length(self._pending)
            if length is None or len(self._pending) < length:
                return
            begun, self._pending = self._pending, bytearray()
            yield decode(memoryview(begun)[4:])
        at = 0
        while (length := _frame_length(view, at)) is not None and at + length <= len(view):
            yield decode(view[at + 4 : at + length])
            at += length
        # Only what has come is kept: a length alone takes no memory.
        self._pending += view[at:]

    def _complete(self, view: memoryview) -> memoryview:
        """Move bytes to the frame that has begun, and return what follows it."""
        lacking = max(0, _LENGTH.size - len(self._pending))
        self._pending += view[:lacking]
        view = view[lacking:]
        length = _frame_length(self._pending)
        if length is None:
            return view
        lacking = length - len(self._pending)
        self._pending += view[:lacking]
        return view[lacking:]


def first_length(data: bytes) -> int:
    """Return the bytes of the first frame, 0 where it is not whole, or is none."""
    length = _LENGTH.unpack_from(data)[0] + _LENGTH.size if len(data) >= _LENGTH.size else 0
    return length if _LENGTH.size <= length <= len(data) else 0


def _frame_length(view: Bytes, at: int = 0) -> int | None:
    """Return the bytes of the frame at `at`, length included, None where that is not there yet."""
    if len(view) - at < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(view, at)
    if not 0 <= length <= MAX_FRAME_LENGTH - _LENGTH.size:
        raise FrameError(f"a frame of {length} bytes")
    return _LENGTH.size + int(length)
