"""Message properties: `name 0x01 value 0x02` repeated, UTF-8, the last 0x02 optional.

The rules are those of `MessageDecoder#string2messageProperties` from 4.9.1 on: pieces end at each
0x02; a piece counts only with a first 0x01 that has something on both sides; the value is all
that follows it, further 0x01 included; of equal names the last one stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from formats import java
from formats.memory import load_i32, load_i64, match64, negative64, trailing_zeros

if TYPE_CHECKING:
    from formats.memory import Bytes

NAME_END = 1
VALUE_END = 2
MASK_WIDTH = 64

TAGS = "TAGS"
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"
DELAY = "DELAY"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
CRC32 = "__CRC32#"

_TAGS_WORD = int.from_bytes(b"TAGS", "big")
_KEYS_WORD = int.from_bytes(b"KEYS", "big")
_INNER_WORD = int.from_bytes(b"INNE", "big")
_DELAY_WORD = int.from_bytes(b"DELA", "big")
_DELAY_LAST = ord("Y")
_UNIQ_KEY_WORD = int.from_bytes(b"UNIQ_KEY", "big")


def parse(raw: bytes) -> dict[str, str]:
    """Return the properties of a record as the broker's parser has them."""
    properties: dict[str, str] = {}
    for piece in java.decode(raw).split(chr(VALUE_END)):
        name, found, value = piece.partition(chr(NAME_END))
        if found and name and value:
            # Java's map keeps the place of the first; the value is the last one's.
            properties[name] = value
    return properties


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def find(data: Bytes, at: int, length: int) -> tuple[int, ...]:
    """Find the properties that dispatch needs.

    Args:
        data: bytes with at least `MASK_WIDTH` readable ones after the properties.
        at: first byte of the properties.
        length: their bytes.

    Returns:
        Byte and length of the values of TAGS, KEYS, UNIQ_KEY and DELAY (length 0: absent), 1 if
        a name begins with INNE (batches, multi dispatch: a case for the slow path), and 1 if all
        bytes are below 0x80.
    """
    tags_at = tags_length = keys_at = keys_length = 0
    uniq_at = uniq_length = delay_at = delay_length = 0
    inner = 0
    above = np.uint64(0)
    piece = at
    name_end = -1
    end = at + length
    base = at
    one = np.uint64(1)
    while base <= end:
        names = match64(data, base, NAME_END)
        values = match64(data, base, VALUE_END)
        high = negative64(data, base)
        left = end - base
        if left < MASK_WIDTH:
            valid = (one << np.uint64(left)) - one
            names &= valid
            high &= valid
            # The end of the properties closes the last piece, written or not.
            values = (values & valid) | (one << np.uint64(left))
        above |= high
        marks = names | values
        while marks != np.uint64(0):
            bit = marks & (~marks + one)
            here = base + trailing_zeros(marks)
            marks ^= bit
            if bit & names:
                if name_end < 0:
                    name_end = here
                continue
            name_length = name_end - piece
            value_at = name_end + 1
            if name_end >= 0 and name_length > 0 and here > value_at:
                value_length = here - value_at
                if name_length == 4:
                    word = load_i32(data, piece)
                    if word == _TAGS_WORD:
                        tags_at, tags_length = value_at, value_length
                    elif word == _KEYS_WORD:
                        keys_at, keys_length = value_at, value_length
                elif name_length == 5:
                    if load_i32(data, piece) == _DELAY_WORD and data[piece + 4] == _DELAY_LAST:
                        delay_at, delay_length = value_at, value_length
                elif name_length == 8:
                    if load_i64(data, piece) == _UNIQ_KEY_WORD:
                        uniq_at, uniq_length = value_at, value_length
                elif name_length >= 9 and load_i32(data, piece) == _INNER_WORD:
                    inner = 1
            piece = here + 1
            name_end = -1
        base += MASK_WIDTH
    ascii_only = 1 if above == np.uint64(0) else 0
    return (
        tags_at,
        tags_length,
        keys_at,
        keys_length,
        uniq_at,
        uniq_length,
        delay_at,
        delay_length,
        inner,
        ascii_only,
    )
