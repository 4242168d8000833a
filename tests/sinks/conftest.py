"""An output root with its staging directory, and a file system that fills up."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def root(tmp_path):
    (tmp_path / "out" / ".reput").mkdir(parents=True)
    return tmp_path / "out"


@pytest.fixture
def staging(root):
    return root / ".reput"


@pytest.fixture
def small_disk(tmp_path):
    """Mount a tmpfs of 1 MiB; only root may, and CI runs as root."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)
