"""Times as they are shown: to people in local time, to programs as a number and as ISO 8601.

A field `stored` of a row is a `Moment`. In JSON it is two fields, the same in all commands:
`"stored_ms": 1795232008595, "stored": "2026-11-21T03:33:28.595+00:00"`, both null for none.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Moment(NamedTuple):
    """A time of a row, ms; None for none."""

    milliseconds: int | None

    def __str__(self) -> str:
        return "-" if self.milliseconds is None else moment(self.milliseconds)


def local_time(milliseconds: int, separator: str = "T") -> str | None:
    """Return a time in ms as ISO 8601 in local time, its zone named; None where no year has it."""
    try:
        # Not by seconds as a float, which loses ms in far years.
        when = _EPOCH + dt.timedelta(milliseconds=milliseconds)
        return when.astimezone().isoformat(sep=separator, timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


def moment(milliseconds: int) -> str:
    """Return a time in ms with the local time beside it."""
    when = local_time(milliseconds, " ")
    return f"{milliseconds} ({when})" if when is not None else str(milliseconds)


def for_json(value: Any) -> Any:
    """Return a value with two fields in the place of each `Moment` of a dict."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for name, each in value.items():
            if isinstance(each, Moment):
                number = each.milliseconds
                fields[f"{name}_ms"] = number
                fields[name] = None if number is None else local_time(number)
            else:
                fields[name] = for_json(each)
        return fields
    if isinstance(value, list):
        return [for_json(each) for each in value]
    return value
