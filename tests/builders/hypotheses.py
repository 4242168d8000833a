"""How hypothesis runs tests of formats; compiled kernels take more examples than Python does."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import HealthCheck, settings

COMPILED = not numba.config.DISABLE_JIT


def examples(compiled: int, interpreted: int | None = None) -> settings:
    """Return settings for that many examples, fewer (a tenth by default) without the compiler."""
    few = max(compiled // 10, 10) if interpreted is None else interpreted
    return settings(
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        max_examples=compiled if COMPILED else few,
    )


def padded(raw: bytes, before: int = 16, behind: int = 128, filler: int = 0) -> np.ndarray:
    """Return bytes with readable ones around them, as kernels want; `raw` begins at `before`."""
    return np.frombuffer(bytes([filler]) * before + raw + bytes([filler]) * behind, np.uint8).copy()
