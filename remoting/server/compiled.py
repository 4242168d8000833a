"""Loads what is compiled, beside the event loop: importing numba takes half a second."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.remoting.lanes.lanes import Lanes

LOG = logging.getLogger("reput")
# numba's own switch: what is not compiled is slower than no lanes.
_OFF = "NUMBA_DISABLE_JIT"


def lanes() -> type[Lanes] | None:
    """Return the lanes, compiled; None where they cannot be."""
    if os.environ.get(_OFF, "0") not in {"", "0"}:
        return None
    try:
        from reput.remoting.lanes.lanes import Lanes, load  # noqa: PLC0415 - numba

        load()
    except Exception:
        LOG.warning("pulls are answered without compiled code", exc_info=True)
        return None
    return Lanes
