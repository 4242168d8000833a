"""Files that a server may have open."""

from __future__ import annotations

import subprocess
import sys

import pytest

SAY = """
import resource
from reput.remoting.server import descriptors
descriptors.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], descriptors.queues_kept_open())
"""


@pytest.mark.parametrize(
    ("soft", "hard", "files", "queues"), [(64, 1024, 1024, 64), (256, 18000, 18000, 1024)]
)
def test_a_server_has_as_many_as_it_may(soft, hard, files, queues):
    """
    More than 64 queues of a store that clients wait for are kept open, where the limit allows it.
    """
    limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$0" -c "$1"'
    done = subprocess.run(
        ["bash", "-c", limits, sys.executable, SAY], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(files), str(queues)]
