"""Message properties: `name 0x01 value 0x02` repeated, UTF-8, the last 0x02 optional.

The rules are those of `MessageDecoder#string2messageProperties` from 4.9.1 on: pieces end at each
0x02; a piece counts only with a first 0x01 that has something on both sides; the value is all
that follows it, further 0x01 included; of equal names the last one stays.
"""

from __future__ import annotations

import struct
import zlib

from reput.formats.java import strings

NAME_END = 1
VALUE_END = 2

TAGS = "TAGS"
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"
DELAY = "DELAY"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
CRC32 = "__CRC32#"
# The last property of a record: the CRC-32 of the bytes before it, ten digits.
PROPERTY_CRC = struct.Struct(">9s10sc")
PROPERTY_CRC_PREFIX = CRC32.encode() + bytes([NAME_END])


def parse(raw: bytes) -> dict[str, str]:
    """Return the properties of a record as the broker's parser has them."""
    return of_text(strings.decode(raw))


def of_text(text: str) -> dict[str, str]:
    """Return the properties that stand in a text, as in a producer's request."""
    properties: dict[str, str] = {}
    for piece in text.split(chr(VALUE_END)):
        name, found, value = piece.partition(chr(NAME_END))
        if found and name and value:
            # Java's map keeps the place of the first; the value is the last one's.
            properties[name] = value
    return properties


def crc_matches(record: bytes, least: int) -> bool | None:
    """Tell whether the digits of `__CRC32#` match the bytes before; None if no record end has it.

    The digits are written lowest first, padded with zeros (`MessageDecoder#createCrc32`).

    Args:
        record: its bytes.
        least: bytes that a record has without properties.
    """
    if len(record) < least + PROPERTY_CRC.size:
        return None
    name, digits, end = PROPERTY_CRC.unpack_from(record, len(record) - PROPERTY_CRC.size)
    if name != PROPERTY_CRC_PREFIX or end != bytes([VALUE_END]) or not digits.isdigit():
        return None
    expected = zlib.crc32(record[: -PROPERTY_CRC.size]) & 0x7FFFFFFF
    return int(digits[::-1]) == expected
