"""Values of options: numbers, sizes, moments and switches from text; a bad one names its option."""

from __future__ import annotations

import datetime as dt
import json
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from formats.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class CorruptMode(StrEnum):
    """What to do at what is corrupt or missing in a log."""

    STOP = "stop"
    SKIP = "skip"


def parse_json(name: str, text: str) -> Any:
    """Return what the JSON of an option says.

    Raises:
        UsageError: it is none.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is not JSON: {error}") from error


def milliseconds(which: str, text: str) -> int:
    """Return ms since 1970, from digits or ISO 8601 (UTC where it names no zone).

    Raises:
        UsageError: it is neither.
    """
    text = text.strip()
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{which}Timestamp={text!r} is neither ms since 1970 nor such as 2026-01-31T12:00:00Z"
        ) from error
    # A query must not depend on the machine that it is planned on.
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def size(values: Mapping[str, str], name: str) -> int | None:
    """Return the bytes that an option such as 4096, 64m or 1g gives, None without it.

    Raises:
        UsageError: it is none of these.
    """
    text = values.get(name.lower())
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not match or not int(match[1]):
        raise UsageError(f"{name}={text!r} is no number of bytes such as 4096, 64m or 1g")
    return int(match[1]) * _UNITS[match[2]]


def count(values: Mapping[str, str], name: str) -> int | None:
    """Return the number that an option gives, None without it.

    Raises:
        UsageError: it is no whole number of 1 or more.
    """
    text = values.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\d+", text.strip()) or not int(text):
        raise UsageError(f"{name}={text!r} is no whole number of 1 or more")
    return int(text)


def switch(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return whether an option is true.

    Raises:
        UsageError: it is neither true nor false.
    """
    text = values.get(name.lower(), str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise UsageError(f"{name}={text!r} is neither true nor false")
    return text == "true"


def choice(values: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Return one of some words; the first one where nothing is said.

    Raises:
        UsageError: another word.
    """
    text = values.get(name.lower(), allowed[0]).strip().lower()
    if text not in allowed:
        raise UsageError(f"{name}={text!r}: it is {' or '.join(allowed)}")
    return text
