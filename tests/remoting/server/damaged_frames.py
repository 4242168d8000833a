"""Streams of damaged frames, drawn from a seed: what a connection of `damage` sends.

Each begins with captured frames of real clients and tools, whole or damaged in a way that keeps
their length true, and ends, in most cases, with something after which nothing can be read.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from reput.remoting.wire.errors import FrameError
from reput.remoting.wire.frames import MAX_FRAME_LENGTH, FrameDecoder
from tests.remoting.wire.captured import NAMES, captured

if TYPE_CHECKING:
    from collections.abc import Callable

_INT = struct.Struct(">i")
_MOST_FRAMES = 24
# One stream of this many has a frame as large as a peer may send, or larger.
_LARGE_EVERY = 1000
_HELLO = bytes.fromhex("16030102000100")


def _flipped(frame: bytes, pick: random.Random) -> bytes:
    """Flip bits after the length, so that what follows is still read."""
    changed = bytearray(frame)
    for _ in range(pick.randint(1, 4)):
        at = pick.randrange(4, len(frame))
        changed[at] ^= 1 << pick.randrange(8)
    return bytes(changed)


def _cut(frame: bytes, pick: random.Random) -> bytes:
    kept = frame[4 : pick.randint(4, len(frame) - 1)]
    return _INT.pack(len(kept)) + kept


def _header_length(frame: bytes, pick: random.Random) -> bytes:
    return frame[:5] + pick.randbytes(3) + frame[8:]


def _codec(frame: bytes, pick: random.Random) -> bytes:
    return frame[:4] + pick.randbytes(1) + frame[5:]


def _random(frame: bytes, pick: random.Random) -> bytes:
    return frame[:4] + pick.randbytes(len(frame) - 4)


def _spliced(frame: bytes, pick: random.Random) -> bytes:
    """Move a part of the frame to another place in it."""
    size = pick.randint(1, min(64, len(frame) - 8))
    source, target = (pick.randint(8, len(frame) - size) for _ in range(2))
    return frame[:target] + frame[source : source + size] + frame[target + size :]


def _digits(frame: bytes, pick: random.Random) -> bytes:
    """Put other digits in the place of some: the frame can be read, and says something else."""
    changed = bytearray(frame)
    places = [at for at in range(8, len(frame)) if frame[at : at + 1].isdigit()]
    for at in pick.sample(places, min(len(places), pick.randint(1, 4))):
        changed[at] = pick.choice(b"0123456789-")
    return bytes(changed)


_DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_digits,) * 30,
    *(_flipped, _flipped, _flipped, _spliced, _spliced),
    *(_cut, _header_length, _codec, _random),
)


def _wrong_length(frame: bytes, pick: random.Random) -> bytes:
    return pick.randbytes(4) + frame[4:]


def _unfinished(frame: bytes, pick: random.Random) -> bytes:
    return frame[: pick.randint(1, len(frame) - 1)]


def _tls(_frame: bytes, pick: random.Random) -> bytes:
    return _HELLO + pick.randbytes(pick.randint(0, 600))


def _noise(_frame: bytes, pick: random.Random) -> bytes:
    return pick.randbytes(pick.randint(1, 600))


_ENDS = (_wrong_length, _unfinished, _tls, _noise)


def _large(frame: bytes, pick: random.Random) -> bytes:
    """Return a frame with a body up to the limit, or a byte past it."""
    body = bytes(MAX_FRAME_LENGTH - len(frame) + pick.choice((0, 0, 1)))
    return _INT.pack(len(frame) + len(body) - 4) + frame[4:] + body


class Streams:
    """Draws streams; the same ones for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._pick = random.Random(seed)
        every = [each for name in NAMES for each in captured(name)]
        self._frames = [each.bytes_by() for each in every]

    def draw(self) -> tuple[bytes, int]:
        """Return what to send, and how many damaged frames of it a server reads."""
        pick = self._pick
        pieces, damaged = [], []
        for _ in range(pick.randint(1, _MOST_FRAMES)):
            frame = pick.choice(self._frames)
            is_damaged = pick.random() < 0.9
            pieces.append(pick.choice(_DAMAGES)(frame, pick) if is_damaged else frame)
            damaged.append(is_damaged)
        last = _large if pick.randrange(_LARGE_EVERY) == 0 else pick.choice(_ENDS)
        pieces.append(last(pick.choice(self._frames), pick))
        damaged.append(True)
        return b"".join(pieces), sum(damaged[: _read(pieces)])


def _read(pieces: list[bytes]) -> int:
    """Return how many of these a server reads, the one that breaks the stream included."""
    decoder = FrameDecoder()
    for count, piece in enumerate(pieces, 1):
        try:
            for _ in decoder.feed(piece):
                pass
        except FrameError:
            return count
    return len(pieces)
