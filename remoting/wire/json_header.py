"""A header as JSON, as Java's fastjson and Go's encoder write it.

    {"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":3,
     "serializeTypeCurrentRPC":"JSON","version":513}

The order is free, unknown names are ignored, `remark` and `extFields` may be null or absent. Go and
C++ read strings only in `extFields`, so strings are what is written.

Values of other types are taken as both of fastjson's generations take them. What only one of them
reads, such as names without quotes, closes the connection here, and so do the comments, single
quotes and trailing commas that both of them read: no client writes these.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reput.formats.java import strings
from reput.remoting.wire.codes import LanguageCode, SerializeType
from reput.remoting.wire.command import Command
from reput.remoting.wire.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.remoting.wire.command import Bytes

_INT_MIN = -0x80000000
_LANGUAGES = dict(LanguageCode.__members__)
_TEXTS = frozenset({str})


class _Number(str):
    """A number with a point or an exponent, as it is written."""

    __slots__ = ()


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# Made once: `json.dumps` and `json.loads` make one at each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(strict=False, parse_float=_Number, parse_constant=_refuse)


def encode(command: Command) -> bytes:
    """Return the header of a command."""
    header: dict[str, Any] = {"code": command.code}
    if command.fields is not None:
        header["extFields"] = command.fields
    header["flag"] = command.flag
    if command.language is not None:
        header["language"] = command.language.name
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    # Java writes half a surrogate pair as a question mark too.
    return _ENCODER.encode(header).encode("utf-8", "replace")


def decode(header: memoryview, body: Bytes) -> Command:
    """Return the command of a header and its body.

    Raises:
        FrameError: not JSON, or a value is not of its type.
    """
    try:
        found = _DECODER.decode(strings.decode(bytes(header)))
    except (ValueError, RecursionError):
        raise FrameError("a header that is not JSON") from None
    if not isinstance(found, dict):
        raise FrameError("a header that is not an object")
    return Command(
        _integer(found, "code"),
        _integer(found, "opaque"),
        _integer(found, "flag"),
        _language(found.get("language", "JAVA")),
        _integer(found, "version"),
        _remark(found.get("remark")),
        _fields(found.get("extFields")),
        body,
        SerializeType.JSON,
    )


def _integer(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if type(value) is int and _INT_MIN <= value <= strings.INT_MAX:
        return value
    if value is None:
        return 0
    try:
        if isinstance(value, _Number):
            value = int(float(value))
        elif isinstance(value, str):
            value = strings.parse_int(value)
    except (ValueError, OverflowError):
        value = None
    if isinstance(value, int) and _INT_MIN <= value <= strings.INT_MAX:
        return int(value)
    raise FrameError(f"a header whose {name} is not an int")


def _language(value: object) -> LanguageCode | None:
    if isinstance(value, str):
        return _LANGUAGES.get(value) or _LANGUAGES.get(value.upper())
    if isinstance(value, int) and 0 <= value < len(LanguageCode):
        return LanguageCode(value)
    return None


def _remark(value: object) -> str | None:
    if value is None or type(value) is str:
        return value
    return str(value) if isinstance(value, str) else _text(value)


def _fields(found: object) -> dict[str, str] | None:
    """Return the fields as texts; a null is as good as absent."""
    if found is None:
        return None
    if not isinstance(found, dict):
        raise FrameError("a header whose extFields are not an object")
    if _TEXTS.issuperset(map(type, found.values())):
        return found
    return {
        name: str(value) if isinstance(value, str) else _text(value)
        for name, value in found.items()
        if value is not None
    }


def _text(value: object) -> str:
    return _ENCODER.encode(value)
