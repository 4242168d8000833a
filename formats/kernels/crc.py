"""CRC-32 as `java.util.zip.CRC32` has it, for kernels: the body checksum of a record.

The slow twin is `zlib.crc32`. Compiled on x86-64 with carry-less multiplication, whole blocks of
16 bytes are folded (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
PCLMULQDQ Instruction", Intel 2009: the constants are x**n mod P for the distances folded over);
what is left, and everything elsewhere, goes through eight tables of 256 words.
"""

from __future__ import annotations

import platform
import zlib
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from reput.formats.kernels.compiled import kernel
from reput.formats.kernels.memory import load_u64_le

if TYPE_CHECKING:
    from reput.formats.kernels.memory import Bytes

_POLYNOMIAL = 0xEDB88320
_BLOCK = 16
_LANES = 4

_I8, _I32, _I64, _I128 = (ir.IntType(bits) for bits in (8, 32, 64, 128))
_PAIR = ir.VectorType(_I64, 2)
_FOLD_64 = (0x0154442BD4, 0x01C6E41596)
_FOLD_16 = (0x01751997D0, 0x00CCAA009E)
_FOLD_8 = (0x0163CD6124, 0)
_BARRETT = (0x01DB710641, 0x01F7011641)


def _tables() -> Any:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
        tables[0, byte] = state
    for i in range(1, 8):
        for byte in range(256):
            before = int(tables[i - 1, byte])
            tables[i, byte] = int(tables[0, before & 255]) ^ (before >> 8)
    return tables


_TABLES = _tables()


def _has_carryless_multiply() -> bool:
    if platform.machine() not in {"x86_64", "AMD64"}:
        return False
    return bool(llvm.get_host_cpu_features().get("pclmul", False))


HARDWARE = _has_carryless_multiply()


def _pair(low: int, high: int) -> ir.Constant:
    return ir.Constant(_PAIR, [low, high])


class _Fold:
    """Emits the folding function into a module; one method a step, in the order they run."""

    def __init__(self, module: ir.Module) -> None:
        self.multiply_in = module.declare_intrinsic(
            "llvm.x86.pclmulqdq", (), ir.FunctionType(_PAIR, [_PAIR, _PAIR, _I8])
        )
        self.function = ir.Function(module, ir.FunctionType(_I32, [_I64, _I64]), "reput_crc32_fold")
        self.function.linkage = "linkonce_odr"
        self.function.attributes.add("noinline")
        self.emit()

    def multiply(self, b: ir.IRBuilder, x: Any, y: Any, halves: int) -> Any:
        """Carry-less product of one half of x and one of y (0x10: low of x, high of y)."""
        return b.call(self.multiply_in, [x, y, ir.Constant(_I8, halves)])

    def fold(self, b: ir.IRBuilder, state: Any, by: tuple[int, int], following: Any) -> Any:
        low = self.multiply(b, state, _pair(*by), 0x00)
        high = self.multiply(b, state, _pair(*by), 0x11)
        return b.xor(b.xor(high, low), following)

    @staticmethod
    def load(b: ir.IRBuilder, address: Any, offset: int) -> Any:
        at = b.add(address, ir.Constant(_I64, offset))
        return b.load(b.inttoptr(at, _PAIR.as_pointer()), align=1)

    def emit(self) -> None:
        """Emit four lanes of 16 bytes while 64 remain, then one lane, then down to 32 bits."""
        address, length = self.function.args
        blocks = [self.function.append_basic_block(n) for n in ("start", "wide", "narrow", "end")]
        start, wide, narrow, end = blocks
        b = ir.IRBuilder(start)
        first = b.xor(self.load(b, address, 0), _pair(0xFFFFFFFF, 0))
        is_wide = b.icmp_signed(">=", length, ir.Constant(_I64, _LANES * _BLOCK))
        # Below 64 bytes the other three lanes do not exist: their loads must not happen.
        setup = self.function.append_basic_block("setup")
        b.cbranch(is_wide, setup, narrow)
        joined = self.emit_wide(setup, wide, narrow, first)
        state = self.emit_narrow(narrow, end, (first, ir.Constant(_I64, _BLOCK), start), joined)
        self.reduce(ir.IRBuilder(end), state)

    def emit_wide(self, setup: Any, wide: Any, narrow: Any, first: Any) -> tuple[Any, Any, Any]:
        """Emit the four lanes, and how they are joined; return state, bytes done and block."""
        address, length = self.function.args
        lane_width = ir.Constant(_I64, _LANES * _BLOCK)
        b = ir.IRBuilder(setup)
        lanes = [first, *(self.load(b, address, _BLOCK * i) for i in range(1, _LANES))]
        b.branch(wide)

        b = ir.IRBuilder(wide)
        states = [b.phi(_PAIR) for _ in range(_LANES)]
        done = b.phi(_I64)
        more = b.icmp_signed("<=", b.add(done, lane_width), length)
        step = self.function.append_basic_block("step")
        join = self.function.append_basic_block("join")
        b.cbranch(more, step, join)

        b = ir.IRBuilder(step)
        at = b.add(address, done)
        folded = [
            self.fold(b, s, _FOLD_64, self.load(b, at, _BLOCK * i)) for i, s in enumerate(states)
        ]
        done_after = b.add(done, lane_width)
        b.branch(wide)
        for state, lane, following in zip(states, lanes, folded, strict=True):
            state.add_incoming(lane, setup)
            state.add_incoming(following, step)
        done.add_incoming(lane_width, setup)
        done.add_incoming(done_after, step)

        b = ir.IRBuilder(join)
        joined: Any = states[0]
        for state in states[1:]:
            joined = self.fold(b, joined, _FOLD_16, state)
        b.branch(narrow)
        return joined, done, join

    def emit_narrow(self, narrow: Any, end: Any, *origins: tuple[Any, Any, Any]) -> Any:
        """Emit one lane; `origins` are state, bytes done and block of where it is entered from."""
        address, length = self.function.args
        b = ir.IRBuilder(narrow)
        state = b.phi(_PAIR)
        done = b.phi(_I64)
        one = self.function.append_basic_block("one")
        b.cbranch(b.icmp_signed("<", done, length), one, end)
        b = ir.IRBuilder(one)
        following = self.fold(b, state, _FOLD_16, self.load(b, b.add(address, done), 0))
        after = b.add(done, ir.Constant(_I64, _BLOCK))
        b.branch(narrow)
        for value, count, origin in (*origins, (following, after, one)):
            state.add_incoming(value, origin)
            done.add_incoming(count, origin)
        return state

    def reduce(self, b: ir.IRBuilder, state: Any) -> None:
        """Bring 128 bits down to 64, then by Barrett's reduction to the 32 of the CRC."""
        low_words = _pair(0xFFFFFFFF, 0xFFFFFFFF)

        def shifted(value: Any, bits: int) -> Any:
            wide = b.bitcast(value, _I128)
            return b.bitcast(b.lshr(wide, ir.Constant(_I128, bits)), _PAIR)

        x = b.xor(shifted(state, 64), self.multiply(b, state, _pair(*_FOLD_16), 0x10))
        x = b.xor(self.multiply(b, b.and_(x, low_words), _pair(*_FOLD_8), 0x00), shifted(x, 32))
        quotient = self.multiply(b, b.and_(x, low_words), _pair(*_BARRETT), 0x10)
        product = self.multiply(b, b.and_(quotient, low_words), _pair(*_BARRETT), 0x00)
        low = b.extract_element(b.xor(x, product), ir.Constant(_I32, 0))
        b.ret(b.trunc(b.lshr(low, ir.Constant(_I64, 32)), _I32))


