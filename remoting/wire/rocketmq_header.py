"""A header in RocketMQ's own binary form: `RocketMQSerializable`.

========== ============ ==============================================================
size       field        meaning (big-endian, signed)
========== ============ ==============================================================
2          code         16 bits of it: 200050 arrives as 3442
1          language     a `LanguageCode`
2          version
4          opaque
4          flag
4 + n      remark       length and UTF-8; length 0 for none
4 + n      fields       bytes of all fields, then each: 2 + name, 4 + value
========== ============ ==============================================================

A name or value of length 0 is null in Java, and so is a value that stands here for it absent.
"""

from __future__ import annotations

import struct

from reput.formats.java import strings
from reput.remoting.wire.codes import LanguageCode, SerializeType
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import FrameError

_FIXED = struct.Struct(">hbhii")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LANGUAGES = {each.value: each for each in LanguageCode}
_MOST_NAME = 0x7FFF


def encode(command: Command) -> bytes:
    """Return the header of a command.

    Raises:
        ValueError: a name of a field is longer than its length can say.
    """
    language = LanguageCode.OTHER if command.language is None else command.language
    fixed = _FIXED.pack(
        _short(command.code), language, _short(command.version), command.opaque, command.flag
    )
    remark = (command.remark or "").encode("utf-8", "replace")
    pieces = [fixed, _INT.pack(len(remark)), remark, b""]
    for name, value in (command.fields or {}).items():
        raw_name, raw_value = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        if len(raw_name) > _MOST_NAME:
            raise ValueError(f"a field's name of {len(raw_name)} bytes")
        pieces += (_SHORT.pack(len(raw_name)), raw_name, _INT.pack(len(raw_value)), raw_value)
    pieces[3] = _INT.pack(sum(map(len, pieces[4:])))
    return b"".join(pieces)


def decode(frame: memoryview, size: int) -> Command:
    """Return what a frame says, as a broker reads it.

    A broker takes the fields one after the other, and the body from where they end: they may end
    before the header does, and the body is then that many bytes earlier.

    Args:
        frame: header and body.
        size: bytes of the header.

    Raises:
        FrameError: a length leads past the header or past the frame.
    """
    raw = bytes(frame[:size]) if size else b""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(raw)
        remark, at = _piece(raw, _FIXED.size, _INT, size)
        (length,) = _INT.unpack_from(raw, at)
        fields, at = _fields(raw, at + _INT.size, length, size)
    except struct.error:
        raise FrameError("a header that ends in the midst of a field") from None
    body = frame[at : at + len(frame) - size]
    return Command(
        code,
        opaque,
        flag,
        _LANGUAGES.get(language),
        version,
        remark,
        fields,
        body,
        SerializeType.ROCKETMQ,
    )


def _fields(raw: bytes, at: int, length: int, size: int) -> tuple[dict[str, str] | None, int]:
    """Return the fields and where they end."""
    if length <= 0:
        return None, at
    if length > size:
        raise FrameError(f"fields of {length} bytes in a header of {size}")
    end = at + length
    fields: dict[str, str] = {}
    while at < end:
        name, at = _piece(raw, at, _SHORT, length)
        value, at = _piece(raw, at, _INT, length)
        if name is None:
            continue
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return fields, at


def _piece(raw: bytes, at: int, kind: struct.Struct, most: int) -> tuple[str | None, int]:
    """Return a text after its length, None for an empty one, and where it ends."""
    (length,) = kind.unpack_from(raw, at)
    at += kind.size
    if not 0 <= length <= min(most, len(raw) - at):
        raise FrameError(f"a text of {length} bytes in a header of {len(raw)}")
    if not length:
        return None, at
    return strings.decode(raw[at : at + length]), at + length


def _short(number: int) -> int:
    """Return what Java makes of an int that it writes as a short."""
    return (number + 0x8000 & 0xFFFF) - 0x8000
