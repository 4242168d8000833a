"""The hash that identifies a record: its definition, and the slow twin of `formats.kernels.heads`.

It covers all of a record but its body, whose CRC is in the head. (A tail shorter than 64 bytes is
hashed with the bytes before it.) It is made for telling two histories of a log apart, not for
defence: nobody gains by forging it.

A part is taken in blocks of 64 bytes; its last 64 bytes are one more block, for what is left over.
A block's value is the sum of eight products: of its sixteen little-endian words of 32 bits, each
plus a key of its own, the even ones times the odd ones. Blocks are folded into a state by an odd
factor, so their order counts. The parts are the head up to the body, and topic with properties.
"""

from __future__ import annotations

import struct
from operator import mul

from reput.formats.rocketmq.commitlog import PLACES, SYS_FLAG_AT, WIDE_HOSTS

BLOCK = 64
_WORDS = BLOCK // 4
_BLOCK = struct.Struct(f"<{_WORDS}I")
_MASK = (1 << 64) - 1
_WORD_MASK = (1 << 32) - 1
FOLD = 0x9E3779B97F4A7C15
MIX_1 = 0xFF51AFD7ED558CCD
MIX_2 = 0xC4CEB9FE1A85EC53
_LENGTH = 4


def _keys() -> tuple[int, ...]:
    """Return numbers without a pattern: a Weyl sequence, mixed."""
    keys = []
    state = FOLD
    for _ in range(_WORDS):
        state = (state + FOLD) & _MASK
        keys.append(((state ^ state >> 30) * MIX_1 & _MASK) >> 32)
    return tuple(keys)


KEYS = _keys()


def block_value(block: bytes) -> int:
    """Return the value of 64 bytes."""
    words: tuple[int, ...] = _BLOCK.unpack(block)
    keyed = [(word + key) & _WORD_MASK for word, key in zip(words, KEYS, strict=True)]
    return int(sum(map(mul, keyed[::2], keyed[1::2]))) & _MASK


def hash_of(record: bytes) -> int:
    """Return the hash of a record that is whole, as an unsigned 64-bit integer.

    Args:
        record: its bytes; what `frames.check` finds right.
    """
    flags = int.from_bytes(record[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    body_at = PLACES[flags & WIDE_HOSTS].body
    length = int.from_bytes(record[body_at - _LENGTH : body_at], "big")
    state = _continued(len(record), record, 0, body_at)
    state = _continued(state, record, body_at + length, len(record))
    state ^= state >> 32
    state = state * MIX_1 & _MASK
    state ^= state >> 29
    state = state * MIX_2 & _MASK
    return state ^ state >> 32


def _continued(state: int, data: bytes, at: int, end: int) -> int:
    for begin in [*range(at, end - BLOCK + 1, BLOCK), end - BLOCK]:
        state = (state * FOLD + block_value(data[begin : begin + BLOCK])) & _MASK
    return state
