"""How a JSON file tells that it is damaged: its first line holds the CRC-32 of all that follows.

    {"crc": 2893461,
    "end": 4096, "messages": 12}

The whole file is one JSON object, so a reader that knows nothing of the CRC reads it too.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple


class Parted(NamedTuple):
    """A file's bytes after its first line, and the CRC in that line.

    Attributes:
        crc: what the line says.
        rest: the bytes that it covers.
    """

    crc: Any
    rest: bytes

    @property
    def is_whole(self) -> bool:
        """Tell whether the bytes match the CRC."""
        return bool(self.crc == zlib.crc32(self.rest))


def checked(text: str) -> bytes:
    """Return a file's bytes.

    Args:
        text: a JSON object with at least one field.
    """
    rest = text[1:].encode()
    return b'{"crc": %d,\n%b' % (zlib.crc32(rest), rest)


def parted(raw: bytes) -> Parted:
    """Return the two parts of a file; whether they match is for the caller to check.

    Raises:
        ValueError, LookupError, TypeError, RecursionError: the first line is not `checked`'s.
    """
    head, _, rest = raw.partition(b"\n")
    return Parted(json.loads(head.decode("utf-8", "replace") + '"": 0}')["crc"], rest)
