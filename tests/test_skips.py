"""A run that has skipped tests says so at its end: which, why, and what runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest, skips

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest
from tests.helm.helm_tools import find_tool

@pytest.mark.parametrize("i", [1, 2])
def test_needs_a_tool(i):
    find_tool("no-such-tool")

def test_needs_a_module():
    pytest.importorskip("no_such_module_at_all")

def test_of_another_kind():
    pytest.skip("nothing is missing")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_list_at_the_end(tmp_path, workers):
    """
    Also with several workers; a file that is skipped as a whole counts, too.
    """
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_file.py").write_text("import pytest\npytest.importorskip('no_such_either')\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "-c", "/dev/null", "-q"]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, *workers, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )
    shown = done.stdout.splitlines()

    assert any("5 skipped, which were not tested here" in line for line in shown), done.stdout
    tool = "no-such-tool is not here: run helm/tools.sh no-such-tool"
    assert f"    2  {tool}  [run: ./dev chart]" in shown
    assert sum("[run: ./dev setup]" in line for line in shown) == 2
    assert "    1  nothing is missing" in shown


def test_all_tests_have_it():
    assert conftest.pytest_terminal_summary is skips.pytest_terminal_summary
