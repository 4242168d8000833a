"""Modules that are imported when something of them is first used."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from types import ModuleType


class _Lazy:
    """Stands for a module.

    `importlib.util.LazyLoader` is not made for threads before Python 3.12: while one thread runs
    the module, another one sees the half of it that is there.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        module = self._module
        if module is None:
            # A thread that comes while another one runs it waits until it is whole.
            module = self._module = importlib.import_module(self._name)
        return getattr(module, attribute)


def lazy_module(name: str) -> ModuleType:
    """Return a module that runs with its first use: a command that does not need it is quicker.

    Threads may use it at once.

    Args:
        name: with its packages.

    Raises:
        ModuleNotFoundError: there is none.
    """
    if importlib.util.find_spec(name) is None:
        raise ModuleNotFoundError(name=name)
    return cast("ModuleType", _Lazy(name))
