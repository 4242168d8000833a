"""CRC-32 as java.util.zip.CRC32 has it: zlib is the slow twin of every path."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from reput.formats.kernels import crc
from tests.builders.hypotheses import COMPILED, examples, padded


@njit
def _compiled(data, at, length):
    return crc.crc32(data, at, length)


def _by_tables(data, at, length):
    state = crc._by_tables(np.uint32(0xFFFFFFFF), data, at, length)
    return int(np.uint32(~np.uint32(state)))


PATHS = {"as kernels call it": _compiled, "tables": _by_tables, "readable": crc.crc32}
LENGTHS = range(301) if COMPILED else [*range(20), 63, 64, 65, 300]


@pytest.mark.parametrize("path", PATHS)
def test_every_length_at_every_small_alignment(path):
    """
    Blocks of 64, of 16, of 8 and single bytes take different ways; each edge between them counts.
    """
    raw = np.random.default_rng(1).integers(0, 256, 320, np.uint8)

    for length in LENGTHS:
        at = length % 17
        assert PATHS[path](raw, at, length) == zlib.crc32(raw[at : at + length].tobytes()), length


@pytest.mark.parametrize("path", PATHS)
@examples(150, 10)
@given(raw=st.binary(max_size=2000), before=st.integers(0, 40))
def test_random_bytes(path, raw, before):
    assert PATHS[path](padded(raw, before, 0), before, len(raw)) == zlib.crc32(raw)


@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x80])
def test_long_runs_of_one_byte(byte):
    """
    Folding multiplies; zeros and ones are where a wrong constant would hide.
    """
    for length in (16, 64, 127, 128, 4096 if COMPILED else 200):
        raw = np.full(length, byte, np.uint8)
        assert _compiled(raw, 0, length) == zlib.crc32(raw.tobytes())
        assert _by_tables(raw, 0, length) == zlib.crc32(raw.tobytes())


def test_the_check_value_of_the_standard():
    assert crc.crc32(np.frombuffer(b"123456789", np.uint8), 0, 9) == 0xCBF43926
