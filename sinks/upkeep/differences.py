"""Where two files of an output and of its rebuild differ, and whether they share anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from reput.checkpoints.disk import changes as disk
from reput.formats.rocketmq.consumequeue import ENTRY_SIZE, PRE_BLANK
from reput.formats.rocketmq.indexfile import HEADER_SIZE

if TYPE_CHECKING:
    from pathlib import Path

_PIECE = 1 << 20


def is_same(a: Path, b: Path) -> bool:
    """Tell whether two index files are equal; most that differ do so in the header."""
    if a.stat().st_size != b.stat().st_size:
        return False
    with a.open("rb") as first, b.open("rb") as second:
        if first.read(HEADER_SIZE) != second.read(HEADER_SIZE):
            return False
    return first_difference(a, b) is None


def is_alike(target: Path, source: Path) -> bool:
    """Tell whether an entry of a file, neither zeros nor fill, is what it should be."""
    with target.open("rb") as first, source.open("rb") as second:
        while (a := first.read(_PIECE)) and (b := second.read(_PIECE)):
            least = min(len(a), len(b)) // ENTRY_SIZE * ENTRY_SIZE
            x = np.frombuffer(a[:least], np.uint8).reshape(-1, ENTRY_SIZE)
            y = np.frombuffer(b[:least], np.uint8).reshape(-1, ENTRY_SIZE)
            fill = np.frombuffer(PRE_BLANK, np.uint8)
            is_used = (x != 0).any(axis=1) & (x != fill).any(axis=1)
            if bool((is_used & (x == y).all(axis=1)).any()):
                return True
    return False


def first_difference(a: Path, b: Path) -> int | None:
    """Return the first byte in which two files of one size differ, None if they are equal.

    Raises:
        OSError: the device failed.
    """
    with a.open("rb") as first, b.open("rb") as second:
        size = os.fstat(first.fileno()).st_size
        at = 0
        while at < size:
            at = min(
                disk.next_data(first.fileno(), at, size), disk.next_data(second.fileno(), at, size)
            )
            x = os.pread(first.fileno(), _PIECE, at)
            y = os.pread(second.fileno(), _PIECE, at)
            if x != y:
                least = min(len(x), len(y))
                u, v = np.frombuffer(x[:least], np.uint8), np.frombuffer(y[:least], np.uint8)
                return at + (int(np.argmax(u != v)) if (u != v).any() else least)
            at += max(len(x), 1)
    return None
