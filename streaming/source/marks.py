"""What a stream's offset carries besides a place: what tells that the log up to there is the same.

A log that was cut and has grown past an offset looks as if it continued there. So an offset has the
sum of the record hashes of its file up to the place (`stores.following.identity`). Where that is
another sum now, records that were never read stand before the offset, and read ones are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACE, _LOG = "offset", "log"


class Mark(NamedTuple):
    """A place in a log, and what tells the log up to there.

    Attributes:
        position: physical offset.
        log: the sum, in hex; None where nothing was read before the place.
    """

    position: int
    log: str | None = None

    def as_json(self) -> int | dict[str, object]:
        """Return what an offset has for a store."""
        return self.position if self.log is None else {_PLACE: self.position, _LOG: self.log}


def marks_of(offset: Mapping[str, Any]) -> dict[str, Mark]:
    """Return the marks of a stream's offset by store; a number alone is a place.

    Raises:
        UsageError: it is not an offset of this source.
    """
    found = {}
    for name, value in offset.items():
        if isinstance(value, dict):
            place, log = value.get(_PLACE), value.get(_LOG)
        else:
            place, log = value, None
        if type(place) is not int or not (log is None or isinstance(log, str)):
            raise UsageError(f"offset of store {name}: {value!r} is not a place in a commitlog")
        found[name] = Mark(place, log)
    return found
