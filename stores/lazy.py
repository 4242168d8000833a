"""Modules that are imported when something of them is first used."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def lazy_module(name: str) -> ModuleType:
    """Return a module that runs with its first use: a command that does not need it is quicker.

    Args:
        name: with its packages.

    Raises:
        ModuleNotFoundError: there is none.
    """
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name=name)
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module
