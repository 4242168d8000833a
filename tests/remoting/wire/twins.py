"""Slow readers of frames, written to be read: the twins of `remoting.wire.frames` and its codecs."""

from __future__ import annotations

import io

from reput.formats.java import strings
from reput.remoting.wire.codes import LanguageCode, SerializeType
from reput.remoting.wire.command import Command
from reput.remoting.wire.json_header import decode as decode_json

MOST = 16 * 1024 * 1024


class NotAFrameError(Exception):
    pass


def split(data: bytes) -> tuple[list[bytes], bool]:
    """Return the frames that are whole, without their lengths, and whether what follows is good."""
    frames = []
    while len(data) >= 4:
        length = int.from_bytes(data[:4], "big", signed=True)
        if length < 0 or 4 + length > MOST:
            return frames, False
        if len(data) < 4 + length:
            break
        frames.append(data[4 : 4 + length])
        data = data[4 + length :]
    return frames, True


def decode(frame: bytes) -> Command:
    stream = io.BytesIO(frame)
    codec = number(stream, 1, signed=False)
    size = number(stream, 3, signed=False)
    if size > len(frame) - 4:
        raise NotAFrameError
    if codec == 0:
        header = stream.read(size)
        return decode_json(memoryview(header), stream.read())
    if codec != 1:
        raise NotAFrameError
    # A broker reads on in the frame; the body is as long as the lengths say.
    body_length = len(frame) - 4 - size
    code, language, version = number(stream, 2), number(stream, 1), number(stream, 2)
    opaque, flag = number(stream, 4), number(stream, 4)
    remark = text(stream, 4, size)
    fields = None
    length = number(stream, 4)
    if length > 0:
        if length > size:
            raise NotAFrameError
        end = stream.tell() + length
        pairs = []
        while stream.tell() < end:
            name = text(stream, 2, length)
            pairs.append((name, text(stream, 4, length)))
        found = dict(pairs)
        fields = {k: v for k, v in found.items() if k is not None and v is not None}
    body = exactly(stream, body_length)
    known = LanguageCode(language) if 0 <= language < len(LanguageCode) else None
    return Command(code, opaque, flag, known, version, remark, fields, body, SerializeType.ROCKETMQ)


def exactly(stream: io.BytesIO, length: int) -> bytes:
    found = stream.read(length) if length >= 0 else b""
    if len(found) != length:
        raise NotAFrameError
    return found


def number(stream: io.BytesIO, width: int, *, signed: bool = True) -> int:
    return int.from_bytes(exactly(stream, width), "big", signed=signed)


def text(stream: io.BytesIO, width: int, most: int) -> str | None:
    length = number(stream, width)
    if length > most:
        raise NotAFrameError
    return strings.decode(exactly(stream, length)) if length else None
