"""Files that lanes open: what they do where the system refuses, or does not tell."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reput.remoting.lanes.opened import Outbox, tells_residency
from reput.remoting.lanes.places import OUT

TELL = """
import os, sys
from reput.remoting.lanes.opened import tells_residency
print(tells_residency(os.open(sys.argv[1], os.O_RDONLY), os.path.getsize(sys.argv[1])))
"""


@contextlib.contextmanager
def limited(kind, most):
    """Let this process have no more of something."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@pytest.mark.parametrize("size", [1, 4096, 10_000])
def test_an_owner_is_told_what_is_in_memory(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        assert tells_residency(file.fileno(), size)


def test_root_without_capabilities_is_not_told_of_files_of_others(tmp_path):
    """
    As in a container that has none: to such a process, all seems to be in memory.
    """
    if os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("only root has capabilities to lose")
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    path.chmod(0o644)
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid:
            pytest.skip("the directory is not root's")
    bare = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    said = []
    for owner in (0, 4711):
        os.chown(path, owner, owner)
        done = subprocess.run(
            [*bare, sys.executable, "-c", TELL, path], capture_output=True, text=True, check=True
        )
        said.append(done.stdout.strip())
    assert said == ["True", "False"]


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
