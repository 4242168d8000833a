"""Loads what is compiled, beside event loops: importing numba takes half a second."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reput.remoting.holding.sentry import Sentry
    from reput.remoting.lanes.lanes import Lanes

LOG = logging.getLogger("reput")
# numba's own switch: what is not compiled is slower than no lanes.
_OFF = "NUMBA_DISABLE_JIT"


class Compiled(NamedTuple):
    """What each store has its own one of.

    Attributes:
        lanes: answers what is asked often.
        sentry: watches files.
    """

    lanes: type[Lanes]
    sentry: type[Sentry]


def load() -> Compiled | None:
    """Return lanes and what watches files, compiled; None where they cannot be."""
    if os.environ.get(_OFF, "0") not in {"", "0"}:
        return None
    try:
        return compile_for_serving()
    except Exception:
        LOG.warning("pulls are answered without compiled code", exc_info=True)
        return None


def compile_for_serving() -> Compiled:
    """Compile lanes and what watches files, or load what was compiled, and return them."""
    from reput.remoting.holding.sentry import Sentry  # noqa: PLC0415 - numba
    from reput.remoting.lanes.lanes import Lanes  # noqa: PLC0415 - numba
    from reput.remoting.lanes.lanes import load as load_lanes  # noqa: PLC0415

    load_lanes()
    # The first one loads the kernel.
    Sentry()
    return Compiled(Lanes, Sentry)
