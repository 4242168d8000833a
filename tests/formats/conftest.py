"""Without the compiler numpy warns where hashes wrap around, which is what they are for."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest


def pytest_collection_modifyitems(items):
    if not numba.config.DISABLE_JIT:
        return
    wraps = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(wraps)
