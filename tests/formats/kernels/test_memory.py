"""Loads, stores and masks: what kernels make of raw bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from reput.formats.kernels import memory
from tests.builders.hypotheses import COMPILED, examples, padded


def _loading(load):
    return njit(lambda data, at: load(data, at))  # noqa: PLW0108 - compiled, it is another one


def _loading_at(load):
    return njit(lambda address: load(address))  # noqa: PLW0108


def _storing(store):
    return njit(lambda data, at, value: store(data, at, value))  # noqa: PLW0108


def _storing_at(store):
    return njit(lambda address, value: store(address, value))  # noqa: PLW0108


LOADS = {
    "load_i16": (memory.load_i16, _loading(memory.load_i16), 2),
    "load_i32": (memory.load_i32, _loading(memory.load_i32), 4),
    "load_i64": (memory.load_i64, _loading(memory.load_i64), 8),
}
LOADS_AT = {
    "load_i32_at": (memory.load_i32_at, _loading_at(memory.load_i32_at), 4),
    "load_i64_at": (memory.load_i64_at, _loading_at(memory.load_i64_at), 8),
}
STORES = {
    "store_i16": (memory.store_i16, _storing(memory.store_i16), 2),
    "store_i32": (memory.store_i32, _storing(memory.store_i32), 4),
    "store_i64": (memory.store_i64, _storing(memory.store_i64), 8),
}
STORES_AT = {
    "store_i32_at": (memory.store_i32_at, _storing_at(memory.store_i32_at), 4),
    "store_i64_at": (memory.store_i64_at, _storing_at(memory.store_i64_at), 8),
}
longs = st.integers(-(1 << 63), (1 << 63) - 1)
vectors = st.binary(min_size=64, max_size=64)


@njit
def _load_u64_le(data, at):
    return memory.load_u64_le(data, at)


@njit
def _match64(data, at, byte):
    return memory.match64(data, at, byte)


@njit
def _negative64(data, at):
    return memory.negative64(data, at)


@njit
def _trailing_zeros(word):
    return memory.trailing_zeros(word)


@njit
def _prefetch(data, at):
    memory.prefetch_write(data, at)


@pytest.mark.parametrize("name", LOADS)
@examples(100)
@given(raw=st.binary(min_size=24, max_size=24), at=st.integers(0, 16))
def test_a_load_is_a_signed_big_endian_integer_at_any_alignment(name, raw, at):
    plain, compiled, size = LOADS[name]
    data = np.frombuffer(raw, np.uint8)
    expected = int.from_bytes(raw[at : at + size], "big", signed=True)

    assert plain(data, at) == expected
    assert compiled(data, at) == expected


@pytest.mark.parametrize("name", LOADS_AT)
@examples(100)
@given(raw=st.binary(min_size=24, max_size=24), at=st.integers(0, 16))
def test_a_load_by_address_is_the_same(name, raw, at):
    plain, compiled, size = LOADS_AT[name]
    data = np.frombuffer(raw, np.uint8).copy()
    memory.prefetch_at(data.ctypes.data + at)
    expected = int.from_bytes(raw[at : at + size], "big", signed=True)

    assert plain(data.ctypes.data + at) == expected
    assert compiled(data.ctypes.data + at) == expected


@examples(100)
@given(raw=st.binary(min_size=24, max_size=24), at=st.integers(0, 16))
def test_a_word_for_comparing_has_its_first_byte_lowest(raw, at):
    data = np.frombuffer(raw, np.uint8)
    expected = int.from_bytes(raw[at : at + 8], "little")

    assert int(memory.load_u64_le(data, at)) == expected
    assert int(_load_u64_le(data, at)) == expected


@pytest.mark.parametrize("name", STORES)
@examples(100)
@given(value=longs, at=st.integers(0, 16))
def test_a_store_writes_the_low_bytes_big_endian_and_no_others(name, value, at):
    plain, compiled, size = STORES[name]
    expected = bytearray(b"\xaa" * 24)
    expected[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")

    for store in (plain, compiled):
        data = np.full(24, 0xAA, np.uint8)
        store(data, at, value)
        assert data.tobytes() == expected


@pytest.mark.parametrize("name", STORES_AT)
@examples(100)
@given(value=longs, at=st.integers(0, 16))
def test_a_store_at_an_address_is_a_store_at_its_byte(name, value, at):
    plain, compiled, size = STORES_AT[name]
    expected = bytearray(b"\xaa" * 24)
    expected[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")

    for store in (plain, compiled):
        data = np.full(24, 0xAA, np.uint8)
        store(np.int64(data.ctypes.data + at), np.int64(value))
        assert data.tobytes() == expected


@examples(200)
@given(raw=vectors, byte=st.integers(0, 255), at=st.integers(0, 65))
def test_masks_have_one_bit_a_byte_lowest_first(raw, byte, at):
    raw = bytes(byte if value % 7 == 0 else value for value in raw)
    data = padded(raw, before=at, behind=0)
    equal = sum((value == byte) << i for i, value in enumerate(raw))
    negative = sum((value >= 0x80) << i for i, value in enumerate(raw))

    for match, above in ((memory.match64, memory.negative64), (_match64, _negative64)):
        assert int(match(data, at, byte)) == equal
        assert int(above(data, at)) == negative


@pytest.mark.parametrize("bit", range(65))
def test_trailing_zeros_of_every_word_with_one_bit(bit):
    """
    Of no bit at all there are 64.
    """
    word = np.uint64((1 << bit) & (1 << 64) - 1)

    assert memory.trailing_zeros(word) == bit
    assert _trailing_zeros(word) == bit
    assert memory.trailing_zeros(word | np.uint64(1 << 63)) == min(bit, 63)


def test_a_prefetch_changes_nothing():
    data = np.arange(64, dtype=np.uint8)

    memory.prefetch_write(data, 5)
    _prefetch(data, 1 << 20)  # beyond the array: still only a hint

    assert data.tolist() == list(range(64))


def test_these_tests_compare_two_implementations():
    """
    With the compiler switched off they would compare one with itself; CI runs both ways.
    """
    assert hasattr(_match64, "py_func") == COMPILED
