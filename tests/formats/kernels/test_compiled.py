"""What `formats.kernels.compiled` asks of numba, which documents none of it."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from reput.formats.kernels.compiled import kernel, making_kernel

COUNTING = "NRT_incref"


def _hash(state, data, at, length):
    end = at + length
    while at < end:
        state = np.uint32(state * np.uint32(31) + np.uint32(data[at]))
        at += 1
    return state


def _calls(inner):
    def count(data, ends):
        """Calls, and ways out between them, so that the counting is not seen to be for nothing."""
        found = 0
        for i in range(len(ends)):
            first = inner(np.uint32(0), data, 0, ends[i])
            if first == 0:
                return -1
            second = inner(first, data, ends[i], len(data) - ends[i])
            if second == first:
                return -2
            found += inner(second, data, 0, len(data)) & np.uint32(1)
        return found

    return count


def _table(length):
    made = np.zeros(length, np.int64)
    for i in range(length):
        made[i] = i
    return made


def _code(function) -> str:
    # What comes from the disk does not tell.
    function.recompile()
    (code,) = function.inspect_llvm().values()
    return code


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
class TestKernel:
    def test_no_reference_is_counted(self) -> None:
        data, ends = np.arange(1, 40, dtype=np.uint8), np.array([3, 4])
        ours = kernel(_calls(kernel(_hash)))
        as_it_comes = numba.njit(_calls(numba.njit(_hash)))

        assert ours(data, ends) == as_it_comes(data, ends)
        assert COUNTING not in _code(ours)
        assert COUNTING in _code(as_it_comes)

    def test_who_makes_arrays_may(self) -> None:
        table = making_kernel(_table)
        for length in (1, 1000):
            assert table(length).tolist() == list(range(length))
