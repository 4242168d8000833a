"""The chart's tools: found where `helm/tools.sh` puts them, or on PATH."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "reput"
TOOLS = Path(os.environ.get("REPUT_TOOLS", ROOT / ".venv" / "tools"))


def find_tool(name):
    """Return a tool's path; without it the test is skipped, or fails if REPUT_TOOLS_REQUIRED."""
    found = TOOLS / name
    path = str(found) if found.exists() else shutil.which(name)
    if path is None:
        message = f"{name} is not here: run helm/tools.sh {name}"
        if os.environ.get("REPUT_TOOLS_REQUIRED"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def run(*command, **options):
    """Run a program and return what it said, whatever its exit code."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
