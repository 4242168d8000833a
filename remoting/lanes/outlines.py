"""The outline of a request: its header without the three numbers that differ from pull to pull.

    {"code":11,"extFields":{"queueOffset":"","commitOffset":"",…},"opaque":,…}

Two requests of one outline say the same, those numbers aside. Only plain numbers are taken out:
what has a sign, a leading zero, more than 18 digits or an escape anywhere has no outline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import kernel
from reput.remoting.lanes.places import COMMIT, NUMBER_COUNT, NUMBERS, OFFSET, OPAQUE, PLACES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

NO_OUTLINE = -1
_NAMES = np.frombuffer(b"opaquequeueOffsetcommitOffset", np.uint8).copy()
_STARTS = (0, 6, 17)
_LENGTHS = (6, 11, 12)
_QUOTE, _BACKSLASH, _COLON, _COMMA, _END, _ZERO, _NINE = b'"\\:,}09'
_MOST_DIGITS = 18
_INT_MAX = (1 << 31) - 1


@kernel
def _number_named(data: Bytes | bytes, at: int, length: int) -> int:
    """Return which number a name is of, below 0 for none."""
    number = -1
    if length == _LENGTHS[OPAQUE]:
        number = OPAQUE
    elif length == _LENGTHS[OFFSET]:
        number = OFFSET
    elif length == _LENGTHS[COMMIT]:
        number = COMMIT
    if number >= 0:
        start = _STARTS[number]
        for i in range(length):
            if data[at + i] != _NAMES[start + i]:
                return -1
    return number


@kernel
def outline(  # noqa: C901, PLR0911, PLR0912, PLR0915 - kernel
    data: Bytes | bytes, at: int, end: int, text: Bytes, vectors: NDArray[np.int64]
) -> int:
    """Write the outline of a JSON header.

    Args:
        data: what has come.
        at: where the header begins.
        end: where it ends.
        text: gets the outline, and eight zeros; has room for the whole header and those.
        vectors: gets the numbers from `NUMBERS` on, and from `PLACES` on their places in the
            outline.

    Returns:
        Bytes of the outline; `NO_OUTLINE` if there is none.
    """
    length = 0
    found = 0
    while at < end:
        byte = data[at]
        if byte == _BACKSLASH:
            return NO_OUTLINE
        text[length] = byte
        length += 1
        at += 1
        if byte != _QUOTE:
            continue
        start = at
        while at < end and data[at] != _QUOTE:
            if data[at] == _BACKSLASH:
                return NO_OUTLINE
            text[length] = data[at]
            length += 1
            at += 1
        if at + 1 >= end:
            return NO_OUTLINE
        text[length] = _QUOTE
        length += 1
        at += 1
        if data[at] != _COLON:
            continue
        number = _number_named(data, start, at - 1 - start)
        if number < 0:
            continue
        if found & (1 << number):
            return NO_OUTLINE
        found |= 1 << number
        text[length] = _COLON
        length += 1
        at += 1
        if number != OPAQUE:
            if at >= end or data[at] != _QUOTE:
                return NO_OUTLINE
            text[length] = _QUOTE
            length += 1
            at += 1
        value = 0
        start = at
        while at < end and _ZERO <= data[at] <= _NINE and at - start <= _MOST_DIGITS:
            value = value * 10 + int(data[at]) - _ZERO
            at += 1
        digits = at - start
        if at >= end or digits == 0 or digits > _MOST_DIGITS:
            return NO_OUTLINE
        if digits > 1 and data[start] == _ZERO:
            return NO_OUTLINE
        if number == OPAQUE:
            if value > _INT_MAX or (data[at] != _COMMA and data[at] != _END):
                return NO_OUTLINE
        else:
            if data[at] != _QUOTE:
                return NO_OUTLINE
            # The text ends here, and none begins.
            vectors[PLACES + number] = length
            text[length] = _QUOTE
            length += 1
            at += 1
        if number == OPAQUE:
            vectors[PLACES + number] = length
        vectors[NUMBERS + number] = value
    if found != (1 << NUMBER_COUNT) - 1:
        return NO_OUTLINE
    for i in range(8):
        text[length + i] = 0
    return length


@kernel
def hash_of(text: Bytes, length: int) -> int:
    """Return a hash of an outline: of its words, the last one filled up with zeros."""
    found = np.int64(length)
    for i in range(0, length, 8):
        word = np.int64(0)
        for j in range(8):
            word = (word << 8) | np.int64(text[i + j])
        found = (found ^ word) * np.int64(-7046029254386353131)
        found ^= (found >> 29) & np.int64(0x7FFFFFFFF)
    return found  # type: ignore[return-value]
