"""Fixed-width integers in byte arrays, for kernels: big-endian loads and stores, prefetches.

numba refuses big-endian arrays, so kernels see raw bytes (uint8 arrays) and call these. Each
function is written twice: readable Python, which runs when numba's compiler is switched off
(`NUMBA_DISABLE_JIT=1`), and one machine instruction or two in compiled kernels. Compiled, no
bounds are checked: a kernel compares with its limits before it loads.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic, overload

from reput.formats.rocketmq.record_hash import BLOCK, KEYS, block_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Longs = NDArray[np.int64]

_POINTER = ir.IntType(8).as_pointer()
_I32 = ir.IntType(32)


def load_i16(data: Bytes, at: int) -> int:
    """Return the signed big-endian 16-bit integer at byte `at`."""
    return int.from_bytes(data[at : at + 2].tobytes(), "big", signed=True)


def load_i32(data: Bytes, at: int) -> int:
    """Return the signed big-endian 32-bit integer at byte `at`."""
    return int.from_bytes(data[at : at + 4].tobytes(), "big", signed=True)


def load_i64(data: Bytes, at: int) -> int:
    """Return the signed big-endian 64-bit integer at byte `at`."""
    return int.from_bytes(data[at : at + 8].tobytes(), "big", signed=True)


def load_u64_le(data: Bytes, at: int) -> np.uint64:
    """Return eight bytes as one word, first byte lowest: for comparing, not for meaning."""
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


def store_i16(data: Bytes, at: int, value: int) -> None:
    """Write the low 16 bits of `value`, big-endian, at byte `at`."""
    data[at : at + 2] = np.frombuffer(int(value & 0xFFFF).to_bytes(2, "big"), np.uint8)


def store_i32(data: Bytes, at: int, value: int) -> None:
    """Write the low 32 bits of `value`, big-endian, at byte `at`."""
    data[at : at + 4] = np.frombuffer((int(value) & 0xFFFFFFFF).to_bytes(4, "big"), np.uint8)


def store_i64(data: Bytes, at: int, value: int) -> None:
    """Write `value`, big-endian, at byte `at`."""
    data[at : at + 8] = np.frombuffer((int(value) & (1 << 64) - 1).to_bytes(8, "big"), np.uint8)


def store_i32_at(address: int, value: int) -> None:
    """Write the low 32 bits of `value`, big-endian, at a memory address."""
    ctypes.memmove(int(address), (int(value) & 0xFFFFFFFF).to_bytes(4, "big"), 4)


def store_i64_at(address: int, value: int) -> None:
    """Write `value`, big-endian, at a memory address."""
    ctypes.memmove(int(address), (int(value) & (1 << 64) - 1).to_bytes(8, "big"), 8)


def load_i32_at(address: int) -> int:
    """Return the signed big-endian 32-bit integer at a memory address."""
    return int.from_bytes(ctypes.string_at(int(address), 4), "big", signed=True)


def load_i64_at(address: int) -> int:
    """Return the signed big-endian 64-bit integer at a memory address."""
    return int.from_bytes(ctypes.string_at(int(address), 8), "big", signed=True)


def prefetch_at(address: int) -> None:
    """Prefetch the cache line at a memory address."""


def prefetch_write(data: Bytes, at: int) -> None:
    """Ask the processor for the cache line of byte `at`; changes nothing else."""


def trailing_zeros(word: np.uint64) -> int:
    """Return the number of zero bits below the lowest one of `word` (64 for zero)."""
    value = int(word)
    return (value & -value).bit_length() - 1 if value else 64


def match64(data: Bytes, at: int, byte: int) -> np.uint64:
    """Return a mask: bit *i* is set iff byte `at` + *i* equals `byte`; 64 bytes are read."""
    mask = 0
    for i, value in enumerate(data[at : at + 64].tolist()):
        mask |= (value == byte) << i
    return np.uint64(mask)


def negative64(data: Bytes, at: int) -> np.uint64:
    """Return a mask of the bytes above 0x7F among the 64 from `at`."""
    mask = 0
    for i, value in enumerate(data[at : at + 64].tolist()):
        mask |= (value >> 7) << i
    return np.uint64(mask)


def keyed_products(data: Bytes, at: int) -> np.uint64:
    """Return the value of the 64 bytes from `at`, see `formats.rocketmq.record_hash`."""
    return np.uint64(block_value(data[at : at + BLOCK].tobytes()))


def _loader(bits: int, result: Any, *, big_endian: bool) -> Any:
    @intrinsic
    def load(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            if big_endian:
                value = builder.bswap(value)
            wide = context.get_value_type(result)
            if wide.width > bits:
                value = builder.sext(value, wide) if result.signed else builder.zext(value, wide)
            return value

        return result(types.uint64), generate

    return load


def _storer(bits: int) -> Any:
    @intrinsic
    def store(_context: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = arguments[1]
            if value.type.width > bits:
                value = builder.trunc(value, ir.IntType(bits))
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            builder.store(builder.bswap(value), pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.int64), generate

    return store


@intrinsic
def _prefetch_write(_context: Any, _address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _I32, _I32, _I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [_POINTER], kind)
        write, keep, data_cache = (ir.Constant(_I32, v) for v in (1, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], _POINTER), write, keep, data_cache])
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@intrinsic
def _prefetch_read(_context: Any, _address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _I32, _I32, _I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [_POINTER], kind)
        read, keep, data_cache = (ir.Constant(_I32, v) for v in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], _POINTER), read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@intrinsic
def _trailing_zeros(_context: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


def _mask64(compare: Callable[[Any, Any, Any], Any]) -> Any:
    """Build an intrinsic that compares 64 bytes at once and returns the outcomes as bits."""
    vector = ir.VectorType(ir.IntType(8), 64)

    @intrinsic
    def mask(_context: Any, _address: Any, _byte: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], vector.as_pointer())
            outcome = compare(builder, builder.load(pointer, align=1), arguments[1])
            return builder.bitcast(outcome, ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return mask


def _equals(builder: Any, values: Any, byte: Any) -> Any:
    narrow = builder.trunc(byte, ir.IntType(8))
    undefined = ir.Constant(ir.VectorType(narrow.type, 64), ir.Undefined)
    one = builder.insert_element(undefined, narrow, ir.Constant(_I32, 0))
    lanes = ir.Constant(ir.VectorType(_I32, 64), [0] * 64)
    return builder.icmp_unsigned("==", values, builder.shuffle_vector(one, undefined, lanes))


def _is_negative(builder: Any, values: Any, _byte: Any) -> Any:
    return builder.icmp_signed("<", values, ir.Constant(values.type, [0] * 64))


@intrinsic
def _keyed_products(_context: Any, _address: Any) -> Any:
    words, wide = ir.VectorType(_I32, len(KEYS)), ir.VectorType(ir.IntType(64), len(KEYS) // 2)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], words.as_pointer())
        keyed = builder.add(builder.load(pointer, align=1), ir.Constant(words, list(KEYS)))
        none = ir.Constant(words, ir.Undefined)
        halves = []
        for first in (0, 1):
            lanes = ir.Constant(
                ir.VectorType(_I32, len(KEYS) // 2), list(range(first, len(KEYS), 2))
            )
            halves.append(builder.zext(builder.shuffle_vector(keyed, none, lanes), wide))
        products = builder.mul(*halves)
        kind = ir.FunctionType(ir.IntType(64), [wide])
        insert: Any = get_or_insert_function
        add_up = insert(builder.module, kind, "llvm.vector.reduce.add.v8i64")
        return builder.call(add_up, [products])

    return types.uint64(types.uint64), generate


_load_i16 = _loader(16, types.int64, big_endian=True)
_load_i32 = _loader(32, types.int64, big_endian=True)
_load_i64 = _loader(64, types.int64, big_endian=True)
_load_u64_le = _loader(64, types.uint64, big_endian=False)
_store_i16 = _storer(16)
_store_i32 = _storer(32)
_store_i64 = _storer(64)
_match64 = _mask64(_equals)
_negative64 = _mask64(_is_negative)


def _compile_as(function: Any, implementation: Any) -> None:
    """Make compiled kernels call `implementation` where they say `function`.

    numba wants the typing function to have the very parameters of the implementation, so it is
    the lambda itself that is handed on; `inline` keeps a call as cheap as its instruction.
    """
    overload(function, inline="always")(implementation)


_compile_as(load_i16, lambda data, at: lambda data, at: _load_i16(np.uint64(data.ctypes.data + at)))
_compile_as(load_i32, lambda data, at: lambda data, at: _load_i32(np.uint64(data.ctypes.data + at)))
_compile_as(load_i64, lambda data, at: lambda data, at: _load_i64(np.uint64(data.ctypes.data + at)))
_compile_as(
    load_u64_le, lambda data, at: lambda data, at: _load_u64_le(np.uint64(data.ctypes.data + at))
)
_compile_as(
    store_i16,
    lambda data, at, value: (
        lambda data, at, value: _store_i16(np.uint64(data.ctypes.data + at), np.int64(value))
    ),
)
_compile_as(
    store_i32,
    lambda data, at, value: (
        lambda data, at, value: _store_i32(np.uint64(data.ctypes.data + at), np.int64(value))
    ),
)
_compile_as(
    store_i64,
    lambda data, at, value: (
        lambda data, at, value: _store_i64(np.uint64(data.ctypes.data + at), np.int64(value))
    ),
)
_compile_as(
    store_i32_at,
    lambda address, value: lambda address, value: _store_i32(np.uint64(address), np.int64(value)),
)
_compile_as(
    store_i64_at,
    lambda address, value: lambda address, value: _store_i64(np.uint64(address), np.int64(value)),
)
_compile_as(load_i32_at, lambda address: lambda address: _load_i32(np.uint64(address)))
_compile_as(load_i64_at, lambda address: lambda address: _load_i64(np.uint64(address)))
_compile_as(
    prefetch_at,
    lambda address: lambda address: _prefetch_read(np.uint64(address)),  # type: ignore[call-arg]
)
_compile_as(
    prefetch_write,
    lambda data, at: lambda data, at: _prefetch_write(np.uint64(data.ctypes.data + at)),  # type: ignore[call-arg]
)
_compile_as(
    keyed_products,
    lambda data, at: lambda data, at: _keyed_products(np.uint64(data.ctypes.data + at)),  # type: ignore[call-arg]
)
_compile_as(trailing_zeros, lambda word: lambda word: _trailing_zeros(np.uint64(word)))  # type: ignore[call-arg]
_compile_as(
    match64,
    lambda data, at, byte: (
        lambda data, at, byte: _match64(np.uint64(data.ctypes.data + at), np.uint64(byte))
    ),
)
_compile_as(
    negative64,
    lambda data, at: lambda data, at: _negative64(np.uint64(data.ctypes.data + at), np.uint64(0)),
)