@intrinsic
def _fold(_context: Any, _address: Any, _length: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        module = builder.module
        known = module.globals.get("reput_crc32_fold")
        return builder.call(known or _Fold(module).function, list(arguments))

    return types.uint32(types.uint64, types.int64), generate


@kernel
def _by_tables(state: np.uint32, data: Bytes, at: int, length: int) -> np.uint32:
    i = 0
    mask = np.uint64(255)
    while i + 8 <= length:
        word = load_u64_le(data, at + i) ^ np.uint64(state)
        state = _TABLES[7, word & mask]
        for table in range(1, 8):
            word >>= np.uint64(8)
            state ^= _TABLES[7 - table, word & mask]
        i += 8
    if i + 4 <= length:
        word = (load_u64_le(data, at + i) ^ np.uint64(state)) & np.uint64(0xFFFFFFFF)
        state = _TABLES[3, word & mask]
        for table in range(1, 4):
            word >>= np.uint64(8)
            state ^= _TABLES[3 - table, word & mask]
        i += 4
    while i < length:
        low = (np.uint64(state) ^ np.uint64(data[at + i])) & mask
        state = np.uint32(_TABLES[0, low] ^ (state >> np.uint32(8)))
        i += 1
    return state


def crc32(data: Bytes, at: int, length: int) -> int:
    """Return the CRC-32 of `length` bytes from `at`, 0 to 2**32 - 1."""
    return zlib.crc32(data[at : at + length].tobytes())


@overload(crc32, jit_options={"error_model": "numpy"})
def _compiled_crc32(data: Any, at: Any, length: Any) -> Any:
    if HARDWARE:

        def by_hardware(data: Any, at: Any, length: Any) -> Any:
            state = np.uint32(0xFFFFFFFF)
            folded = length & ~15
            if folded > 0:
                state = np.uint32(_fold(np.uint64(data.ctypes.data + at), folded))  # type: ignore[call-arg]
            state = _by_tables(state, data, at + folded, length - folded)
            return np.int64(np.uint32(~state))

        return by_hardware

    def by_tables(data: Any, at: Any, length: Any) -> Any:
        return np.int64(np.uint32(~_by_tables(np.uint32(0xFFFFFFFF), data, at, length)))

    return by_tables
