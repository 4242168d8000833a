"""String.hashCode over UTF-8 bytes, compiled; the twin is `formats.java.strings.hash_code`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import inlined_kernel, kernel
from reput.formats.kernels.memory import load_u64_le

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

_U32 = np.uint32
_THIRTY_ONE = np.uint32(31)
_WORD = 8
# 31 to the power of the place.
_POWERS = np.array([pow(31, n, 1 << 32) for n in range(_WORD + 1)], np.uint32)
_POWER_OF_FOUR = _POWERS[4]
_POWER_OF_WORD = _POWERS[_WORD]
_BYTE_LANES = np.uint64(0x00FF00FF00FF00FF)
_PAIR_LANES = np.uint64(0x0000FFFF0000FFFF)


@kernel
def hash_utf8(state: np.uint32, data: Bytes | bytes, at: int, length: int) -> np.uint32:  # noqa: C901 - kernel
    """Continue a String.hashCode over UTF-8 bytes, malformed ones included.

    Args:
        state: the hash so far, as unsigned 32 bits; 0 to begin.
        data: bytes that hold the text.
        at: its first byte.
        length: its bytes.
    """
    end = at + length
    while at < end:
        first = _U32(data[at])
        if first < _U32(0x80):
            state = _U32(state * _THIRTY_ONE + first)
            at += 1
            continue
        second = _U32(data[at + 1]) if at + 1 < end else _U32(0)
        third = _U32(data[at + 2]) if at + 2 < end else _U32(0)
        fourth = _U32(data[at + 3]) if at + 3 < end else _U32(0)
        second_ok = (second & _U32(0xC0)) == _U32(0x80)
        third_ok = (third & _U32(0xC0)) == _U32(0x80)
        fourth_ok = (fourth & _U32(0xC0)) == _U32(0x80)
        unit = _U32(0xFFFD)
        used = 1
        if _U32(0xC2) <= first <= _U32(0xDF):
            if second_ok:
                unit = ((first & _U32(0x1F)) << _U32(6)) | (second & _U32(0x3F))
                used = 2
        elif _U32(0xE0) <= first <= _U32(0xEF):
            overlong = first == _U32(0xE0) and second < _U32(0xA0)
            if second_ok and not overlong:
                used = 2
                if third_ok:
                    used = 3
                    if first != _U32(0xED) or second < _U32(0xA0):
                        unit = (
                            ((first & _U32(0x0F)) << _U32(12))
                            | ((second & _U32(0x3F)) << _U32(6))
                            | (third & _U32(0x3F))
                        )
        elif _U32(0xF0) <= first <= _U32(0xF4):
            beyond = (first == _U32(0xF0) and second < _U32(0x90)) or (
                first == _U32(0xF4) and second > _U32(0x8F)
            )
            if second_ok and not beyond:
                used = 2
                if third_ok:
                    used = 3
                    if fourth_ok:
                        used = 4
                        point = (
                            ((first & _U32(0x07)) << _U32(18))
                            | ((second & _U32(0x3F)) << _U32(12))
                            | ((third & _U32(0x3F)) << _U32(6))
                            | (fourth & _U32(0x3F))
                        ) - _U32(0x10000)
                        high = _U32(0xD800) | (point >> _U32(10))
                        state = _U32(state * _THIRTY_ONE + high)
                        unit = _U32(0xDC00) | (point & _U32(0x3FF))
        state = _U32(state * _THIRTY_ONE + unit)
        at += used
    return state


@inlined_kernel
def _hash_word(word: np.uint64) -> np.uint32:
    """Return the hash of eight bytes, the first one lowest, zeros before a text of fewer.

    Neighbours are joined in lanes: bytes to pairs below 2**13, pairs to fours below 2**23.
    """
    pairs = (word & _BYTE_LANES) * np.uint64(31) + ((word >> np.uint64(8)) & _BYTE_LANES)
    fours = (pairs & _PAIR_LANES) * np.uint64(961) + ((pairs >> np.uint64(16)) & _PAIR_LANES)
    low, high = _U32(fours & np.uint64(0xFFFFFFFF)), _U32(fours >> np.uint64(32))
    return _U32(low * _POWER_OF_FOUR + high)


@kernel
def hash_ascii(state: np.uint32, data: Bytes, at: int, length: int) -> np.uint32:
    """Continue a String.hashCode over bytes below 0x80, eight at a time.

    Args:
        state: the hash so far, as unsigned 32 bits; 0 to begin.
        data: bytes that hold the text, and seven readable ones after it.
        at: its first byte.
        length: its bytes.
    """
    end = at + length
    while at + _WORD <= end:
        state = _U32(state * _POWER_OF_WORD + _hash_word(load_u64_le(data, at)))
        at += _WORD
    left = end - at
    if left > 0:
        word = load_u64_le(data, at) << np.uint64(8 * (_WORD - left))
        state = _U32(state * _POWERS[left] + _hash_word(word))
    return state
