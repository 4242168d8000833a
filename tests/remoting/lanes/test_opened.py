"""Files that lanes open: what they do where the system refuses, or does not tell."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from reput.remoting.lanes.opened import Outbox
from reput.remoting.lanes.places import OUT


@contextlib.contextmanager
def limited(kind, most):
    """Let this process have no more of something."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@pytest.mark.parametrize(
    ("kind", "most"), [(resource.RLIMIT_NOFILE, 3), (resource.RLIMIT_FSIZE, OUT - 1)]
)
def test_answers_stand_in_plain_memory_where_there_is_no_file_for_them(kind, most):
    """
    No descriptor is left, or files may not become as large: a server serves on.
    """
    before = len(list(Path("/proc/self/fd").iterdir()))
    with limited(kind, most):
        box = Outbox()
    assert box.descriptor < 0
    assert box.data.nbytes == OUT
    box.data[:] = 7
    box.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_written_to_the_file_of_answers_stands_in_them():
    box = Outbox()
    assert os.fstat(box.descriptor).st_blocks * 512 >= OUT
    os.pwrite(box.descriptor, b"abc", OUT - 3)
    assert box.data[-3:].tobytes() == b"abc"
    assert not np.any(box.data[:-3])
    box.close()
