"""What the real `DefaultMessageStore` and we make of the same questions (tests/oracle/pulls.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.builders.goldens import VERSIONS

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_and_we_give_the_same_answers(version):
    """
    Random stores with a fixed seed, every other one with nothing in memory.
    """
    command = [sys.executable, "tests/oracle/pulls.py", "--version", version]
    done = subprocess.run(
        [*command, "--stores", "4", "--seed", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{version}: 4 stores (" in done.stdout
    assert ": 0 different" in done.stdout
