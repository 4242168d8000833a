"""Files that a server may have open, and its ports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reput.remoting.server.ports import Place

SAY = """
import resource, sys
from reput.remoting.server import descriptors
descriptors.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], descriptors.queues_kept_open(int(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "stores", "files", "queues"),
    [
        (64, 1024, 1, 1024, 64),
        (256, 18000, 1, 18000, 1024),
        (64, 1024, 5, 1024, 12),
        (64, 64, 9, 64, 1),
    ],
)
def test_a_server_has_as_many_as_it_may(soft, hard, stores, files, queues):
    """
    More than 64 queues of a store that clients wait for are kept open, where the limit allows it;
    several stores share what there is.
    """
    limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$0" -c "$1" {stores}'
    done = subprocess.run(
        ["bash", "-c", limits, sys.executable, SAY], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(files), str(queues)]


def test_a_port_that_is_taken_is_named_as_an_option_has_it():
    places = [Place("::1", 9876), Place("127.0.0.1", 9876)]
    assert [str(each) for each in places] == ["[::1]:9876", "127.0.0.1:9876"]
