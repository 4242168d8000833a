"""Finds the properties that dispatch needs, compiled; the twin is `formats.rocketmq.properties`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import (
    load_i16,
    load_i32,
    load_i64,
    match64,
    negative64,
    trailing_zeros,
)
from reput.formats.rocketmq.properties import NAME_END, VALUE_END

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

MASK_WIDTH = 64

_TAGS_WORD = int.from_bytes(b"TAGS", "big")
_KEYS_WORD = int.from_bytes(b"KEYS", "big")
_INNER_WORD = int.from_bytes(b"INNE", "big")
_DELAY_WORD = int.from_bytes(b"DELA", "big")
_DELAY_LAST = ord("Y")
_BATCH_BASE_WORD = int.from_bytes(b"INNER_BA", "big")
_BATCH_BASE_END = int.from_bytes(b"SE", "big")
_BATCH_NUMBER_WORD = int.from_bytes(b"INNER_NU", "big")
_BATCH_NUMBER_END = ord("M")
# More digits may be beyond a Java short or long: the slow path judges them.
_PLAIN_BASE, _PLAIN_NUMBER = 18, 4
_UNIQ_KEY_WORD = int.from_bytes(b"UNIQ_KEY", "big")


@kernel
def find(data: Bytes, at: int, length: int) -> tuple[int, ...]:  # noqa: C901, PLR0912, PLR0915 - kernel
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


@kernel
def has_plain_batch(data: Bytes, at: int, length: int) -> bool:  # noqa: C901 - kernel
    """Tell whether INNER_BASE and INNER_NUM are absent, or short numbers of plain digits.

    Args:
        data: see `find`.
        at: first byte of the properties.
        length: their bytes.
    """
    base_at = number_at = 0
    base_length = number_length = 0
    piece = at
    name_end = -1
    end = at + length
    for i in range(at, end + 1):
        if i < end and data[i] == NAME_END and name_end < 0:
            name_end = i
        elif i == end or data[i] == VALUE_END:
            name_length = name_end - piece
            if name_end >= 0 and i > name_end + 1:
                if name_length == 10:
                    if load_i64(data, piece) == _BATCH_BASE_WORD:
                        if load_i16(data, piece + 8) == _BATCH_BASE_END:
                            base_at, base_length = name_end + 1, i - name_end - 1
                elif name_length == 9:
                    if load_i64(data, piece) == _BATCH_NUMBER_WORD:
                        if data[piece + 8] == _BATCH_NUMBER_END:
                            number_at, number_length = name_end + 1, i - name_end - 1
            piece = i + 1
            name_end = -1
    if base_length == 0 or number_length == 0:
        return True
    return (
        base_length <= _PLAIN_BASE
        and number_length <= _PLAIN_NUMBER
        and _are_digits(data, base_at, base_length)
        and _are_digits(data, number_at, number_length)
    )


@kernel
def _are_digits(data: Bytes, at: int, length: int) -> bool:
    others = 0
    for i in range(at, at + length):
        if data[i] < 48 or data[i] > 57:
            others += 1
    return others == 0
