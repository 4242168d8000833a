"""Values of options: numbers, sizes, moments and switches from text; a bad one names its option."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any

from reput.formats.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# What is taken for ms by mistake: name, units a second, and the numbers that it has in our days.
_OTHER_UNITS = (
    ("seconds", 1, range(10**8, 10**11)),
    ("microseconds", 10**6, range(10**15, 10**17)),
    ("nanoseconds", 10**9, range(10**17, 4 * 10**18)),
)
# Pattern of a size, as a JSON schema checks it.
SIZE_PATTERN = r"^[0-9]+\s*[kmgtKMGT]?([iI]?[bB])?$"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def refuse_blank(options: object, *names: str) -> None:
    """Refuse an option without a text: a script whose variable is not set says that.

    Args:
        options: of a command.
        names: of those that are something else when they are given than when they are not.

    Raises:
        UsageError: names the option.
    """
    for name in names:
        given = getattr(options, name)
        if given is not None and not given.strip("; "):
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} {given!r}: nothing is named; is a variable not set? Leave the option "
                "out for its default"
            )


def parse_json(name: str, text: str) -> Any:
    """Return what the JSON of an option says.

    Raises:
        UsageError: it is none.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is not JSON: {error}") from error


def milliseconds(name: str, text: str, *, is_local: bool = False) -> int:
    """Return ms since 1970, from digits or ISO 8601.

    What a command prints can be typed back: its times are local and name their zone, so one without
    a zone is local there. A query may be planned on another machine than it was written on, and
    Spark shows times in a zone of its own: there a time has to name its zone.

    Args:
        name: of the option, for errors.
        text: such as "1795232008595", "2026-11-21T03:33:28.595+00:00" or, if `is_local`,
            "2026-11-21 11:33".
        is_local: a time without a zone is one of this machine's.

    Raises:
        UsageError: it is neither; a time without a zone, or one that the local clock shows twice or
            never; a number that must be seconds, micro- or nanoseconds.
    """
    text = text.strip()
    number = re.fullmatch(r"([0-9]+)(?: \(.*\))?", text)
    if number:
        # With what is printed beside it, too.
        return _checked(name, int(number[1]))
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{name}={text!r} is neither ms since 1970 nor such as 2026-01-31T12:00:00Z"
        ) from error
    if moment.tzinfo is None:
        if not is_local:
            raise UsageError(
                f"{name}={text!r} names no zone: write {text}Z for UTC, or a zone such as +08:00"
            )
        moment = _local(name, text, moment)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def _checked(name: str, value: int) -> int:
    """Return a number that can be ms since 1970; others look like times of our days, but are not.

    Nothing is in a RocketMQ store from before 1973 or after the year 30000, and small numbers are
    taken as they are: 0 is the beginning.
    """
    for unit, per_second, span in _OTHER_UNITS:
        if value in span:
            try:
                meant = dt.datetime.fromtimestamp(value // per_second, dt.UTC).isoformat()
            except (ValueError, OverflowError, OSError):
                continue
            raise UsageError(
                f"{name}={value} is not a time in ms: in {unit} it would be {meant}, which is "
                f"{value // per_second * 1000} in ms"
            )
    return value


def _local(name: str, text: str, moment: dt.datetime) -> dt.datetime:
    """Return a local time with its zone."""
    offsets = [moment.replace(fold=fold).astimezone().utcoffset() for fold in (0, 1)]
    if offsets[0] != offsets[1]:
        zones = " or ".join(moment.replace(fold=f).astimezone().strftime("%z") for f in (0, 1))
        raise UsageError(
            f"{name}={text!r}: the local clock is put forward or back then; say which zone: {zones}"
        )
    return moment.astimezone()


def size(values: Mapping[str, str], name: str) -> int | None:
    """Return the bytes that an option such as 4096, 64m or 1g gives, None without it.

    Raises:
        UsageError: it is not one of these.
    """
    text = values.get(name.lower())
    return None if text is None else number_of_bytes(text, f"{name}=")


def number_of_bytes(text: str, said: str = "") -> int:
    """Return the bytes that "4096", "64m", "64 MiB" or "1g" stand for.

    Args:
        text: of the option.
        said: what comes before the text in an error.

    Raises:
        UsageError: it is not one of these.
    """
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not match or not int(match[1]):
        raise UsageError(f"{said}{text!r} is not a number of bytes such as 4096, 64m or 1g")
    return int(match[1]) * _UNITS[match[2]]


def count(values: Mapping[str, str], name: str) -> int | None:
    """Return the number that an option gives, None without it.

    Raises:
        UsageError: it is not a whole number of 1 or more.
    """
    text = values.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\d+", text.strip()) or not int(text):
        raise UsageError(f"{name}={text!r} is not a whole number of 1 or more")
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
