"""Calls from within a kernel: the bytes and the time that Python has."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from reput.formats.kernels.compiled import kernel
from reput.stores.query.compiled.libc import monotonic_ns, pread, will_need


@kernel
def read(descriptor, data, at, length, position):
    return pread(descriptor, data, at, length, position)


@kernel
def advise(descriptor, position, length):
    return will_need(descriptor, position, length)


@kernel
def look_at_clock():
    return monotonic_ns()


@pytest.fixture
def descriptor(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


@pytest.mark.parametrize("function", [pread, read], ids=["readable", "compiled"])
class TestPread:
    @pytest.mark.parametrize(
        ("at", "length", "position", "got"),
        [(0, 10, 0, 10), (5, 20, 70, 20), (3, 40, 80, 20), (0, 1, 99, 1), (0, 9, 100, 0)],
    )
    def test_bytes_of_a_file(self, function, descriptor, at, length, position, got):
        data = np.full(50, 255, np.uint8)

        assert function(descriptor, data, at, length, position) == got
        assert data[at : at + got].tobytes() == bytes(range(position, position + got))
        assert (np.delete(data, np.s_[at : at + got]) == 255).all()

    def test_what_cannot_be_read_is_below_zero(self, function, tmp_path):
        data = np.full(50, 255, np.uint8)
        directory = os.open(tmp_path, os.O_RDONLY)

        assert function(directory, data, 0, 10, 0) < 0
        os.close(directory)
        assert (data == 255).all()

    def test_after_four_gigabytes(self, function, tmp_path):
        path = tmp_path / "sparse"
        with path.open("wb") as file:
            file.seek(5 << 30)
            file.write(b"here")
        opened = os.open(path, os.O_RDONLY)
        data = np.zeros(8, np.uint8)

        assert function(opened, data, 0, 8, 5 << 30) == 4
        os.close(opened)
        assert data[:4].tobytes() == b"here"


@pytest.mark.parametrize("function", [monotonic_ns, look_at_clock], ids=["readable", "compiled"])
def test_the_time(function):
    function()
    for _ in range(100):
        before, now, after = time.monotonic_ns(), function(), time.monotonic_ns()
        assert before <= now <= after


@pytest.mark.parametrize("function", [will_need, advise], ids=["readable", "compiled"])
def test_reading_ahead_changes_nothing_and_says_when_it_is_refused(function, descriptor):
    assert function(descriptor, 0, 50) == 0
    assert function(descriptor, 1 << 40, 1 << 20) == 0
    assert os.pread(descriptor, 3, 0) == b"\0\1\2"
    reading, writing = os.pipe()
    assert function(reading, 0, 50) != 0
    os.close(reading)
    os.close(writing)
