"""`reput serve` reads what a live broker expires, deletes, cuts and writes: both say the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cluster import cluster

pytestmark = pytest.mark.oracle


def test_both_say_the_same_after_each_change(tmp_path):
    """
    The broker looks for expired files from a minute after its start on, so it takes that long.
    """
    cluster.build()
    with cluster.network() as prefix:
        command = [sys.executable, "-m", "tests.cluster.presence", "--directory", tmp_path]
        done = subprocess.run(
            [*prefix, *map(str, command)],
            cwd=cluster.ROOT,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers, 0 different" in done.stdout
