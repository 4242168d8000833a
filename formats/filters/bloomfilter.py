"""The bloom filter by which a consume queue entry's bit map names the consumers that match.

A consumer group of a topic owns `hashes` bits out of `bits`, found by hashing `group#topic`; the
bit map of a message has the bits of every group whose filter matches. Bit p is byte p // 8, of
that byte the bit of value 1 << p % 8: the bit map is one little-endian integer.

The size follows from the share of false hits f (in percent, `maxErrorRateOfBloomFilter`, 20) and
the number of groups expected (`expectConsumerNumUseFilter`, 32): 3 hashes over 112 bits.

Source: RocketMQ `BloomFilter`, `BitsArray`; the hash is the low half of MurmurHash3 x64 128.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ERROR_RATE = 20
EXPECTED_GROUPS = 32

_MASK64 = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter's size: `hashes` bits of `bits` (a multiple of 8) for each group."""

    hashes: int
    bits: int

    @classmethod
    def sized(
        cls, error_rate: int = ERROR_RATE, expected_groups: int = EXPECTED_GROUPS
    ) -> BloomFilter:
        """Return the filter that a broker with these settings makes (`createByFn`).

        Args:
            error_rate: `maxErrorRateOfBloomFilter`, percent, 1 to 99.
            expected_groups: `expectConsumerNumUseFilter`, at least 1.

        Raises:
            ValueError: a setting beyond its range, with which the broker does not start.
        """
        if not 1 <= error_rate < 100:
            raise ValueError(f"maxErrorRateOfBloomFilter {error_rate} is not from 1 to 99")
        if expected_groups < 1:
            raise ValueError(f"expectConsumerNumUseFilter {expected_groups} is below 1")
        rate = error_rate / 100.0
        hashes = math.ceil(_log(0.5, rate))
        # Java's order of operations: another one may round to another number of bits.
        bits = math.ceil(expected_groups * _log(2, 1 / rate) * _log(2, math.e))
        return cls(hashes, 8 * math.ceil(bits / 8.0))

    def positions(self, group: str, topic: str) -> tuple[int, ...]:
        """Return the bits of a consumer group that subscribes to a topic, repeats included."""
        low = murmur3(f"{group}#{topic}".encode("utf-8", "replace"))
        positions = []
        for i in range(1, self.hashes + 1):
            # 32-bit arithmetic that wraps around; of a negative sum the complement.
            combined = (low + i * (low >> 32)) & 0xFFFFFFFF
            if combined >= 1 << 31:
                combined ^= 0xFFFFFFFF
            positions.append(combined % self.bits)
        return tuple(positions)

    def bitmap(self, *groups: tuple[int, ...]) -> bytes:
        """Return the bit map with the positions of these groups; all zero for none."""
        bits = 0
        for positions in groups:
            bits |= mask(positions)
        return bits.to_bytes(self.bits // 8, "little")


def mask(positions: tuple[int, ...]) -> int:
    """Return the integer with these bits set."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def _log(base: float, x: float) -> float:
    return math.log(x) / math.log(base)


def murmur3(data: bytes) -> int:
    """Return the low 64 bits of MurmurHash3 x64 128 with seed 0, unsigned."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        h1 ^= _scramble1(int.from_bytes(data[at : at + 8], "little"))
        h1 = (_rotate(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK64
        h2 ^= _scramble2(int.from_bytes(data[at + 8 : at + 16], "little"))
        h2 = (_rotate(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK64
    h1 ^= _scramble1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _scramble2(int.from_bytes(data[whole + 8 :], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK64
    h2 = (h2 + h1) & _MASK64
    return (_finish(h1) + _finish(h2)) & _MASK64


def _rotate(x: int, count: int) -> int:
    return (x << count | x >> (64 - count)) & _MASK64


def _scramble1(k: int) -> int:
    return _rotate(k * _C1 & _MASK64, 31) * _C2 & _MASK64


def _scramble2(k: int) -> int:
    return _rotate(k * _C2 & _MASK64, 33) * _C1 & _MASK64


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK64
    return h ^ h >> 33
