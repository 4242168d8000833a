"""Random bodies, whole and damaged, decompressed by RocketMQ's MessageDecoder and by us.

python tests/oracle/bodies.py --version 5.5.0 --bodies 5000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import lz4.frame
import zstandard

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from reput.formats.rocketmq.bodies import Compression, decompressed  # noqa: E402
from tests.oracle import oracle  # noqa: E402

_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_REFUSED, _NO_BODY = -1, -2
_KINDS = (0x001, 0x101, 0x201, 0x301)


def _text(pick: random.Random) -> bytes:
    size = pick.choice((0, 1, 3, 20, 300, 5_000, 70_000, 200_000, 400_000))
    if pick.random() < 0.4:
        return pick.randbytes(size)
    return (pick.randbytes(pick.randint(1, 40)) * (size + 1))[:size]


def _skippable(pick: random.Random) -> bytes:
    data = pick.randbytes(pick.choice((0, 1, 9, 1000, 140_000)))
    return struct.pack("<II", 0x184D2A50 + pick.randrange(16), len(data)) + data


def _zstd(pick: random.Random) -> bytes:
    if pick.random() < 0.3:
        return _skippable(pick)
    maker = zstandard.ZstdCompressor(
        level=pick.choice((-5, 1, 3, 19)),
        write_checksum=pick.random() < 0.5,
        write_content_size=pick.random() < 0.5,
    )
    return maker.compress(_text(pick))


def _lz4(pick: random.Random) -> bytes:
    if pick.random() < 0.3:
        return _skippable(pick)
    return lz4.frame.compress(
        _text(pick),
        compression_level=pick.choice((0, 9)),
        block_size=pick.choice((0, 4, 5, 6, 7)),
        block_linked=pick.random() < 0.1,
        content_checksum=pick.random() < 0.5,
        block_checksum=pick.random() < 0.5,
        store_size=pick.random() < 0.5,
    )


def _zlib(pick: random.Random) -> bytes:
    if pick.random() < 0.1:
        maker = zlib.compressobj(zdict=b"a dictionary")
        return maker.compress(_text(pick)) + maker.flush()
    return zlib.compress(_text(pick), pick.choice((0, 1, 6, 9)))


def _damaged(stored: bytes, pick: random.Random) -> bytes:
    way = pick.randrange(5)
    if way == 0 or not stored:
        return stored + pick.randbytes(pick.randint(1, 12))
    if way == 1:
        return stored[: pick.randrange(len(stored))]
    if way == 2:
        return stored[: -pick.randint(1, 12)]
    at = pick.randrange(min(len(stored), pick.choice((8, 64, len(stored)))))
    return stored[:at] + bytes([stored[at] ^ 1 << pick.randrange(8)]) + stored[at + 1 :]


class Stored(NamedTuple):
    """A body as it is stored."""

    flag: int
    body: bytes
    is_damaged: bool


def make(seed: int, count: int) -> list[Stored]:
    """Return stored bodies; the same ones for the same seed."""
    pick = random.Random(seed)
    found = []
    for _ in range(count):
        kind = pick.choice(_KINDS)
        make_frame = {0x101: _lz4, 0x201: _zstd}.get(kind, _zlib)
        frames = pick.choice((1, 1, 1, 2, 3, 8))
        stored = b"".join(make_frame(pick) for _ in range(frames))
        is_damaged = pick.random() < 0.4
        if is_damaged:
            stored = _damaged(stored, pick)
        if pick.random() < 0.03:
            kind = pick.choice((0x000, 0x100, 0x401, 0x501, 0x701))
        found.append(Stored(kind, stored, is_damaged))
    return found


def broker_bodies(version: str, bodies: list[Stored]) -> list[bytes | None]:
    """Return what MessageDecoder makes of them, None for a message that it refuses."""
    with tempfile.TemporaryDirectory() as place:
        asked, answered = Path(place, "asked"), Path(place, "answered")
        with asked.open("wb") as file:
            for flag, stored, _ in bodies:
                file.write(_HEAD.pack(flag, len(stored)) + stored)
        oracle.run(version, "Bodies", asked, answered, timeout=300)
        data = answered.read_bytes()
    found: list[bytes | None] = []
    at = 0
    for _ in bodies:
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length < 0:
            found.append(None if length == _REFUSED else b"")
            continue
        found.append(data[at : at + length])
        at += length
    return found


def judge(stored: Stored, broker: bytes | None) -> str:
    """Return how our answer stands to the broker's; a name that begins with "WRONG" is a fault."""
    ours = decompressed(stored.body, stored.flag)
    as_stored = ours.problem is not None and ours.problem.startswith("not decompressed")
    if as_stored and ours.data != stored.body:
        return "WRONG: not as stored"
    marked = ", ours as stored" if as_stored else ", ours cut" if ours.problem else ""
    if broker is None and not marked and ours.compression != Compression.LZ4:
        return "WRONG: not marked"
    if broker is None:
        # The whole ones are LZ4 of linked blocks.
        return f"refused{marked or ', ours whole'}"
    if ours.data == broker:
        return f"the same{marked}"
    # Newer libraries refuse damage that the broker's let pass.
    return f"damaged{marked}" if stored.is_damaged and marked else "WRONG: other bytes"


def main() -> int:
    """Compare, print how many answers there were of each kind; return 1 for a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="5.5.0", choices=oracle.VERSIONS)
    parser.add_argument("--bodies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    oracle.build(given.version)
    bodies = make(given.seed, given.bodies)
    answers = broker_bodies(given.version, bodies)
    counts: Counter[str] = Counter()
    for number, (stored, answer) in enumerate(zip(bodies, answers, strict=True)):
        verdict = judge(stored, answer)
        counts[f"0x{stored.flag:03x} {verdict}"] += 1
        if verdict.startswith("WRONG"):
            print(f"body {number}, flag 0x{stored.flag:x}, {len(stored.body)} bytes: {verdict}")
    for name, times in sorted(counts.items()):
        print(f"{name}: {times}")
    wrong = sum(times for name, times in counts.items() if "WRONG" in name)
    print(f"{given.version}: {len(bodies)} bodies: {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
