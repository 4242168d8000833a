"""Texts as slices of the bytes that hold them, and as Arrow holds them: laid end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.formats.kernels.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class Slices(NamedTuple):
    """Pieces of a byte array: where each begins, and its length (0 for what is not there)."""

    at: NDArray[np.int64]
    length: NDArray[np.int32]

    @classmethod
    def of(cls, count: int) -> Slices:
        """Return room for `count` slices."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int32))


@kernel
def is_utf8(data: Bytes, at: int, length: int) -> bool:
    """Tell whether bytes are UTF-8: shortest forms, no surrogates, nothing above U+10FFFF."""
    end = at + length
    while at < end:
        first = data[at]
        at += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 + (first >= 0xE0) + (first >= 0xF0)
        if at + more > end:
            return False
        second = data[at]
        if (
            (first == 0xE0 and second < 0xA0)
            or (first == 0xED and second >= 0xA0)
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second >= 0x90)
        ):
            return False
        for i in range(at, at + more):
            if data[i] & 0xC0 != 0x80:
                return False
        at += more
    return True


@kernel
def gather(data: Bytes, slices: Slices, ends: NDArray[np.int32], out: Bytes) -> None:
    """Lay slices end to end.

    Args:
        data: what they are slices of.
        slices: one or more.
        ends: where each one ends in `out`.
        out: written; exactly as long as they are together.
    """
    for i in range(len(ends)):
        length = slices.length[i]
        source = slices.at[i]
        target = ends[i] - length
        for k in range(length):
            out[target + k] = data[source + k]


@kernel
def write_message_ids(
    data: Bytes, hosts: Slices, offsets: NDArray[np.int64], ends: NDArray[np.int32], out: Bytes
) -> None:
    """Write the offset message ids, end to end: host, port and physical offset in hex.

    Args:
        data: what holds the hosts.
        hosts: store hosts, by record.
        offsets: physical offsets, by record.
        ends: where each id ends in `out`: ids have 32 characters, or 56 with an IPv6 host.
        out: written.
    """
    for row in range(len(ends)):
        length = hosts.length[row]
        at = ends[row] - 2 * (length + 8)
        for i in range(length):
            byte = data[hosts.at[row] + i]
            out[at] = _HEX[byte >> 4]
            out[at + 1] = _HEX[byte & 15]
            at += 2
        for shift in range(60, -1, -4):
            out[at] = _HEX[(offsets[row] >> shift) & 15]
            at += 1
