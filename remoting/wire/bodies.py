"""Bodies as JSON, with the maps that fastjson keys by objects.

    {"offsetTable":{{"brokerName":"b0","queueId":1,"topic":"T1"}:{"maxOffset":24}},"topicPutTps":0.0}

Both generations of fastjson read a map of queues only in this form, so it is written this way, and
all else as strict JSON with integers quoted as keys. No blanks: Go takes the addresses of a route
apart by hand, and dials what stands after one.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from reput.formats.java import strings
from reput.remoting.wire.errors import JsonError

_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(strict=False)
_BLANKS = re.compile(r"[ \t\r\n]*")
_INTEGER = re.compile(r"-?[0-9]+")


class MessageQueue(NamedTuple):
    """A queue of a broker, the key of many maps."""

    broker_name: str
    queue_id: int
    topic: str


def dumps(value: Any) -> bytes:
    """Return a body: compact JSON in UTF-8.

    Args:
        value: what `json` takes, besides maps whose keys are `MessageQueue`, at any depth.
    """
    return _text(value).encode("utf-8", "replace")


def loads(body: bytes | bytearray | memoryview) -> Any:
    """Return what a body says. Keys are strings, and `MessageQueue` where they are queues.

    Another object as a key is its compact JSON.

    Raises:
        JsonError: not JSON, not even as fastjson writes it.
    """
    text = strings.decode(bytes(body))
    try:
        return _DECODER.decode(text)
    except ValueError:
        pass
    except RecursionError:
        raise JsonError("nested too deeply") from None
    try:
        value, at = _value(text, _past_blanks(text, 0))
        if _past_blanks(text, at) != len(text):
            raise JsonError(f"more after the end at character {at}")
    except RecursionError:
        raise JsonError("nested too deeply") from None
    return value


def _text(value: Any) -> str:
    if not _has_queues(value):
        return _ENCODER.encode(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_key(k)}:{_text(v)}" for k, v in value.items()) + "}"
    return "[" + ",".join(map(_text, value)) + "]"


def _has_queues(value: Any) -> bool:
    """Tell whether a map in it has queues for keys."""
    if isinstance(value, dict):
        return any(isinstance(k, MessageQueue) or _has_queues(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_has_queues, value))


def _key(key: object) -> str:
    if isinstance(key, MessageQueue):
        named = {"brokerName": key.broker_name, "queueId": key.queue_id, "topic": key.topic}
        return _ENCODER.encode(named)
    return _ENCODER.encode(str(key))


def _past_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found
    return found.end()


def _value(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at a character, and where it ends."""
    if text[at : at + 1] == "{":
        return _map(text, at + 1)
    if text[at : at + 1] == "[":
        return _list(text, at + 1)
    try:
        return _DECODER.raw_decode(text, at)
    except ValueError:
        raise JsonError(f"not a value at character {at}") from None


def _map(text: str, at: int) -> tuple[dict[str | MessageQueue, Any], int]:
    found: dict[str | MessageQueue, Any] = {}
    at = _past_blanks(text, at)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        key, at = _read_key(text, at)
        at = _past(text, at, ":")
        found[key], at = _value(text, at)
        at = _past_blanks(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        at = _past(text, at, ",")


def _list(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _past_blanks(text, at)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        value, at = _value(text, at)
        found.append(value)
        at = _past_blanks(text, at)
        if text[at : at + 1] == "]":
            return found, at + 1
        at = _past(text, at, ",")


def _read_key(text: str, at: int) -> tuple[str | MessageQueue, int]:
    if number := _INTEGER.match(text, at):
        return number.group(), number.end()
    key, at = _value(text, at)
    if isinstance(key, dict):
        if key.keys() == {"brokerName", "queueId", "topic"}:
            return MessageQueue(key["brokerName"], key["queueId"], key["topic"]), at
        return _text(key), at
    if not isinstance(key, str):
        raise JsonError(f"not a key before character {at}")
    return key, at


def _past(text: str, at: int, mark: str) -> int:
    """Return where what follows a mark begins."""
    at = _past_blanks(text, at)
    if text[at : at + 1] != mark:
        raise JsonError(f"not a {mark!r} at character {at}")
    return _past_blanks(text, at + 1)
